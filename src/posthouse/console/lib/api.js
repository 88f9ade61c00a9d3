// Calls of the JSON API with the session of the console, and what went wrong with them.

import { ROUTES } from "./routes.js";

/** @typedef {import("../types.js").Routes} Routes */
/** @typedef {import("../types.js").SessionJson} Session */

const KEY = "posthouse.page-key";
const SESSION = "/console/session";

/** What the server refused, or that it could not be asked. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} name
   * @param {string} reason
   * @param {string} remedy
   */
  constructor(status, name, reason, remedy) {
    super(reason);
    this.status = status;
    this.code = name;
    this.reason = reason;
    this.remedy = remedy;
  }
}

/**
 * @param {string} method
 * @param {string} target
 * @param {{body?: string, polled?: boolean, once?: boolean, signal?: AbortSignal | undefined}} options
 */
async function ask(method, target, { body, polled = false, once = false, signal }) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  const key = localStorage.getItem(KEY);
  if (key) headers["X-Posthouse-Page-Key"] = key;
  if (polled) headers["X-Posthouse-Polled"] = "1";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response, text;
  try {
    response = await fetch(target, {
      method,
      headers,
      ...(body === undefined ? {} : { body }),
      ...(signal ? { signal } : {}),
      credentials: "same-origin",
      redirect: "error",
      cache: "no-store",
    });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    const next = method === "GET" ? "It is asked again." : once ? "Try again: what was done already is not done twice." : "It may have been done all the same: look before you try again.";
    throw new ApiError(0, "", "the queue manager does not answer", `${next} See whether it runs: posthouse status`);
  }
  let content;
  try {
    content = JSON.parse(text);
  } catch {
    throw new ApiError(response.status, "", `the server answered with status ${response.status} and no JSON`, "Load the console again.");
  }
  if (response.ok) return content;
  const { name = "", cause = `status ${response.status}`, remedy = "" } = content.error ?? {};
  const error = new ApiError(response.status, name, cause, remedy);
  if (error.status === 401 && target !== SESSION) dispatchEvent(new CustomEvent("session-ended", { detail: error }));
  throw error;
}

/**
 * Calls a route of the API by its name.
 * @template {keyof Routes} Name
 * @param {Name} name
 * @param {Routes[Name]["params"]} params
 * @param {Routes[Name]["body"] | null} [body]
 * @param {{polled?: boolean, once?: boolean, signal?: AbortSignal}} [options]  `once`: the body has a name under which it is done once
 * @returns {Promise<Routes[Name]["result"]>}
 */
export function call(name, params, body = null, options = {}) {
  const [method, template] = ROUTES[name];
  const left = new Map(Object.entries(params));
  const path = template.replace(/\{(\w+)\}/g, (_, key) => {
    const value = left.get(key);
    left.delete(key);
    return encodeURIComponent(String(value));
  });
  const query = new URLSearchParams();
  for (const [key, value] of left) {
    if (value !== undefined && value !== null) query.set(key, String(value));
  }
  const target = query.size ? `${path}?${query}` : path;
  return ask(method, target, { ...(body === null ? {} : { body: JSON.stringify(body) }), ...options });
}

/** @param {import("../types.js").SignInBody} given  @returns {Promise<Session>} */
export async function signIn(given) {
  localStorage.removeItem(KEY);
  const session = await ask("POST", SESSION, { body: JSON.stringify(given) });
  localStorage.setItem(KEY, session.page_key);
  return session;
}

/** The session of this browser, if it has one. @returns {Promise<Session | null>} */
export async function session() {
  if (!localStorage.getItem(KEY)) return null;
  try {
    return await ask("GET", SESSION, {});
  } catch (error) {
    if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
      localStorage.removeItem(KEY);
      return null;
    }
    throw error;
  }
}

export async function signOut() {
  try {
    await ask("DELETE", SESSION, {});
  } finally {
    localStorage.removeItem(KEY);
  }
}

const RANKS = ["metrics", "look", "read", "operate", "administer"];

/** Whether a role reaches as far as another one. @param {string} role  @param {string} needed */
export function reaches(role, needed) {
  return RANKS.indexOf(role) >= RANKS.indexOf(needed);
}
