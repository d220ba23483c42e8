// @ts-check
/**
 * The trend of a case: every figure of it over any span, zoomed and read point by point.
 *
 * The page has the picture already. Here it is replaced by a plot of the data files; where they are
 * missing or damaged it stays, and a sentence says why. The view is in the query.
 */

import { DataError, band, happenings, points } from "./columns.js";
import * as data from "./data.js";
import { day } from "./formats.js";
import { provide, say } from "./keyboard.js";
import { draw, library, sentence } from "./plot.js";
import * as query from "./query.js";
import { address, rows, tabulate } from "./told.js";

/** @import { History, Point } from "./columns.js" */
/** @import { ChangePoint, Plot } from "./plot.js" */

/**
 * What the page knows of a case on one machine.
 * @typedef {object} Machine
 * @property {string} id
 * @property {string} label
 * @property {string} nights Folder of the nights' files.
 * @property {string} stack
 * @property {string} interval What intervals are.
 * @property {{name: string, title: string, format: string}[]} metrics The first is the default.
 * @property {Record<string, string>} shards Metric → folder of its files.
 * @property {(ChangePoint & {metric: string})[]} changes
 */

/** @typedef {{case: string, machines: Machine[]}} Config */

const DAY = 86_400;
/** @type {Readonly<Record<string, number>>} */
const SPANS = { "1y": 366 * DAY, "90d": 90 * DAY, all: Infinity };

/** The trend on the page. */
class Trend {
  /** @type {Plot | null} */
  #plot = null;
  /** @type {Promise<data.Manifest> | null} */
  #manifest = null;
  #turn = 0;
  /** @type {import("./plot.js").Model | null} */
  #model = null;

  /** @param {HTMLFormElement} form @param {HTMLElement} figure @param {Config} config */
  constructor(form, figure, config) {
    this.form = form;
    this.figure = figure;
    this.config = config;
    const plot = /** @type {HTMLElement} */ (figure.querySelector(".chart-plot"));
    this.drawn = plot;
    this.live = document.createElement("div");
    this.live.className = "trend-live";
    this.live.hidden = true;
    plot.after(this.live);
    this.caption = {
      title: figure.querySelector("figcaption strong"),
      about: figure.querySelector("figcaption span"),
    };
    this.said = [this.caption.title?.textContent ?? "", this.caption.about?.textContent ?? ""];
    const { view, dropped } = query.read(location.search, this.parameters());
    const machine = this.machine(view.machine);
    if (!machine.metrics.some((one) => one.name === view.metric)) {
      if (view.metric) dropped.push(`metric=${view.metric}`);
      view.metric = machine.metrics[0].name;
    }
    this.view = view;
    this.dropped = query.told(dropped);
  }

  /** @returns {query.Parameters} */
  parameters() {
    const metrics = this.config.machines.flatMap((one) => one.metrics.map(({ name }) => name));
    return {
      metric: query.one_of([this.config.machines[0].metrics[0].name, ...metrics]),
      machine: query.one_of(this.config.machines.map((one) => one.id)),
      span: query.one_of(Object.keys(SPANS)),
      from: query.day(),
      to: query.day(),
    };
  }

  /** @param {string} id */
  machine(id) {
    return this.config.machines.find((one) => one.id === id) ?? this.config.machines[0];
  }

