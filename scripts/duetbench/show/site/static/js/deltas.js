// @ts-check
/**
 * What two figures differ by, and what they differ by when nothing changed. Pure.
 *
 * The files are those of `site/across.py`: one metric of all cases over the nights of a year.
 */

import { SPREAD, expanded } from "./columns.js";

const COARSER = 10;
const LEAST = 1e-9; // of a floor, so that nothing is divided by zero
const EFFICIENT = 3; // a median absolute deviation of so many says as much as one squared deviation
const LEAST_LAUNCHES = 3; // of a side: fewer show too little of what launches differ by
const ERRORS = 0.05; // share of the rows called different that may be so by chance

/**
 * One case in a file of one metric.
 * @typedef {object} CaseEntry
 * @property {string} id
 * @property {string} python
 * @property {string} stack
 * @property {string} status One letter per night.
 * @property {string[][]} flag_sets
 * @property {[number, number][]} flags Run-length encoded.
 * @property {number} exponent
 * @property {(number | null)[]} mean
 * @property {(number | null)[] | null} low
 * @property {(number | null)[] | null} high
 * @property {[number, number][]} launches Run-length encoded.
 */

/**
 * A file of one metric.
 * @typedef {object} AcrossFile
 * @property {string} machine
 * @property {"load" | "inprocess"} kind
 * @property {string} metric
 * @property {string} title
 * @property {string} formatter Its name, or a unit.
 * @property {"lower" | "higher" | "neither"} better
 * @property {number} floor Relative changes up to here are none, however surely they are seen.
 * @property {number} year
 * @property {number} nights
 * @property {CaseEntry[]} cases
 */

/**
 * A figure of one side; without one, `why` says why.
 * @typedef {object} Figure
 * @property {number | null} mean
 * @property {number | null} low
 * @property {number | null} high
 * @property {number} freedom Degrees of freedom of its interval.
 * @property {boolean} judged Whether anything may be said of it.
 * @property {string} why
 */

/** @type {Readonly<Record<string, string>>} */
const WHY = {
  ".": "was not planned",
  f: "failed",
  n: "the run ended before it",
  m: "has no such figure",
  d: "has no such figure",
};

/**
 * The figure of one night, or the mean of several (geometric, with Student's interval over nights).
 * @param {CaseEntry} entry
 * @param {readonly number[]} nights Places in the year.
 * @param {boolean} samples Whether the ends are those of the samples rather than of the mean.
 * @returns {Figure}
 */
export function figure(entry, nights, samples = false) {
  const here = nights.filter((night) => entry.mean[night] !== null && entry.mean[night] !== undefined);
  if (!here.length) {
    const letter = entry.status[nights[nights.length - 1] ?? -1] ?? ".";
    return { mean: null, low: null, high: null, freedom: 0, judged: false, why: WHY[letter] ?? WHY["."] };
  }
  const good = here.filter((night) => entry.status[night] === "m");
  if (nights.length === 1 || !good.length) return single(entry, here[here.length - 1], samples);
  const values = good.map((night) => Number(entry.mean[night]) * 10 ** entry.exponent);
  if (values.some((value) => value <= 0)) return single(entry, good[good.length - 1], samples);
  const logs = values.map(Math.log);
  const middle = logs.reduce((sum, one) => sum + one, 0) / logs.length;
  const mean = Math.exp(middle);
  if (logs.length === 1) return single(entry, good[0], samples);
  const squares = logs.reduce((sum, one) => sum + (one - middle) ** 2, 0);
  const freedom = logs.length - 1;
  const half = quantile(freedom) * Math.sqrt(squares / freedom / logs.length);
  const launches = expanded(entry.launches);
  const why = few(good.reduce((sum, night) => sum + (launches[night] ?? 0), 0));
  return { mean, low: mean * Math.exp(-half), high: mean * Math.exp(half), freedom, judged: !why, why };
}

/** @param {CaseEntry} entry @param {number} night @param {boolean} samples @returns {Figure} */
function single(entry, night, samples) {
  const step = 10 ** entry.exponent;
  const mean = Number(entry.mean[night]);
  const below = samples ? null : entry.low?.[night] ?? null;
  const above = samples ? null : entry.high?.[night] ?? null;
  const launches = expanded(entry.launches)[night] ?? 0;
  const why =
    entry.status[night] === "m"
      ? (!samples && few(launches)) || (below === null || above === null ? "no interval" : "")
      : flags(entry, night).join(", ") || "disturbed";
  return {
    mean: mean * step,
    low: below === null ? null : (mean - COARSER * below) * step,
    high: above === null ? null : (mean + COARSER * above) * step,
    freedom: Math.max(0, launches - 1),
    judged: !why,
    why,
  };
}

