// @ts-check
/** What every page can do with a script: search, copying, labels of cells. */

const MOST = 12;

/** @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {Partial<HTMLElementTagNameMap[T]>} fields @returns {HTMLElementTagNameMap[T]} */
const make = (tag, fields) => Object.assign(document.createElement(tag), fields);

/** Entries that have all words, those that begin with them first. @param {[string, string, string][]} entries @param {string} query */
export function find(entries, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const rank = (/** @type {string} */ title) => Number(!title.startsWith(words[0]));
  return entries
    .map((entry) => ({ entry, title: entry[0].toLowerCase() }))
    .filter(({ title }) => words.every((word) => title.includes(word)))
    .sort((a, b) => rank(a.title) - rank(b.title) || a.title.length - b.title.length)
    .slice(0, MOST)
    .map(({ entry }) => entry);
}

/** @param {HTMLButtonElement} button */
function search(button) {
  const address = new URL(button.dataset.search ?? "", document.baseURI);
  /** @type {[string, string, string][] | null} */
  let entries = null;
  const dialog = make("dialog", { className: "search" });
  dialog.setAttribute("aria-label", "Search");
  const input = make("input", { type: "search", placeholder: "Package, release, endpoint, experiment" });
  input.setAttribute("aria-label", input.placeholder);
  const list = make("ul", {});
  const says = make("p", { className: "quiet" });
  says.setAttribute("role", "status");
  dialog.append(input, list, says);
  document.body.append(dialog);
  const show = () => {
    const hits = find(entries ?? [], input.value);
    list.replaceChildren(...hits.map(([title, to, kind]) => {
      const link = make("a", { href: new URL(to, address).href, textContent: title });
      link.prepend(make("span", { textContent: kind }));
      const item = make("li", {});
      item.append(link);
      return item;
    }));
    says.textContent = input.value && !hits.length ? "Nothing has all these words." : "";
  };
  const open = async () => {
    dialog.showModal();
    if (!entries) {
      const answer = await fetch(address).catch(() => null);
      entries = answer?.ok ? await answer.json() : [];
    }
    show();
  };
  input.addEventListener("input", show);
  dialog.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.findIndex((link) => link === document.activeElement);
    if (event.key === "Enter" && document.activeElement === input) links[0]?.click();
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    (links[at + (event.key === "ArrowDown" ? 1 : -1)] ?? input).focus();
  });
  button.addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    const field = event.target instanceof Element && event.target.matches("input, select, textarea");
    if (event.key !== "/" || field || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (!dialog.open) void open();
  });
}

/** @param {HTMLElement} command */
function copy(command) {
  const text = command.querySelector("code")?.textContent ?? "";
  const button = make("button", { type: "button", className: "copy", textContent: "Copy" });
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  });
  command.append(button);
}

/** Name the column of each cell, which narrow screens show beside it. @param {HTMLTableElement} table */
function label(table) {
  const titles = [...(table.tHead?.rows[0].cells ?? [])].map((cell) => cell.textContent?.trim() ?? "");
  for (const row of table.tBodies[0]?.rows ?? []) {
    for (const cell of row.cells) if (cell.tagName === "TD") cell.dataset.label ??= titles[cell.cellIndex] ?? "";
  }
}

/** @param {string} selector @param {(element: any) => void} enliven */
const each = (selector, enliven) => document.querySelectorAll(selector).forEach(enliven);
if (typeof document !== "undefined") {
  each("button.find", search);
  each(".scroll > table", label);
  if (navigator.clipboard) each(".command", copy);
}
