// @ts-check
/**
 * The charts of a page: plots, whose figures are in the page, and trends, whose figures are in a file.
 *
 * If a file cannot be fetched or read, the page says so, and keeps the table that it was built with.
 */

import { Chart } from "./chart.js";
import { day, interval, named, quotient, significant } from "./formats.js";

/** @import { Datum, Model, Series } from "./chart.js" */
/**
 * @typedef {object} Metric
 * @property {string} name
 * @property {string} title
 * @property {string} format
 * @property {string} better
 * @property {(number | null)[]} mean
 * @property {Ends} low
 * @property {Ends} high
 */
/** @typedef {{time: number, label: string, href?: string}} Happening */
/** @typedef {(number | null)[] | Record<number, number>} Ends By night; an object if few nights have some. */
/** @typedef {{of: string[], at: number[]}} Pooled The different texts, and each night's place among them. */
/**
 * A case on one machine, as `pages/trends.py` writes it.
 * @typedef {object} Table
 * @property {string} machine
 * @property {string} kind
 * @property {string | null} anchor
 * @property {number[]} time
 * @property {string[]} run
 * @property {Pooled} status
 * @property {Pooled} note
 * @property {Pooled} file
 * @property {Metric[]} metrics
 * @property {number[]} gaps
 * @property {Happening[]} breaks
 * @property {Happening[]} bumps
 * @property {(Happening & {metric: string, tone: string, short: string})[]} changes
 */
/** @typedef {{format: number, case: string, tables: Table[]}} Document */
/** @typedef {{source?: string, document?: Document}} Config */

const FORMAT = 4;
const ROWS = 150;
const root = new URL(document.body.dataset.root ?? "./", document.baseURI);

/** A problem of a data file, in a sentence for readers. */
class DataError extends Error {}

/** @param {string} address @returns {Promise<Document>} */
async function load(address) {
  const response = await fetch(new URL(address, root)).catch(() => null);
  if (!response?.ok) throw new DataError(`${address} is missing`);
  const content = await response.json().catch(() => null);
  if (content?.format !== FORMAT || !Array.isArray(content.tables)) {
    throw new DataError(`${address} is damaged, or belongs to another version of this page: reload the page`);
  }
  return content;
}

/** @param {string} [address] */
const absolute = (address) => (address ? new URL(address, root).href : "");

/** @param {Pooled} texts @param {number} night */
const at = (texts, night) => texts.of[texts.at[night]];

/** @param {Table} table @param {string} metric @param {string} name @param {number} slot @returns {Series} */
function series(table, metric, name, slot) {
  const figures = table.metrics.find(({ name }) => name === metric);
  const edges = [...(table.anchor ? [] : table.breaks.map(({ time }) => time)), ...table.gaps.map((time) => time + 1)];
  /** @type {Datum[]} */
  const points = table.time.map((time, place) => ({
    x: time,
    mean: figures?.mean[place] ?? null,
    low: figures?.low[place] ?? null,
    high: figures?.high[place] ?? null,
    hollow: at(table.status, place) !== "measured" && figures?.mean[place] != null,
    cut: edges.some((edge) => (table.time[place - 1] ?? Infinity) < edge && edge <= time),
    note: [at(table.status, place), at(table.note, place)].filter((text) => text && text !== "measured").join(": "),
    href: absolute(at(table.file, place)),
  }));
  return { name, slot, points };
}

/** The place of a line's first figure: what could not be measured before is only in the table. @param {Series} line */
const begun = (line) => Math.max(0, line.points.findIndex(({ mean }) => mean != null));

/** A trend with its controls. */
class Trend {
  /** @param {HTMLElement} figure @param {Config} config @param {Document} content */
  constructor(figure, config, content) {
    this.figure = figure;
    this.config = config;
    this.content = content;
    this.chart = new Chart(figure);
    const forms = figure.parentElement?.querySelectorAll("form") ?? [];
    /** @type {HTMLFormElement | undefined} */
    this.form = forms[0];
    /** @type {HTMLFormElement | undefined} */
    this.dates = forms[1];
    this.choices = this.#choices();
    /** @type {Record<string, string>} */
    this.view = { metric: this.choices[0]?.value ?? "", from: "", to: "" };
    if (this.form) this.#controls(this.form);
    this.#draw();
  }

