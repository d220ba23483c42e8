// @ts-check
/**
 * A line chart: intervals, points, events, axes; readable by pointer and by keyboard.
 *
 * It is an SVG in the page's own colours, so light, dark and forced colours, zoom and paper need no
 * code here. A live region below the plot describes the selected point.
 */

import { day, interval, named } from "./formats.js";

/**
 * One figure, or why it is missing.
 * @typedef {object} Datum
 * @property {number} x
 * @property {number | null} [mean]
 * @property {number | null} [low]
 * @property {number | null} [high]
 * @property {boolean} [hollow] Shown, but not judged.
 * @property {boolean} [cut] No line joins it to the figure before.
 * @property {string} [note]
 * @property {string} [href]
 * @property {number | null} [beside] The published figure.
 */
/** @typedef {{name: string, slot: number, points: Datum[]}} Series */
/**
 * An event.
 * @typedef {object} Mark
 * @property {number} x
 * @property {"change" | "break" | "bump"} kind
 * @property {string} label
 * @property {string} [short] The text at its line.
 * @property {string} [by] More text, if there is room.
 * @property {string} [tone]
 * @property {number} [weight] The largest are named first, if there is little room.
 * @property {string} [href]
 */
/**
 * @typedef {object} Model
 * @property {{title: string, kind: "number" | "time", names?: string[]}} x
 * @property {{title: string, format: string, log?: boolean, zero?: boolean}} y
 * @property {Series[]} series
 * @property {Mark[]} marks
 * @property {{text: string, since: string, tone: string}} [end] What the last point of the first line says.
 * @property {number} [from] Ends of the visible range.
 * @property {number} [to]
 */
/** @typedef {{x: number, y: number, says: string, href: string}} Spot */

const DAY = 86_400;
const LINE = 16; // px, of a label
const LETTER = 7;
const FEW = 8; // changes that have their names at the line
const DOTTED = 130; // most points of all series that have a dot each
const LEAST = 0.01; // to each side of the middle: noise must not look large
const FAR = 2.5; // times the largest figure
const HELP = "Arrow keys read this chart: ← → along a line, ↑ ↓ to another; Enter opens the point's page.";
const MARKERS = [
  "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", "M-3-3h6v6h-6z", "M0-4.5L4 3H-4z",
  "M0 4.5L4-3H-4z", "M-3-3h6L-3 3h6z",
];

/**
 * An element of an SVG.
 * @param {string} tag @param {Record<string, string | number>} attributes @param {...(Node | string)} children
 */
