// Users, tokens and certificates: who gets in, as what, and until when.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { acting, actions, button, card, rows } from "../lib/cards.js";
import { h, refresh } from "../lib/dom.js";
import { time } from "../lib/format.js";
import { change, create, createToken, makeKeys, password, remove, removeCertificate, revoke, saveKeys, trust } from "../lib/user_acts.js";
import { showUser } from "./user.js";

/** @type {import("../lib/page.js").Page} */
export const page = { name: "users", title: "Users", role: "administer", key: "u", show };

/** @param {import("../lib/page.js").Context} context */
function show(context) {
  if (context.path[0]) showUser(context, context.path[0]);
  else showAll(context);
}

/** @param {import("../lib/page.js").Context} context */
function showAll({ main, poll, signal }) {
  const { answer, act } = acting();
  const users = h("div", {});
  const tokens = h("div", {});
  const certificates = h("div", {});
  main.append(
    h("div", { class: "heading" }, h("h1", {}, "Users"), button("Create a user", act(() => create(now)), "create-user"), button("Create a token", act(() => createToken(now)), "create-token"), button("Make keys", act(() => makeKeys(now)), "make-keys"), button("Trust keys", act(() => trust(now)), "trust"), button("Save our keys", act(saveKeys), "save-keys")),
    answer,
    users,
    tokens,
    certificates,
  );
  const now = poll(5, async (polled) => {
    const asked = { polled, signal };
    const [people, passes, papers] = await Promise.all([call("list_users", {}, null, asked), call("list_tokens", {}, null, asked), call("list_certificates", {}, null, asked)]);
    refresh(users, people, () =>
      card(
        "Users",
        rows(
          ["User", "Role", "Password opens", "State", "Created", ""],
          people.users.map((one) => [
            h("a", { href: to("users", [one.name]) }, one.name),
            one.administrator ? `administrator${one.role ? `, limited to ${one.role}` : ""}` : (one.role ?? "by token"),
            one.password ? one.doors.join(", ") : "nothing: there is no password",
            one.disabled ? h("span", { class: "badge warn" }, "disabled") : "",
            time(one.created_time),
            actions(button("Change", act(() => change(one, now)), `change ${one.name}`), button("Password", act(() => password(one, now)), `password ${one.name}`), button("Delete", act(() => remove(one, now)), `delete ${one.name}`)),
          ]),
        ),
      ),
    );
    refresh(tokens, passes, () =>
      card(
        "Tokens",
        rows(
          ["Token", "User", "Role", "Queues", "Expires", "Created", ""],
          passes.tokens.map((one) => [h("span", { class: "mono" }, one.id), one.user, one.role, one.queues.join(", ") || "all", time(one.expires) || "never", time(one.created_time), button("Revoke", act(() => revoke(one.id, now)), `revoke ${one.id}`)]),
        ),
      ),
    );
    refresh(certificates, papers, () =>
      card(
        "Certificates",
        rows(
          ["Owner", "Kind", "Subject", "Fingerprint", "Valid until", ""],
          papers.certificates.map((one) => [one.owner, one.kind, one.subject ?? "", h("span", { class: "mono" }, one.fingerprint ?? ""), time(one.not_after), button("Delete", act(() => removeCertificate(one.id, one.owner, now)), `certificate ${one.id}`)]),
        ),
      ),
    );
  });
}
