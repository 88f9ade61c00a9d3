// What a page of the console is, and what it gets to work with.

/** @typedef {import("./api.js").Session} Session */

/**
 * @typedef {object} Context
 * @property {HTMLElement} main  the page's own place
 * @property {string[]} path  of the address, after the page's name
 * @property {URLSearchParams} query
 * @property {AbortSignal} signal  aborts when the user leaves the page
 * @property {Session} session
 * @property {(role: string) => boolean} may  whether the session's role reaches that far
 * @property {(seconds: number, work: (polled: boolean) => Promise<void>) => () => void} poll
 *   repeats work while the page is seen; failures are shown above the page. Returns "now".
 */

/**
 * @typedef {object} Page
 * @property {string} name  in the address, and of its icon
 * @property {string} title
 * @property {string} role  that it takes to see it
 * @property {string} key  after `g`: the shortcut
 * @property {(context: Context) => void} show
 */

export {};
