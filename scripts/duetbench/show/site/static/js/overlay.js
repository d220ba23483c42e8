// @ts-check
/**
 * What uPlot does not know, drawn over a trend and behind it: the noise ribbon, figures that are not
 * judged, nights without a figure, change points, breaks and stack bumps.
 */

import { stretches } from "./columns.js";
import { change as percent } from "./formats.js";

/** @typedef {import("uplot")} UPlot */
/** @import { Point } from "./columns.js" */
/** @import { Model } from "./plot.js" */

export const FONT = '12px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif';

const LINE = 15; // px, of a label

const MARKS = { slower: "▼", faster: "▲" };
const TONES = { slower: "--worse", faster: "--better" };

/** @typedef {(name: string) => string} Palette */

/**
 * Noise ribbons and break lines, behind the figures.
 * @param {UPlot} u @param {Model} model @param {Palette} colour
 */
export function backdrop(u, model, colour) {
  clipped(u, (ctx) => {
    if (model.noise !== null) {
      const measured = model.history.points.filter(
        (one) => one.status === "measured" && one.mean !== null,
      );
      const { breaks, cut } = model.history;
      const edges = [...(cut ? breaks : []), ...model.changes].map((one) => one.time);
      ctx.fillStyle = faded(colour("--s-grey"), 0.16);
      for (const { start, end, middle } of stretches(measured, edges)) {
        const [left, right] = [start, end].map((time) => u.valToPos(time, "x", true));
        const top = u.valToPos(middle * (1 + model.noise), "y", true);
        const bottom = u.valToPos(middle * (1 - model.noise), "y", true);
        ctx.fillRect(left, top, Math.max(2, right - left), bottom - top);
      }
    }
    ctx.strokeStyle = colour("--ink");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3, 3].map((px) => px * devicePixelRatio));
    for (const one of model.history.breaks) upright(u, ctx, one.time);
  });
}

/**
 * What stands on the figures.
 * @param {UPlot} u @param {Model} model
 * @param {Point[]} lone Figures without a neighbour: their intervals are in no band.
 * @param {Palette} colour
 */
export function overlay(u, model, lone, colour) {
  const px = devicePixelRatio;
  const bottom = u.bbox.top + u.bbox.height;
  clipped(u, (ctx) => {
    ctx.lineWidth = 1.5 * px;
    ctx.strokeStyle = colour("--s-blue");
    for (const { time, low, high } of lone) {
      if (low === null || high === null) continue;
      ctx.beginPath();
      for (const end of [low, high]) {
        const x = u.valToPos(time, "x", true);
        ctx.lineTo(x, u.valToPos(end, "y", true));
      }
      ctx.stroke();
    }
    ctx.strokeStyle = colour("--open");
    ctx.fillStyle = colour("--paper");
    for (const point of model.history.points) {
      if (point.status === "measured" && point.mean !== null) continue;
      const x = u.valToPos(point.time, "x", true);
      ctx.beginPath();
      if (point.mean === null) {
        const y = bottom - 8 * px;
        for (const slope of [1, -1]) {
          ctx.moveTo(x - 3 * px, y - 3 * slope * px);
          ctx.lineTo(x + 3 * px, y + 3 * slope * px);
        }
      } else {
        ctx.arc(x, u.valToPos(point.mean, "y", true), 3 * px, 0, 2 * Math.PI);
        ctx.fill();
      }
      ctx.stroke();
    }
    ctx.fillStyle = colour("--faint");
    for (const one of model.history.bumps) {
      const x = u.valToPos(one.time, "x", true);
      ctx.beginPath();
      ctx.moveTo(x, bottom - 6 * px);
      ctx.lineTo(x + 3 * px, bottom);
      ctx.lineTo(x - 3 * px, bottom);
      ctx.fill();
    }
    ctx.lineWidth = 2 * px;
    ctx.font = FONT.replace("12px", `600 ${12 * px}px`);
    ctx.textBaseline = "top";
    ctx.textAlign = "left"; // uPlot leaves its own
    const right = u.bbox.left + u.bbox.width;
    const labels = model.changes.map((one) => {
      const verdict = /** @type {keyof MARKS} */ (one.verdict);
      const tone = colour(TONES[verdict] ?? "--open");
      ctx.strokeStyle = tone;
      const x = upright(u, ctx, one.time);
      const text = `${MARKS[verdict] ?? "?"} ${percent(one.ratio)}`;
      return { x, text, tone, wide: ctx.measureText(text).width };
    });
    const seen = labels.filter(({ x }) => u.bbox.left <= x && x <= right);
    // After all lines, on paper: none of them strikes a label through.
    for (const { left, row, text, tone, wide } of placed(seen, right, 4 * px)) {
      const top = u.bbox.top + LINE * row * px;
      ctx.fillStyle = colour("--paper");
      ctx.fillRect(left - px, top, wide + 2 * px, LINE * px);
      ctx.fillStyle = tone;
      ctx.fillText(text, left, top + px);
    }
  });
}

/**
 * Labels from left to right, each in the first row that has room for it.
 * @template {{x: number, wide: number}} T
 * @param {T[]} labels
 * @param {number} right End of the plane.
 * @param {number} gap Between a label and its line, and the one before it.
 * @returns {(T & {left: number, row: number})[]}
 */
export function placed(labels, right, gap) {
  /** @type {number[]} */
  const ends = []; // of the rows
  return [...labels].sort((one, other) => one.x - other.x).map((label) => {
    const left = Math.min(label.x + gap, right - label.wide);
    let row = ends.findIndex((end) => end + gap <= left);
    if (row < 0) row = ends.length;
    ends[row] = left + label.wide;
    return { ...label, left, row };
  });
}

/**
 * @param {UPlot} u @param {CanvasRenderingContext2D} ctx @param {number} time
 * @returns {number} Canvas px.
 */
function upright(u, ctx, time) {
  const x = u.valToPos(time, "x", true);
  ctx.beginPath();
  ctx.moveTo(x, u.bbox.top);
  ctx.lineTo(x, u.bbox.top + u.bbox.height);
  ctx.stroke();
  return x;
}

/**
 * Draw within the plane only, and leave the canvas as it was.
 * @param {UPlot} u @param {(ctx: CanvasRenderingContext2D) => void} some
 */
function clipped(u, some) {
  const { left, top, width, height } = u.bbox;
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left, top, width, height);
  u.ctx.clip();
  some(u.ctx);
  u.ctx.restore();
}

/**
 * The stylesheet's colours as a canvas knows them: light, dark or forced, as the page is.
 * @param {HTMLElement} element @returns {Palette}
 */
export function palette(element) {
  const probe = document.createElement("span");
  probe.hidden = true;
  element.append(probe);
  /** @type {Map<string, string>} */
  const known = new Map();
  return (name) => {
    let found = known.get(name);
    if (found === undefined) {
      probe.style.color = `var(${name})`;
      found = getComputedStyle(probe).color;
      known.set(name, found);
    }
    return found;
  };
}

/** @param {string} colour `rgb(1, 2, 3)`. @param {number} opacity */
export function faded(colour, opacity) {
  const numbers = colour.match(/[\d.]+/g)?.slice(0, 3) ?? ["128", "128", "128"];
  return `rgba(${numbers.join(", ")}, ${opacity})`;
}
