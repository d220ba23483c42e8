// @ts-check
/**
 * Sparklines: a series in the height of a line of text, as `charts/trend.py` draws them.
 */

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 120;
const HEIGHT = 28;
const EDGE = 4; // room for the last value's dot
const LEAST = 0.01; // to each side, so that noise does not look like a landslide

/**
 * Draw the values, evenly spaced, oldest first; null interrupts the line.
 * @param {string} label What it shows, for those who do not see it.
 * @param {readonly (number | null)[]} values About as many as there are px at most.
 * @param {string} [tone] CSS class of the last dot: worse, better or same.
 * @returns {SVGSVGElement}
 */
export function spark(label, values, tone = "") {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("class", "chart-drawing spark");
  drawing.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  drawing.setAttribute("width", String(WIDTH));
  drawing.setAttribute("height", String(HEIGHT));
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", label);
  const drawn = values.filter((value) => value !== null).map(Number);
  if (!drawn.length) return drawing;
  const middle = drawn.reduce((sum, value) => sum + value, 0) / drawn.length;
  const least = LEAST * Math.abs(middle) || 1;
  const low = Math.min(...drawn, middle - least);
  const high = Math.max(...drawn, middle + least);
  /** @param {number} place */
  const x = (place) => EDGE + ((WIDTH - 2 * EDGE) * place) / Math.max(1, values.length - 1);
  /** @param {number} value */
  const y = (value) => HEIGHT - EDGE - ((HEIGHT - 2 * EDGE) * (value - low)) / (high - low);
  let path = "";
  let pen = "M";
  for (const [place, value] of values.entries()) {
    if (value === null) {
      pen = "M";
      continue;
    }
    path += `${pen}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  }
  drawing.append(shape("path", { class: "line", d: path }));
  const last = values.map((value) => value !== null).lastIndexOf(true);
  const at = { cx: x(last).toFixed(1), cy: y(Number(values[last])).toFixed(1), r: "3" };
  drawing.append(shape("circle", { class: `dot ${tone}`.trim(), ...at }));
  return drawing;
}

/** @param {string} tag @param {Record<string, string>} attributes */
function shape(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
