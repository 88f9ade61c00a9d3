// Lines over time, drawn small; what they show is told in words as well.

import { h, s } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 90;

/** @typedef {{name: string, values: Array<number | null>}} Line */

/**
 * @param {string} title
 * @param {Line[]} lines  at most two
 * @param {(value: number) => string} text
 * @param {string} span  such as "the last hour"
 */
export function chart(title, lines, text, span) {
  const known = lines.flatMap((line) => line.values).filter((value) => value !== null);
  const most = Math.max(1e-9, ...known);
  const words = lines
    .map((line) => {
      const values = line.values.filter((value) => value !== null);
      return `${line.name} now ${text(values.at(-1) ?? 0)}, at most ${text(Math.max(0, ...values))}`;
    })
    .join("; ");
  const drawing = s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "chart", role: "img", "aria-label": `${title} in ${span}: ${words}` },
    s("line", { class: "axis", x1: 0, y1: HEIGHT - 0.5, x2: WIDTH, y2: HEIGHT - 0.5 }),
    lines.map((line, place) => {
      const points = line.values.flatMap((value, number) => (value === null ? [] : [`${((number * WIDTH) / Math.max(1, line.values.length - 1)).toFixed(1)},${(HEIGHT - 2 - (value / most) * (HEIGHT - 8)).toFixed(1)}`]));
      const shape = points.join(" ");
      return [place === 0 && points.length > 1 && s("polygon", { class: "area", points: `0,${HEIGHT} ${shape} ${WIDTH},${HEIGHT}` }), s("polyline", { class: place ? "line second" : "line", points: shape })];
    }),
  );
  return h("figure", { class: "chart-box" }, h("figcaption", { class: "legend" }, h("strong", {}, title), lines.map((line, place) => h("span", {}, h("i", { class: place ? "second" : "" }), `${line.name} ${text(line.values.filter((value) => value !== null).at(-1) ?? 0)}`)), h("span", {}, `top ${text(known.length ? most : 0)}`)), drawing);
}
