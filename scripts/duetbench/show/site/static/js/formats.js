// @ts-check
/** How figures read: the same as `units.py` and `charts/data.py`. SI units come in. */

/** @typedef {(value: number) => string} Formatter */

/** @type {readonly (readonly [number, string, number])[]} */
const STEPS = [[1, "s", 1], [1e-3, "ms", 1e3], [1e-6, "µs", 1e6]];
const SPREAD = 0.25;
const ROUNDING = 1e-9; // of means over logarithms, relative

/**
 * So many significant digits, without exponent, with thousands separators.
 * @param {number} value @param {number} [digits]
 */
export function significant(value, digits = 3) {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const exponent = Number(value.toExponential(digits - 1).split("e")[1]);
  const decimals = Math.max(0, digits - 1 - exponent);
  return grouped(value, decimals);
}

/** @type {Formatter} */
export function seconds(value) {
  for (const [least, unit, factor] of STEPS) {
    if (Math.abs(value) >= least) return `${significant(value * factor)} ${unit}`;
  }
  return `${significant(value * 1e9)} ns`;
}

/** @type {Formatter} */
export const rate = (value) => `${significant(value, value >= 1000 ? 4 : 3)}/s`;

/** @type {Formatter} */
export const size = (value) => `${significant(value / 1e6)} MB`;

/** @type {Formatter} */
export const share = (value) => `${significant(value * 100)} %`;

/** @type {Formatter} */
export const cores = (value) => value.toFixed(2);

/** @type {Formatter} */
export const count = (value) => grouped(value, 0);

/** @type {Readonly<Record<string, Formatter>>} */
const KNOWN = { seconds, rate, size, share, cores, count, significant: (value) => significant(value) };

/**
 * A formatter by its name; of a unit that nobody knows, four digits and the unit.
 * @param {string} name @returns {Formatter}
 */
export function named(name) {
  if (Object.hasOwn(KNOWN, name)) return KNOWN[name];
  return (value) => `${significant(value, 4)} ${name}`.trimEnd();
}

/**
 * An interval: `±1.2 %`, or `lo…hi` where it is wide; empty where there is none.
 * @param {number} mean @param {number | null} low @param {number | null} high
 * @param {Formatter} format
 */
export function interval(mean, low, high, format) {
  if (low === null || high === null) return "";
  const half = Math.max(high - mean, mean - low);
  if (half <= ROUNDING * Math.abs(mean)) return "";
  if (mean && half / Math.abs(mean) <= SPREAD) {
    return `±${significant((100 * half) / Math.abs(mean), 2)} %`;
  }
  return `${format(low)}…${format(high)}`;
}

/** A ratio as a relative change: `+3.1 %`, `−0.52 %`. @param {number} ratio */
export function change(ratio) {
  if (ratio === 1) return "0 %";
  return `${ratio > 1 ? "+" : "−"}${significant(100 * Math.abs(ratio - 1), 2)} %`;
}

/** A day (UTC): `2026-11-20`. @param {number} time Seconds since 1970. */
export function day(time) {
  return new Date(time * 1000).toISOString().slice(0, 10);
}

/** @param {number} value @param {number} decimals */
function grouped(value, decimals) {
  const [whole, part] = value.toFixed(decimals).split(".");
  const spaced = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part ? `${spaced}.${part}` : spaced;
}

/**
 * One unit for all labels of an axis.
 * @param {string} name Of the formatter.
 * @param {number[]} ticks SI, evenly spaced.
 * @returns {string[]}
 */
export function axis(name, ticks) {
  const largest = Math.max(...ticks.map(Math.abs));
  const [factor, unit] = axisUnit(name, largest);
  const gap = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) * factor : 1;
  // The step is 1, 2, 2.5 or 5 times a power of ten: its own digits are all that labels need.
  const exponent = Math.floor(Math.log10(gap) + 1e-9);
  const whole = Math.abs(gap / 10 ** exponent - Math.round(gap / 10 ** exponent)) < 1e-6;
  const decimals = Math.min(12, Math.max(0, (whole ? 0 : 1) - exponent));
  return ticks.map((tick) => `${grouped(tick * factor, decimals)}${unit}`);
}

/**
 * @param {string} name @param {number} largest
 * @returns {[number, string]} SI × factor = figure in this unit.
 */
function axisUnit(name, largest) {
  switch (name) {
    case "seconds": {
      const step = STEPS.find(([least]) => largest >= least);
      return step ? [step[2], ` ${step[1]}`] : [1e9, " ns"];
    }
    case "rate": return [1, "/s"];
    case "size": return [1e-6, " MB"];
    case "share": return [100, " %"];
    default: return [1, ""];
  }
}
