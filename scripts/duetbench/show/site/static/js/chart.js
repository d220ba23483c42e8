// @ts-check
/**
 * A chart of lines: intervals, points, what happened, axes; read by pointer and by keyboard.
 *
 * It is an SVG in the page's own colours, so that light, dark and forced colours, zoom and paper need
 * nothing here. What is pointed at is said in a live region below the plot.
 */

import { day, interval, named } from "./formats.js";

/**
 * One figure, or why there is none.
 * @typedef {object} Datum
 * @property {number} x
 * @property {number | null} [mean]
 * @property {number | null} [low]
 * @property {number | null} [high]
 * @property {boolean} [hollow] Shown, and not judged.
 * @property {boolean} [cut] No line leads here from the figure before.
 * @property {string} [note]
 * @property {string} [href]
 * @property {number | null} [beside] What was published.
 */
/** @typedef {{name: string, slot: number, points: Datum[]}} Series */
/**
 * Something that happened.
 * @typedef {object} Mark
 * @property {number} x
 * @property {"change" | "break" | "bump"} kind
 * @property {string} label
 * @property {string} [short] What is written at its line.
 * @property {string} [by] What is added to that where there is room.
 * @property {string} [tone]
 * @property {string} [href]
 */
/**
 * @typedef {object} Model
 * @property {{title: string, kind: "number" | "time", names?: string[]}} x
 * @property {{title: string, format: string, log?: boolean, zero?: boolean}} y
 * @property {Series[]} series
 * @property {Mark[]} marks
 * @property {number} [from] Ends of what is shown.
 * @property {number} [to]
 */
/** @typedef {{x: number, y: number, says: string, href: string}} Spot */

const DAY = 86_400;
const LINE = 16; // px, of a label
const LETTER = 7;
const DOTTED = 130; // so many points of all series have a dot each
const LEAST = 0.01; // to each side of the middle: noise must not look like a landslide
const FAR = 2.5; // times the largest figure
const HELP = "Arrow keys read this chart: ← → along a line, ↑ ↓ to another; Enter opens what is read.";
const MARKERS = [
  "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", "M-3-3h6v6h-6z", "M0-4.5L4 3H-4z",
  "M0 4.5L4-3H-4z", "M-3-3h6L-3 3h6z",
];

/**
 * An element of an SVG.
 * @param {string} tag @param {Record<string, string | number>} attributes @param {...(Node | string)} children
 */
