// One user: what the user may do, the tokens and certificates, and its acts.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { acting, button, card, pairs, rows } from "../lib/cards.js";
import { h, refresh } from "../lib/dom.js";
import { time } from "../lib/format.js";
import { change, createToken, endSessions, importCertificate, makeKeys, password, remove, removeCertificate, revoke } from "../lib/user_acts.js";

/** @param {import("../lib/page.js").Context} context  @param {string} name */
export function showUser({ main, poll, signal }, name) {
  const { answer, act } = acting();
  const acts = h("div", { class: "toolbar" });
  const about = h("div", {});
  const tokens = h("div", {});
  const certificates = h("div", {});
  document.title = `${name} · Users`;
  main.append(h("p", {}, h("a", { href: to("users") }, "Users")), h("div", { class: "heading" }, h("h1", {}, name)), acts, answer, about, tokens, certificates);
  const now = poll(5, async (polled) => {
    const asked = { polled, signal };
    const [user, passes, papers] = await Promise.all([call("show_user", { name }, null, asked), call("list_tokens", {}, null, asked), call("list_certificates", {}, null, asked)]);
    const ownTokens = passes.tokens.filter((one) => one.user.toLowerCase() === user.name.toLowerCase());
    const ownPapers = papers.certificates.filter((one) => one.sid === user.sid);
    refresh(acts, user, () => [
      button("Change", act(() => change(user, now)), "change"),
      button("Password", act(() => password(user, now)), "password"),
      button("Create a token", act(() => createToken(now, user.name)), "token"),
      button("End sessions", act(() => endSessions(user, now)), "end"),
      button("Make keys", act(() => makeKeys(now, user.name)), "keys"),
      button("Import a certificate", act(() => importCertificate(user.name, now)), "import"),
      button("Delete", act(() => remove(user, () => { location.hash = to("users"); })), "delete"),
    ]);
    refresh(about, user, () =>
      card(
        "User",
        pairs([
          ["Role", user.administrator ? "administrator" : (user.role ?? "by token")],
          ["State", user.disabled ? h("span", { class: "badge warn" }, "disabled") : "enabled"],
          ["Password opens", user.password ? user.doors.join(", ") || "nothing" : "nothing: there is no password"],
          ["Opens after a new password", user.shut.join(", ") || "nothing more"],
          ["SID", h("span", { class: "mono" }, user.sid)],
          ["Created", time(user.created_time)],
        ]),
      ),
    );
    refresh(tokens, ownTokens, () => card("Tokens", rows(["Token", "Role", "Queues", "Expires", "Created", ""], ownTokens.map((one) => [h("span", { class: "mono" }, one.id), one.role, one.queues.join(", ") || "all", time(one.expires) || "never", time(one.created_time), button("Revoke", act(() => revoke(one.id, now)), `revoke ${one.id}`)]))));
    refresh(certificates, ownPapers, () => card("Certificates", rows(["Subject", "Issuer", "Fingerprint", "Valid", "Private key", ""], ownPapers.map((one) => [one.subject ?? "", one.issuer ?? "", h("span", { class: "mono" }, one.fingerprint ?? ""), `${time(one.not_before)} to ${time(one.not_after)}`, one.private_key ? "here" : "", button("Delete", act(() => removeCertificate(one.id, one.owner, now)), `certificate ${one.id}`)]))));
  });
}
