// @ts-check
/**
 * The view in the query: what is looked at is the path's, how is the query's. Defaults are left
 * out, so that the same view always has the same address; what nobody knows is reported and dropped.
 */

/**
 * What a parameter may be.
 * @typedef {object} Parameter
 * @property {string} default
 * @property {(value: string) => boolean} allows
 */

/** @typedef {Readonly<Record<string, Parameter>>} Parameters */

/** A parameter that is one of these values; the first is the default. */
export const one_of = (/** @type {readonly string[]} */ values) => ({
  default: values[0] ?? "",
  allows: (/** @type {string} */ value) => values.includes(value),
});

/** A day, `2026-11-20`; empty by default. */
export const day = () => ({
  default: "",
  allows: (/** @type {string} */ value) =>
    /^\d{4}-\d\d-\d\d$/.test(value) && !Number.isNaN(Date.parse(value)),
});

/** Any text up to so many characters; empty by default. */
export const text = (most = 200) => ({
  default: "",
  allows: (/** @type {string} */ value) => value.length <= most,
});

/**
 * Read a view.
 * @param {string} search The address' query.
 * @param {Parameters} parameters
 * @returns {{view: Record<string, string>, dropped: string[]}} Every parameter has a value;
 * `dropped` names what was not understood.
 */
export function read(search, parameters) {
  const view = Object.fromEntries(
    Object.entries(parameters).map(([name, parameter]) => [name, parameter.default]),
  );
  const dropped = [];
  for (const [name, value] of new URLSearchParams(search)) {
    if (Object.hasOwn(parameters, name) && parameters[name].allows(value)) view[name] = value;
    else dropped.push(`${clipped(name)}=${clipped(value)}`);
  }
  return { view, dropped };
}

/**
 * The query of a view, with its question mark; empty where all is as by default.
 * @param {Readonly<Record<string, string>>} view @param {Parameters} parameters
 */
export function write(view, parameters) {
  const query = new URLSearchParams();
  for (const [name, parameter] of Object.entries(parameters)) {
    const value = view[name] ?? parameter.default;
    if (value !== parameter.default) query.set(name, value);
  }
  const found = query.toString();
  return found ? `?${found}` : "";
}

/**
 * Make the address that of the view; what the address has after `#` stays.
 * @param {Readonly<Record<string, string>>} view @param {Parameters} parameters
 */
export function show(view, parameters) {
  const wanted = write(view, parameters);
  if (wanted !== location.search) {
    history.replaceState(history.state, "", `${location.pathname}${wanted}${location.hash}`);
  }
}

/** What was dropped, in a sentence; empty if nothing was. @param {readonly string[]} dropped */
export function told(dropped) {
  if (!dropped.length) return "";
  return `This page does not know ${dropped.map((one) => `“${one}”`).join(", ")}: left out.`;
}

/** @param {string} value */
function clipped(value) {
  return value.length > 60 ? `${value.slice(0, 60)}…` : value;
}