function shape(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/** @param {number} value */
const px = (value) => value.toFixed(1);

/** A chart in its figure. */
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
    figure.addEventListener("keydown", (event) => this.#key(event));
    figure.addEventListener("focus", () => {
      if (!this.#at && figure.matches(":focus-visible")) this.say(HELP);
    });
  }

  /** Say something of the chart: below its plot, and to those who listen. @param {string} text @param {string} [href] */
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
    const height = width < 560 ? 270 : width < 900 ? 340 : 400; // as the stylesheet keeps free
    const write = named(model.y.format);
    const [from, to] = range(model);
    const seen = model.series.map((one) => one.points.filter(({ x }) => from <= x && x <= to));
    const marks = model.marks.filter(({ x }) => from <= x && x <= to);
    const [low, high] = limits(model, seen.flat());
    const ticks = model.y.log ? logTicks(low, high) : niceTicks(low, high, 6);
    // Ticks are round: `0.9000 ×` is `0.9 ×`.
    const round = (/** @type {number} */ tick) => write(tick).replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");
    const left = 12 + LETTER * Math.max(3, ...ticks.map((one) => round(one).length));
    const scaleX = (/** @type {number} */ x) =>
      left + 8 + ((width - left - 20) * (x - from)) / (to - from || 1);
    const written = marks.filter((one) => one.short).map((one) =>
      ({ ...one, short: width < 560 || !one.by ? one.short : `${one.short} ${one.by}` }));
    const labels = placed(written, scaleX, left, width);
    const top = 10 + LINE * (1 + Math.max(-1, ...labels.map((one) => one.row)));
    const bottom = height - (model.x.title ? 40 : 24);
    const grow = model.y.log ? Math.log : Number;
    // What is beyond the axis stays at its edge.
    const scaleY = (/** @type {number} */ y) =>
      bottom - (bottom - top) * Math.max(0, Math.min(1, (grow(y) - grow(low)) / (grow(high) - grow(low) || 1)));
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
    for (const one of marks.filter(({ kind }) => kind !== "bump")) {
      const x = px(scaleX(one.x));
      svg.append(shape("line", { class: `${one.kind} ${one.tone ?? ""}`, x1: x, x2: x, y1: top - 4, y2: bottom }));
    }
    for (const one of marks.filter(({ kind }) => kind === "bump")) {
      svg.append(shape("path", { class: "bump", d: `M${px(scaleX(one.x))} ${bottom - 6}l3.5 6h-7z` }));
    }
    model.series.forEach((one, row) => {
      const group = shape("g", { class: `s${one.slot % 5} d${Math.floor(one.slot / 5) % 2}` });
      const drawn = seen[row].filter(({ mean }) => mean != null);
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
      for (const point of drawn) {
        const x = scaleX(point.x);
        const y = scaleY(Number(point.mean));
        if (point.low != null && point.high != null && (model.x.kind !== "time" || lone(point, seen[row]))) {
          group.append(shape("line", { class: "whisker", x1: px(x), x2: px(x), y1: px(scaleY(point.low)), y2: px(scaleY(point.high)) }));
        }
        if (point.beside != null && low <= point.beside && point.beside <= high) {
          group.append(shape("path", { class: "published", d: `M${px(x)} ${px(scaleY(point.beside))}m0-5l5 5-5 5-5-5z` }));
        }
        if (!many || point.hollow || lone(point, seen[row])) {
          const d = MARKERS[one.slot % MARKERS.length];
          group.append(shape("path", { class: point.hollow ? "dot hollow" : "dot", d, transform: `translate(${px(x)} ${px(y)})` }));
        }
      }
      for (const point of seen[row].filter(({ mean }) => mean == null)) {
        group.append(shape("path", { class: "missing", d: `M${px(scaleX(point.x) - 3)} ${bottom - 12}l6 6m0-6l-6 6` }));
      }
      svg.append(group);
    });
    for (const { mark, left: x, row } of labels) {
      const text = shape("text", { class: `strong ${mark.tone ?? ""}`, x: px(x), y: 12 + LINE * row }, mark.short ?? "");
      svg.append(mark.href ? shape("a", { href: mark.href, "aria-label": mark.label, tabindex: -1 }, text) : text);
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
        marks.filter((one) => one.kind === kind).map((one) => ({
          x: scaleX(one.x), y: top, says: `${place(model, one.x)}: ${one.label}`, href: one.href ?? "",
        }))),
    ].filter((row) => row.length);
    this.#listen(svg, guide, { width, top, bottom });
    this.#explain(model, seen.flat(), marks);
  }

  /** @param {SVGElement} svg @param {SVGElement} guide @param {{width: number, top: number, bottom: number}} area */
  #listen(svg, guide, { width, top, bottom }) {
    const tip = Object.assign(document.createElement("p"), { className: "chart-tip", hidden: true });
    tip.setAttribute("aria-hidden", "true"); // what the keyboard reads is said elsewhere
    this.place.append(tip);
    const at = (/** @type {MouseEvent} */ event) => event.clientX - svg.getBoundingClientRect().left;
    const near = (/** @type {MouseEvent} */ event) => {
      const y = event.clientY - svg.getBoundingClientRect().top;
      const away = (/** @type {Spot} */ one) => Math.hypot(3 * (one.x - at(event)), one.y - y);
      return this.#rows.flat().reduce((best, one) => (away(one) < away(best) ? one : best));
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
    const has = (/** @type {string} */ kind) => marks.some((one) => one.kind === kind);
    this.legend.replaceChildren(
      ...all.map((one) => key(`s${one.slot % 5} d${Math.floor(one.slot / 5) % 2}`, dot("dot", one.slot), one.name)),
      ...(points.some(({ low }) => low != null)
        ? [key("s0", model.x.kind === "time" ? shape("rect", { class: "band", y: 2, width: 28, height: 10 }) : line("whisker"), "95 % interval")]
        : []),
      ...(points.some(({ hollow }) => hollow) ? [key("s0", dot("dot hollow", 0), "flagged, or too few launches: not judged")] : []),
      ...(points.some(({ beside }) => beside != null) ? [key("s0", shape("path", { class: "published", d: "M14 2l5 5-5 5-5-5z" }), "published, on another machine")] : []),
      ...(points.some(({ mean }) => mean == null) ? [key("", shape("path", { class: "missing", d: "M11 4l6 6m0-6l-6 6" }), "no figure")] : []),
      ...(has("change") ? [key("", line("change open"), model.x.names ? "release that moved it" : "confirmed change")] : []),
      ...(has("break") ? [key("", line("break"), "other machine, kernel or interpreter")] : []),
      ...(has("bump") ? [key("", shape("path", { class: "bump", d: "M14 3l4.5 8h-9z" }), "new packages")] : []),
    );
  }
}

