// @ts-check
/**
 * The site's data files as values: checked, decoded, joined over the years. Pure: no page, no net.
 *
 * The format is that of `site/shards.py`: a figure is an integer × 10^exponent; `low` and `high` are
 * distances from it in steps ten times as coarse; one letter per night says what became of it.
 */

/** The format that these modules read. */
export const FORMAT = 2;

const COARSER = 10;

/** @typedef {"measured" | "disturbed" | "failed" | "not measured"} Status */

/** @type {Readonly<Record<string, Status>>} */
const STATES = { m: "measured", d: "disturbed", f: "failed", n: "not measured" };

/**
 * One night of one series. Without a figure, `reason` says why.
 * @typedef {object} Point
 * @property {number} time Start, seconds since 1970.
 * @property {string} run
 * @property {string | null} commit
 * @property {Status} status
 * @property {number | null} mean SI unit.
 * @property {number | null} low
 * @property {number | null} high
 * @property {number} launches
 * @property {string[]} flags
 * @property {string} reason
 */

/**
 * @typedef {object} NightsFile
 * @property {number} year
 * @property {string} [kind]
 * @property {string[]} run
 * @property {number[]} time
 * @property {(string | null)[]} commit
 * @property {number[]} gaps Places after which nights are missing.
 * @property {{night: number, what: string, before: string, after: string, cases: string[]}[]} breaks
 * @property {{night: number, stack: string, packages: [string, string | null, string | null][]}[]} stacks
 */

/**
 * @typedef {object} SeriesEntry
 * @property {number} case
 * @property {string} metric
 * @property {number} exponent
 * @property {(number | null)[]} mean
 * @property {(number | null)[] | null} low
 * @property {(number | null)[] | null} high
 * @property {[number, number][]} launches Run-length encoded: how often, and which value.
 */

/**
 * @typedef {object} ShardFile
 * @property {number} year
 * @property {number} nights
 * @property {string} interval What the interval is, in words.
 * @property {{id: string, status: string, flag_sets: string[][], flags: [number, number][], reasons: Record<string, string>}[]} cases
 * @property {SeriesEntry[]} series
 */

/**
 * Something happened before the night of this time; `alone`: to the one package that moved.
 * @typedef {{time: number, label: string, alone?: string}} Happening
 */

/**
 * A series with what happened to it.
 * @typedef {object} History
 * @property {Point[]} points Oldest first.
 * @property {boolean} cut Whether figures on either side of a break cannot be compared.
 * @property {Happening[]} breaks Machine, interpreter or declaration changed.
 * @property {Happening[]} bumps The stack changed.
 * @property {number[]} gaps Times of the last night before nights are missing.
 */

/** What is wrong with a data file, in a sentence for people. */
export class DataError extends Error {}

/**
 * Decode one year of a series.
 * @param {NightsFile} nights @param {ShardFile} shard @param {string} caseId @param {string} metric
 * @returns {Point[]} Nothing if the series has no figure in that year.
 */
export function points(nights, shard, caseId, metric) {
  const row = shard.cases.findIndex((one) => one.id === caseId);
  const entry = shard.series.find((one) => one.case === row && one.metric === metric);
  if (row < 0 || !entry) return [];
  const what = shard.cases[row];
  const count = nights.run.length;
  const launches = expanded(entry.launches);
  const flags = expanded(what.flags);
  for (const [name, column] of /** @type {[string, {length: number} | null][]} */ ([
    ["time", nights.time], ["commit", nights.commit], ["status", what.status],
    ["mean", entry.mean], ["low", entry.low], ["high", entry.high],
    ["launches", launches], ["flags", flags],
  ])) {
    if (column && column.length !== count) {
      throw new DataError(`expected ${count} nights, found ${column.length} in “${name}”`);
    }
  }
  const step = 10 ** entry.exponent;
  /** @type {Point[]} */
  const found = [];
  for (let night = 0; night < count; night++) {
    const status = STATES[what.status[night]];
    if (!status) continue; // not planned that night
    const mean = entry.mean[night];
    const below = entry.low?.[night] ?? null;
    const above = entry.high?.[night] ?? null;
    const here = mean !== null;
    found.push({
      time: nights.time[night],
      run: nights.run[night],
      commit: nights.commit[night],
      status,
      mean: here ? mean * step : null,
      low: here && below !== null ? (mean - COARSER * below) * step : null,
      high: here && above !== null ? (mean + COARSER * above) * step : null,
      launches: launches[night],
      flags: what.flag_sets[flags[night]] ?? [],
      reason: what.reasons[String(night)] ?? (here ? "" : "this run has no such figure"),
    });
  }
  return found;
}

