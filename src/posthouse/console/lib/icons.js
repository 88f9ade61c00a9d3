// Small drawings beside words: each says what the word beside it says, so readers skip them.

import { s } from "./dom.js";

/** @type {Record<string, string>} */
const PATHS = {
  overview: "M3 12h4l3-8 4 16 3-8h4",
  queues: "M4 6h16M4 12h16M4 18h16",
  messages: "M3 6h18v12H3zM3 7l9 6 9-6",
  life: "M4 12a8 8 0 1 1 3 6M4 12v-4M4 12h4M12 8v4l3 2",
  failures: "M12 3 2 20h20zM12 10v4M12 17v.5",
  transfer: "M4 8h14l-4-4M20 16H6l4 4",
  transactions: "M5 12l4 4L19 6",
  groups: "M12 4v6M12 10l-7 4v5M12 10l7 4v5",
  jobs: "M5 4h14v16H5zM9 9h6M9 13h6",
  directory: "M3 6h7l2 2h9v11H3z",
  users: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 20c1-4 4-6 8-6s7 2 8 6",
  query: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM15 15l6 6",
  tail: "M4 5h16M4 10h10M4 15h13M4 20h7",
  operations: "M12 3v4M12 17v4M3 12h4M17 12h4M6 6l3 3M15 15l3 3M18 6l-3 3M9 15l-3 3",
  log: "M4 5h16v14H4zM7 9l3 3-3 3M12 15h5",
  store: "M12 4c5 0 8 1.5 8 3s-3 3-8 3-8-1.5-8-3 3-3 8-3zM4 7v10c0 1.5 3 3 8 3s8-1.5 8-3V7M4 12c0 1.5 3 3 8 3s8-1.5 8-3",
  audit: "M6 3h9l4 4v14H6zM9 12h7M9 16h7",
  menu: "M4 7h16M4 12h16M4 17h16",
  theme: "M12 3a9 9 0 1 0 9 9 7 7 0 0 1-9-9z",
  out: "M10 4H5v16h5M15 8l4 4-4 4M19 12H9",
  help: "M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 18v.5",
  refresh: "M20 11a8 8 0 1 0-2 6M20 5v6h-6",
};

/** @param {string} name */
export function icon(name) {
  return s(
    "svg",
    { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", focusable: "false" },
    s("path", { d: PATHS[name] ?? PATHS["queues"], fill: "none", stroke: "currentColor", "stroke-width": "1.8", "stroke-linecap": "round", "stroke-linejoin": "round" }),
  );
}
