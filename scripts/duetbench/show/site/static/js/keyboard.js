// @ts-check
/**
 * Reading a chart without a mouse: arrow keys go through its marks, and a live region says each.
 *
 * A chart is a `figure[data-chart]` that takes the focus. Its marks are those of its drawing, or
 * what another module provides for it (`provide`).
 */

/**
 * One mark: what is said of it, where it leads, and how it is pointed out.
 * @typedef {{say: string, href: string, point: () => void}} Mark
 */

/**
 * The marks of a chart, series by series, each from left to right; `clear` points at none.
 * @typedef {{rows: Mark[][], clear: () => void}} Reading
 */

/** @typedef {{row: number, place: number, reading: Reading}} Position */
/** @typedef {SVGGElement | HTMLTableCellElement} Drawn A mark of a drawing, or a cell of a grid. */

const HELP = "Arrow keys read this chart: ← → along a series, ↑ ↓ to another; Enter opens a mark.";

/** @type {WeakMap<Element, () => Reading>} */
const providers = new WeakMap();
/** @type {WeakMap<Element, Position>} */
const positions = new WeakMap();

/**
 * Let a chart be read from these marks rather than from its drawing.
 * @param {Element} figure @param {() => Reading} make
 */
export function provide(figure, make) {
  providers.set(figure, make);
  positions.delete(figure);
}

/**
 * Say something of a chart: below its plot, and to those who listen.
 * @param {Element} figure @param {string} sentence
 * @param {string} [href] Where it leads.
 */
export function say(figure, sentence, href = "") {
  const place = status(figure);
  place.textContent = sentence;
  if (href) place.append(" ", Object.assign(document.createElement("a"), { href, textContent: "Open" }));
}

/** @param {Element} figure */
function status(figure) {
  const found = figure.querySelector(":scope > .chart-says");
  if (found) return found;
  const made = Object.assign(document.createElement("p"), { className: "chart-says", role: "status" });
  figure.querySelector(":scope > .chart-plot")?.after(made);
  return made;
}

/**
 * The marks of the drawing that is shown: there is one for wide and one for narrow pages.
 * @param {Element} figure @returns {Reading}
 */
function drawn(figure) {
  const drawing = [...figure.querySelectorAll(".chart-drawing")].find(
    (one) => one.getClientRects().length,
  );
  const marks = drawing ? /** @type {NodeListOf<Drawn>} */ (drawing.querySelectorAll(".mark")) : [];
  /** @type {Mark[][]} */
  const rows = [];
  for (const mark of [...marks].sort((one, other) => order(one) - order(other))) {
    (rows[Number(mark.dataset.series)] ??= []).push(of(figure, mark));
  }
  return { rows: rows.filter(Boolean), clear: () => unmark(figure) };
}

/** @param {Element} figure @param {Drawn} mark @returns {Mark} */
function of(figure, mark) {
  return {
    say: mark.querySelector("title")?.textContent ?? mark.getAttribute("title") ?? "",
    href: mark.dataset.href ?? "",
    point() {
      unmark(figure);
      mark.classList.add("at");
    },
  };
}

/** @param {Drawn} mark */
const order = (mark) => Number(mark.dataset.point);

/** @param {Element} figure */
function unmark(figure) {
  for (const one of figure.querySelectorAll(".mark.at")) one.classList.remove("at");
}

/**
 * Where the key leads; null if it is not one of ours.
 * @param {string} key
 * @param {Position | undefined} from Undefined: nothing was read yet.
 * @param {Mark[][]} rows @returns {[number, number] | null}
 */
export function step(key, from, rows) {
  if (!rows.length) return null;
  const row = Math.min(from?.row ?? 0, rows.length - 1);
  const last = rows[row].length - 1;
  const place = Math.min(from?.place ?? -1, last);
  switch (key) {
    case "ArrowRight": return [row, Math.min(place + 1, last)];
    case "ArrowLeft": return [row, from ? Math.max(place - 1, 0) : last];
    case "Home": return [row, 0];
    case "End": return [row, last];
    case "ArrowDown":
    case "ArrowUp": {
      const other = from ? row + (key === "ArrowDown" ? 1 : -1) : row;
      const to = Math.max(0, Math.min(other, rows.length - 1));
      return [to, Math.max(0, Math.min(place, rows[to].length - 1))];
    }
    default: return null;
  }
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const figure = event.target;
  if (!(figure instanceof HTMLElement) || !figure.matches("figure[data-chart]")) return;
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const before = positions.get(figure);
  if (event.key === "Escape") {
    before?.reading.clear();
    positions.delete(figure);
    say(figure, HELP);
    return;
  }
  if (event.key === "Enter") {
    const href = before?.reading.rows[before.row]?.[before.place]?.href;
    if (href) location.assign(new URL(href, document.baseURI));
    return;
  }
  // Read anew each time: the page may show the other drawing by now.
  const reading = (providers.get(figure) ?? (() => drawn(figure)))();
  const to = step(event.key, before, reading.rows);
  if (!to) return;
  event.preventDefault();
  const [row, place] = to;
  const mark = reading.rows[row][place];
  positions.set(figure, { row, place, reading });
  mark.point();
  say(figure, mark.say, mark.href);
}

/** @param {FocusEvent} event */
function onFocus(event) {
  const figure = event.target;
  if (!(figure instanceof HTMLElement) || !figure.matches("figure[data-chart]")) return;
  if (figure.matches(":focus-visible") && !positions.has(figure)) say(figure, HELP);
}

/** @param {MouseEvent} event */
function onClick(event) {
  const mark = event.target instanceof Element ? event.target.closest(".mark") : null;
  const figure = mark?.closest("figure[data-chart]");
  if (!figure || !(mark instanceof SVGGElement || mark instanceof HTMLTableCellElement)) return;
  const { say: sentence, href, point } = of(figure, mark);
  point();
  say(figure, sentence, href);
}

if (typeof document !== "undefined") { // not where the steps alone are tested
  document.addEventListener("keydown", onKey);
  document.addEventListener("focusin", onFocus);
  document.addEventListener("click", onClick);
}
