// Query: one statement of SQL over queues and the lake, its rows as a table and as bars.

import { call } from "../lib/api.js";
import { bars } from "../lib/bars.js";
import { problem } from "../lib/dialogs.js";
import { fill, h } from "../lib/dom.js";
import { count } from "../lib/format.js";

/** @typedef {import("../types.js").QueryResultJson} Result */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "query", title: "Query", role: "read", key: "s", show };

const ROWS = [100, 1000, 10000];
const EXAMPLE = "SELECT label, count(*) AS messages FROM queues.orders GROUP BY label ORDER BY messages DESC";

/** @param {import("../lib/page.js").Context} context */
function show({ main, query, signal }) {
  const statement = h("textarea", { id: "statement", rows: 5, "aria-label": "Statement", placeholder: EXAMPLE, spellcheck: "false", "data-filter": "" });
  statement.value = query.get("statement") ?? "";
  const rows = h("select", { id: "rows", "aria-label": "Rows" }, ROWS.map((one) => h("option", { value: one }, `${count(one)} rows`)));
  const progress = h("span", { class: "muted", role: "status" });
  const stop = h("button", { type: "button", id: "stop", hidden: true }, "Stop");
  const run = h("button", { type: "submit", class: "primary", id: "run" }, "Run");
  const answer = h("div", { id: "answer" });

  /** @param {string} text */
  async function ask(text) {
    const mine = new AbortController();
    const leave = () => mine.abort();
    signal.addEventListener("abort", leave);
    fill(answer);
    progress.textContent = "Asking…";
    run.disabled = true;
    stop.hidden = false;
    stop.onclick = leave;
    try {
      const found = await call("run_query", {}, { statement: text, rows: Number(rows.value) }, { signal: mine.signal });
      progress.textContent = `${count(found.rows.length)} rows${found.more ? ", and there are more" : ""}, ${count(found.ms)} ms`;
      fill(answer, resultOf(found));
    } catch (error) {
      if (signal.aborted) return;
      progress.textContent = mine.signal.aborted ? "Stopped." : "";
      if (!mine.signal.aborted) fill(answer, problem(error));
    } finally {
      signal.removeEventListener("abort", leave);
      run.disabled = false;
      stop.hidden = true;
    }
  }

  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (statement.value.trim() && !run.disabled) void ask(statement.value);
  };
  main.append(
    h("div", { class: "heading" }, h("h1", {}, "Query"), progress, stop),
    h(
      "form",
      { class: "card query", onsubmit: submit, onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" && event.ctrlKey) submit(event); } },
      statement,
      h("div", { class: "toolbar" }, run, rows, h("button", { type: "button", id: "tables", onclick: () => void ask("SHOW TABLES") }, "Tables"), h("span", { class: "muted" }, "Ctrl+Enter runs it. It reads what you may read, and changes nothing.")),
    ),
    answer,
  );
}

/** @param {Result} found */
function resultOf(found) {
  if (!found.rows.length) return h("div", { class: "empty" }, "No row fits.");
  return [
    bars(found),
    h(
      "section",
      { class: "card" },
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows" },
        h(
          "table",
          {},
          h("thead", {}, h("tr", {}, found.columns.map((one) => h("th", { scope: "col", class: one.kind === "number" ? "number" : "" }, one.name)))),
          h("tbody", {}, found.rows.map((row) => h("tr", {}, row.map((value, place) => h("td", { class: found.columns[place]?.kind === "number" ? "number" : "" }, cell(value)))))),
        ),
      ),
    ),
  ];
}

/** @param {unknown} value */
function cell(value) {
  if (value === null || value === undefined) return h("span", { class: "muted" }, "null");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