/** Why nothing is said of so many launches; empty: they are enough. @param {number} launches */
function few(launches) {
  if (launches >= LEAST_LAUNCHES) return "";
  return launches === 1 ? "one launch" : `${launches} launches`;
}

/** Student's t beyond which both tails are 5 %. @param {number} freedom */
function quantile(freedom) {
  let [low, high] = [SPREAD, 12.8];
  while (high - low > 1e-9) {
    const middle = (low + high) / 2;
    if (tails(middle, freedom) > ERRORS) low = middle;
    else high = middle;
  }
  return low;
}

/** @param {CaseEntry} entry @param {number} night @returns {string[]} */
export function flags(entry, night) {
  return entry.flag_sets[expanded(entry.flags)[night]] ?? [];
}

/**
 * b over a, with an interval as in `overview.ratio`.
 * @param {Figure} a @param {Figure} b
 * @returns {{ratio: number, low: number | null, high: number | null} | null} Null: one has no
 * figure, or none that can be divided.
 */
export function delta(a, b) {
  if (a.mean === null || b.mean === null || a.mean <= 0 || b.mean <= 0) return null;
  const ratio = b.mean / a.mean;
  const halves = [a, b].map((one) =>
    one.low !== null && one.high !== null && one.low > 0 ? Math.log(one.high / one.low) / 2 : null,
  );
  if (halves[0] === null || halves[1] === null) return { ratio, low: null, high: null };
  const factor = Math.exp(Math.hypot(halves[0], halves[1]));
  return { ratio, low: ratio / factor, high: ratio * factor };
}

/**
 * The judged figures of a case by night, in steps: of one scale, so good enough for ratios.
 * @param {CaseEntry} entry @returns {(number | null)[]}
 */
export function judged(entry) {
  return entry.mean.map((value, night) => (entry.status[night] === "m" ? value : null));
}

/**
 * How many times the noise a change is: what nights differ by, or where that is not known half the
 * change's own interval; never less than what is relevant.
 * @param {{ratio: number, low: number | null, high: number | null}} change
 * @param {{half: number} | null} noisy As `columns.noise` gives it.
 * @param {number} relevant As a share.
 * @returns {{floor: number, factor: number, known: boolean}} The floor as a logarithm.
 */
export function beyond(change, noisy, relevant) {
  const floor = Math.max(noisy?.half ?? ownHalf(change), Math.log1p(relevant), LEAST);
  return { floor, factor: Math.abs(Math.log(change.ratio)) / floor, known: noisy !== null };
}

/** @param {{low: number | null, high: number | null}} change */
function ownHalf(change) {
  return change.low !== null && change.high !== null ? Math.log(change.high / change.low) / 2 : 0;
}

/**
 * How often so large a change would be seen though nothing changed: 1 where its interval holds "no
 * change", otherwise by what nights differ by, or where that is not known by the interval itself.
 * @param {{ratio: number, low: number | null, high: number | null}} change
 * @param {number} freedom Of the side that has less.
 * @param {{half: number, pairs: number} | null} noisy As `columns.noise` gives it.
 */
export function chance(change, freedom, noisy) {
  const size = Math.abs(Math.log(change.ratio));
  const half = ownHalf(change);
  if (size <= half || freedom < 1) return 1;
  if (noisy) return tails((SPREAD * size) / Math.max(noisy.half, LEAST), Math.floor(noisy.pairs / EFFICIENT));
  return tails((quantile(freedom) * size) / Math.max(half, LEAST), freedom);
}

/**
 * Which of many changes are called: at most one in twenty of these is one by chance (Benjamini and
 * Hochberg, J. R. Statist. Soc. B 57 (1995) 289).
 * @param {readonly number[]} chances
 */
export function called(chances) {
  const sorted = [...chances].sort((one, other) => one - other);
  const held = sorted.filter((one, place) => one <= (ERRORS * (place + 1)) / sorted.length);
  return chances.map((one) => one <= Math.max(-1, ...held));
}

/**
 * Both tails of Student's t (Abramowitz and Stegun, 26.7.3 and 26.7.4).
 * @param {number} t
 * @param {number} freedom Whole, at least 1.
 */
function tails(t, freedom) {
  const angle = Math.atan(t / Math.sqrt(freedom));
  const [sine, cosine] = [Math.sin(angle), Math.cos(angle)];
  const odd = freedom % 2;
  let [term, sum] = [odd ? cosine : 1, 0];
  for (let power = odd; power <= freedom - 2; power += 2) {
    sum += term;
    term *= (cosine ** 2 * (power + 1)) / (power + 2);
  }
  return Math.max(0, 1 - (odd ? (2 / Math.PI) * (angle + sine * sum) : sine * sum));
}
