// @ts-check
/** Set the theme before the page is drawn; the documentation has the same setting. */
try {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "auto";
} catch {
  // Without storage the system's theme counts.
}
