// @ts-check
/**
 * A trend as a plot that can be zoomed: uPlot on a canvas, in the colours of the page's stylesheet.
 * What uPlot does not know is drawn over it (`overlay.js`).
 */

import { DataError, median } from "./columns.js";
import { make } from "./data.js";
import { axis, day, interval, named } from "./formats.js";
import { FONT, backdrop, faded, overlay, palette } from "./overlay.js";

/** @typedef {import("uplot")} UPlot */
/** @import { History, Point } from "./columns.js" */

/**
 * A change point of a record.
 * @typedef {object} ChangePoint
 * @property {number} time
 * @property {string} verdict `slower`, `faster` or `inconclusive`.
 * @property {number} ratio After over before.
 * @property {string} label In a sentence.
 * @property {string} href
 */

/**
 * What is drawn.
 * @typedef {object} Model
 * @property {string} title
 * @property {string} format Name of the formatter.
 * @property {string} interval What intervals are.
 * @property {History} history
 * @property {ChangePoint[]} changes
 * @property {number | null} noise Half the ribbon's width, relative.
 * @property {number} from Seconds since 1970.
 * @property {number} to
 */

/**
 * A plot on the page.
 * @typedef {object} Plot
 * @property {(time: number, value: number | null) => void} point Points at a place of it.
 * @property {() => void} clear
 * @property {() => [number, number]} range What is shown, seconds since 1970.
 * @property {() => void} destroy
 */

const DAY = 86_400;
const LABELS = 0.14; // of the height, above the figures: two rows of change points' labels
const LEAST = 0.01; // to each side of the middle: noise must not look like a landslide
/** Ticks of the time axis: increment in s, label, and what is added where year or day begins. */
const TIMES = [
  [DAY * 365, "{YYYY}", null, null, null, null, null, null, 1],
  [DAY * 28, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [DAY, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
];

/** @type {Promise<typeof import("uplot")> | null} */
let loading = null;

/**
 * uPlot and its stylesheet, fetched when they are first needed.
 * @returns {Promise<typeof import("uplot")>} @throws {DataError}
 */
export function library() {
  loading ??= Promise.all([
    loaded("link", "uPlot.min.css"),
    loaded("script", "uPlot.iife.min.js"),
  ]).then(() => /** @type {any} */ (globalThis).uPlot);
  return loading;
}

/** @param {"link" | "script"} tag @param {string} name @returns {Promise<void>} */
function loaded(tag, name) {
  const address = new URL(`../vendor/${name}`, import.meta.url).href;
  const element = document.createElement(tag);
  if (element instanceof HTMLLinkElement) {
    element.rel = "stylesheet";
    element.href = address;
  } else {
    element.src = address;
  }
  return new Promise((resolve, reject) => {
    element.addEventListener("load", () => resolve());
    element.addEventListener("error", () =>
      reject(new DataError(`${name}, which draws the plot, is missing`)),
    );
    document.head.append(element);
  });
}

/**
 * What is said of a night: its figure with all that stands beside it.
 * @param {Point} point @param {Pick<Model, "format" | "interval" | "history">} model
 */
export function sentence(point, model) {
  const { history } = model;
  const bumps = history.bumps.filter((one) => one.time === point.time);
  const breaks = history.breaks.filter((one) => one.time === point.time);
  return [
    `${day(point.time)}: ${figure(point, model)}`,
    ...bumps.map((one) => one.label),
    ...breaks.map((one) => `${apart(history)}${one.label}`),
  ].join("; ");
}

/** What is said before a break. @param {History} history */
export function apart(history) {
  return history.cut ? "not comparable with before: " : "";
}

/** @param {Point} point @param {Pick<Model, "format" | "interval">} model */
function figure(point, model) {
  if (point.mean === null) {
    return `no figure: ${[point.status, point.reason].filter((one) => one && one !== "measured").join(": ")}`;
  }
  const write = named(model.format);
  const spread = interval(point.mean, point.low, point.high, write);
  return [
    write(point.mean),
    spread && `${model.interval} ${spread}`,
    point.status === "disturbed" && "not judged",
    ...point.flags,
  ].filter(Boolean).join(", ");
}

/**
 * Draw a trend into an element.
 * @param {typeof import("uplot")} library_ @param {HTMLElement} into @param {Model} model
 * @param {{zoomed: (from: number, to: number) => void, reset: () => void, chosen: (point: Point) => void}} on
 * @returns {Plot}
 */
export function draw(library_, into, model, on) {
  const { rows, data } = aligned(model.history);
  const lone = alone(rows, /** @type {Means} */ (data[3]));
  const colour = palette(into);
  // What the keyboard reads is said elsewhere.
  const tip = make("p", { class: "trend-tip", hidden: "", "aria-hidden": "true" });
  let told = false;

  const size = () => ({ width: Math.max(200, into.clientWidth), height: into.clientHeight });
  const blue = colour("--s-blue");
  const grid = { stroke: colour("--grid"), width: 1 };
  const stroke = colour("--faint");

  const plot = new library_(
    {
      ...size(),
      tzDate: (time) => library_.tzDate(new Date(time * 1000), "Etc/UTC"),
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: true, y: false, dist: 5 },
        bind: { dblclick: () => () => { on.reset(); return null; } },
      },
      scales: {
        x: { time: true },
        y: {
          range: (_, low, high) => {
            const [least, most] = limits(model.history, low, high);
            return [least, most + (model.changes.length ? LABELS * (most - least) : 0)];
          },
        },
      },
      axes: [
        { stroke, grid: { show: false }, ticks: grid, font: FONT, values: TIMES },
        {
          stroke, grid, ticks: { show: false }, font: FONT, space: 40,
          values: (_, ticks) => axis(model.format, ticks),
          size: (_, labels) => 16 + 7 * Math.max(4, ...(labels ?? []).map((one) => one.length)),
        },
      ],
      series: [
        {},
        { stroke: "transparent", points: { show: false }, auto: false },
        { stroke: "transparent", points: { show: false }, auto: false },
        { stroke: blue, width: 1.5, points: { size: 6, fill: blue, stroke: blue } },
      ],
      bands: [{ series: [1, 2], fill: faded(blue, 0.2) }],
      hooks: {
        drawClear: [(u) => backdrop(u, model, colour)],
        draw: [(u) => overlay(u, model, lone, colour)],
        setScale: [
          (u, key) => {
            const { min, max } = u.scales.x;
            if (told && key === "x" && min != null && max != null) on.zoomed(min, max);
          },
        ],
        setCursor: [
          (u) => {
            const point = u.cursor.idx == null ? null : rows[u.cursor.idx];
            const left = u.cursor.left ?? -1;
            tip.hidden = !point || left < 0;
            if (!point || tip.hidden) return;
            tip.textContent = sentence(point, model);
            const wide = u.over.clientWidth;
            tip.classList.toggle("right", left > wide / 2);
            tip.style.left = left > wide / 2 ? "auto" : `${left + 10}px`;
            tip.style.right = left > wide / 2 ? `${wide - left + 10}px` : "auto";
          },
        ],
      },
    },
    data,
    into,
  );
  plot.over.append(tip);
  plot.setScale("x", { min: model.from, max: model.to });
  plot.over.addEventListener("click", () => {
    const point = plot.cursor.idx == null ? null : rows[plot.cursor.idx];
    if (point) on.chosen(point);
  });
  const watcher = new ResizeObserver(() => plot.setSize(size()));
  watcher.observe(into);
  queueMicrotask(() => { told = true; }); // uPlot sets its scales in a microtask: not a zoom
  return {
    point(time, value) {
      const shown = value ?? plot.scales.y.min ?? 0;
      plot.setCursor({ left: plot.valToPos(time, "x"), top: plot.valToPos(shown, "y") });
    },
    clear: () => plot.setCursor({ left: -10, top: -10 }),
    range: () => [plot.scales.x.min ?? model.from, plot.scales.x.max ?? model.to],
    destroy() {
      watcher.disconnect();
      plot.destroy();
    },
  };
}

