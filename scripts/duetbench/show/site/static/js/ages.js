// @ts-check
/**
 * How long ago things were. Pages have dates only, so that the same results give the same bytes;
 * what depends on today is said here. Without JavaScript the dates stand alone.
 */

/** Seconds of each unit, the largest first. @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [
  ["year", 31_557_600],
  ["month", 2_629_800],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

const WORDS = new Intl.RelativeTimeFormat("en", { numeric: "always" });

/** An age in words: `3 days ago`. @param {number} seconds @returns {string} */
export function inWords(seconds) {
  for (const [unit, size] of UNITS) {
    if (seconds >= size) return WORDS.format(-Math.floor(seconds / size), unit);
  }
  return "just now";
}

/**
 * Seconds since a moment; NaN if it is none.
 * @param {string | null} moment ISO 8601.
 * @param {number} now ms since 1970.
 * @returns {number}
 */
export function since(moment, now) {
  return (now - Date.parse(moment ?? "")) / 1000;
}

/** Say all ages of a document. @param {ParentNode} where @param {number} now ms since 1970. */
export function tell(where, now) {
  for (const element of where.querySelectorAll("time[data-age]")) {
    const age = since(element.getAttribute("datetime"), now);
    if (age >= 0) element.setAttribute("title", inWords(age));
  }
  for (const element of where.querySelectorAll(".age[data-since]")) {
    const age = since(element.getAttribute("data-since"), now);
    if (!(age >= 0)) continue;
    const stale = age > Number(element.getAttribute("data-stale"));
    element.classList.toggle("stale", stale);
    element.textContent = stale
      ? `${inWords(age)}: stale, newer runs are missing`
      : `${inWords(age)}.`;
  }
}

if (typeof document !== "undefined") tell(document, Date.now());
