// @ts-check
/**
 * The site's data files, fetched and checked. Nothing is trusted to be there: what is missing or
 * damaged becomes a `DataError`, and the page goes on showing what it was built with.
 */

import { DataError, FORMAT } from "./columns.js";

export { DataError };

/**
 * Section → folder → year → digest and size of the file.
 * @typedef {{format: number} & Record<string, Record<string, Record<string, [string, number]>>>} Manifest
 */

/** One file of a section. @typedef {{year: number, address: string, digest: string}} Entry */

/** Where the site begins, wherever it is put. */
export function root() {
  return new URL(document.body.dataset.root ?? "./", document.baseURI);
}

/**
 * An element with its text and its children; nothing is ever read as HTML.
 * @param {string} tag @param {Record<string, string>} attributes @param {...(Node | string)} children
 */
export function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** The list of all data files. @returns {Promise<Manifest>} @throws {DataError} */
export async function manifest() {
  const text = new TextDecoder().decode(await bytes("manifest.json", "no-cache"));
  return /** @type {Manifest} */ (parsed(text, "manifest.json"));
}

/**
 * The files of a folder, oldest first.
 * @param {Manifest} list
 * @param {string} section `nights`, `series` or `across`.
 * @param {string} folder @returns {Entry[]}
 */
export function entries(list, section, folder) {
  const years = list[section]?.[folder] ?? {};
  return Object.entries(years)
    .map(([year, [digest]]) => ({
      year: Number(year),
      digest,
      address: `${section}/${folder}/${year}-${digest}.json`,
    }))
    .sort((one, other) => one.year - other.year);
}

/**
 * One data file. Its name holds the digest of its bytes, so that damage is seen.
 * @template T @param {Entry} entry @returns {Promise<T>} @throws {DataError}
 */
export async function load(entry) {
  const found = await bytes(entry.address, "default");
  if (globalThis.crypto?.subtle) { // not where the page came over plain http
    const hash = await crypto.subtle.digest("SHA-256", found);
    const digest = [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, "0"));
    if (!digest.join("").startsWith(entry.digest)) {
      throw new DataError(`${entry.address} is damaged: its bytes are not those that were written`);
    }
  }
  return /** @type {T} */ (parsed(new TextDecoder().decode(found), entry.address));
}

/** @type {Map<string, Promise<any>>} */
const fetched = new Map();

/** A file, fetched once, and again if that failed. @param {Entry} entry @returns {Promise<any>} */
export function once(entry) {
  const found = fetched.get(entry.address) ?? load(entry);
  fetched.set(entry.address, found);
  found.catch(() => fetched.delete(entry.address));
  return found;
}

/** @param {string} address @param {RequestCache} cache @returns {Promise<ArrayBuffer>} */
async function bytes(address, cache) {
  let response;
  try {
    response = await fetch(new URL(address, root()), { cache, credentials: "same-origin" });
  } catch {
    throw new DataError(`${address} cannot be reached`);
  }
  if (!response.ok) throw new DataError(`${address} is missing (status ${response.status})`);
  try {
    return await response.arrayBuffer();
  } catch {
    throw new DataError(`${address} was cut off on the way`);
  }
}

/** @param {string} text @param {string} address @returns {unknown} */
function parsed(text, address) {
  /** @type {unknown} */
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw new DataError(`${address} is damaged: it is not JSON`);
  }
  const format = /** @type {{format?: unknown} | null} */ (found)?.format;
  if (format !== FORMAT) {
    throw new DataError(
      `${address} has format ${String(format)}, and this page reads format ${FORMAT}: reload it`,
    );
  }
  return found;
}
