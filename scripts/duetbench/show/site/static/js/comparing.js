// @ts-check
/** From two sides to rows: which files are fetched, which nights are meant, what each case says. */

import { noise } from "./columns.js";
import { DataError, entries, once } from "./data.js";
import { beyond, called, chance, delta, figure, judged } from "./deltas.js";
import { family, isCross, nightsOf } from "./sides.js";

/** @import { NightsFile } from "./columns.js" */
/** @import { Manifest } from "./data.js" */
/** @import { AcrossFile, CaseEntry, Figure } from "./deltas.js" */
/** @import { Side } from "./sides.js" */

/**
 * Nights of one year of one table, `xeon-2c-load`.
 * @typedef {{table: string, year: number, file: NightsFile, nights: number[]}} Place
 */

/**
 * What became of a row: `beyond` the noise, or `within` it: not told apart; `flagged`: a figure that
 * is not judged; `broken`: the circumstances changed in between; `missing`: no figure on one side.
 * @typedef {"beyond" | "within" | "flagged" | "broken" | "missing"} Group
 */

/**
 * @typedef {object} Row
 * @property {string} case Of side b; of a where b has none.
 * @property {Group} group
 * @property {Figure | null} a
 * @property {Figure | null} b
 * @property {{ratio: number, low: number | null, high: number | null} | null} change
 * @property {number} floor As a logarithm.
 * @property {boolean} known Whether the floor is that of measured noise.
 * @property {number} factor Over the floor.
 * @property {number} chance Of so large a change though nothing changed; of judged rows.
 * @property {string} note
 * @property {(number | null)[]} recent Of the newest nights, up to the later side.
 */

/**
 * @typedef {object} Compared
 * @property {Place} a
 * @property {Place} b
 * @property {AcrossFile} file What the metric is.
 * @property {Row[]} rows What differs first, the largest by its noise at the top.
 */

const RECENT = 60; // nights of a sparkline

/** The names of all tables, `xeon-2c-load`. @param {Manifest} list */
export const tables = (list) => Object.keys(list.nights ?? {});

/**
 * The names of the metrics that a table can be compared in; their folders, to be exact.
 * @param {Manifest} list @param {string} table
 */
export function metrics(list, table) {
  const start = `${table}/`;
  return Object.keys(list.across ?? {})
    .filter((folder) => folder.startsWith(start))
    .map((folder) => folder.slice(start.length));
}

/**
 * The newest night of a table and the one before it; empty where there is no other.
 * @param {Manifest} list @param {string} table @returns {Promise<[string, string]>}
 */
export async function newest(list, table) {
  const entry = entries(list, "nights", table).pop();
  const runs = entry ? (await once(entry)).run : [];
  return runs.length > 1 ? [runs[runs.length - 2], runs[runs.length - 1]] : ["", ""];
}

/**
 * Find the nights that a side means.
 * @param {Manifest} list @param {Side} side
 * @param {string} table Where to look; first, if it is a run.
 * @returns {Promise<Place>}
 * @throws {DataError} There are none.
 */
export async function place(list, side, table) {
  if (side.kind === "run") return placeOfRun(list, side.name, table);
  const years = entries(list, "nights", table).reverse();
  if (!years.length) throw new DataError("nothing has been measured yet");
  if (side.day) {
    for (const entry of years.filter((one) => one.year <= Number(side.day.slice(0, 4)))) {
      const file = await once(entry);
      const nights = nightsOf(file, side.name, side.day);
      if (nights.length) return { table, year: entry.year, file, nights };
    }
    throw new DataError(`there is no night on or before ${side.day}`);
  }
  const file = await once(years[0]);
  return { table, year: years[0].year, file, nights: [file.run.length - 1] };
}

/** @param {Manifest} list @param {string} run @param {string} first @returns {Promise<Place>} */
async function placeOfRun(list, run, first) {
  const named = Number(run.slice(0, 4));
  for (const table of [first, ...tables(list).filter((one) => one !== first)]) {
    // The year of its name first; benchmarks stand at the date of their commit.
    const years = entries(list, "nights", table).sort(
      (one, other) => Math.abs(one.year - named) - Math.abs(other.year - named),
    );
    for (const entry of years) {
      const file = await once(entry);
      const night = file.run.indexOf(run);
      if (night >= 0) return { table, year: entry.year, file, nights: [night] };
    }
  }
  throw new DataError(`no trend here has a run ${run}: only runs of one profile make a trend`);
}

