// The shell of the console: session, navigation, theme, keyboard, and the place of the page.

import { reaches, session as currentSession, signOut } from "./lib/api.js";
import { parse, to } from "./lib/address.js";
import { mayOpen } from "./lib/advice.js";
import { note, problem, show as showDialog } from "./lib/dialogs.js";
import { fill, h } from "./lib/dom.js";
import { icon } from "./lib/icons.js";
import * as keys from "./lib/keys.js";
import { repeat } from "./lib/poll.js";
import { PAGES } from "./pages/index.js";
import { showSignIn } from "./signin.js";

/** @typedef {import("./lib/api.js").Session} Session */

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
const THEME = "posthouse.theme";
/** @type {Session | null} */
let session = null;
/** @type {AbortController | null} */
let open = null;
let refreshNow = () => {};

// -- theme

const THEMES = ["system", "light", "dark"];
const theme = () => localStorage.getItem(THEME) ?? "system";

function applyTheme() {
  document.documentElement.dataset["theme"] = theme();
}

function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length] ?? "system";
  localStorage.setItem(THEME, next);
  applyTheme();
  note(`Colours: ${next === "system" ? "as the system has them" : next}`);
}

// -- the shell

/** @param {Session} now */
function shell(now) {
  const main = h("main", { id: "main", tabindex: "-1" });
  const trouble = h("div", { id: "trouble", "aria-live": "polite" });
  const nav = h(
    "nav",
    { id: "nav", "aria-label": "Pages" },
    h(
      "ul",
      {},
      PAGES.filter((page) => reaches(now.role, page.role)).map((page) =>
        h("li", {}, h("a", { href: to(page.name), "data-page": page.name }, icon(page.name), h("span", {}, page.title))),
      ),
    ),
  );
  const menu = h(
    "button",
    {
      type: "button",
      class: "plain menu-button",
      "aria-label": "Pages",
      "aria-expanded": "false",
      "aria-controls": "nav",
      onclick: () => menu.setAttribute("aria-expanded", String(nav.classList.toggle("open"))),
    },
    icon("menu"),
  );
  mayOpen(PAGES.filter((page) => reaches(now.role, page.role)).map((page) => page.name));
  nav.addEventListener("click", () => {
    nav.classList.remove("open");
    menu.setAttribute("aria-expanded", "false");
  });
  const skip = h("a", { href: "#main", class: "skip", onclick: (/** @type {Event} */ event) => { event.preventDefault(); main.focus(); } }, "Skip to content");
  fill(
    app,
    skip,
    h(
      "header",
      { class: "top" },
      menu,
      h("a", { href: to("overview"), class: "brand" }, icon("messages"), h("span", {}, now.name)),
      h("span", { class: "spacer" }),
      h("span", { class: "who", title: `Role ${now.role}` }, h("span", { class: "name" }, now.user), h("span", { class: "badge" }, now.role)),
      h("button", { type: "button", class: "plain", "aria-label": "Keyboard and help", title: "Keyboard and help (?)", onclick: help }, icon("help")),
      h("button", { type: "button", class: "plain", "aria-label": "Change colours", title: "Light, dark, as the system", onclick: nextTheme }, icon("theme")),
      h("button", { type: "button", class: "plain", "aria-label": "Sign out", title: "Sign out", id: "sign-out", onclick: leave }, icon("out")),
    ),
    nav,
    h("div", { class: "content" }, trouble, main),
    h("div", { id: "notes", role: "status", "aria-live": "polite" }),
  );
}

async function leave() {
  try {
    await signOut();
  } catch {
    // The page key is gone; what is left of the session ends by itself.
  }
  enter(null);
}

function help() {
  const box = h("input", { type: "checkbox", id: "shortcuts", checked: keys.areOn(), onchange: (/** @type {any} */ event) => keys.turn(event.target.checked) });
  const line = (/** @type {string} */ key, /** @type {string} */ text) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, key)), h("td", {}, text));
  showDialog(
    "Keyboard",
    h(
      "table",
      { class: "plain-table" },
      h("tbody", {}, line("/", "to the filter of the page"), line("r", "asks the server now"), line("?", "this list"), PAGES.map((page) => line(`g ${page.key}`, page.title))),
    ),
    h("p", { class: "field check" }, box, h("label", { for: "shortcuts" }, "Single keys are shortcuts")),
    h("p", { class: "hint" }, `Posthouse ${session?.version ?? ""}. Every figure and act here is one of the JSON API; the same is in the command `, h("code", {}, "posthouse"), "."),
  );
}

// -- the pages

function navigate() {
  const now = session;
  if (!now) return;
  open?.abort();
  open = new AbortController();
  const signal = open.signal;
  const { page: name, path, query } = parse(location.hash);
  const wanted = PAGES.find((one) => one.name === name);
  const page = wanted && reaches(now.role, wanted.role) ? wanted : PAGES[0];
  if (!page) return;
  for (const link of app.querySelectorAll("nav a")) {
    if (link.getAttribute("data-page") === page.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  const main = /** @type {HTMLElement} */ (document.getElementById("main"));
  const trouble = /** @type {HTMLElement} */ (document.getElementById("trouble"));
  fill(main);
  fill(trouble, wanted && wanted !== page && h("div", { class: "notice warn" }, h("p", {}, `The page ${wanted.title} is for the role ${wanted.role}. Yours is ${now.role}.`)));
  document.title = `${page.title} · ${now.name}`;
  refreshNow = () => {};
  try {
    page.show({
      main,
      path,
      query,
      signal,
      session: now,
      may: (role) => reaches(now.role, role),
      poll: (seconds, work) => {
        const place = h("div", {});
        trouble.append(place);
        const run = repeat(
          seconds,
          work,
          signal,
          (error, next) => fill(place, problem(error), next !== null && h("p", { class: "hint" }, `Asked again in ${Math.round(next / 1000)} s.`)),
          () => fill(place),
        );
        const before = refreshNow;
        refreshNow = () => {
          before();
          run();
        };
        return run;
      },
    });
  } catch (error) {
    fill(main, problem(error));
  }
  if (document.activeElement === document.body || document.activeElement?.closest("nav")) main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/**
 * @param {Session | null} now
 * @param {unknown} [why]
 */
function enter(now, why) {
  open?.abort();
  session = now;
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  if (now) {
    shell(now);
    navigate();
  } else {
    showSignIn(app, why, (next) => enter(next));
  }
}

async function begin() {
  applyTheme();
  addEventListener("hashchange", navigate);
  addEventListener("session-ended", (event) => session && enter(null, /** @type {CustomEvent} */ (event).detail));
  addEventListener("storage", (event) => event.key === "posthouse.page-key" && session && !event.newValue && enter(null));
  keys.listen(
    {
      "?": help,
      r: () => refreshNow(),
      "/": () => /** @type {HTMLElement | null} */ (document.querySelector("main [data-filter]"))?.focus(),
    },
    Object.fromEntries(PAGES.map((page) => [page.key, () => { location.hash = to(page.name); }])),
  );
  try {
    enter(await currentSession());
  } catch (error) {
    fill(app, h("main", { class: "entrance" }, problem(error), h("button", { type: "button", onclick: () => location.reload() }, "Load again")));
  }
}

void begin();
