"""Selects the queues and queue managers of a read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from math import ceil
from typing import Final, NamedTuple, TypeVar

from posthouse.client.arrow_read import PlannedQueue, QueuePlan
from posthouse.model.errors import InvalidParameter, QueueNotFound
from posthouse.spark.endpoint import Endpoint
from posthouse.spark.options import Position, SourceOptions

_AT_ONCE: Final = 16  # queue managers that are asked at the same time
_T = TypeVar("_T")


class Place(NamedTuple):
    """A queue that is read: its full name, and the endpoint of its queue manager."""

    queue: str
    endpoint: Endpoint


def key_of(queue: str, name: str) -> str:
    """A path in the spelling that is compared; `.` is the queue manager of that name."""
    text = queue.replace("/", "\\")
    return (f"{name}{text[1:]}" if text.startswith(".\\") else text).casefold()


def asked_of(options: SourceOptions, endpoints: Sequence[Endpoint]) -> dict[Endpoint, list[str]]:
    """The queues to ask each queue manager for."""
    listed = beside_each_other(lambda one: queues_of(options, one), endpoints)
    found = dict(zip(endpoints, listed, strict=True))
    check_asked(options, found)
    return {one: queues for one, queues in found.items() if queues}


def beside_each_other(ask: Callable[[Endpoint], _T], endpoints: Sequence[Endpoint]) -> list[_T]:
    """What each queue manager answers; several are asked at a time."""
    if len(endpoints) < 2:
        return [ask(one) for one in endpoints]
    with ThreadPoolExecutor(min(len(endpoints), _AT_ONCE)) as pool:
        return list(pool.map(ask, endpoints))


def queues_of(options: SourceOptions, endpoint: Endpoint) -> list[str]:
    """The queues to ask one queue manager for.

    `.\\private$\\orders` is a queue of every one of them, `ALPHA\\private$\\orders` of one.
    """
    if options.queue_pattern:
        pattern, name = options.queue_pattern, endpoint.name
        return [path for path in endpoint.queue_paths() if matches(path, pattern, name)]
    if len(options.managers) == 1:
        return list(options.queues)
    own = (".", endpoint.name.casefold())
    return [queue for queue in options.queues if queue.partition("\\")[0].casefold() in own]


def matches(path: str, pattern: str, name: str) -> bool:
    """Whether a pattern means a queue of the queue manager of that name.

    Journals and subqueues only where the pattern has a semicolon.
    """
    wanted = key_of(pattern, name).replace("[", "[[]")
    return (";" in path) <= (";" in pattern) and fnmatchcase(key_of(path, name), wanted)


def check_asked(options: SourceOptions, asked: Mapping[Endpoint, Sequence[str]]) -> None:
    """Refuses a pattern that no queue matches, and queues that none of the queue managers has."""
    known = {queue for queues in asked.values() for queue in queues}
    for queue in options.queues:
        if queue not in known:
            names = ", ".join(one.name for one in asked)
            raise QueueNotFound(
                f"none of the queue managers {names} has {queue}",
                "Add the url of its queue manager, or write .\\ for a queue of all of them.",
            )
    if not known:
        raise QueueNotFound(
            f"no queue matches {options.queue_pattern}", "`posthouse queue list` shows the queues."
        )


def number_of(position: Position, queue: str, name: str) -> int | None:
    """The position of a queue in JSON; None where it has none."""
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


Places = dict[str, tuple[Place, QueuePlan]]
"""Queues of a read by their full names, each with what there is to read now."""


def found_places(options: SourceOptions, endpoints: Sequence[Endpoint], group: str = "") -> Places:
    """All queues of a read."""
    asked = asked_of(options, endpoints)
    check_names(endpoints)
    found: Places = {}
    plans_of = beside_each_other(
        lambda endpoint: endpoint.plan(wanted_of(options, asked[endpoint], group)), list(asked)
    )
    for endpoint, plans in zip(asked, plans_of, strict=True):
        found |= {plan.queue: (Place(plan.queue, endpoint), plan) for plan in plans}
    check_positions(options, [found])
    return found


def wanted_of(options: SourceOptions, queues: Iterable[str], group: str = "") -> list[PlannedQueue]:
    """The first question about some queues."""
    since_s = None if options.starting_time_s is None else max(0, ceil(options.starting_time_s))
    return [PlannedQueue(queue, group=group, since=since_s) for queue in queues]


def check_positions(options: SourceOptions, found: Iterable[Places]) -> None:
    """Every queue that an option names a position of is one that is read."""
    places = [place for some in found for place, _ in some.values()]
    check_position("startingOffsets", options.starting, places)
    check_position("endingOffsets", options.ending, places)


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