/**
 * What happened to a case in one year.
 * @param {NightsFile} nights @param {string} caseId
 * @param {string} stack The stack whose bumps count.
 * @returns {{cut: boolean, breaks: Happening[], bumps: Happening[], gaps: number[]}}
 */
export function happenings(nights, caseId, stack) {
  return {
    // What a machine does to a ratio, it does to both sides.
    cut: nights.kind !== "anchored",
    breaks: nights.breaks
      .filter((one) => one.cases.includes(caseId))
      .map((one) => ({
        time: nights.time[one.night],
        label: `${one.what}: ${one.before} → ${one.after}`,
      })),
    bumps: nights.stacks
      .filter((one) => one.stack === stack)
      .map((one) => ({
        time: nights.time[one.night],
        label: `${one.stack}: ${differences(one.packages)}`,
        alone: one.packages.length === 1 ? one.packages[0][0] : "",
      })),
    gaps: nights.gaps.map((place) => nights.time[place]),
  };
}

/** The packages that differ, in words. @param {[string, string | null, string | null][]} packages */
function differences(packages) {
  if (!packages.length) return "hashes only";
  return packages
    .map(([name, before, after]) => `${name} ${before ?? "new"} → ${after ?? "gone"}`)
    .join(", ");
}

const LEAST_PAIRS = 8; // fewer neighbours say nothing about noise
export const SPREAD = 1.96; // 95 % of a normal distribution
const MAD = 1.4826; // from a median absolute deviation to a standard deviation

/**
 * What two nights differ by in 19 of 20 cases though nothing changed: `half`, as a logarithm, and
 * how many pairs of neighbouring nights say so.
 * From the differences of neighbouring nights (von Neumann, Ann. Math. Stat. 12 (1941) 367), by
 * their median, so that a change of the series does not count as noise.
 * @param {readonly (number | null)[]} values One per night; null: none, or none that is judged.
 * @param {(night: number) => boolean} changed Whether the circumstances changed before a night.
 * @returns {{half: number, pairs: number} | null} Null where too few nights tell.
 */
export function noise(values, changed) {
  const steps = [];
  let before = null;
  for (const [night, value] of values.entries()) {
    if (changed(night)) before = null;
    if (value === null || value <= 0) continue;
    if (before !== null) steps.push(Math.abs(Math.log(value / before)));
    before = value;
  }
  if (steps.length < LEAST_PAIRS) return null;
  return { half: SPREAD * MAD * median(steps), pairs: steps.length };
}

/**
 * Half the width of the band in which figures of identical circumstances lie, relative to them.
 * @param {History} history
 * @returns {number | null} Null where too few nights tell.
 */
export function band(history) {
  const edges = [...history.breaks, ...history.bumps].map((one) => one.time);
  const values = history.points.map((one) => (one.status === "measured" ? one.mean : null));
  const times = history.points.map((one) => one.time);
  const found = noise(values, (night) =>
    edges.some((edge) => (times[night - 1] ?? -Infinity) < edge && edge <= times[night]),
  );
  return found && Math.expm1(found.half / Math.SQRT2);
}

/**
 * Stretches within which a series may be judged by its median: between breaks and change points.
 * @param {Point[]} measured In the order of time.
 * @param {number[]} edges Times; an edge belongs to what follows it.
 * @returns {{start: number, end: number, middle: number}[]}
 */
export function stretches(measured, edges) {
  const cuts = [...new Set(edges)].sort((one, other) => one - other);
  /** @type {Point[][]} */
  const pieces = [];
  let next = 0;
  for (const point of measured) {
    let cut = !pieces.length;
    while (next < cuts.length && cuts[next] <= point.time) {
      cut = true;
      next++;
    }
    if (cut) pieces.push([]);
    pieces[pieces.length - 1].push(point);
  }
  return pieces.map((piece) => ({
    start: piece[0].time,
    end: piece[piece.length - 1].time,
    middle: median(piece.map((point) => Number(point.mean))),
  }));
}

/** @param {number[]} values At least one. @returns {number} */
export function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** @param {[number, number][]} runs How often, and which value. @returns {number[]} */
export function expanded(runs) {
  return runs.flatMap(([count, value]) => Array(count).fill(value));
}
