// @ts-check
/** The compare page's table: what the sides are, and one row per case. All texts stay texts. */

import { make, root } from "./data.js";
import { change as percent, day, interval, named } from "./formats.js";

/** @import { Place, Row } from "./comparing.js" */
/** @import { AcrossFile } from "./deltas.js" */
/** @import { Side } from "./sides.js" */

const [WIDTH, HEIGHT] = [120, 28]; // of a sparkline, px
const EDGE = 4; // room for the last value's dot
const LEAST = 0.01; // to each side, so that noise does not look like a landslide

/** Folder names that addresses can spell without encoding; a stricter rule than the site's own. */
const PLAIN = /^[A-Za-z0-9_(][A-Za-z0-9._(),=+@-]{0,99}$/;

/**
 * What a side is: run, day and commit, or how many nights.
 * @param {string} letter @param {Side} side @param {Place} at
 */
export function sideFacts(letter, side, at) {
  const night = at.nights[at.nights.length - 1];
  const run = at.file.run[night];
  const commit = at.file.commit[night];
  const link = make("a", { href: new URL(`runs/${encodeURIComponent(run)}/`, root()).href }, run);
  /** @type {(Node | string)[]} */
  const parts = [];
  if (side.kind === "py") parts.push(`Python ${side.name}, in `);
  if (side.kind === "stack") parts.push(`stack ${side.name}${side.day ? ` as on ${side.day}` : ""}, `);
  if (at.nights.length > 1) parts.push(`mean of ${at.nights.length} nights up to `);
  else if (side.kind === "stack") parts.push("in ");
  parts.push(link, `, ${day(at.file.time[night])}`);
  if (commit) parts.push(`, commit ${commit.slice(0, 8)}`);
  return [make("dt", {}, letter), make("dd", {}, ...parts)];
}

/**
 * One row of the table.
 * @param {Row} row @param {AcrossFile} file @param {string} metric @param {boolean} cross
 */
export function line(row, file, metric, cross) {
  const format = named(file.formatter);
  const tone = toneOf(row, file);
  const noisy = row.floor ? `±${share(Math.expm1(row.floor))}` : "";
  const reading = {
    beyond: row.change && row.change.ratio > 1 ? "↑ higher" : "↓ lower",
    within: "not told apart",
    flagged: "not judged",
    broken: "not comparable",
    missing: "no figure",
  }[row.group];
  const cells = [
    make("td", { class: "number" }, ...cell(row.a, format)),
    make("td", { class: "number" }, ...cell(row.b, format)),
    make("td", { class: `number ${tone}` }, row.change ? percent(row.change.ratio) : "—", below(ends(row))),
    make(
      "td",
      { class: "number" },
      row.factor ? `${row.factor.toFixed(1)}×` : "",
      below(noisy && !row.known ? `${noisy}*` : noisy),
    ),
    make("td", { class: `reading ${tone}` }, row.note ? `${reading}: ${row.note}` : reading),
    make("td", {}, sparkline(row, tone, cross)),
  ];
  return make("tr", { "data-group": row.group }, make("th", { scope: "row" }, name(row, metric)), ...cells);
}

/** @param {Row} row @param {AcrossFile} file @returns {"worse" | "better" | "other" | "same"} */
function toneOf(row, file) {
  if (row.group !== "beyond" || !row.change) return "same";
  if (file.better === "neither") return "other";
  return row.change.ratio > 1 === (file.better === "higher") ? "better" : "worse";
}

/**
 * The case, as a link to its trend where its address can be spelled.
 * @param {Row} row @param {string} metric
 */
function name(row, metric) {
  const parts = row.case.split("/").flatMap((part, place) => (place ? ["/", make("wbr", {}), part] : [part]));
  if (!row.case.split("/").every((part) => PLAIN.test(part)) || row.case.length > 200) {
    return make("span", { class: "case" }, ...parts);
  }
  const href = new URL(`b/${row.case}/?metric=${encodeURIComponent(metric)}`, root()).href;
  return make("a", { class: "case", href }, ...parts);
}

/** @param {import("./deltas.js").Figure | null} figure @param {(value: number) => string} format */
function cell(figure, format) {
  if (!figure || figure.mean === null) return ["—"];
  const found = interval(figure.mean, figure.low, figure.high, format);
  return [format(figure.mean), below(found)];
}

/** What stands below a figure. @param {string} text */
const below = (text) => make("span", { class: "below" }, text);

/** @param {Row} row */
function ends(row) {
  if (!row.change || row.change.low === null || row.change.high === null) return "";
  return `${percent(row.change.low).replace(" %", "")}…${percent(row.change.high)}`;
}

/** @param {number} part */
function share(part) {
  return percent(1 + part).slice(1);
}

/**
 * The figures of the newest nights in the height of a line of text, as `charts/trend.py` draws them.
 * @param {Row} row @param {string} tone Class of the last dot: worse, better or same.
 * @param {boolean} cross
 */
function sparkline({ recent }, tone, cross) {
  const drawn = recent.filter((value) => value !== null).map(Number);
  if (drawn.length < 2) return "";
  const middle = drawn.reduce((sum, value) => sum + value, 0) / drawn.length;
  const least = LEAST * Math.abs(middle) || 1;
  const [low, high] = [Math.min(...drawn, middle - least), Math.max(...drawn, middle + least)];
  const x = (/** @type {number} */ place) =>
    (EDGE + ((WIDTH - 2 * EDGE) * place) / (recent.length - 1)).toFixed(1);
  const y = (/** @type {number} */ value) =>
    (HEIGHT - EDGE - ((HEIGHT - 2 * EDGE) * (value - low)) / (high - low)).toFixed(1);
  const path = recent.map((value, place) =>
    value === null ? "" : `${(recent[place - 1] ?? null) === null ? "M" : "L"}${x(place)} ${y(value)}`,
  );
  const last = recent.map((value) => value !== null).lastIndexOf(true);
  return shape(
    "svg",
    {
      class: "chart-drawing spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: `${WIDTH}`,
      height: `${HEIGHT}`, role: "img",
      "aria-label": `${cross ? "B over A" : "the figure"} in the last ${recent.length} nights`,
    },
    shape("path", { class: "line", d: path.join("") }),
    shape("circle", { class: `dot ${tone}`, cx: x(last), cy: y(Number(recent[last])), r: "3" }),
  );
}

/** @param {string} tag @param {Record<string, string>} attributes @param {...Node} children */
function shape(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
