// @ts-check
/** A trend in words: what the keyboard reads of its plot, and its table. */

import { make, root } from "./data.js";
import { day, interval, named } from "./formats.js";
import { apart, sentence } from "./plot.js";

/** @import { Point } from "./columns.js" */
/** @import { Model, Plot } from "./plot.js" */

const ROWS = 150; // of the table, as without scripts

/**
 * What the keyboard reads: figures, change points, breaks, stack bumps, as in the picture.
 * @param {Model} model @param {Plot} plot
 */
export function rows(model, plot) {
  const { history, changes } = model;
  const [from, to] = plot.range();
  const shown = (/** @type {{time: number}} */ one) => from <= one.time && one.time <= to;
  const happened = (/** @type {string} */ prefix) =>
    (/** @type {import("./columns.js").Happening} */ one) => ({
      say: `${day(one.time)}: ${prefix}${one.label}`,
      href: page("p", one.alone ?? ""),
      point: () => plot.point(one.time, null),
    });
  return [
    history.points.filter(shown).map((point) => ({
      say: sentence(point, model),
      href: address(point),
      point: () => plot.point(point.time, point.mean),
    })),
    changes.filter(shown).map((one) => ({
      say: `${day(one.time)}: ${one.label}`,
      href: one.href,
      point: () => plot.point(one.time, null),
    })),
    history.breaks.filter(shown).map(happened(apart(history))),
    history.bumps.filter(shown).map(happened("")),
  ].filter((row) => row.length);
}

/** The page of a night's run. @param {Point} point */
export function address(point) {
  return page("runs", point.run);
}

/** A page below a folder. Names that no folder can have do not lead anywhere. @param {string} folder @param {string} name */
function page(folder, name) {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name)) return "";
  return new URL(`${folder}/${name}/`, root()).href;
}

/** @param {"thead" | "tbody"} tag @param {(string | Node)[][]} lines */
function section(tag, lines) {
  const column = (/** @type {string | Node} */ text, /** @type {number} */ place) => {
    if (tag === "thead" || !place) return make("th", { scope: tag === "thead" ? "col" : "row" }, text);
    return make("td", place === 2 || place === 3 ? { class: "number" } : {}, text);
  };
  return make(tag, {}, ...lines.map((line) => make("tr", {}, ...line.map(column))));
}

/**
 * The table below the plot, of the series that is shown; made when it is looked at.
 * @param {Element} figure @param {Model} model
 */
export function tabulate(figure, model) {
  const details = figure.querySelector("details");
  const table = details?.querySelector("table");
  if (!table || !details?.open) return;
  const write = named(model.format);
  const head = ["day", "run", "figure", model.interval, "note"];
  const body = model.history.points.slice(-ROWS).reverse().map((point) => [
    day(point.time),
    address(point) ? make("a", { href: address(point) }, point.run) : point.run,
    point.mean === null ? "—" : write(point.mean),
    point.mean === null ? "" : interval(point.mean, point.low, point.high, write),
    [point.status === "measured" ? "" : point.status, ...point.flags, point.reason]
      .filter(Boolean).join(": "),
  ]);
  table.replaceChildren(section("thead", [head]), section("tbody", body));
  const more = details.querySelector(".chart-table > p");
  if (more) more.textContent = "";
}