function shape(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** @param {number} value */
const px = (value) => value.toFixed(1);

/** A chart in a figure element. */
export class Chart {
  /** @type {Model | null} */
  #model = null;
  /** @type {Spot[][]} */
  #rows = [];
  /** @type {[number, number] | null} */
  #at = null;
  #width = 0;

  /** @param {HTMLElement} figure */
  constructor(figure) {
    this.figure = figure;
    this.place = /** @type {HTMLElement} */ (figure.querySelector(".chart-plot"));
    this.says = /** @type {HTMLElement} */ (figure.querySelector(".chart-says"));
    this.legend = /** @type {HTMLElement} */ (figure.querySelector(".chart-legend"));
    new ResizeObserver(() => {
      if (this.#model && this.place.clientWidth !== this.#width) this.show(this.#model);
    }).observe(this.place);
    const tools = /** @type {HTMLElement} */ (figure.querySelector(".chart-tools"));
    for (const [label, act] of /** @type {[string, () => void][]} */ ([
      ["PNG", () => { const svg = this.place.querySelector("svg"); if (svg) picture(svg, figure.id); }],
      ["CSV", () => { if (this.#model) offer(`${figure.id}.csv`, new Blob([table(this.#model)], { type: "text/csv" })); }],
    ])) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: label });
      button.addEventListener("click", act);
      tools.append(button);
    }
    figure.addEventListener("keydown", (event) => this.#key(event));
    figure.addEventListener("focus", () => {
      if (!this.#at && figure.matches(":focus-visible")) this.say(HELP);
    });
  }

  /** Show a sentence below the plot, which screen readers announce. @param {string} text @param {string} [href] */
  say(text, href = "") {
    this.says.textContent = text;
    if (href) {
      this.says.append(" ", Object.assign(document.createElement("a"), { href, textContent: "Open" }));
    }
  }

  /** Draw a model. @param {Model} model */
  show(model) {
    this.#model = model;
    this.#at = null;
    const width = Math.max(260, this.place.clientWidth);
    this.#width = this.place.clientWidth;
    const height = width < 560 ? 270 : width < 900 ? 340 : 400; // as the stylesheet reserves
    const write = named(model.y.format);
    const [from, to] = range(model);
    const seen = model.series.map((line) => line.points.filter(({ x }) => from <= x && x <= to));
    const marks = model.marks.filter(({ x }) => from <= x && x <= to);
    const [low, high] = limits(model, seen.flat());
    const changes = model.y.format === "change";
    const ticks = changes ? niceTicks(low - 1, high - 1, 6).map((tick) => 1 + tick) : model.y.log ? logTicks(low, high) : niceTicks(low, high, 6);
    // Ticks are round: `0.9000 ×` is `0.9 ×`.
    const round = (/** @type {number} */ tick) => write(tick).replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");
    const left = 12 + LETTER * Math.max(3, ...ticks.map((tick) => round(tick).length));
    const after = model.end && width >= 560 ? 96 : 0;
    const scaleX = (/** @type {number} */ x) =>
      left + 8 + ((width - left - 20 - after) * (x - from)) / (to - from || 1);
    const texts = marks.filter((mark) => mark.short).map((mark) =>
      ({ ...mark, short: width < 560 || !mark.by ? mark.short : `${mark.short} ${mark.by}` }));
    const few = texts.length <= FEW;
    const labels = few ? [] : placed(texts, scaleX, left, width);
    const top = few && texts.length ? 52 : 10 + LINE * (1 + Math.max(-1, ...labels.map((label) => label.row)));
    const bottom = height - (model.x.title ? 40 : 24);
    const floor = bottom - (few && texts.some(({ tone }) => tone === "better") ? 3 * LINE : 0); // names below the line
    const grow = model.y.log ? Math.log : Number;
    // Figures beyond the axis stay at its edge.
    const scaleY = (/** @type {number} */ y) =>
      floor - (floor - top) * Math.max(0, Math.min(1, (grow(y) - grow(low)) / (grow(high) - grow(low) || 1)));
    const many = seen.flat().length > DOTTED;

    const svg = shape("svg", { width, height, role: "group", "aria-label": model.y.title });
    for (const tick of ticks) {
      const y = px(scaleY(tick));
      svg.append(
        shape("line", { class: "grid", x1: left, x2: width - 8, y1: y, y2: y }),
        shape("text", { class: "faint", x: left - 6, y: scaleY(tick) + 4, "text-anchor": "end" }, round(tick)),
      );
    }
    for (const [x, text] of model.x.kind === "time" ? timeTicks(from, to, width - left) : valueTicks(model, seen.flat(), scaleX)) {
      const at = scaleX(x);
      const anchor = at > width - 40 ? "end" : at < left + 20 ? "start" : "middle";
      svg.append(shape("text", { class: "faint", x: px(at), y: bottom + 17, "text-anchor": anchor }, text));
    }
    if (model.x.title) {
      svg.append(shape("text", { class: "faint", x: (left + width) / 2, y: bottom + 34, "text-anchor": "middle" }, model.x.title));
    }
    svg.append(shape("line", { class: "axis", x1: left, x2: width - 8, y1: bottom, y2: bottom }));
    const steps = marks.filter(({ kind }) => kind === "change").map((mark) => ({ mark, ends: riser(mark, seen) }));
    const risen = new Set(steps.filter(({ ends }) => ends).map(({ mark }) => mark));
    for (const mark of marks.filter((mark) => mark.kind !== "bump" && !risen.has(mark))) {
      const x = px(scaleX(mark.x));
      svg.append(shape("line", { class: `${mark.kind} ${mark.tone ?? ""}`, x1: x, x2: x, y1: top - 4, y2: bottom }));
    }
    for (const mark of marks.filter(({ kind }) => kind === "bump")) {
      svg.append(shape("path", { class: "bump", d: `M${px(scaleX(mark.x) - 1.5)} ${bottom - 7}h3v7h-3z` }));
    }
    model.series.forEach((series, row) => {
      const group = shape("g", { class: `s${series.slot % 5} d${Math.floor(series.slot / 5) % 2}` });
      const figures = seen[row].filter(({ mean }) => mean != null);
      for (const piece of pieces(seen[row])) {
        const banded = model.x.kind === "time" && piece.length > 1 && piece.every((p) => p.low != null);
        if (banded) {
          const up = piece.map((p) => `${px(scaleX(p.x))} ${px(scaleY(Number(p.high)))}`);
          const down = [...piece].reverse().map((p) => `${px(scaleX(p.x))} ${px(scaleY(Number(p.low)))}`);
          group.append(shape("path", { class: "band", d: `M${[...up, ...down].join("L")}z` }));
        }
        const line = piece.map((p) => `${px(scaleX(p.x))} ${px(scaleY(Number(p.mean)))}`);
        group.append(shape("path", { class: "line", d: `M${line.join("L")}` }));
      }
      for (const point of figures) {
        const x = scaleX(point.x);
        const y = scaleY(Number(point.mean));
        if (point.low != null && point.high != null && (model.x.kind !== "time" || lone(point, seen[row]))) {
          group.append(shape("line", { class: "whisker", x1: px(x), x2: px(x), y1: px(scaleY(point.low)), y2: px(scaleY(point.high)) }));
        }
        if (point.beside != null && low <= point.beside && point.beside <= high) {
          group.append(shape("path", { class: "published", d: `M${px(x)} ${px(scaleY(point.beside))}m0-5l5 5-5 5-5-5z` }));
        }
        if (!many || point.hollow || lone(point, seen[row])) {
          const d = MARKERS[series.slot % MARKERS.length];
          group.append(shape("path", { class: point.hollow ? "dot hollow" : "dot", d, transform: `translate(${px(x)} ${px(y)})` }));
        }
      }
      for (const point of seen[row].filter(({ mean }) => mean == null)) {
        group.append(shape("path", { class: "missing", d: `M${px(scaleX(point.x) - 3)} ${bottom - 12}l6 6m0-6l-6 6` }));
      }
      svg.append(group);
    });
    for (const { mark, ends } of steps) {
      if (!ends) continue;
      const [from, to] = ends.map((p) => `${px(scaleX(p.x))} ${px(scaleY(Number(p.mean)))}`);
      svg.append(shape("path", { class: `step ${mark.tone ?? ""}`, d: `M${from}L${to}` }));
    }
    const end = seen[0]?.filter(({ mean }) => mean != null).pop();
    if (few) {
      /** @type {{x: number, y: number, wide: number}[]} */
      const taken = [];
      if (model.end && after) taken.push({ x: width - after, y: scaleY(Number(end?.mean)) - 6, wide: after });
      const largest = steps.filter(({ mark }) => mark.short)
        .sort((a, b) => (b.mark.weight ?? 0) - (a.mark.weight ?? 0)).slice(0, Math.max(2, Math.floor(width / 110)));
      for (const { mark, ends } of largest) {
        const lines = [mark.short ?? "", ...(mark.by ? [mark.by] : [])];
        const wide = LETTER * Math.max(...lines.map((line) => line.length)) + 10;
        const x = Math.max(left, Math.min(scaleX(mark.x) - wide / 2, width - wide));
        const at = ends ? scaleY(Number(ends[1].mean)) : top;
        const below = mark.tone === "better";
        const room = (/** @type {number} */ y) => taken.every((box) => Math.abs(box.y - y) >= 2 * LINE + 2 || box.x + box.wide < x || x + wide < box.x);
        const places = [...Array(14).keys()].flatMap((n) => [below ? at + 24 + LINE * n : at - 30 - LINE * n, below ? at - 30 - LINE * n : at + 24 + LINE * n]);
        const y = places.find((y) => y >= 12 && y + LINE <= bottom - 10 && room(y)) ?? 12;
        taken.push({ x, y, wide });
        const text = shape("g", {}, ...lines.map((line, row) =>
          shape("text", { class: `${row ? "named" : "strong"} ${mark.tone ?? ""}`, x: px(x + wide / 2), y: px(y + (LINE - 1) * row), "text-anchor": "middle" }, line)));
        svg.append(linked(mark, text, lines.join(" ")));
      }
    }
    if (model.end && after && end) {
      const y = Math.max(24, scaleY(Number(end.mean)));
      svg.append(
        shape("text", { class: `strong end ${model.end.tone}`, x: px(scaleX(end.x) + 10), y: px(y + 2) }, model.end.text),
        shape("text", { class: "faint", x: px(scaleX(end.x) + 10), y: px(y + 18) }, model.end.since),
      );
    }
    for (const { mark, left: x, row } of labels) {
      const text = shape("text", { class: `strong ${mark.tone ?? ""}`, x: px(x), y: 12 + LINE * row }, mark.short ?? "");
      svg.append(linked(mark, text, mark.short ?? ""));
    }
    const guide = shape("path", { class: "guide", d: "" });
    svg.append(guide);
    this.place.replaceChildren(svg);
    this.#rows = [
      ...seen.map((points, row) =>
        points.map((point) => ({
          x: scaleX(point.x),
          y: point.mean == null ? bottom : scaleY(point.mean),
          says: sentence(model, model.series[row], point),
          href: point.href ?? "",
        }))),
      ...["change", "break", "bump"].map((kind) =>
        marks.filter((mark) => mark.kind === kind).map((mark) => ({
          x: scaleX(mark.x), y: top, says: `${place(model, mark.x)}: ${mark.label}`, href: mark.href ?? "",
        }))),
    ].filter((row) => row.length);
    this.#listen(svg, guide, { width, top, bottom });
    this.#explain(model, seen.flat(), marks);
  }

  /** @param {SVGElement} svg @param {SVGElement} guide @param {{width: number, top: number, bottom: number}} area */
  #listen(svg, guide, { width, top, bottom }) {
    const tip = Object.assign(document.createElement("p"), { className: "chart-tip", hidden: true });
    tip.setAttribute("aria-hidden", "true"); // keyboard readers get the live region
    this.place.append(tip);
    const at = (/** @type {MouseEvent} */ event) => event.clientX - svg.getBoundingClientRect().left;
    const near = (/** @type {MouseEvent} */ event) => {
      const y = event.clientY - svg.getBoundingClientRect().top;
      const away = (/** @type {Spot} */ spot) => Math.hypot(3 * (spot.x - at(event)), spot.y - y);
      return this.#rows.flat().reduce((best, spot) => (away(spot) < away(best) ? spot : best));
    };
    this.point = (/** @type {Spot | null} */ spot) => {
      guide.setAttribute("d", spot ? `M${px(spot.x)} ${top}V${bottom}M${px(spot.x - 6)} ${px(spot.y)}h12` : "");
    };
    svg.addEventListener("pointermove", (event) => {
      if (!this.#rows.length) return;
      const spot = near(event);
      this.point(spot);
      tip.hidden = false;
      tip.textContent = spot.says;
      tip.style.insetInlineStart = spot.x < width / 2 ? `${spot.x + 10}px` : "auto";
      tip.style.insetInlineEnd = spot.x < width / 2 ? "auto" : `${width - spot.x + 10}px`;
    });
    svg.addEventListener("pointerleave", () => {
      tip.hidden = true;
      this.point(null);
    });
    svg.addEventListener("click", (event) => {
      if (this.#rows.length) this.say(near(event).says, near(event).href);
    });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.target !== this.figure || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const spot = this.#at && this.#rows[this.#at[0]][this.#at[1]];
    if (event.key === "Enter" && spot?.href) location.assign(spot.href);
    if (event.key === "Escape") {
      this.#at = null;
      this.point(null);
      this.say(HELP);
    }
    const to = step(event.key, this.#at, this.#rows);
    if (!to) return;
    event.preventDefault();
    this.#at = to;
    const next = this.#rows[to[0]][to[1]];
    this.point(next);
    this.say(next.says, next.href);
  }

  /** @type {(spot: Spot | null) => void} */
  point = () => {};

  /** @param {Model} model @param {Datum[]} points @param {Mark[]} marks */
  #explain(model, points, marks) {
    const key = (/** @type {string} */ kind, /** @type {SVGElement} */ drawn, /** @type {string} */ text) => {
      const svg = shape("svg", { class: kind, width: 28, height: 14, "aria-hidden": "true" }, drawn);
      const item = document.createElement("li");
      item.append(svg, text);
      return item;
    };
    const line = (/** @type {string} */ kind) => shape("line", { class: kind, x1: 14, x2: 14, y2: 14 });
    const dot = (/** @type {string} */ kind, /** @type {number} */ slot) =>
      shape("path", { class: kind, d: MARKERS[slot % MARKERS.length], transform: "translate(14 7)" });
    const all = model.series.length > 1 ? model.series : [];
    const has = (/** @type {string} */ kind) => marks.some((mark) => mark.kind === kind);
    this.legend.replaceChildren(
      ...all.map((line) => key(`s${line.slot % 5} d${Math.floor(line.slot / 5) % 2}`, dot("dot", line.slot), line.name)),
      ...(points.some(({ low }) => low != null) && !model.end
        ? [key("s0", model.x.kind === "time" ? shape("rect", { class: "band", y: 2, width: 28, height: 10 }) : line("whisker"), "95 % interval")]
        : []),
      ...(points.some(({ hollow }) => hollow) ? [key("s0", dot("dot hollow", 0), "flagged, or too few launches: not judged")] : []),
      ...(points.some(({ beside }) => beside != null) ? [key("s0", shape("path", { class: "published", d: "M14 2l5 5-5 5-5-5z" }), "published, on another machine")] : []),
      ...(points.some(({ mean }) => mean == null) ? [key("", shape("path", { class: "missing", d: "M11 4l6 6m0-6l-6 6" }), "could not be measured: point at it for the reason")] : []),
      ...["worse", "better"].flatMap((tone) => marks.filter(({ short }) => short).length > FEW && marks.some((mark) => mark.kind === "change" && mark.tone === tone) ? [key("", line(`change ${tone}`), `change for the ${tone}`)] : []),
      ...(has("break") ? [key("", line("break"), "other machine, kernel or interpreter")] : []),
      ...(has("bump") ? [key("", shape("path", { class: "bump", d: "M12.5 4h3v7h-3z" }), "new packages")] : []),
    );
  }
}

/** A place on the axis, in words. @param {Model} model @param {number} x */
const place = (model, x) =>
  model.x.kind === "time" ? day(x) : model.x.names?.[x] || `${x} ${model.x.title}`;

/** The points of a line before and after a change; null: no line crosses it. @param {Mark} mark @param {Datum[][]} lines */
function riser(mark, lines) {
  for (const points of lines) {
    const known = points.filter(({ mean, hollow }) => mean != null && !hollow);
    const place = known.findIndex(({ x }) => x >= mark.x);
    if (place > 0 && !known[place].cut) return [known[place - 1], known[place]];
  }
  return null;
}

/** Link a mark's text, if it has a page; its spoken name begins with what is visible. @param {Mark} mark @param {SVGElement} text @param {string} visible */
const linked = (mark, text, visible) =>
  mark.href ? shape("a", { href: mark.href, "aria-label": `${visible}: ${mark.label}`, tabindex: -1 }, text) : text;

/** Offer a file. @param {string} name @param {Blob} content */
function offer(name, content) {
  const href = URL.createObjectURL(content);
  Object.assign(document.createElement("a"), { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

const STYLED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-weight", "font-family", "opacity"];

/** Make a picture of a drawing, as the page shows it. @param {SVGElement} svg @param {string} name */
function picture(svg, name) {
  const copy = /** @type {SVGElement} */ (svg.cloneNode(true));
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const shown = svg.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, place) => {
    const style = getComputedStyle(shown[place]);
    for (const property of STYLED) element.setAttribute(property, style.getPropertyValue(property));
    element.removeAttribute("class");
  });
  const source = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
  const image = new Image();
  image.onload = () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * image.width, height: 2 * image.height });
    const paint = canvas.getContext("2d");
    if (paint) {
      paint.fillStyle = getComputedStyle(document.body).backgroundColor;
      paint.fillRect(0, 0, canvas.width, canvas.height);
      paint.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((content) => content && offer(`${name}.png`, content));
    }
    URL.revokeObjectURL(source);
  };
  image.src = source;
}

/** Write a model's figures as CSV. @param {Model} model */
export function table(model) {
  const quoted = (/** @type {unknown} */ cell) => `"${String(cell ?? "").replaceAll('"', '""')}"`;
  const rows = model.series.flatMap((line) => line.points.map((p) =>
    [line.name, model.x.kind === "time" ? day(p.x) : model.x.names?.[p.x] ?? p.x, p.mean, p.low, p.high, p.note]));
  return [["series", model.x.kind === "time" ? "date" : model.x.title, "figure", "low", "high", "note"], ...rows]
    .map((row) => row.map(quoted).join(",")).join("\r\n");
}

/** Describe a figure in a sentence. @param {Model} model @param {Series} series @param {Datum} point */
export function sentence(model, series, point) {
  const where = place(model, point.x);
  const write = named(model.y.format);
  const name = model.series.length > 1 ? `${series.name}, ` : "";
  if (point.mean == null) return `${name}${where}: no figure: ${point.note ?? ""}`;
  const spread = interval(point.mean, point.low, point.high, write);
  return [
    `${name}${where}: ${write(point.mean)}`,
    spread && `95 % interval ${spread}`,
    point.beside != null && `published ${write(point.beside)}`,
    point.note,
  ].filter(Boolean).join(", ");
}

/**
 * The spot that a key moves to; null for other keys.
 * @param {string} key @param {[number, number] | null} from @param {unknown[][]} rows
 * @returns {[number, number] | null}
 */
export function step(key, from, rows) {
  if (!rows.length) return null;
  const [row, place] = from ?? [0, -1];
  const last = rows[row].length - 1;
  switch (key) {
    case "ArrowRight": return [row, Math.min(place + 1, last)];
    case "ArrowLeft": return [row, from ? Math.max(place - 1, 0) : last];
    case "Home": return [row, 0];
    case "End": return [row, last];
    case "ArrowDown":
    case "ArrowUp": {
      const to = Math.max(0, Math.min(from ? row + (key === "ArrowDown" ? 1 : -1) : 0, rows.length - 1));
      return [to, Math.max(0, Math.min(place, rows[to].length - 1))];
    }
    default: return null;
  }
}

/** The visible range of x. @param {Model} model @returns {[number, number]} */
function range(model) {
  const places = [...model.series.flatMap((line) => line.points.map(({ x }) => x)), ...model.marks.map(({ x }) => x)];
  const [low, high] = [Math.min(...places), Math.max(...places)];
  const air = model.x.kind === "time" ? DAY : (high - low) * 0.03 || 1;
  const alone = low === high ? air : 0;
  if (!places.length) return [0, 1];
  return [
    model.from ?? low - alone - (model.x.kind === "time" ? 0 : air),
    model.to ?? high + alone + (model.x.kind === "time" ? 0 : air),
  ];
}

/** Ends of the vertical axis. @param {Model} model @param {Datum[]} points @returns {[number, number]} */
export function limits(model, points) {
  const log = model.y.log;
  const known = points.filter(({ mean }) => mean != null && (!log || mean > 0));
  const means = known.map(({ mean }) => Number(mean));
  if (!means.length) return log ? [0.1, 1] : [0, 1];
  // Published figures farther out would squeeze the others.
  const most = log ? Infinity : FAR * Math.max(...means);
  const published = known.map((point) => Number(point.beside)).filter((figure) => figure > 0 && figure <= most);
  let [low, high] = [Math.min(...means, ...published), Math.max(...means, ...published)];
  if (log) return [low / 1.3, high * 1.3];
  const halves = known
    .filter((point) => point.low != null && point.high != null)
    .map((point) => (Number(point.high) - Number(point.low)) / 2)
    .sort((a, b) => a - b);
  const half = halves[Math.floor(0.9 * halves.length)] ?? 0; // a few wide ones would squeeze the others
  [low, high] = [low - half, high + half];
  const lack = Math.max(0, LEAST * Math.abs(low + high) - (high - low)) / 2;
  const air = 0.06 * (high - low + 2 * lack) || 1;
  if (model.y.zero && low >= 0) return [0, high + air];
  return [low - lack - air, high + lack + air];
}

/** Stretches of figures that a line joins. @param {Datum[]} points */
export function pieces(points) {
  /** @type {Datum[][]} */
  const stretches = [[]];
  for (const point of points) {
    if (point.cut || point.mean == null) stretches.push([]);
    if (point.mean != null && !point.hollow) stretches[stretches.length - 1].push(point);
  }
  return stretches.filter((stretch) => stretch.length);
}

/** Whether no line joins a figure to another. @param {Datum} point @param {Datum[]} points */
function lone(point, points) {
  const place = points.indexOf(point);
  const [before, after] = [points[place - 1], points[place + 1]];
  const joined = (/** @type {Datum | undefined} */ next) => next && next.mean != null && !next.hollow;
  return !(joined(before) && !point.cut) && !(joined(after) && !after.cut);
}

/** Multiples of a round step. @param {number} low @param {number} high @param {number} most */
export function niceTicks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999) ?? rough;
  const ticks = [];
  for (let n = Math.ceil(low / size - 1e-9); n * size <= high * (1 + 1e-12); n++) {
    ticks.push(Number((n * size).toPrecision(12)));
  }
  return ticks;
}

