// Audit: what operators did, newest first.

import { call } from "../lib/api.js";
import { rows } from "../lib/cards.js";
import { fill, h } from "../lib/dom.js";
import { breakable, count, time } from "../lib/format.js";
import { ACTS } from "../lib/words.js";

/** @typedef {import("../types.js").AuditEntryJson} Entry */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "audit", title: "Audit log", role: "administer", key: "a", show };

const PAGE = 100;

/** @param {import("../lib/page.js").Context} context */
function show({ main, poll, signal }) {
  const user = h("input", { type: "search", "aria-label": "User", placeholder: "User", "data-filter": "" });
  const act = h("input", { type: "search", "aria-label": "Act", placeholder: "Act, such as purge" });
  const list = h("section", { class: "card", "aria-label": "Audit log" });
  const older = h("button", { type: "button", hidden: true, onclick: () => void more() }, "Show older ones");
  const lost = h("div", {});
  main.append(h("div", { class: "heading" }, h("h1", {}, "Audit log")), h("div", { class: "toolbar" }, user, act), lost, list, older);
  /** @type {Entry[]} */
  let entries = [];
  /** @type {number | null} */
  let next = null;

  const wanted = () => ({ ...(user.value ? { user: user.value } : {}), ...(act.value ? { act: act.value } : {}), limit: PAGE });

  const draw = () => {
    fill(
      list,
      rows(
        ["Time", "User", "Role", "From", "Act", "On", "Outcome"],
        entries.map((one) => [time(one.time), one.user, one.role, one.address, h("span", { title: one.act }, ACTS.get(one.act) ?? one.act), breakable(words(one.object)), [h("span", { class: `badge ${one.outcome === "done" ? "ok" : "warn"}` }, one.outcome), one.error && h("p", { class: "hint" }, one.error)]]),
        "No act is in the log.",
      ),
    );
    older.hidden = next === null;
  };

  async function more() {
    if (next === null) return;
    const page = await call("show_audit", { ...wanted(), before: next }, null, { signal });
    entries = [...entries, ...page.entries];
    next = page.next;
    draw();
  }

  const now = poll(5, async (polled) => {
    const page = await call("show_audit", wanted(), null, { polled, signal });
    const newest = entries[0]?.seq ?? -1;
    if (page.entries[0]?.seq === newest && entries.length) return;
    entries = page.entries;
    next = page.next;
    fill(lost, page.unwritten > 0 && h("div", { class: "notice bad", role: "alert" }, `${count(page.unwritten)} acts could not be written into the log.`));
    draw();
  });
  const again = () => {
    entries = [];
    next = null;
    now();
  };
  let typed = 0;
  const soon = () => {
    clearTimeout(typed);
    typed = setTimeout(again, 300);
  };
  signal.addEventListener("abort", () => clearTimeout(typed));
  user.addEventListener("input", soon);
  act.addEventListener("input", soon);
}

/** What an act was about, in a line. @param {Record<string, unknown>} object */
function words(object) {
  return Object.entries(object)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}
