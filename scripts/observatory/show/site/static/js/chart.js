// @ts-check
/**
 * The charts of a page: lines over time, with intervals as bands. uPlot draws them; releases are named
 * above, and a sentence below says what the pointer or the keyboard is at. If a chart cannot be drawn,
 * the page says so, and keeps the table that it was built with.
 */

import { change, day, interval, quotient, times } from "./formats.js";

/** @import uPlot from "uplot" */
/**
 * A metric's ratios to the anchor, shown as changes since the first.
 * @typedef {object} Metric
 * @property {string} name
 * @property {string} title
 * @property {(number | null)[]} mean
 * @property {(number | null)[]} low
 * @property {(number | null)[]} high
 */
/**
 * A case on one machine, as `trends.py` writes it.
 * @typedef {object} Table
 * @property {string} label
 * @property {number[]} time
 * @property {string[]} run
 * @property {string[]} note
 * @property {Metric[]} metrics
 * @property {{metric: string, time: number, name: string, tone: string, label: string, href: string}[]} changes
 */
/** @typedef {{tables: Table[], metric: string, choice?: boolean, releases?: boolean}} Config */
/** @typedef {{x: number, run: string, mean: number | null, low: number | null, high: number | null, note: string}} Point */

const ROWS = 150; // of the table below
const LABELS = 3; // rows of names above a chart
const LINE = 24; // px, of such a row
const LETTER = 7; // px
const DAY = 86_400;
const LEAST = 0.01; // to each side of the middle: noise must not look large
const DOTTED = 60; // most points of a line that have a dot each
const HELP = "Drag over the chart, or use the arrow keys.";

/** A place of the site. @param {string} address */
const here = (address) => new URL(address, new URL(document.body.dataset.root ?? "./", document.baseURI));

/** A table's points of a metric, from the first figure on. @param {Table} table @param {Metric} metric @returns {Point[]} */
export function points(table, metric) {
  const first = metric.mean.find((mean) => mean != null);
  const over = (/** @type {number | null} */ figure) => (figure == null ? null : figure / (first ?? 1));
  const every = table.time.map((x, night) => ({
    x,
    run: table.run[night],
    mean: over(metric.mean[night]),
    low: over(metric.low[night]),
    high: over(metric.high[night]),
    note: table.note[night],
  }));
  return every.slice(Math.max(0, every.findIndex(({ mean }) => mean != null)));
}

/**
 * Columns for uPlot: x, then mean, low and high of each line. Null interrupts a line: what is missing;
 * undefined, at other lines' nights, does not.
 * @param {Point[][]} lines @returns {(number | null | undefined)[][]}
 */
export function columns(lines) {
  const xs = [...new Set(lines.flat().map(({ x }) => x))].sort((a, b) => a - b);
  return [xs, ...lines.flatMap((line) => {
    const at = new Map(line.map((point) => [point.x, point]));
    const value = (/** @type {"mean" | "low" | "high"} */ part) => xs.map((x) => at.get(x)?.[part]);
    return [value("mean"), value("low"), value("high")];
  })];
}

/** Ends of the upright axis; a few wide intervals do not squeeze the others. @param {Point[]} shown @returns {[number, number]} */
export function limits(shown) {
  const known = shown.filter(({ mean }) => mean != null);
  if (!known.length) return [0, 1];
  const halves = known.map(({ low, high }) => (low == null || high == null ? 0 : (high - low) / 2)).sort((a, b) => a - b);
  const half = halves[Math.floor(0.9 * (halves.length - 1))];
  const means = known.map(({ mean }) => Number(mean));
  const [low, high] = [Math.min(...means) - half, Math.max(...means) + half];
  const lack = Math.max(0, LEAST * Math.abs(low + high) - (high - low)) / 2;
  const air = 0.06 * (high - low + 2 * lack) || 1;
  return [low - lack - air, high + lack + air];
}

