// @ts-check
/** The compare page: sides and filters from the address, rows from the data files. */

import { compared, metrics, newest, outcome, place, tables } from "./comparing.js";
import { DataError, make, manifest } from "./data.js";
import * as query from "./query.js";
import { line, sideFacts } from "./rows.js";
import { command, isCross, mismatch, parse } from "./sides.js";

/** @import { Compared, Place, Row } from "./comparing.js" */
/** @import { Manifest } from "./data.js" */
/** @import { Side } from "./sides.js" */
/** @typedef {Record<string, string>} View */

const MOST = 300; // rows; more are counted, and found by the filter

const form = /** @type {HTMLFormElement} */ (element("compare-form"));
const says = element("compare-says");
const result = element("compare-result");

/** @param {string} id @returns {HTMLElement} */
function element(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found;
}

/** @param {string} name */
function field(name) {
  return /** @type {HTMLInputElement | HTMLSelectElement} */ (form.elements.namedItem(name));
}

/** @param {Manifest} list */
function parameters(list) {
  const known = tables(list);
  const every = known.flatMap((table) => metrics(list, table));
  const side = { default: "", allows: (/** @type {string} */ word) => parse(word) !== null };
  return {
    on: { default: form.dataset.on ?? "", allows: (/** @type {string} */ name) => known.includes(name) },
    a: side,
    b: side,
    metric: { default: "", allows: (/** @type {string} */ name) => every.includes(name) },
    q: query.text(100),
    show: query.one_of(["moved", "all"]),
  };
}

/**
 * Fill the form with what is shown: sides that the page was not built with are added.
 * @param {Manifest} list @param {View} view
 */
function fill(list, view) {
  const known = metrics(list, view.on);
  const metric = field("metric");
  metric.replaceChildren(
    ...known.map((name) => make("option", { value: name }, titles[name] ?? name)),
  );
  for (const name of ["on", "a", "b", "metric", "q", "show"]) {
    const input = field(name);
    const value = view[name];
    if (input instanceof HTMLSelectElement && ![...input.options].some((one) => one.value === value)) {
      input.append(make("option", { value }, value));
    }
    input.value = value;
  }
}

/** @type {Record<string, string>} Metric → its title, as the page was built. */
const titles = Object.fromEntries(
  [.../** @type {HTMLSelectElement} */ (field("metric")).options].map((one) => [
    one.value,
    one.textContent ?? one.value,
  ]),
);

let turn = 0;

/**
 * Show a view.
 * @param {Manifest} list
 * @param {View} asked As in the address; what it cannot mean is taken out.
 * @param {string[]} dropped What the address had that nobody knows.
 */
async function show(list, asked, dropped) {
  const mine = ++turn;
  let [a, b, problem] = [asked.a, asked.b, ""];
  try {
    const own = await usual(list, asked.on);
    [a, b] = [asked.a || own[0], asked.b || own[1]];
    const first = parse(a);
    if (first?.kind === "run") asked.on = (await place(list, first, asked.on)).table;
  } catch (error) {
    problem = why(error);
  }
  if (mine !== turn) return; // another view was asked for in the meantime
  const known = metrics(list, asked.on);
  if (asked.metric && !known.includes(asked.metric)) {
    dropped.push(`metric=${asked.metric}`);
    asked.metric = "";
  }
  const metric = asked.metric || (known[0] ?? "");
  fill(list, { ...asked, a, b, metric });
  const [sideA, sideB] = [parse(a), parse(b)];
  if (!sideA || !sideB || !metric) {
    return nothing(problem || "Nothing can be compared yet: it takes two nights, or two interpreters in one.", dropped);
  }
  problem ||= mismatch(sideA, sideB);
  if (problem) return nothing(problem, dropped);
  tell("Fetching the figures …", []);
  try {
    const found = await compared(list, sideA, sideB, asked.on, metric);
    if (mine === turn) draw(found, sideA, sideB, metric, asked, list, dropped);
  } catch (error) {
    if (mine === turn) nothing(why(error), dropped);
  }
}

/**
 * The sides that are compared where the address names none.
 * @param {Manifest} list @param {string} table
 */
