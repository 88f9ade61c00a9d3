"""Reading queues as tables: plan a range of lookup ids, split it, stream the rows of a part.

All of it peeks; nothing is locked or taken. A range is always (after, through].
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from posthouse.client.admin_http import BulkHttp, segment
from posthouse.client.errors import SessionLost
from posthouse.model.errors import InsufficientResources

LOOKUP_ID: Final = "lookup_id"
_PAUSE_S: Final = 0.2  # before it is read on where the connection broke


class LookupIdentity(NamedTuple):
    """Where a lookup id is from; see `IdentityBody` of the API. Empty: it is not known."""

    manager: str = ""
    incarnation: str = ""
    created: str = ""


class PlannedQueue(NamedTuple):
    """A queue to plan; see `PlanQueueBody` of the API."""

    queue: str
    after: int = 0
    group: str = ""
    since: int | None = None  # UTC seconds
    max_messages: int | None = None
    max_bytes: int | None = None
    through: int | None = None
    identity: LookupIdentity = LookupIdentity()


class QueuePlan(NamedTuple):
    """What there is to read in one queue: messages and bytes in (after, end]."""

    queue: str  # its path name, as answers and later requests have it
    earliest: int
    latest: int
    after: int
    end: int
    messages: int
    bytes: int
    purged_through: int
    created_time: str
    identity: LookupIdentity  # of `end`
    loss: str  # why the identity that was sent does not hold; empty: it does


class Plan(NamedTuple):
    """The queues of one queue manager, in the order that was asked for."""

    queue_manager: str
    guid: str
    queues: tuple[QueuePlan, ...]


class Cut(NamedTuple):
    """A part of a range."""

    after: int
    through: int
    messages: int
    bytes: int


def plan(http: BulkHttp, wanted: Iterable[PlannedQueue], wait_ms: int = 0) -> Plan:
    """What there is to read; waits up to `wait_ms` (1000 at most) while nothing new is there."""
    asked = [{**one._asdict(), "identity": one.identity._asdict()} for one in wanted]
    answer = http.call("POST", "/bulk/plan", {"queues": asked, "wait_ms": wait_ms}, repeatable=True)
    pairs = zip(answer["queues"], answer["identities"], strict=True)
    queues = tuple(_plan(queue, known, answer["guid"]) for queue, known in pairs)
    return Plan(answer["queue_manager"], answer["guid"], queues)


def _plan(queue: Mapping[str, Any], known: Mapping[str, Any], guid: str) -> QueuePlan:
    identity = LookupIdentity(guid, known["incarnation"], known["created"])
    return QueuePlan(**queue, identity=identity, loss=known["loss"])


def split(
    http: BulkHttp,
    queue: str,
    after: int,
    through: int,
    parts: int = 1,
    max_records: int | None = None,
) -> list[Cut]:
    """About this many parts of about equal bytes, in order; none where nothing is there."""
    body = {
        "queue": queue,
        "after": after,
        "through": through,
        "parts": parts,
        "max_records": max_records,
    }
    answer = http.call("POST", "/bulk/split", body, repeatable=True)
    return [Cut(**cut) for cut in answer["cuts"]]


class RowChoice(NamedTuple):
    """Which messages of a range are read: by arrival, UTC seconds (both included), and by sort."""

    since: int = 0
    until: int | None = None
    priorities: tuple[int, ...] = ()
    classes: tuple[int, ...] = ()

    @property
    def parameters(self) -> str:
        """For the path of a request."""
        until = "" if self.until is None else f"&until={self.until}"
        since = f"&since={self.since}" if self.since else ""
        priorities, classes = (
            f"&{name}={','.join(map(str, values))}" if values else ""
            for name, values in (("priorities", self.priorities), ("classes", self.classes))
        )
        return f"{since}{until}{priorities}{classes}"


EVERY_ROW: Final = RowChoice()


def read(
    http: BulkHttp,
    queue: str,
    after: int,
    through: int,
    columns: Sequence[str] = (),
    choice: RowChoice = EVERY_ROW,
) -> Iterator[Any]:
    """The messages of a part as record batches of these columns (none: all), in order of ids.

    Where the connection breaks, or the memory for it is short, it reads on after the last row, as
    long as a new row comes within `http.retry_s` seconds. Any other refusal is raised.
    """
    names = list(columns)
    if names and LOOKUP_ID not in names:
        names.append(LOOKUP_ID)
    came = time.monotonic()  # when the last row did
    while after < through:
        path = f"/queues/{segment(queue)}/arrow?after={after}&through={through}&constants=true"
        path += f"&columns={','.join(names)}" if names else ""
        path += choice.parameters
        try:
            for batch in http.read_arrow(path, constants=True):
                if batch.num_rows:
                    yield batch.select(list(columns)) if columns else batch
                    after = int(batch.column(LOOKUP_ID)[-1].as_py())
                    came = time.monotonic()
        except (SessionLost, InsufficientResources):  # the latter: too many read at once
            if time.monotonic() - came >= http.retry_s:
                raise
            time.sleep(_PAUSE_S)
        else:
            return
