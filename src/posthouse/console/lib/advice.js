// The server's advice names commands of the shell. Where the console has a page for one, a link to it stands there instead.

import { to } from "./address.js";
import { h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {{page: string, path: string[], title: string, what: string}} Target */

/** The first word of a command: the page that does it, the page's title, and what is shown there. @type {Record<string, [string, string, string]>} */
const PAGES = {
  failures: ["failures", "Failures", "the failures"],
  deadletters: ["failures", "Failures", "the failures"],
  queue: ["queues", "Queues", "the queue"],
  group: ["groups", "Groups and pipelines", "the group"],
  stage: ["groups", "Groups and pipelines", "the batches"],
  damage: ["store", "Books and store", "the damage"],
  transaction: ["transactions", "Transactions", "the transactions"],
  job: ["jobs", "Job queues", "the job queue"],
  directory: ["directory", "Directory", "the directory"],
  online: ["transfer", "Transfer", "the transfer"],
  peer: ["transfer", "Transfer", "the peers"],
  user: ["users", "Users", "the users"],
  cert: ["users", "Users", "the certificates"],
  operation: ["operations", "Operations", "the operations"],
};

const PLACEHOLDERS = new Set(["QUEUE", "GROUP", "NAME", "PATH"]); // which the reader of a shell command fills in

// In backticks, or as far as a command goes without them: two words, names in quotes, paths, placeholders.
const COMMAND = /`posthouse ([^`]+)`|posthouse (group [a-z]+ '[^']*' [^\s,;]+(?: --[a-z]+ [^\s,;]+)*|job [a-z]+ [^\s,;]+|[a-z]+(?: [a-z-]+)?(?: (?:'[^']*'|[^\s'`]*[\\=][^\s'`]*|[A-Z]+\b))*)/g;
const TAIL = /^(?:, (?:then|or) [a-z -]+)?\.?$/; // of a text that ends with a command

/** The pages that the session may open. @type {Set<string>} */
let open = new Set();

/** @param {Iterable<string>} names */
export function mayOpen(names) {
  open = new Set(names);
}

/** Where a command is done in the console. @param {string} command  without its program  @returns {Target | null} */
export function targetOf(command) {
  const words = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => ({ text: quoted ?? bare ?? "", quoted: quoted !== undefined }));
  const [noun = "", verb = ""] = words.map((one) => one.text);
  const found = PAGES[noun];
  if (!found) return null;
  const isBare = noun === "group" || (noun === "job" && verb !== "queue"); // whose names stand without quotes
  const named = words.filter((one, place) => one.quoted || /[\\=]/.test(one.text) || (isBare && place > 1 && !PLACEHOLDERS.has(one.text))).map((one) => one.text);
  const [page, title, what] = found;
  const path = { queues: named.slice(0, 1), failures: named.slice(0, 1), groups: named.length > 1 ? named.slice(0, 2) : [], jobs: named.slice(0, 1) }[page] ?? [];
  if (page === "failures" && !open.has(page)) return open.has("messages") ? { page: "messages", path, title: "Messages", what: "the messages" } : null;
  return open.has(page) ? { page, path, title, what } : null;
}

/**
 * A text of the server, with links in the place of commands. One at the end becomes "Show ...", one
 * inside a sentence the name of the page.
 * @param {string} text
 * @returns {Child[]}
 */
export function advice(text) {
  /** @type {Child[]} */
  const shown = [];
  let place = 0;
  for (const match of text.matchAll(COMMAND)) {
    const command = match[1] ?? match[2] ?? "";
    const target = targetOf(command);
    const before = text.slice(place, match.index);
    const end = match.index + match[0].length;
    shown.push(before);
    place = end;
    if (!target) {
      shown.push(h("code", {}, `posthouse ${command}`));
      continue;
    }
    const link = (/** @type {string} */ words) => h("a", { class: "inline", href: to(target.page, target.path) }, words);
    if (TAIL.test(text.slice(end))) {
      shown.push(link(`Show ${target.what}`));
      return shown;
    }
    shown.push(!before || /[.!?] $/.test(before) ? "The page " : "the page ", link(target.title));
  }
  shown.push(text.slice(place));
  return shown;
}