  start() {
    fill(this.field("machine"), this.config.machines.map((one) => [one.id, one.label]));
    const label = this.form.querySelector(".machine");
    if (label instanceof HTMLElement) label.hidden = this.config.machines.length < 2;
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", (event) => this.#changed(event));
    this.form.querySelector("[name=reset]")?.addEventListener("click", () => {
      this.view.span = "1y";
      this.#reset();
    });
    for (const query_ of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
      matchMedia(query_).addEventListener("change", () => void this.show());
    }
    // A canvas keeps its colours: for paper, which is white, it is drawn in those of light pages.
    for (const [event, scheme] of [["beforeprint", "light"], ["afterprint", ""]]) {
      addEventListener(event, () => {
        document.documentElement.style.colorScheme = scheme;
        void this.show(); // all of it is loaded, so that it is done before the event is over
      });
    }
    this.figure.querySelector("details")?.addEventListener("toggle", () => this.#tabulate());
    this.#fillForm();
    this.form.classList.add("ready");
    return this.show();
  }

  /** Draw the view, or say why it cannot be drawn. */
  async show() {
    const turn = ++this.#turn;
    this.#fillForm();
    query.show(this.view, this.parameters());
    this.note(this.dropped);
    try {
      const machine = this.machine(this.view.machine);
      const [uPlot, history] = await Promise.all([library(), this.#load(machine)]);
      if (turn !== this.#turn) return; // another view was asked for in the meantime
      this.#draw(uPlot, machine, history);
    } catch (problem) {
      if (turn !== this.#turn) return;
      this.#undraw();
      this.note(
        `${this.dropped} ${why(problem)}. The picture is the one that was made with the site: ` +
          `${this.config.machines[0].metrics[0].title} on ${this.config.machines[0].label}.`,
      );
    }
  }

  /**
   * The series, from the newest night back to where the view begins.
   * @param {Machine} machine @returns {Promise<History>}
   */
  async #load(machine) {
    this.#manifest ??= data.manifest();
    const list = await this.#manifest.catch((problem) => {
      this.#manifest = null; // it may be there the next time
      throw problem;
    });
    const { case: id } = this.config;
    const nights = data.entries(list, "nights", machine.nights);
    const shard = machine.shards[this.view.metric];
    const shards = data.entries(list, "series", shard ?? "");
    if (!nights.length || !shards.length) {
      throw new DataError("The data of this figure are missing from manifest.json");
    }
    /** @type {History} */
    const history = { points: [], cut: true, breaks: [], bumps: [], gaps: [] };
    for (const entry of [...shards].reverse()) {
      const newest = history.points.at(-1)?.time;
      if (newest !== undefined && new Date(this.#from(newest) * 1000).getUTCFullYear() > entry.year) {
        break;
      }
      const with_ = nights.find((one) => one.year === entry.year);
      if (!with_) throw new DataError(`The nights of ${entry.year} are missing from manifest.json`);
      const [of_year, figures] = await Promise.all([
        data.once(with_), data.once(entry),
      ]);
      try {
        const happened = happenings(of_year, id, machine.stack);
        history.points.unshift(...points(of_year, figures, id, this.view.metric));
        history.cut = happened.cut;
        for (const name of /** @type {const} */ (["breaks", "bumps", "gaps"])) {
          history[name].unshift(.../** @type {any[]} */ (happened[name]));
        }
      } catch (problem) {
        if (problem instanceof DataError) throw problem;
        throw new DataError(`${entry.address} is damaged: its columns are not as they should be`);
      }
    }
    if (!history.points.length) throw new DataError("The data files have no night of this figure");
    return history;
  }

  /** Where the view begins, seconds since 1970. @param {number} newest Time of the newest night. */
  #from(newest) {
    if (this.view.from) return Date.parse(this.view.from) / 1000;
    const span = SPANS[this.view.span];
    return Number.isFinite(span) ? newest - span : 0;
  }

  /** @param {typeof import("uplot")} uPlot @param {Machine} machine @param {History} history */
  #draw(uPlot, machine, history) {
    const metric = machine.metrics.find((one) => one.name === this.view.metric) ?? machine.metrics[0];
    const oldest = history.points[0].time;
    const newest = history.points[history.points.length - 1].time;
    let from = Math.max(oldest, this.#from(newest));
    let to = this.view.to ? Date.parse(this.view.to) / 1000 + DAY : newest;
    if (to <= from) [from, to] = [oldest, newest];
    const air = to > from ? (to - from) / 5 : DAY / 2;
    if (to - from < DAY) [from, to] = [from - air, to + air];
    const changes = machine.changes.filter((one) => one.metric === metric.name);
    const height = this.drawn.hidden ? this.live.clientHeight : this.drawn.clientHeight;
    this.#plot?.destroy();
    this.live.replaceChildren();
    this.live.style.height = `${Math.max(220, height)}px`;
    this.live.hidden = false;
    this.drawn.hidden = true;
    this.figure.classList.add("live"); // the notes below are of the picture
    const model = {
      title: metric.title, format: metric.format, interval: machine.interval,
      history, changes, noise: band(history), from, to,
    };
    const open = (/** @type {Point} */ point) => {
      say(this.figure, sentence(point, model), address(point));
    };
    const plot = draw(
      uPlot,
      this.live,
      model,
      { zoomed: (low, high) => this.#zoomed(low, high), reset: () => this.#reset(), chosen: open },
    );
    this.#plot = plot;
    this.#describe(metric.title, `On ${machine.label}. Drag across to zoom, double-click to go back.`);
    provide(this.figure, () => ({
      rows: rows(model, plot),
      clear: () => plot.clear(),
    }));
    this.#model = model;
    this.#tabulate();
  }

  /** @param {string} title @param {string} about */
  #describe(title, about) {
    if (this.caption.title) this.caption.title.textContent = title;
    if (this.caption.about) this.caption.about.textContent = about;
  }

  /** Show the picture again. */
  #undraw() {
    this.#plot?.destroy();
    this.#plot = null;
    this.live.hidden = true;
    this.drawn.hidden = false;
    this.figure.classList.remove("live");
    this.#describe(this.said[0], this.said[1]);
  }

  /** The reader zoomed: the view is where they went. @param {number} low @param {number} high */
  #zoomed(low, high) {
    Object.assign(this.view, { from: day(low), to: day(high) });
    this.#fillForm();
    query.show(this.view, this.parameters());
  }