/**
 * Columns for uPlot: null interrupts the line, undefined does not.
 * @param {History} history
 * @returns {{rows: (Point | null)[], data: import("uplot").AlignedData}} The night of each place.
 */
export function aligned(history) {
  /** @type {{time: number, point: Point | null}[]} */
  const all = history.points.map((point) => ({ time: point.time, point }));
  if (history.cut) {
    for (const one of history.breaks) all.push({ time: one.time - 0.5, point: null });
  }
  for (const time of history.gaps) all.push({ time: time + 0.5, point: null });
  all.sort((one, other) => one.time - other.time);
  /** @type {number[]} */
  const time = [];
  /** @type {(number | null | undefined)[][]} */
  const columns = [[], [], []];
  for (const one of all) {
    time.push(one.time);
    const point = one.point;
    const values = point?.status === "measured" && point.mean !== null
      ? [point.high, point.low, point.mean]
      : Array(3).fill(point && point.mean !== null ? undefined : null);
    values.forEach((value, column) => columns[column].push(value));
  }
  return { rows: all.map((one) => one.point), data: [time, ...columns] };
}

/** @typedef {(number | null | undefined)[]} Means */

/**
 * Figures that no line joins: neither before nor after them is one that is not interrupted.
 * @param {(Point | null)[]} rows @param {Means} means @returns {Point[]}
 */
function alone(rows, means) {
  const there = means.flatMap((mean, place) => (mean === undefined ? [] : [place]));
  return there.flatMap((place, index) => {
    const beside = [there[index - 1], there[index + 1]].some((other) => means[other] != null);
    const point = rows[place];
    return means[place] != null && !beside && point ? [point] : [];
  });
}

/**
 * The upright axis: the figures, half a typical interval, and some air.
 * @param {History} history
 * @param {number | null} least Of the figures that are shown.
 * @param {number | null} most @returns {[number, number]}
 */
function limits(history, least, most) {
  const means = history.points.filter((one) => one.mean !== null);
  if (!means.length) return [0, 1];
  const values = means.map((one) => Number(one.mean));
  let low = least ?? Math.min(...values);
  let high = most ?? Math.max(...values);
  const halves = means
    .filter((one) => one.low !== null && one.high !== null)
    .map((one) => (Number(one.high) - Number(one.low)) / 2);
  const half = halves.length ? median(halves) : 0;
  low -= half;
  high += half;
  const lack = Math.max(0, LEAST * Math.abs(low + high) - (high - low)) / 2;
  const air = 0.06 * (high - low + 2 * lack) || 1;
  const floor = low >= 0 ? 0 : -Infinity;
  return [Math.max(floor, low - lack - air), high + lack + air];
}
