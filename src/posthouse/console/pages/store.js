// Books and store: what became of every accepted message, damaged records, and backups.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { acting, button, card, rows } from "../lib/cards.js";
import { ask, note } from "../lib/dialogs.js";
import { h, refresh } from "../lib/dom.js";
import { bytes, count, many, parts, time } from "../lib/format.js";

/** @typedef {import("../types.js").BooksJson} Books */
/** @typedef {import("../types.js").DamagedRecordJson} Damaged */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "store", title: "Books and store", role: "look", key: "b", show };

/** @param {import("../lib/page.js").Context} context */
function show({ main, poll, may, signal }) {
  const { answer, act } = acting();
  const damage = h("div", {});
  const books = h("div", {});
  main.append(h("div", { class: "heading" }, h("h1", {}, "Books and store"), may("administer") && button("Make a backup", act(backup), "backup")), answer, damage, books);
  const now = poll(5, async (polled) => {
    const asked = { polled, signal };
    /** @type {Books[]} */
    const found = [];
    let balanced = true;
    for (let after = 0; ; ) {
      const page = await call("show_books", { after }, null, asked);
      found.push(...page.books);
      balanced &&= page.balanced;
      if (page.next === null) break;
      after = page.next;
    }
    refresh(books, found, () =>
      card(
        balanced ? "Books: they balance" : "Books: they do not balance",
        h("p", { class: "body muted" }, "Every message that a queue has accepted is still there or has left it in one of these ways."),
        rows(
          ["Queue", "#Accepted", "#Waiting", "#Locked", "#Received", "#Expired", "#Purged", "#Rejected", "#Moved away", "#Lost express", "Balance"],
          found.map((one) => [
            h("a", { href: to("queues", [one.queue]), title: one.queue }, parts(one.queue).name || one.queue),
            ...[one.accepted, one.waiting, one.locked, one.received, one.expired, one.purged, one.rejected, one.moved_away, one.lost_express].map(count),
            one.balanced ? h("span", { class: "badge ok" }, "yes") : h("span", { class: "badge bad" }, "no"),
          ]),
        ),
      ),
    );
    if (may("administer")) {
      const { records } = await call("list_damage", {}, null, asked);
      refresh(damage, records, () =>
        card(
          "Damaged records",
          rows(
            ["File", "#Offset", "#Bytes", "What is wrong", "Queue", "#Lookup id", "Found", ""],
            records.map((one) => [h("span", { class: "mono" }, one.file), count(one.offset), bytes(one.bytes), one.reason, one.queue ?? "not known", one.lookup_id ?? "", time(one.found), button("Give up", act(() => accept(one)), `accept ${one.file} ${one.offset}`)]),
            "No record of a message is damaged.",
          ),
        ),
      );
    }
  });

  /** @param {Damaged} record */
  function accept(record) {
    return ask({
      title: "Give up the damaged record",
      text: [
        h("p", {}, `The record of ${many(record.bytes, "byte")} at ${count(record.offset)} in `, h("code", {}, record.file), " cannot be read: ", record.reason, "."),
        h("p", {}, record.queue ? `Its message in ${record.queue} counts as purged.` : "Its message counts as purged.", " This cannot be undone. A backup of before the damage may still have it."),
      ],
      act: "Give up",
      danger: true,
      run: async () => {
        await call("accept_damage", {}, { records: [{ file: record.file, offset: record.offset }] });
        note("Given up.");
        now();
      },
    });
  }

  function backup() {
    return ask({
      title: "Make a backup",
      text: "All data of the queue manager is copied while it goes on working.",
      act: "Make the backup",
      fields: [{ name: "directory", label: "New directory on the machine of the queue manager", required: true, hint: "An absolute path. The directory must not exist." }],
      run: async (values) => {
        const made = await call("make_backup", {}, { directory: values["directory"] });
        return h("p", { class: "notice ok", id: "backup-made" }, "The backup is in ", h("code", {}, made.directory), ".");
      },
    });
  }
}
