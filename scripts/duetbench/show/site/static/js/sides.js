// @ts-check
/**
 * What is compared: two runs, two states of a stack, or two stacks or interpreters of one night.
 *
 * A side is one word in the address: a run's id, `py:3.14t`, `stack:current`, or
 * `stack:current@2026-07-01`, the state that the stack had on that day. Pure.
 */

/** @import { NightsFile } from "./columns.js" */

/**
 * @typedef {{kind: "run", name: string, day: ""}
 * | {kind: "py", name: string, day: ""}
 * | {kind: "stack", name: string, day: string}} Side
 */

const RUN = /^\d{8}T\d{6}Z-[A-Za-z0-9_-]{1,60}$/;
const NAMED = /^(py|stack):([A-Za-z0-9][A-Za-z0-9._+-]{0,60})(?:@(\d{4}-\d\d-\d\d))?$/;

/** @param {string} word @returns {Side | null} Null: it is none. */
export function parse(word) {
  if (RUN.test(word)) return { kind: "run", name: word, day: "" };
  const [, kind, name, day] = NAMED.exec(word) ?? [];
  if (kind === "py" && !day) return { kind: "py", name, day: "" };
  if (kind === "stack" && (!day || !Number.isNaN(Date.parse(day)))) {
    return { kind: "stack", name, day: day ?? "" };
  }
  return null;
}

/**
 * Whether both sides are found within one night: cases that differ in nothing else are compared.
 * @param {Side} a @param {Side} b
 */
export function isCross(a, b) {
  return a.kind !== "run" && a.kind === b.kind && !a.day && !b.day;
}

/** Why two sides cannot be compared; empty if they can. @param {Side} a @param {Side} b */
export function mismatch(a, b) {
  if (a.kind !== b.kind) return "Two runs, two stacks or two interpreters can be compared, no mixture.";
  if (a.name === b.name && a.day === b.day) return "Both sides are the same: choose another one.";
  if (a.kind === "stack" && Boolean(a.day) !== Boolean(b.day)) {
    return "A stack of one day can be compared with that of another day only.";
  }
  if (a.kind === "stack" && a.day && a.name !== b.name) {
    return "Two days of one stack can be compared, or two stacks of one night.";
  }
  return "";
}

/**
 * The nights of a year on which a stack was as it was on a day.
 * @param {NightsFile} nights @param {string} stack
 * @param {string} day `2026-07-01`; the whole day counts.
 * @returns {number[]} Places; empty if the year's first night was later.
 */
export function nightsOf(nights, stack, day) {
  const until = Date.parse(`${day}T23:59:59Z`) / 1000;
  const last = nights.time.filter((time) => time <= until).length - 1; // they are in order
  if (last < 0) return [];
  const bumps = nights.stacks.filter((one) => one.stack === stack).map((one) => one.night);
  const from = Math.max(0, ...bumps.filter((night) => night <= last));
  const next = bumps.find((night) => night > last) ?? nights.time.length;
  return Array.from({ length: next - from }, (_, place) => from + place);
}

/**
 * What cases have in common that differ in nothing but interpreter or stack: the id with that
 * segment left open. Cases whose id does not name it have no partner.
 * @param {{id: string, python: string, stack: string}} entry @param {"py" | "stack"} kind
 */
export function family(entry, kind) {
  const own = kind === "py" ? `py${entry.python}` : entry.stack;
  return entry.id
    .split("/")
    .map((segment) => (segment === own ? "*" : segment))
    .join("/");
}

/**
 * What measures it anew, both sides together: a verdict, which this page cannot give.
 * @param {Side} a @param {Side} b
 * @param {(run: string) => string | null} commit Of a run.
 */
export function command(a, b, commit) {
  if (a.kind === "py") return `duetbench compare --python ${a.name} ${b.name}`;
  if (a.kind === "stack" && a.day) {
    return `duetbench compare --stack-as-of ${a.day} --stack-as-of ${b.day}`;
  }
  if (a.kind === "run") {
    const [base, head] = [commit(a.name), commit(b.name)];
    if (base && head && base !== head) return `duetbench compare ${base} ${head}`;
    const [from, to] = [a.name, b.name].map(
      (run) => `${run.slice(0, 4)}-${run.slice(4, 6)}-${run.slice(6, 8)}`,
    );
    if (from !== to) return `duetbench compare --stack-as-of ${from} --stack-as-of ${to}`;
  }
  return "";
}