  #reset() {
    this.#to({ ...this.view, from: "", to: "" });
  }

  /** @param {Event} event */
  #changed(event) {
    const field = event.target;
    if (!(field instanceof HTMLInputElement || field instanceof HTMLSelectElement)) return;
    const view = { ...this.view, [field.name]: field.value };
    if (field.name === "span") Object.assign(view, { from: "", to: "" });
    if (field.name === "machine") {
      const { metrics } = this.machine(view.machine);
      if (!metrics.some((one) => one.name === view.metric)) view.metric = metrics[0].name;
    }
    this.#to(view);
  }

  /** @param {Record<string, string>} view */
  #to(view) {
    this.view = view;
    this.dropped = "";
    void this.show();
  }

  #tabulate() {
    if (this.#model) tabulate(this.figure, this.#model);
  }

  #fillForm() {
    const { metrics } = this.machine(this.view.machine);
    fill(this.field("metric"), metrics.map((one) => [one.name, one.title]));
    for (const name of Object.keys(this.parameters())) this.field(name).value = this.view[name];
  }

  /** @param {string} name */
  field(name) {
    return /** @type {HTMLInputElement | HTMLSelectElement} */ (this.form.elements.namedItem(name));
  }

  /** @param {string} text_ */
  note(text_) {
    const place = this.form.querySelector(".trend-note");
    if (place) place.textContent = text_.trim();
  }
}

/**
 * @param {HTMLInputElement | HTMLSelectElement} field
 * @param {string[][]} options Value and label.
 */
function fill(field, options) {
  const old = field instanceof HTMLSelectElement ? [...field.options].map((one) => one.value) : [];
  if (old.join("\n") === options.map(([value]) => value).join("\n")) return;
  field.replaceChildren(...options.map(([value, label]) => new Option(label, value)));
}

/** Why there is no plot, in words. @param {unknown} problem */
function why(problem) {
  if (problem instanceof DataError) return problem.message;
  console.error(problem);
  return "The plot could not be drawn";
}

const form = document.querySelector("form[data-trend]");
const figure = document.getElementById("trend");
const config = document.getElementById("trend-data");
if (form instanceof HTMLFormElement && figure && config) {
  const known = /** @type {Config} */ (JSON.parse(config.textContent ?? ""));
  known.machines = known.machines.filter((one) => one.metrics.length);
  if (known.machines.length) void new Trend(form, figure, known).start();
}