/**
 * Compare.
 * @param {Manifest} list @param {Side} sideA @param {Side} sideB @param {string} table
 * @param {string} metric @returns {Promise<Compared>}
 * @throws {DataError} In a sentence.
 */
export async function compared(list, sideA, sideB, table, metric) {
  const a = await place(list, sideA, table);
  const b = await place(list, sideB, a.table);
  if (a.table !== b.table) {
    throw new DataError(
      `${sideA.name} is of ${a.table} and ${sideB.name} of ${b.table}: figures of different ` +
        "machines, or of different kinds, are never compared",
    );
  }
  const [fileA, fileB] = await Promise.all([across(list, a, metric), across(list, b, metric)]);
  const pairs = isCross(sideA, sideB)
    ? crossed(fileB, /** @type {"py" | "stack"} */ (sideA.kind), sideA.name, sideB.name)
    : paired(fileA, fileB, sideA.kind === "stack" ? sideA.name : "");
  const broken = a === b || isCross(sideA, sideB) ? new Map() : await breaks(list, a, b);
  const rows = judge(pairs.map((pair) => row(pair, a, b, fileB, broken)));
  return { a, b, file: fileB, rows: rows.sort(order) };
}

/** Call rows different. @param {Row[]} rows */
function judge(rows) {
  const open = rows.filter((each) => each.group === "within");
  for (const [place, different] of called(open.map((each) => each.chance)).entries()) {
    if (different && open[place].factor > 1) open[place].group = "beyond";
  }
  return rows;
}

/** What is said of rows that do not differ. @type {Readonly<Record<string, string>>} */
const TOLD = {
  within: "not told apart",
  flagged: "not judged",
  broken: "whose circumstances changed in between",
  missing: "without a figure on one side",
};

/** What came of it, in a sentence. @param {AcrossFile} file @param {readonly Row[]} rows */
export function outcome(file, rows) {
  const of = (/** @type {string} */ group) => rows.filter((each) => each.group === group);
  const moved = of("beyond");
  const higher = moved.filter((each) => Number(each.change?.ratio) > 1).length;
  const parts = [[higher, "higher"], [moved.length - higher, "lower"]];
  for (const [group, told] of Object.entries(TOLD)) parts.push([of(group).length, told]);
  const cause = of("broken")[0] ?? of("flagged")[0];
  return (
    `${file.title} of ${rows.length} case${rows.length === 1 ? "" : "s"}` +
    (file.better === "neither" ? ": " : `, ${file.better} is better: `) +
    (moved.length || of("within").length ? "" : "nothing could be compared: ") +
    parts.filter(([many]) => many).map((part) => part.join(" ")).join(", ") +
    (!moved.length && !of("within").length && cause ? ` (${cause.note}).` : ".")
  );
}

/** @param {Manifest} list @param {Place} at @param {string} metric @returns {Promise<AcrossFile>} */
async function across(list, at, metric) {
  const entry = entries(list, "across", `${at.table}/${metric}`).find((one) => one.year === at.year);
  if (!entry) throw new DataError(`${at.table} has no figures of ${metric} in ${at.year}`);
  const file = await once(entry);
  if (file.nights !== at.file.run.length) {
    throw new DataError(`${entry.address} is of another build than its nights: reload the page`);
  }
  return file;
}

/** @typedef {{a: CaseEntry | null, b: CaseEntry | null, cross: boolean}} Pair */

/**
 * Cases of one night that differ in interpreter or stack only.
 * @param {AcrossFile} file @param {"py" | "stack"} kind @param {string} nameA @param {string} nameB
 * @returns {Pair[]}
 */
function crossed(file, kind, nameA, nameB) {
  /** @type {Map<string, Pair>} */
  const found = new Map();
  for (const entry of file.cases) {
    const name = kind === "py" ? entry.python : entry.stack;
    if (name !== nameA && name !== nameB) continue;
    const key = family(entry, kind);
    if (key === entry.id) continue; // its id does not say what it ran with
    const pair = found.get(key) ?? { a: null, b: null, cross: true };
    pair[name === nameA ? "a" : "b"] = entry;
    found.set(key, pair);
  }
  return [...found.values()];
}

