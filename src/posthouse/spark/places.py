"""Which queues of which queue managers a read is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from math import ceil
from typing import NamedTuple

from posthouse.client.bulk_read import QueuePlan, Wanted
from posthouse.model.errors import InvalidParameter, QueueNotFound
from posthouse.spark.endpoint import Endpoint
from posthouse.spark.options import Position, SourceOptions


class Place(NamedTuple):
    """A queue that is read: its full name, and the endpoint of its queue manager."""

    queue: str
    endpoint: Endpoint


def key_of(queue: str, name: str) -> str:
    """A path in the spelling that is compared; `.` is the queue manager of that name."""
    text = queue.replace("/", "\\")
    return (f"{name}{text[1:]}" if text.startswith(".\\") else text).casefold()


def asked_of(options: SourceOptions, endpoints: Sequence[Endpoint]) -> dict[Endpoint, list[str]]:
    """The queues to ask each queue manager for.

    `.\\private$\\orders` is a queue of every one of them, `ALPHA\\private$\\orders` of one.
    """
    if options.queue_pattern:
        found = {one: list(_matching(one, options.queue_pattern)) for one in endpoints}
    elif len(endpoints) == 1:
        found = {endpoints[0]: list(options.queues)}
    else:
        found = _shared_out(options.queues, endpoints)
    if not any(found.values()):
        raise QueueNotFound(
            f"no queue matches {options.queue_pattern}", "Look with `posthouse queue list`."
        )
    return {one: queues for one, queues in found.items() if queues}


def _matching(endpoint: Endpoint, pattern: str) -> Iterable[str]:
    """Journals and subqueues only for a pattern that says so: with a semicolon."""
    wanted = key_of(pattern, endpoint.name).replace("[", "[[]")
    for path in endpoint.queue_paths():
        if (";" in path) <= (";" in pattern) and fnmatchcase(key_of(path, endpoint.name), wanted):
            yield path


def _shared_out(queues: Iterable[str], endpoints: Sequence[Endpoint]) -> dict[Endpoint, list[str]]:
    found: dict[Endpoint, list[str]] = {one: [] for one in endpoints}
    for queue in queues:
        machine = queue.partition("\\")[0].casefold()
        owners = [one for one in endpoints if machine in (".", one.name.casefold())]
        if not owners:
            names = ", ".join(one.name for one in endpoints)
            raise QueueNotFound(
                f"none of the queue managers {names} has {queue}",
                "Add the url of its queue manager, or write .\\ for a queue of all of them.",
            )
        for one in owners:
            found[one].append(queue)
    return found


def number_of(position: Position, queue: str, name: str) -> int | None:
    """What a position in JSON says of a queue; None where it says nothing."""
    if isinstance(position, str):
        return None
    wanted = key_of(queue, name)
    for given, number in position.items():
        if key_of(given, name) == wanted:
            return number
    return None


def check_position(option: str, position: Position, places: Iterable[Place]) -> None:
    """Every queue that a position names is one that is read."""
    if isinstance(position, str):
        return
    names = {key_of(place.queue, place.endpoint.name): place.queue for place in places}
    for given in position:
        local = {key_of(given, place.endpoint.name) for place in places}
        if not local & names.keys():
            raise InvalidParameter(
                f"option {option} names {given}, which is not read",
                f"The queues are {', '.join(names.values())}.",
            )


def found_places(
    options: SourceOptions, endpoints: Sequence[Endpoint], group: str = ""
) -> dict[str, tuple[Place, QueuePlan]]:
    """All queues of a read by their full names, each with what there is to read now."""
    found: dict[str, tuple[Place, QueuePlan]] = {}
    since_s = None if options.starting_time_s is None else max(0, ceil(options.starting_time_s))
    asked = asked_of(options, endpoints)
    check_names(endpoints)
    for endpoint, queues in asked.items():
        wanted = [Wanted(queue, group=group, since=since_s) for queue in queues]
        for plan in endpoint.plan(wanted):
            found[plan.queue] = (Place(plan.queue, endpoint), plan)
    places = [place for place, _ in found.values()]
    check_position("startingOffsets", options.starting, places)
    check_position("endingOffsets", options.ending, places)
    return found


def check_names(endpoints: Sequence[Endpoint]) -> None:
    """Queues are told apart by the names of their computers, so no two may have the same."""
    seen: dict[str, Endpoint] = {}
    for one in endpoints if len(endpoints) > 1 else ():
        other = seen.setdefault(one.name.casefold(), one)
        if other is not one:
            raise InvalidParameter(
                f"{other.manager.url} and {one.manager.url} lead to queue managers with the same "
                f"computer name, {one.name}",
                "Leave one of them out if it is named twice; two queue managers of one name are "
                "read by two streams.",
            )


def urls_of(places: Mapping[str, Place]) -> dict[str, str]:
    """Where the queue managers of some queues are, by their names."""
    return {place.endpoint.name: place.endpoint.manager.url for place in places.values()}
