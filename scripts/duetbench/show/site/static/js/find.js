// @ts-check
/**
 * Leaves of lists what has all the words that are asked for. Without JavaScript the lists are whole.
 */

/** Whether a text has all words, in any case. @param {string} text @param {string} asked */
export function fits(text, asked) {
  const lower = text.toLowerCase();
  return asked
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}

/**
 * Hide the rest, and lists of which nothing is left; gives how many are.
 * @param {ParentNode} where
 * @param {string} asked
 */
export function narrow(where, asked) {
  let found = 0;
  for (const list of where.querySelectorAll(".find-list")) {
    let here = 0;
    for (const item of list.querySelectorAll("li")) {
      item.hidden = !fits(item.textContent ?? "", asked);
      here += Number(!item.hidden);
    }
    list.toggleAttribute("hidden", here === 0);
    found += here;
  }
  return found;
}

function begin() {
  const input = document.querySelector("#find-words");
  const says = document.querySelector("#find-says");
  if (!(input instanceof HTMLInputElement) || !says) return;
  const show = () => {
    const asked = input.value.trim();
    const found = narrow(document, asked);
    says.textContent = asked ? `${found} found` : "";
    history.replaceState(null, "", asked ? `?${new URLSearchParams({ q: asked })}` : location.pathname);
  };
  input.value = new URLSearchParams(location.search).get("q") ?? "";
  input.addEventListener("input", show);
  input.form?.addEventListener("submit", (event) => event.preventDefault());
  show();
}

if (typeof document !== "undefined") begin();