  /** Each metric of each kind of figures, once. */
  #choices() {
    /** @type {Map<string, string>} */
    const titles = new Map();
    for (const table of this.content.tables) {
      for (const { name, title } of table.metrics) {
        const value = table.kind === this.content.tables[0].kind ? name : `${table.kind}:${name}`;
        if (!titles.has(value)) titles.set(value, title);
      }
    }
    return [...titles].map(([value, title]) => ({ value, title }));
  }

  /** @returns {[string, string]} Kind and metric. */
  #selection() {
    const [kind, metric] = this.view.metric.includes(":") ? this.view.metric.split(":", 2) : [this.content.tables[0].kind, this.view.metric];
    return [kind, metric];
  }

  /** @param {string} kind @param {string} metric */
  #tables(kind, metric) {
    return this.content.tables.filter((table) => table.kind === kind && table.metrics.some(({ name }) => name === metric));
  }

  #draw() {
    const [kind, metric] = this.#selection();
    const tables = this.#tables(kind, metric);
    const first = tables[0];
    if (!first) return;
    const figures = /** @type {Metric} */ (first.metrics.find(({ name }) => name === metric));
    const lines = tables.map((table, slot) => series(table, metric, table.machine, slot));
    /** @type {Model} */
    const model = {
      x: { title: "", kind: "time" },
      y: { title: figures.title, format: figures.format },
      series: lines.map((line) => ({ ...line, points: line.points.slice(begun(line)) })),
      marks: [
        ...tables.flatMap((table) => table.changes).filter((change) => change.metric === metric).map((change) => ({ ...change, kind: /** @type {const} */ ("change") })),
        ...first.breaks.filter(({ time }) => time > (lines[0].points[begun(lines[0])]?.x ?? 0)).map((event) => ({ ...event, label: `${first.anchor ? "" : "not comparable with before: "}${event.label}`, kind: /** @type {const} */ ("break") })),
        // Nothing is said by a mark at every point.
        ...(first.bumps.length < lines[0].points.length - 1 - begun(lines[0]) ? first.bumps : []).map((event) => ({ ...event, kind: /** @type {const} */ ("bump") })),
      ].map((mark) => ({ ...mark, x: mark.time, href: absolute(mark.href) })),
      ...(this.view.from && { from: Date.parse(this.view.from) / 1000 }),
      ...(this.view.to && { to: Date.parse(this.view.to) / 1000 + 86_399 }),
    };
    const known = lines[0].points.filter(({ mean, hollow }) => mean != null && !hollow);
    const ratio = Number(known.at(-1)?.mean);
    if (figures.format === "change" && known.length > 1) {
      const tone = Math.abs(ratio - 1) < 0.005 ? "same" : ratio > 1 === (figures.better === "lower") ? "worse" : "better";
      const text = `${ratio < 1 ? "−" : "+"}${significant(100 * Math.abs(ratio - 1), 2)} %`;
      model.end = { text, since: `since ${day(known[0].x).slice(0, 7)}`, tone };
    }
    this.chart.show(model);
    if (this.config.source && this.form) {
      const title = this.figure.querySelector("figcaption strong");
      if (title) title.textContent = figures.title;
      this.#tabulate(lines[0], figures);
      if (this.dates) this.#compare(this.dates, first, lines[0]);
    }
  }

  /** @param {Series} line @param {Metric} figures */
  #tabulate(line, figures) {
    const write = named(figures.format);
    const heads = this.figure.querySelectorAll("thead th");
    if (heads[2]) heads[2].textContent = figures.title;
    const rows = line.points.map((point, place) => ({ point, place })).reverse().slice(0, ROWS);
    this.figure.querySelector("tbody")?.replaceChildren(...rows.map(({ point, place }) => {
      const row = document.createElement("tr");
      const head = Object.assign(document.createElement("th"), { scope: "row", textContent: day(point.x) });
      const run = this.#tables(...this.#selection())[0].run[place];
      const mean = point.mean ?? null;
      const cells = [
        run, mean === null ? "—" : write(mean), mean === null ? "" : interval(mean, point.low, point.high, write), point.note ?? "",
      ].map((text, column) => Object.assign(document.createElement("td"), {
        textContent: text, className: column === 1 || column === 2 ? "number" : "",
      }));
      row.append(head, ...cells);
      return row;
    }));
  }

  /** Compare two dates of a series against one anchor, as a ratio. @param {HTMLFormElement} form @param {Table} table @param {Series} line */
  #compare(form, table, line) {
    const known = line.points.filter((point) => point.mean && point.low && point.high && !point.hollow);
    form.hidden = !table.anchor || known.length < 2;
    if (form.hidden) return;
    const [a, b] = ["a", "b"].map((name) => /** @type {HTMLSelectElement} */ (form.elements.namedItem(name)));
    for (const [field, selection] of /** @type {[HTMLSelectElement, number][]} */ ([[a, 0], [b, known.length - 1]])) {
      field.replaceChildren(...known.map((point, place) => new Option(day(point.x), String(place), false, place === selection)));
    }
    const output = /** @type {HTMLOutputElement} */ (form.querySelector("output"));
    const answer = () => {
      const [from, to] = [known[Number(a.value)], known[Number(b.value)]];
      output.textContent = `${day(to.x)} over ${day(from.x)}: ${quotient(from, to)}`;
    };
    form.oninput = answer;
    answer();
  }

  /** @param {HTMLFormElement} form */
  #controls(form) {
    const metric = /** @type {HTMLSelectElement} */ (form.elements.namedItem("metric"));
    metric.replaceChildren(...this.choices.map(({ value, title }) => new Option(title, value)));
    const dropped = this.#read();
    const note = form.querySelector(".trend-note");
    if (note && dropped.length) note.textContent = `The address has ${dropped.join(", ")}, which this page does not know.`;
    form.addEventListener("change", (event) => {
      const field = event.target;
      if (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) this.#go({ [field.name]: field.value });
    });
    form.querySelector("[name=reset]")?.addEventListener("click", () => this.#go({ from: "", to: "" }));
    this.#fill();
  }

  /** Read the view from the address; return the parts that are not known. */
  #read() {
    const dropped = [];
    for (const [name, value] of new URLSearchParams(location.search)) {
      const date = /^\d{4}-\d\d-\d\d$/.test(value) && !Number.isNaN(Date.parse(value));
      if (name === "metric" ? this.choices.some((choice) => choice.value === value) : date && name in this.view) this.view[name] = value;
      else dropped.push(`“${name}=${value}”`);
    }
    if (dropped.length) this.#remember();
    return dropped;
  }

  /** @param {Record<string, string>} change */
  #go(change) {
    Object.assign(this.view, change);
    this.#remember();
    this.#fill();
    this.#draw();
  }

  #remember() {
    const settings = Object.entries(this.view).filter(([name, value]) => value && !(name === "metric" && value === this.choices[0].value));
    const query = new URLSearchParams(settings).toString();
    history.replaceState(null, "", `${location.pathname}${query && `?${query}`}${location.hash}`);
  }

  #fill() {
    for (const [name, value] of Object.entries(this.view)) {
      const field = this.form?.elements.namedItem(name);
      if (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) field.value = value;
    }
  }
}

/** Say why there is no chart. @param {unknown} problem */
function why(problem) {
  if (problem instanceof DataError) return `${problem.message}.`;
  console.error(problem);
  return "The chart could not be drawn.";
}

/** @param {HTMLElement} figure */
async function start(figure) {
  const table = figure.querySelector("details");
  try {
    const config = JSON.parse(figure.querySelector("script")?.textContent ?? "");
    if ("plot" in figure.dataset) new Chart(figure).show(config);
    else new Trend(figure, config, config.document ?? (await load(config.source)));
    if (table) table.open = false;
  } catch (problem) {
    figure.classList.add("without");
    const says = figure.querySelector(".chart-says");
    if (says) says.textContent = `${why(problem)} The table below has the figures.`;
  }
  table?.classList.add("ready");
}

// One task for each chart, so that readers can scroll meanwhile; folded ones when they are opened.
for (const figure of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("figure[data-plot], figure[data-trend]"))) {
  const fold = figure.closest("details:not([open])");
  if (fold) fold.addEventListener("toggle", () => start(figure), { once: true });
  else setTimeout(start, 0, figure);
}