/** A chart in a figure. */
class Chart {
  /** @type {uPlot | null} */
  #plot = null;
  #width = 0;

  /** @param {HTMLElement} figure @param {Config} config */
  constructor(figure, config) {
    this.figure = figure;
    this.config = config;
    this.place = /** @type {HTMLElement} */ (figure.querySelector(".chart-plot"));
    this.says = /** @type {HTMLElement} */ (figure.querySelector(".chart-says"));
    this.metric = config.metric;
    const choice = figure.querySelector("select");
    if (choice) this.#choose(choice);
    this.#draw();
    new ResizeObserver(() => this.place.clientWidth !== this.#width && this.#draw()).observe(this.place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    figure.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Let a reader choose among the metrics; the address has the choice. @param {HTMLSelectElement} choice */
  #choose(choice) {
    const titles = new Map(this.config.tables.flatMap(({ metrics }) => metrics.map(({ name, title }) => [name, title])));
    choice.replaceChildren(...[...titles].map(([value, title]) => new Option(title, value)));
    const asked = new URLSearchParams(location.search).get("metric") ?? this.metric;
    this.metric = choice.value = titles.has(asked) ? asked : this.metric;
    choice.addEventListener("change", () => {
      this.metric = choice.value;
      const query = choice.value === this.config.metric ? "" : `?metric=${encodeURIComponent(choice.value)}`;
      history.replaceState(null, "", `${location.pathname}${query}${location.hash}`);
      this.#draw();
      this.#tabulate();
    });
    if (choice.value !== this.config.metric) this.#tabulate();
  }

  /** @returns {[Table, Metric][]} */
  get #shown() {
    return this.config.tables.flatMap((table) => table.metrics.filter(({ name }) => name === this.metric).map((metric) => /** @type {[Table, Metric]} */ ([table, metric])));
  }

