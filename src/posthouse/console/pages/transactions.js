// Transactions: those that are open or in doubt, and how an operator ends one in doubt.

import { call } from "../lib/api.js";
import { acting, actions, button, rows, unseen } from "../lib/cards.js";
import { ask, note } from "../lib/dialogs.js";
import { h, refresh } from "../lib/dom.js";
import { age, bytes, count, time } from "../lib/format.js";

/** @type {import("../lib/page.js").Page} */
export const page = { name: "transactions", title: "Transactions", role: "look", key: "t", show };

/** @param {import("../lib/page.js").Context} context */
function show({ main, poll, may, session, signal }) {
  const { answer, act } = acting();
  const list = h("section", { class: "card", "aria-label": "Transactions" });
  main.append(
    h("div", { class: "heading" }, h("h1", {}, "Transactions")),
    h("p", { class: "muted" }, "A prepared transaction waits for its coordinator. End it here only if the coordinator is gone for good: the other machines may have decided otherwise."),
    answer,
    list,
  );
  if (!session.administrator) {
    list.replaceWith(unseen("transactions"));
    return;
  }
  const now = poll(3, async (polled) => {
    const { transactions } = await call("list_transactions", {}, null, { polled, signal });
    refresh(list, transactions, () =>
      rows(
        ["Transaction", "State", "#Operations", "#Bytes", "Coordinator", "Prepared", "Idle", ""],
        transactions.map((one) => [
          h("span", { class: "mono" }, one.id),
          one.state,
          count(one.operations),
          bytes(one.bytes),
          one.coordinator || "this queue manager",
          time(one.prepared_time),
          age(one.idle_s),
          may("operate") && actions(button("Commit", act(() => end(one.id, true)), `commit ${one.id}`), button("Abort", act(() => end(one.id, false)), `abort ${one.id}`)),
        ]),
        "No transaction is open.",
      ),
    );
  });

  /** @param {string} id  @param {boolean} commit */
  function end(id, commit) {
    return ask({
      title: commit ? "Commit the transaction" : "Abort the transaction",
      text: h("p", {}, h("code", {}, id), commit ? " is committed: its messages become available, and what it received is gone." : " is aborted: nothing of it happens, and what it received is available again."),
      act: commit ? "Commit" : "Abort",
      danger: true,
      run: async () => {
        if (commit) await call("commit_transaction", { id });
        else await call("abort_transaction", { id });
        note(commit ? "Committed." : "Aborted.");
        now();
      },
    });
  }
}
