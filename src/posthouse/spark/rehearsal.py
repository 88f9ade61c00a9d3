"""`rehearse`: requests of the past to a shadow queue, and the answers of a new consumer compared.

The answers of the old consumer are found by the identifiers of the requests, those of the new one
by the identifiers of the copies. Nothing is received: answers are peeked, wherever they are.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final, NamedTuple

from posthouse.client import arrow_read
from posthouse.client.admin_http import BulkHttp, segment
from posthouse.client.arrow_read import PlannedQueue
from posthouse.model.errors import InvalidParameter
from posthouse.spark.conform.quarantine import COLUMNS
from posthouse.spark.conform.schema import content_of
from posthouse.spark.watching.sampling import packed_id

EQUAL, DIFFERS, MISSING, EXTRA, SILENT = "equal", "differs", "missing", "extra", "no answer"
REQUESTS_MAX: Final = 10_000
DIFFERENCES_MAX: Final = 50  # of one answer
VALUE_MAX: Final = 200  # characters of a value that is shown
LOOK_S: Final = 0.2
COMPARED: Final = ("label", "app_specific", "priority", "body_type")
_NONE: Final = "0" * 40
_ABSENT: Final = object()
Row = Mapping[str, Any]


class Difference(NamedTuple):
    """A field of an answer that differs; None: it is not there."""

    field: str
    old: str | None
    new: str | None


class Compared(NamedTuple):
    """One request, and what its answers have in common."""

    request: str  # its identifier
    lookup_id: int
    label: str
    result: str
    old: int  # answers
    new: int
    differences: tuple[Difference, ...] = ()


class Rehearsed(NamedTuple):
    """All requests of a rehearsal."""

    compared: tuple[Compared, ...]
    encrypted: int  # requests that were left out
    unasked: int  # answers in the shadow's queue that belong to no request of this rehearsal

    def count(self, result: str) -> int:
        """Requests with this result."""
        return sum(one.result == result for one in self.compared)

    @property
    def is_good(self) -> bool:
        """Whether the new consumer answers as the old one did."""
        same = self.count(EQUAL) + self.count(SILENT)
        return same == len(self.compared) and not self.unasked


class Shadow(NamedTuple):
    """Where copies of requests go, and where their answers come."""

    queue: str
    answers: str
    timeout_s: float = 30.0


def rehearse(
    http: BulkHttp,
    requests: Iterable[Row],
    old_answers: Iterable[Row],
    shadow: Shadow,
    *,
    ignore: Sequence[str] = (),
    limit: int = REQUESTS_MAX,
    progress: Callable[[int, int], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Rehearsed:
    """Sends requests to a shadow queue, waits for the answers and compares them with old ones.

    `ignore` are patterns of fields that may differ, such as `body.SentAt` or `body.*Time`.
    """
    chosen = list(islice(requests, limit))
    open_ones = [row for row in chosen if not row.get("encrypted")]
    if not open_ones:
        raise InvalidParameter("there are no requests to send", "Name a queue that has some.")
    begin = _end_of(http, shadow.answers)
    old = _by_correlation(old_answers, {packed_id(str(row["id"])) for row in open_ones})
    _check_apart(http, shadow, [*open_ones, *(row for rows in old.values() for row in rows)])
    copies = _sent(http, open_ones, shadow, progress)
    new, unasked = _awaited(http, shadow, begin, copies, old, sleep)
    compared = tuple(
        _compared(row, old.get(packed_id(str(row["id"])), []), new.get(copy, []), ignore)
        for copy, row in copies.items()
    )
    return Rehearsed(compared, len(chosen) - len(open_ones), unasked)


def _check_apart(http: BulkHttp, shadow: Shadow, rows: Iterable[Row]) -> None:
    """Copies must not reach the consumers of today, nor new answers those who wait for old ones."""
    plan = arrow_read.plan(http, [PlannedQueue(shadow.queue), PlannedQueue(shadow.answers)])
    names = [one.queue for one in plan.queues]
    used = {str(row["queue"]).lower().removesuffix(";journal") for row in rows}
    for name in names:
        if name.lower() in used or names[0].lower() == names[1].lower():
            raise InvalidParameter(
                f"{name} is a queue of the old consumer, or meant twice",
                "Name queues for the copies and for the new answers that nothing else uses.",
            )


def _end_of(http: BulkHttp, queue: str) -> int:
    (plan,) = arrow_read.plan(http, [PlannedQueue(queue)]).queues
    return max(plan.latest, plan.end)


def _by_correlation(rows: Iterable[Row], wanted: set[str]) -> dict[str, list[Row]]:
    """Answers to these requests, in their order."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        correlation = str(row.get("correlation_id") or "").lower()
        if correlation in wanted:
            found[correlation].append(row)
    return found


