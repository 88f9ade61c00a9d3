// The first figures of a result as bars, each with its words.

import { h, s } from "./dom.js";
import { count } from "./format.js";

const BARS_MAX = 40;
const HEIGHT = 18;
const NAME = 160;
const WIDTH = 640;

/**
 * Bars of the first column that names rows and the first one of figures; nothing without both.
 * @param {import("../types.js").QueryResultJson} found
 */
export function bars(found) {
  const figures = found.columns.findIndex((one) => one.kind === "number");
  const names = found.columns.findIndex((one) => one.kind === "text" || one.kind === "time");
  if (figures < 0 || names < 0 || found.rows.length < 2) return null;
  const rows = found.rows.slice(0, BARS_MAX).map((row) => ({ name: String(row[names] ?? ""), value: Number(row[figures] ?? 0) }));
  const most = Math.max(...rows.map((row) => Math.abs(row.value)), 1e-9);
  const title = `${found.columns[figures]?.name} by ${found.columns[names]?.name}`;
  const words = rows.map((row) => `${row.name}: ${row.value}`).join("; ");
  return h(
    "figure",
    { class: "card bars" },
    h("figcaption", { class: "legend" }, h("strong", {}, title), found.rows.length > BARS_MAX && h("span", {}, `the first ${count(BARS_MAX)} rows`)),
    s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${rows.length * HEIGHT}`, role: "img", "aria-label": `${title}: ${words}` },
      rows.map((row, place) => [
        s("text", { class: "bar-name", x: NAME - 6, y: place * HEIGHT + 13, "text-anchor": "end" }, row.name.length > 24 ? `${row.name.slice(0, 23)}…` : row.name),
        s("rect", { class: "bar", x: NAME, y: place * HEIGHT + 3, width: Math.max(1, ((WIDTH - NAME - 90) * Math.abs(row.value)) / most).toFixed(1), height: HEIGHT - 6 }),
        s("text", { class: "bar-value", x: NAME + Math.max(1, ((WIDTH - NAME - 90) * Math.abs(row.value)) / most) + 6, y: place * HEIGHT + 13 }, String(row.value)),
      ]),
    ),
  );
}
