// Every page of the console, in the order of the navigation. To add one: its file, and two lines here.

import { page as audit } from "./audit.js";
import { page as directory } from "./directory.js";
import { page as failures } from "./failures.js";
import { page as groups } from "./groups.js";
import { page as jobs } from "./jobs.js";
import { page as life } from "./life.js";
import { page as log } from "./log.js";
import { page as messages } from "./messages.js";
import { page as operations } from "./operations.js";
import { page as overview } from "./overview.js";
import { page as query } from "./query.js";
import { page as queues } from "./queues.js";
import { page as store } from "./store.js";
import { page as tail } from "./tail.js";
import { page as transactions } from "./transactions.js";
import { page as transfer } from "./transfer.js";
import { page as users } from "./users.js";

/** @type {import("../lib/page.js").Page[]} */
export const PAGES = [
  overview,
  queues,
  messages,
  tail,
  life,
  failures,
  operations,
  transfer,
  transactions,
  groups,
  jobs,
  query,
  directory,
  users,
  store,
  audit,
  log,
];