  #draw() {
    const every = this.#shown;
    if (!every.length) return;
    // A point alone is no line: of a ratio it says nothing.
    const long = every.filter(([table, metric]) => points(table, metric).filter(({ mean }) => mean != null).length > 1);
    const shown = long.length ? long : every.slice(0, 1);
    const [table] = shown[0];
    const lines = shown.map(([table, metric]) => points(table, metric));
    const marks = table.changes.filter(({ metric, time }) => metric === this.metric && time >= (lines[0][0]?.x ?? 0));
    const data = columns(lines);
    this.lines = lines;
    this.labels = shown.map(([table]) => table.label);
    this.#width = this.place.clientWidth;
    this.place.replaceChildren();
    this.figure.querySelector(".chart-legend")?.replaceChildren(...(shown.length > 1 ? this.labels : []).map((textContent, place) =>
      Object.assign(document.createElement("li"), { textContent, className: `s${place % 5}` })));
    const names = Object.assign(document.createElement("ol"), { className: "chart-marks", hidden: !marks.length });
    names.append(...marks.map(({ name, label, href, tone }) => {
      const item = document.createElement("li");
      item.append(Object.assign(document.createElement("a"), { href: here(href).href, title: label, textContent: name, className: tone }));
      return item;
    }));
    this.place.append(names);
    const ink = this.#inks();
    const colours = lines.map((_, place) => ink("--c", `s${place % 5}`));
    const tones = marks.map(({ tone }) => ink("--c", tone));
    const axis = { stroke: ink("--faint"), grid: { stroke: ink("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const Plot = /** @type {typeof uPlot} */ (/** @type {any} */ (globalThis).uPlot);
    this.#plot = new Plot({
      width: Math.max(260, this.#width),
      height: (this.#width < 560 ? 270 : 380) - (marks.length ? LABELS * LINE : 0),
      legend: { show: false },
      tzDate: (time) => Plot.tzDate(new Date(time * 1e3), "Etc/UTC"),
      cursor: { y: false, drag: { x: true, y: false } },
      scales: {
        x: { range: (_, low, high) => low === high ? [low - DAY / 2, high + DAY / 2] : [low, high] },
        y: { range: (plot) => limits(lines.flat().filter(({ x }) => x >= (plot.scales.x.min ?? -Infinity) && x <= (plot.scales.x.max ?? Infinity))) },
      },
      axes: [{ ...axis, values: (_, ticks, _axis, _space, step) => ticks.map((tick, place) => date(tick, step, !place)) }, {
        ...axis,
        size: (_, values) => 18 + LETTER * Math.max(3, ...(values ?? []).map((text) => text.length)),
        // Ticks are round: `+5.00 %` is `+5 %`.
        values: (_, ticks) => ticks.map((tick) => change(tick).replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "")),
      }],
      series: [{}, ...lines.flatMap((line, place) => [
        { stroke: colours[place], width: 2, dash: place > 4 ? [7, 4] : [], points: { show: line.length <= DOTTED, size: 6, fill: colours[place] } },
        { points: { show: false } }, { points: { show: false } },
      ])],
      bands: lines.map((_, place) => ({ series: [3 * place + 3, 3 * place + 2], fill: colours[place].replace("rgb(", "rgba(").replace(")", ", 0.18)") })),
      hooks: {
        draw: [(plot) => {
          marks.forEach(({ time }, place) => upright(plot, time, tones[place]));
          arrange(plot, names, marks.map(({ time }) => time));
        }],
        setCursor: [(plot) => this.#say(plot.cursor.idx ?? null)],
        setScale: [(plot, key) => key === "x" && this.#say(plot.cursor.idx ?? null)],
      },
    }, /** @type {uPlot.AlignedData} */ (data), this.place);
    this.#say(null);
  }

  /** Colours of the stylesheet, as a canvas needs them. */
  #inks() {
    const probe = this.place.appendChild(Object.assign(document.createElement("i"), { hidden: true }));
    return (/** @type {string} */ name, /** @type {string} */ kind = "") => {
      if (!probe.isConnected) this.place.append(probe);
      probe.className = kind;
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
  }

  /** Describe the points at a place, or the visible range, in a sentence. @param {number | null} at */
  #say(at) {
    const { lines = [] } = this;
    const x = at === null ? null : this.#plot?.data[0][at];
    const found = lines.flatMap((line, place) => line.filter((point) => point.x === x && point.mean != null).map((point) => {
      const name = lines.length > 1 ? `${this.labels?.[place]}: ` : this.config.releases ? `${point.run}: ` : "";
      const ends = point.low == null || point.high == null ? "" : ` (${quotient({ mean: 1, low: 1, high: 1 }, point).within})`;
      return `${name}${change(Number(point.mean))}${ends}${point.note && `, ${point.note}`}`;
    }));
    this.says.textContent = found.length ? `${day(Number(x))}: ${found.join("; ")}` : this.#range();
  }

  /** What the visible range did: both ends stand against one anchor. */
  #range() {
    const { min = -Infinity, max = Infinity } = this.#plot?.scales.x ?? {};
    const known = (this.lines?.[0] ?? []).filter(({ x, low }) => low != null && x >= min && x <= max);
    const [first, last] = [known[0], known.at(-1)];
    if (this.config.releases || !last || first === last) return HELP;
    const { change, within } = quotient(first, last);
    return `${day(first.x)} to ${day(last.x)}: ${change} (${within}). ${HELP}`;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const plot = this.#plot;
    if (!plot || event.target !== this.figure || event.altKey || event.ctrlKey || event.metaKey) return;
    const places = plot.data[0].map((_, place) => place).filter((place) => plot.data.some((column, n) => n % 3 === 1 && column[place] != null));
    const at = places.indexOf(plot.cursor.idx ?? -1);
    const last = places.length - 1;
    const to = { ArrowRight: Math.min(at + 1, last), ArrowLeft: at < 0 ? last : Math.max(at - 1, 0), Home: 0, End: last }[event.key];
    if (event.key === "Escape") plot.setData(plot.data);
    if (to === undefined || last < 0) return;
    event.preventDefault();
    plot.setCursor({ left: plot.valToPos(plot.data[0][places[to]], "x"), top: 1 });
  }

  /** Write the chosen metric into the table below. */
  #tabulate() {
    const [table, metric] = this.#shown[0];
    const title = this.figure.querySelector("figcaption strong");
    if (title) title.textContent = metric.title;
    this.figure.querySelectorAll("thead th")[2].textContent = metric.title;
    const nights = table.time.map((_, night) => night).reverse().slice(0, ROWS);
    this.figure.querySelector("tbody")?.replaceChildren(...nights.map((night) => {
      const row = document.createElement("tr");
      const mean = metric.mean[night];
      row.append(Object.assign(document.createElement("th"), { scope: "row", textContent: day(table.time[night]) }), ...[
        table.run[night], mean == null ? "—" : times(mean),
        mean == null ? "" : interval(mean, metric.low[night], metric.high[night]), table.note[night],
      ].map((textContent, column) => Object.assign(document.createElement("td"), { textContent, className: column === 1 || column === 2 ? "number" : "" })));
      return row;
    }));
  }
}