/** 1, 2 and 5 times powers of ten. @param {number} low @param {number} high */
function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const factor of [1, 2, 5]) {
      const tick = Number((factor * 10 ** power).toPrecision(3));
      if (low <= tick && tick <= high) ticks.push(tick);
    }
  }
  const powers = ticks.filter((tick) => /^1/.test(tick.toExponential()));
  return ticks.length > 8 && powers.length > 1 ? powers : ticks;
}

/** Days, months or years. @param {number} from @param {number} to @param {number} room @returns {[number, string][]} */
export function timeTicks(from, to, room) {
  const most = Math.max(2, Math.floor(room / 95));
  const days = (to - from) / DAY;
  const names = new Intl.DateTimeFormat("en", { month: "short", timeZone: "UTC" });
  /** @type {[number, string][]} */
  const ticks = [];
  const step = [1, 2, 7, 14].find((count) => days / count <= most);
  if (step) {
    for (let n = Math.ceil(from / DAY / step); n * step * DAY <= to; n++) ticks.push([n * step * DAY, day(n * step * DAY)]);
    return ticks;
  }
  const size = [1, 2, 3, 6, 12, 24, 60].find((months) => days / 30.4 / months <= most) ?? 120;
  const first = new Date(from * 1000);
  for (let n = Math.ceil((first.getUTCFullYear() * 12 + first.getUTCMonth()) / size) * size; ; n += size) {
    const date = new Date(Date.UTC(Math.floor(n / 12), n % 12, 1));
    const time = date.getTime() / 1000;
    if (time > to) return ticks;
    if (time >= from) ticks.push([time, size >= 12 ? `${date.getUTCFullYear()}` : `${names.format(date)} ${date.getUTCFullYear()}`]);
  }
}