def _sent(
    http: BulkHttp,
    requests: list[Row],
    shadow: Shadow,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Row]:
    """Copies of requests, by the identifiers that they got."""
    there = http.call("GET", f"/queues/{segment(shadow.queue)}")
    delivery = "transactional" if there["transactional"] else "recoverable"
    copies = {}
    for number, row in enumerate(requests, 1):
        body = {
            "label": row["label"] or "",
            "body": row["body"] or b"",
            "body_type": row["body_type"] or 0,
            "extension": row["extension"] or b"",
            "app_specific": row["app_specific"] or 0,
            "correlation_id": _correlation(row),
            "priority": row["priority"] or 0,
            "delivery": delivery,
            "response_queue": shadow.answers,
        }
        answer = http.call("POST", f"/queues/{segment(shadow.queue)}/messages", body)
        copies[packed_id(str(answer["id"]))] = row
        if progress is not None:
            progress(number, len(requests))
    return copies


def _correlation(row: Row) -> str:
    found = str(row.get("correlation_id") or "")
    return "" if found == _NONE else found


def _awaited(
    http: BulkHttp,
    shadow: Shadow,
    begin: int,
    copies: Mapping[str, Row],
    old: Mapping[str, list[Row]],
    sleep: Callable[[float], None],
) -> tuple[dict[str, list[Row]], int]:
    """New answers by request, once each has as many as the old ones, or the time is over."""
    found: dict[str, list[Row]] = defaultdict(list)
    unasked, after = 0, begin
    deadline = time.monotonic() + shadow.timeout_s
    while True:
        for row in _after(http, shadow.answers, after):
            after = max(after, row["lookup_id"])
            correlation = str(row.get("correlation_id") or "").lower()
            if correlation in copies:
                found[correlation].append(row)
            else:
                unasked += 1
        is_whole = all(
            len(found.get(copy, ())) >= len(old.get(packed_id(str(row["id"])), ()))
            for copy, row in copies.items()
        )
        if (is_whole and old) or time.monotonic() >= deadline:
            return found, unasked
        sleep(LOOK_S)


def _after(http: BulkHttp, queue: str, after: int) -> Iterator[Row]:
    (plan,) = arrow_read.plan(http, [PlannedQueue(queue, after=after)]).queues
    if plan.end > after:
        for batch in arrow_read.read(http, plan.queue, after, plan.end, COLUMNS):
            yield from batch.to_pylist()


# -- comparing


def _compared(
    request: Row, old: Sequence[Row], new: Sequence[Row], ignore: Sequence[str]
) -> Compared:
    differences: list[Difference] = []
    for number, (one, other) in enumerate(zip(old, new, strict=False), 1):
        before = "" if len(old) == len(new) == 1 else f"answer {number}: "
        differences += [
            found._replace(field=before + found.field) for found in differing(one, other, ignore)
        ]
    if len(new) < len(old):
        result = MISSING
    elif len(new) > len(old):
        result = EXTRA
    else:
        result = DIFFERS if differences else EQUAL if old else SILENT
    return Compared(
        request=str(request["id"]),
        lookup_id=int(request["lookup_id"]),
        label=str(request["label"] or ""),
        result=result,
        old=len(old),
        new=len(new),
        differences=tuple(differences[:DIFFERENCES_MAX]),
    )


def differing(old: Row, new: Row, ignore: Sequence[str]) -> Iterator[Difference]:
    """The fields in which two answers differ, but for those that are ignored."""
    one, other = dict(_fields(old)), dict(_fields(new))
    for name in dict.fromkeys((*one, *other)):
        is_ignored = any(fnmatchcase(name.lower(), rule.lower()) for rule in ignore)
        if not is_ignored and one.get(name, _ABSENT) != other.get(name, _ABSENT):
            shown = (_shown(fields.get(name, _ABSENT)) for fields in (one, other))
            yield Difference(name, *shown)


def _fields(row: Row) -> Iterator[tuple[str, Any]]:
    for name in COMPARED:
        yield name, row.get(name) or ("" if name == "label" else 0)
    content = content_of(row)
    if content.error:
        yield "body", bytes(row["body"] or b"")
        return
    if content.kind:
        yield "type", content.kind
    waiting: list[tuple[str, Any]] = [("body", content.value)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict) and value:
            waiting += [(f"{path}.{name}", inner) for name, inner in reversed(value.items())]
        elif isinstance(value, list) and value:
            pairs = list(enumerate(value))
            waiting += [(f"{path}[{place}]", inner) for place, inner in reversed(pairs)]
        else:
            yield path, value


def _shown(value: Any) -> str | None:
    if value is _ABSENT:
        return None
    if value is None:
        return "null"
    text = f"{len(value):,} bytes: {value[:16].hex()}" if isinstance(value, bytes) else str(value)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}..."
