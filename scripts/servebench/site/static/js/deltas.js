// @ts-check
/**
 * What two figures differ by, and what they differ by when nothing changed. Pure.
 *
 * The files are those of `site/across.py`: one metric of all cases over the nights of a year.
 */

import { median } from "./columns.js";

const COARSER = 10;
const LEAST_PAIRS = 8; // fewer neighbours say nothing about noise
const SPREAD = 1.96; // 95 % of a normal distribution
const MAD = 1.4826; // from a median absolute deviation to a standard deviation

/** Student's t, 97.5 %, of 1, 2, … degrees of freedom. */
const T = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145,
  2.131, 2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048,
  2.045, 2.042,
];

/**
 * One case in a file of one metric.
 *
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
 */

/**
 * A file of one metric.
 *
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
 *
 * @typedef {object} Figure
 * @property {number | null} mean
 * @property {number | null} low
 * @property {number | null} high
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
 *
 * @param {CaseEntry} entry
 * @param {readonly number[]} nights Places in the year.
 * @param {boolean} samples Whether the ends are those of the samples rather than of the mean.
 * @returns {Figure}
 */
export function figure(entry, nights, samples = false) {
  const here = nights.filter((night) => entry.mean[night] !== null && entry.mean[night] !== undefined);
  if (!here.length) {
    const letter = entry.status[nights[nights.length - 1] ?? -1] ?? ".";
    return { mean: null, low: null, high: null, judged: false, why: WHY[letter] ?? WHY["."] };
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
  const half = (T[freedom - 1] ?? SPREAD + 2.4 / freedom) * Math.sqrt(squares / freedom / logs.length);
  return { mean, low: mean * Math.exp(-half), high: mean * Math.exp(half), judged: true, why: "" };
}

/**
 * @param {CaseEntry} entry
 * @param {number} night
 * @param {boolean} samples
 * @returns {Figure}
 */
function single(entry, night, samples) {
  const step = 10 ** entry.exponent;
  const mean = Number(entry.mean[night]);
  const below = samples ? null : entry.low?.[night] ?? null;
  const above = samples ? null : entry.high?.[night] ?? null;
  const judged = entry.status[night] === "m";
  return {
    mean: mean * step,
    low: below === null ? null : (mean - COARSER * below) * step,
    high: above === null ? null : (mean + COARSER * above) * step,
    judged,
    why: judged ? "" : flags(entry, night).join(", ") || "disturbed",
  };
}

/**
 * @param {CaseEntry} entry
 * @param {number} night
 * @returns {string[]}
 */
export function flags(entry, night) {
  let place = night;
  for (const [count, value] of entry.flags) {
    if (place < count) return entry.flag_sets[value] ?? [];
    place -= count;
  }
  return [];
}

/**
 * b over a.
 *
 * The intervals are taken as independent and symmetric on the logarithmic scale, as in
 * `overview.ratio`.
 *
 * @param {Figure} a
 * @param {Figure} b
 * @returns {{ratio: number, low: number | null, high: number | null} | null} Null: one has no
 *   figure, or none that can be divided.
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
 * What two nights differ by in 19 of 20 cases though nothing changed: as a logarithm.
 *
 * From the differences of neighbouring nights (von Neumann, Ann. Math. Stat. 12 (1941) 367), by
 * their median, so that a change does not count as noise. Null where too few nights tell.
 *
 * @param {readonly (number | null)[]} values One per night; null: none, or none that is judged.
 * @param {ReadonlySet<number>} edges Nights before which the circumstances changed.
 */
export function noise(values, edges) {
  const steps = [];
  let before = null;
  for (const [night, value] of values.entries()) {
    if (edges.has(night)) before = null;
    if (value === null || value <= 0) continue;
    if (before !== null) steps.push(Math.abs(Math.log(value / before)));
    before = value;
  }
  return steps.length < LEAST_PAIRS ? null : SPREAD * MAD * median(steps);
}

/**
 * The judged figures of a case by night, in steps: of one scale, so good enough for ratios.
 *
 * @param {CaseEntry} entry
 * @returns {(number | null)[]}
 */
export function judged(entry) {
  return entry.mean.map((value, night) => (entry.status[night] === "m" ? value : null));
}

/**
 * How many times the noise floor a change is.
 *
 * The floor is what nights differ by, or where that is not known half the change's own interval;
 * never less than what is relevant.
 *
 * @param {{ratio: number, low: number | null, high: number | null}} change
 * @param {number | null} noisy As a logarithm.
 * @param {number} relevant As a share.
 * @returns {{floor: number, factor: number, known: boolean}} The floor as a logarithm.
 */
export function beyond(change, noisy, relevant) {
  const half = change.low !== null && change.high !== null ? Math.log(change.high / change.low) / 2 : 0;
  const floor = Math.max(noisy ?? half, Math.log1p(relevant), 1e-9);
  return { floor, factor: Math.abs(Math.log(change.ratio)) / floor, known: noisy !== null };
}