/**
 * The measured values of x, as many as there is room for.
 * @param {Model} model @param {Datum[]} points @param {(x: number) => number} scale @returns {[number, string][]}
 */
function valueTicks(model, points, scale) {
  const text = (/** @type {number} */ x) =>
    model.x.names?.[x] ?? x.toLocaleString("en", { maximumSignificantDigits: 3 });
  const ticks = /** @type {[number, string][]} */ ([]);
  let end = Infinity;
  for (const x of [...new Set(points.map((point) => point.x))].sort((a, b) => b - a)) {
    const half = (LETTER * text(x).length) / 2;
    if (scale(x) + half + 8 > end) continue;
    ticks.push([x, text(x)]);
    end = scale(x) - half;
  }
  return ticks;
}

/**
 * Labels from left to right, each in the first row that has room for it.
 * @param {Mark[]} marks @param {(x: number) => number} scale @param {number} left @param {number} right
 */
export function placed(marks, scale, left, right) {
  /** @type {number[]} */
  const ends = [];
  return [...marks].sort((a, b) => a.x - b.x).map((mark) => {
    const wide = LETTER * (mark.short ?? "").length + 6;
    const from = Math.max(left, Math.min(scale(mark.x) - wide / 2, right - wide));
    let row = ends.findIndex((end) => end <= from);
    if (row < 0) row = ends.length;
    ends[row] = from + wide + 4;
    return { mark, left: from, row };
  });
}
