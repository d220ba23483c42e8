// @ts-check
/** Formats of ratios, as in duetbench's `core/units.py` and `report/formats.py`. */

/** @typedef {(value: number) => string} Formatter */

const SPREAD = 0.25;
const ROUNDING = 1e-9; // of means over logarithms, relative

/**
 * A number with some significant digits, without exponent, with thousands separators.
 * @param {number} value @param {number} [digits]
 */
export function significant(value, digits = 3) {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const exponent = Number(value.toExponential(digits - 1).split("e")[1]);
  return grouped(value, Math.max(0, digits - 1 - exponent));
}

/** @param {number} value @param {number} decimals */
function grouped(value, decimals) {
  return value.toLocaleString("en", {
    minimumFractionDigits: decimals, maximumFractionDigits: decimals,
  });
}

/** A ratio to the anchor. @type {Formatter} */
export const times = (value) => `${significant(value, 4)} ×`;

/** A ratio as a signed change; of equal figures `0 %`. @type {Formatter} */
export const change = (value) => (Math.abs(value - 1) < ROUNDING ? "0 %" : percent(value));

/** A ratio as a signed change, `+1.23 %`, or from 2 on as a factor. @param {number} ratio */
export function percent(ratio) {
  if (ratio >= 2) return `${significant(ratio)}×`;
  const size = Math.abs(100 * (ratio - 1));
  return `${ratio < 1 ? "−" : "+"}${significant(size)} %`;
}

/**
 * The interval of a ratio to the anchor: `±1.2 %`, or `lo…hi` if it is wide; empty if there is none.
 * @param {number} mean @param {number | null | undefined} low @param {number | null | undefined} high
 */
export function interval(mean, low, high) {
  if (low == null || high == null) return "";
  if (high - low <= ROUNDING * Math.max(Math.abs(low), Math.abs(high))) return ""; // a single duet
  const half = Math.max(high - mean, mean - low);
  if (mean && half / Math.abs(mean) <= SPREAD) {
    return `±${significant((100 * half) / Math.abs(mean), 2)} %`;
  }
  return `${significant(low, 4)}…${times(high)}`;
}

/** The date of a moment, UTC. @param {number} seconds Since 1970. */
export function day(seconds) {
  return new Date(seconds * 1000).toISOString().slice(0, 10);
}

/** @typedef {{mean?: number | null, low?: number | null, high?: number | null}} Estimate */

/**
 * One figure over another, as a change with its interval. Both are ratios to one anchor and
 * independent otherwise, so their errors add in quadrature on the logarithmic scale.
 * @param {Estimate} base @param {Estimate} head
 */
export function quotient(base, head) {
  const half = (/** @type {Estimate} */ figure) => Math.log(Number(figure.high) / Number(figure.low)) / 2;
  const ratio = Number(head.mean) / Number(base.mean);
  const factor = Math.exp(Math.hypot(half(base), half(head)));
  const [low, high] = [percent(ratio / factor), percent(ratio * factor)];
  return { change: percent(ratio), within: `${low.replace(/ %$/, "")}…${high}` };
}
