// The life of a message: where it is, how it left, and what other queue managers know of it.

import { to } from "./address.js";
import { advice } from "./advice.js";
import { h } from "./dom.js";
import { time } from "./format.js";

/** @typedef {import("../types.js").LifeJson} Life */
/** @typedef {import("../types.js").PlaceJson} Place */
/** @typedef {import("../types.js").DepartureJson} Departure */
/** @typedef {import("../types.js").SkippedJson} Skipped */

/** @param {Life} life */
export function lifeOf(life) {
  return h(
    "div",
    { class: "body" },
    h("p", {}, advice(life.answer)),
    life.skipped.length ? skippedOf(life.skipped) : null,
    steps(life.places, life.departures, true),
    life.peers.map((one) => [
      h("h3", {}, `At ${one.name}`),
      one.error ? h("p", { class: "notice warn" }, one.error) : h("p", {}, one.answer),
      steps(one.places, one.departures, false),
    ]),
  );
}

/** @param {Skipped[]} skipped  queues that a search could not look into */
export function skippedOf(skipped) {
  return h("ul", { class: "notice warn" }, skipped.map((one) => h("li", {}, `Not looked into: ${one.queue}: ${one.reason}`)));
}

/**
 * @param {Place[]} places
 * @param {Departure[]} departures
 * @param {boolean} here  links lead to messages of this queue manager
 */
function steps(places, departures, here) {
  if (!places.length && !departures.length) return null;
  return h(
    "ol",
    { class: "life" },
    departures.map((one) => h("li", { class: "left" }, h("p", {}, one.queue, " ", h("span", { class: "badge quiet" }, one.how)), one.reader && h("p", {}, `By ${one.reader}`), h("p", { class: "muted" }, time(one.time), !one.certain && " (not certain)"))),
    places.map((one) =>
      h(
        "li",
        {},
        h("p", {}, here ? h("a", { href: to("queues", [one.queue]) }, one.queue) : one.queue, " ", h("span", { class: "badge" }, one.state), here && " ", here && h("a", { href: to("messages", [one.queue, String(one.lookup_id)]) }, `Message ${one.lookup_id}`)),
        h("p", {}, one.meaning),
        one.reason && h("p", {}, here ? advice(one.reason) : one.reason),
        h("p", { class: "muted" }, `Since ${time(one.arrived_time)}`),
      ),
    ),
  );
}