/** Name a tick: its day, or its month, with the year where that begins. @param {number} time @param {number} step @param {boolean} first */
function date(time, step, first) {
  const when = new Date(time * 1e3);
  const month = when.toLocaleString("en", { month: "short", timeZone: "UTC" });
  const year = first || !when.getUTCMonth() ? `\n${when.getUTCFullYear()}` : "";
  if (step >= 360 * DAY) return String(when.getUTCFullYear());
  return step < 28 * DAY ? `${when.getUTCDate()} ${month}` : `${month}${year}`;
}

/** Draw a dashed line across the plot. @param {uPlot} plot @param {number} time @param {string} colour */
function upright({ ctx, bbox, valToPos }, time, colour) {
  const x = Math.round(valToPos(time, "x", true));
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}

/** Put names above their lines, each in the first row with room for it; without room it is hidden. @param {uPlot} plot @param {HTMLElement} names @param {number[]} times */
function arrange(plot, names, times) {
  /** @type {number[]} */
  const ends = Array(LABELS).fill(-Infinity);
  const width = plot.width;
  [...names.children].map((item, place) => /** @type {[HTMLElement, number]} */ ([item, plot.over.offsetLeft + plot.valToPos(times[place], "x")]))
    .sort((a, b) => a[1] - b[1])
    .forEach(([item, x]) => {
      const wide = LETTER * (item.textContent ?? "").length + 8;
      const left = Math.max(0, Math.min(x - wide / 2, width - wide));
      const row = ends.findIndex((end) => end <= left);
      item.hidden = row < 0 || x < plot.over.offsetLeft || x > width;
      if (item.hidden) return;
      ends[row] = left + wide;
      item.style.left = `${left}px`;
      item.style.top = `${(LABELS - 1 - row) * LINE}px`;
    });
}

/** @param {HTMLElement} figure */
function start(figure) {
  const table = figure.querySelector("details");
  try {
    new Chart(figure, JSON.parse(figure.querySelector("script")?.textContent ?? ""));
    if (table) table.open = false;
  } catch (problem) {
    console.error(problem);
    figure.classList.add("without");
    const says = figure.querySelector(".chart-says");
    if (says) says.textContent = "The chart could not be drawn. The table below has the figures.";
  }
  table?.classList.add("ready");
}

// One task for each chart, so that readers can scroll meanwhile.
if (typeof document !== "undefined") {
  /** @type {NodeListOf<HTMLElement>} */
  const figures = document.querySelectorAll("figure[data-trend]");
  figures.forEach((figure) => setTimeout(start, 0, figure));
}