async function usual(list, table) {
  if (table === form.dataset.on) return [form.dataset.a ?? "", form.dataset.b ?? ""];
  return newest(list, table);
}

/**
 * Why there is no comparison, in a sentence; what is no problem of the data is raised again.
 * @param {unknown} error
 */
function why(error) {
  if (!(error instanceof DataError)) throw error;
  return `This cannot be compared: ${error.message}.`;
}

/** Show no comparison, and say why. @param {string} sentence @param {readonly string[]} dropped */
function nothing(sentence, dropped) {
  tell(sentence, dropped);
  result.hidden = true;
}

/** @param {string} sentence @param {readonly string[]} dropped */
function tell(sentence, dropped) {
  says.textContent = [sentence, query.told(dropped)].filter(Boolean).join(" ");
}

/**
 * @param {Compared} found @param {Side} a @param {Side} b @param {string} metric
 * @param {View} asked As in the address.
 * @param {Manifest} list @param {string[]} dropped
 */
function draw(found, a, b, metric, asked, list, dropped) {
  const cross = isCross(a, b);
  const wanted = asked.q.toLowerCase();
  const matching = found.rows.filter((row) => row.case.toLowerCase().includes(wanted));
  const shown = asked.show === "all" ? matching : matching.filter((row) => row.group === "beyond");
  const drawn = shown.slice(0, MOST);
  tell(outcome(found.file, matching), dropped);
  element("compare-sides").replaceChildren(
    ...sideFacts("A", a, found.a),
    ...sideFacts("B", b, found.b),
  );
  element("compare-rows").replaceChildren(
    ...drawn.map((row) => line(row, found.file, metric, cross)),
  );
  element("compare-table").hidden = !drawn.length;
  element("compare-hidden").replaceChildren(
    ...hidden(found.rows.length - matching.length, matching, shown, drawn, asked, list),
  );
  const again = command(a, b, (run) => commitOf([found.a, found.b], run));
  element("compare-again").hidden = !again;
  element("compare-command").textContent = again;
  result.classList.remove("waiting");
  result.hidden = false;
}

/** @param {Place[]} places @param {string} run */
function commitOf(places, run) {
  for (const { file } of places) {
    const night = file.run.indexOf(run);
    if (night >= 0) return file.commit[night];
  }
  return null;
}

/**
 * What is not shown, and how to see it.
 * @param {number} filtered @param {Row[]} matching @param {Row[]} shown @param {Row[]} drawn
 * @param {View} asked @param {Manifest} list
 */
function hidden(filtered, matching, shown, drawn, asked, list) {
  /** @type {string[]} */
  const parts = [];
  const still = matching.length - shown.length;
  if (still) parts.push(`${still} where no difference is seen`);
  if (shown.length > drawn.length) parts.push(`${shown.length - drawn.length} beyond the first ${MOST}`);
  if (filtered) parts.push(`${filtered} that the filter leaves out`);
  /** @type {(Node | string)[]} */
  const found = [parts.length ? `Hidden: ${parts.join(", ")}. ` : "No row is hidden. "];
  const other = asked.show === "all" ? "moved" : "all";
  if (other === "moved" || shown.length < matching.length) {
    const search = query.write({ ...asked, show: other }, parameters(list));
    const label = other === "all" ? "Show all rows" : "Show only what differs";
    found.push(make("a", { href: search || location.pathname }, label));
  }
  return found;
}

async function start() {
  let list;
  try {
    list = await manifest();
  } catch (error) {
    if (!(error instanceof DataError)) throw error;
    tell(`Nothing can be compared: ${error.message}.`, []);
    return;
  }
  const known = parameters(list);
  const { view, dropped } = query.read(location.search, known);
  await show(list, view, dropped);
  query.show(view, known);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    const changed = /** @type {HTMLInputElement} */ (event.target).name;
    view[changed] = field(changed).value;
    if (changed === "metric" && view.metric === metrics(list, view.on)[0]) view.metric = "";
    if (changed === "on") Object.assign(view, { a: "", b: "", metric: "" });
    if (changed === "a") view.b = view.b || field("b").value;
    if (changed === "b") view.a = view.a || field("a").value;
    void show(list, view, []).then(() => query.show(view, known));
  });
}

void start();