/** A place on the axis, in words. @param {Model} model @param {number} x */
const place = (model, x) =>
  model.x.kind === "time" ? day(x) : model.x.names?.[x] || `${x} ${model.x.title}`;

/** What is said of a figure. @param {Model} model @param {Series} series @param {Datum} point */
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
 * Where a key leads; null if it is not one of ours.
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

/** What is shown of x. @param {Model} model @returns {[number, number]} */
function range(model) {
  const every = [...model.series.flatMap((one) => one.points.map(({ x }) => x)), ...model.marks.map(({ x }) => x)];
  const [low, high] = [Math.min(...every), Math.max(...every)];
  const air = model.x.kind === "time" ? DAY : (high - low) * 0.03 || 1;
  const alone = low === high ? air : 0;
  if (!every.length) return [0, 1];
  return [
    model.from ?? low - alone - (model.x.kind === "time" ? 0 : air),
    model.to ?? high + alone + (model.x.kind === "time" ? 0 : air),
  ];
}

/** Ends of the upright axis. @param {Model} model @param {Datum[]} points @returns {[number, number]} */
export function limits(model, points) {
  const log = model.y.log;
  const known = points.filter(({ mean }) => mean != null && (!log || mean > 0));
  const means = known.map(({ mean }) => Number(mean));
  if (!means.length) return log ? [0.1, 1] : [0, 1];
  // Published figures further out would squeeze the rest.
  const most = log ? Infinity : FAR * Math.max(...means);
  const every = [...means, ...known.map((one) => Number(one.beside)).filter((one) => one > 0 && one <= most)];
  let [low, high] = [Math.min(...every), Math.max(...every)];
  if (log) return [low / 1.3, high * 1.3];
  const halves = known
    .filter((one) => one.low != null && one.high != null)
    .map((one) => (Number(one.high) - Number(one.low)) / 2)
    .sort((one, other) => one - other);
  const half = halves[Math.floor(0.9 * halves.length)] ?? 0; // few wide ones would squeeze the rest
  [low, high] = [low - half, high + half];
  const lack = Math.max(0, LEAST * Math.abs(low + high) - (high - low)) / 2;
  const air = 0.06 * (high - low + 2 * lack) || 1;
  if (model.y.zero && low >= 0) return [0, high + air];
  return [low - lack - air, high + lack + air];
}

/** Stretches of figures that a line joins. @param {Datum[]} points */
export function pieces(points) {
  /** @type {Datum[][]} */
  const found = [[]];
  for (const point of points) {
    if (point.cut || point.mean == null) found.push([]);
    if (point.mean != null && !point.hollow) found[found.length - 1].push(point);
  }
  return found.filter((piece) => piece.length);
}