/**
 * The same cases of two nights.
 * @param {AcrossFile} fileA @param {AcrossFile} fileB
 * @param {string} stack Only cases of this one; empty: all.
 * @returns {Pair[]}
 */
function paired(fileA, fileB, stack) {
  const before = new Map(fileA.cases.map((entry) => [entry.id, entry]));
  const after = new Map(fileB.cases.map((entry) => [entry.id, entry]));
  return [...new Set([...before.keys(), ...after.keys()])]
    .map((id) => ({ a: before.get(id) ?? null, b: after.get(id) ?? null, cross: false }))
    .filter((pair) => !stack || (pair.b ?? pair.a)?.stack === stack);
}

/**
 * What changed between two places besides the stack, by case.
 * @param {Manifest} list @param {Place} a @param {Place} b @returns {Promise<Map<string, string>>}
 */
async function breaks(list, a, b) {
  const ends = [a, b].map((one) => [one.year, one.nights[0], one.nights[one.nights.length - 1]]);
  const [early, late] = ends.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  const years = entries(list, "nights", a.table).filter(
    (entry) => early[0] <= entry.year && entry.year <= late[0],
  );
  /** @type {Map<string, string>} */
  const found = new Map();
  for (const entry of years) {
    const file = await once(entry);
    for (const one of file.breaks) {
      if (entry.year === early[0] && one.night <= early[1]) continue;
      if (entry.year === late[0] && one.night > late[2]) continue;
      for (const id of one.cases) found.set(id, `${one.what}: ${one.before} → ${one.after}`);
    }
  }
  return found;
}

/**
 * @param {Pair} pair @param {Place} a @param {Place} b @param {AcrossFile} file
 * @param {Map<string, string>} broken @returns {Row}
 */
function row(pair, a, b, file, broken) {
  const samples = file.kind === "inprocess"; // quartiles are no interval of a mean
  const one = pair.a && figure(pair.a, a.nights, samples);
  const other = pair.b && figure(pair.b, b.nights, samples);
  const id = (pair.b ?? pair.a)?.id ?? "";
  const values = series(pair);
  const until = 1 + Math.max(b.nights[b.nights.length - 1], a.year === b.year ? Math.max(...a.nights) : 0);
  const recent = values.slice(Math.max(0, until - RECENT), until);
  const base = { case: id, a: one, b: other, floor: 0, known: false, factor: 0, chance: 1, recent };
  const change = one && other && delta(one, other);
  if (!one || !other || !change) {
    return { ...base, group: "missing", change: null, note: why(one, other) };
  }
  const cause = broken.get(id);
  if (cause !== undefined) return { ...base, group: "broken", change, note: cause };
  const edges = new Set([
    ...b.file.breaks.filter((each) => each.cases.includes(id)).map((each) => each.night),
    ...b.file.stacks.map((each) => each.night),
  ]);
  if (!one.judged || !other.judged) {
    return { ...base, group: "flagged", change, note: why(one, other) };
  }
  const noisy = noise(values, (night) => edges.has(night));
  const found = beyond(change, noisy, file.floor);
  const seen = chance(change, Math.min(one.freedom, other.freedom), noisy);
  return { ...base, ...found, chance: seen, group: "within", change, note: "" };
}

/**
 * What is judged of both sides over the year: the figures, or in one night their ratio.
 * @param {Pair} pair @returns {(number | null)[]}
 */
function series(pair) {
  const after = pair.b ? judged(pair.b) : [];
  if (!pair.cross || !pair.a) return after;
  const before = judged(pair.a);
  return after.map((value, night) => {
    const base = before[night];
    return value === null || !base ? null : value / base;
  });
}

/** @param {Figure | null} a @param {Figure | null} b */
function why(a, b) {
  /** @type {[string, Figure | null][]} */
  const both = [["A", a], ["B", b]];
  return both
    .filter(([, one]) => !one || one.why)
    .map(([name, one]) => `${name}: ${one ? one.why : "no such case"}`)
    .join("; ");
}

/** @type {Readonly<Record<Group, number>>} */
const GROUPS = { beyond: 0, within: 1, flagged: 2, broken: 3, missing: 4 };

/** @param {Row} one @param {Row} other */
function order(one, other) {
  return (
    GROUPS[one.group] - GROUPS[other.group] ||
    other.factor - one.factor ||
    (one.case < other.case ? -1 : 1)
  );
}