/** Whether no line leads to a figure. @param {Datum} point @param {Datum[]} points */
function lone(point, points) {
  const place = points.indexOf(point);
  const [before, after] = [points[place - 1], points[place + 1]];
  const joined = (/** @type {Datum | undefined} */ one) => one && one.mean != null && !one.hollow;
  return !(joined(before) && !point.cut) && !(joined(after) && !after.cut);
}

/** Multiples of a round step. @param {number} low @param {number} high @param {number} most */
export function niceTicks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * 0.999) ?? rough;
  const found = [];
  for (let n = Math.ceil(low / size - 1e-9); n * size <= high * (1 + 1e-12); n++) {
    found.push(Number((n * size).toPrecision(12)));
  }
  return found;
}

/** 1, 2 and 5 times powers of ten. @param {number} low @param {number} high */
function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const factor of [1, 2, 5]) {
      const tick = Number((factor * 10 ** power).toPrecision(3));
      if (low <= tick && tick <= high) found.push(tick);
    }
  }
  const whole = found.filter((one) => /^1/.test(one.toExponential()));
  return found.length > 8 && whole.length > 1 ? whole : found;
}

/** Days, months or years. @param {number} from @param {number} to @param {number} room @returns {[number, string][]} */
export function timeTicks(from, to, room) {
  const most = Math.max(2, Math.floor(room / 95));
  const days = (to - from) / DAY;
  const names = new Intl.DateTimeFormat("en", { month: "short", timeZone: "UTC" });
  /** @type {[number, string][]} */
  const found = [];
  const close = [1, 2, 7, 14].find((one) => days / one <= most);
  if (close) {
    for (let n = Math.ceil(from / DAY / close); n * close * DAY <= to; n++) found.push([n * close * DAY, day(n * close * DAY)]);
    return found;
  }
  const size = [1, 2, 3, 6, 12, 24, 60].find((one) => days / 30.4 / one <= most) ?? 120;
  const first = new Date(from * 1000);
  for (let n = Math.ceil((first.getUTCFullYear() * 12 + first.getUTCMonth()) / size) * size; ; n += size) {
    const date = new Date(Date.UTC(Math.floor(n / 12), n % 12, 1));
    const time = date.getTime() / 1000;
    if (time > to) return found;
    if (time >= from) found.push([time, size >= 12 ? `${date.getUTCFullYear()}` : `${names.format(date)} ${date.getUTCFullYear()}`]);
  }
}

/**
 * The values of x that were measured, as many as have room.
 * @param {Model} model @param {Datum[]} points @param {(x: number) => number} scale @returns {[number, string][]}
 */
function valueTicks(model, points, scale) {
  const text = (/** @type {number} */ x) =>
    model.x.names?.[x] ?? x.toLocaleString("en", { maximumSignificantDigits: 3 });
  const found = /** @type {[number, string][]} */ ([]);
  let end = Infinity;
  for (const x of [...new Set(points.map((one) => one.x))].sort((one, other) => other - one)) {
    const half = (LETTER * text(x).length) / 2;
    if (scale(x) + half + 8 > end) continue;
    found.push([x, text(x)]);
    end = scale(x) - half;
  }
  return found;
}

/**
 * Labels from left to right, each in the first row that has room for it.
 * @param {Mark[]} marks @param {(x: number) => number} scale @param {number} left @param {number} right
 */
export function placed(marks, scale, left, right) {
  /** @type {number[]} */
  const ends = [];
  return [...marks].sort((one, other) => one.x - other.x).map((mark) => {
    const wide = LETTER * (mark.short ?? "").length + 6;
    const from = Math.max(left, Math.min(scale(mark.x) - wide / 2, right - wide));
    let row = ends.findIndex((end) => end <= from);
    if (row < 0) row = ends.length;
    ends[row] = from + wide + 4;
    return { mark, left: from, row };
  });
}
