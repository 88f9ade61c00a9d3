"""`audit`: the history of messages as one append-only table.

Journals, acknowledgments, reports of traced messages and dead letters, each an event of the message
that it is about. A Delta table that refuses deletions (`delta.appendOnly`); its log has how far
each queue was read, in one step with the rows, so that every event is there once. It needs no
Spark, and consumes nothing.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.transaction import AddAction, create_table_with_add_actions

from posthouse.client import arrow_read
from posthouse.client.admin_http import BulkHttp
from posthouse.client.arrow_read import LookupIdentity, PlannedQueue, QueuePlan
from posthouse.model.errors import InvalidParameter, QueueError, SharingViolation
from posthouse.model.message_classes import NORMAL, REPORT
from posthouse.model.message_ids import NULL_MESSAGE_ID, MessageId
from posthouse.spark.lakes.disk import Disk
from posthouse.spark.lakes.lake_paths import lake_place
from posthouse.spark.lakes.log import NO_HOOKS, Conflict, LakeLog
from posthouse.spark.lakes.state import incarnation_number, incarnation_of

NAME: Final = "audit"
POSITION: Final = "posthouse.audit:"
START: Final = "posthouse.audit.start:"  # of the queue manager, which gave that position
MESSAGES_MAX: Final = 50_000  # of one queue in one step
TRIES_MAX: Final = 20
EVENTS: Final = pa.schema(
    [
        ("message_id", pa.string()),
        ("event", pa.string()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("queue_manager", pa.string()),
        ("queue", pa.string()),
        ("lookup_id", pa.int64()),
        ("label", pa.string()),
        ("class", pa.string()),
        ("sender", pa.string()),
        ("source_queue_manager", pa.string()),
        ("destination", pa.string()),
        ("sent_time", pa.timestamp("us", "UTC")),
        ("body_size", pa.int64()),
    ]
)
"""One row for each event: sent, received, dead, acknowledged, refused, traced or seen."""
_COLUMNS: Final = (
    "id",
    "class_code",
    "correlation_id",
    "arrived_time",
    *(name for name in EVENTS.names if name not in ("message_id", "event", "event_time")),
)
_SETTINGS: Final = {"delta.appendOnly": "true"}
_NEGATIVE: Final = 0x8000


class Audited(NamedTuple):
    """What a run has added."""

    events: int
    queues: int
    version: int


def audit(
    http: BulkHttp, queues: Iterable[str], path: str | os.PathLike[str], disk: Disk | None = None
) -> Audited:
    """Adds what these queues have and the table has not; makes the table where there is none."""
    table = AuditTable(path, disk)
    table.create()
    events, asked = 0, list(dict.fromkeys(queues))
    for queue in asked:
        for rows, done in _steps(http, queue, table):
            events += rows.num_rows
            table.append(rows, done)
    return Audited(events, len(asked), table.version())


def _steps(
    http: BulkHttp, queue: str, table: AuditTable
) -> Iterator[tuple[pa.Table, list[Transaction]]]:
    """Rows of a queue that are not in the table, some at a time, and how far they go."""
    while True:
        plan = arrow_read.plan(http, [PlannedQueue(queue)])
        (found,) = plan.queues
        key = f"{plan.guid}:{found.identity.created}:{found.queue}"
        after, start = table.position(POSITION + key), table.position(START + key)
        identity = LookupIdentity(incarnation=incarnation_of(start))
        wanted = PlannedQueue(queue, after, max_messages=MESSAGES_MAX, identity=identity)
        (part,) = arrow_read.plan(http, [wanted]).queues
        _check_ids(part, after)
        if part.latest <= after:
            return
        name = incarnation_number(part.identity.incarnation)
        done = [Transaction(POSITION + key, part.end), Transaction(START + key, name)]
        yield _events(http, part), done


def _check_ids(part: QueuePlan, after: int) -> None:
    """A home that was put back gives ids again that the table has for other messages."""
    if part.loss:
        raise InvalidParameter(
            f"the table has events of {part.queue} up to lookup id {after}, which this home of the "
            "queue manager never gave: the home was put back from a copy or a backup. What it has "
            "now would be taken for what the table has",
            "Audit into another folder: --table DIR.",
        )


def _events(http: BulkHttp, part: QueuePlan) -> pa.Table:
    rows = [
        event_of(row)
        for batch in arrow_read.read(http, part.queue, part.after, part.end, _COLUMNS)
        for row in batch.to_pylist()
    ]
    return pa.Table.from_pylist(rows, EVENTS)


def event_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a message shows of itself, or, as a receipt, of the one that it is about."""
    kept = {name: row[name] for name in EVENTS.names if name in row}
    about = row["id"] if row["class_code"] == NORMAL else correlated(row["correlation_id"])
    event = event_name(str(row["queue"]).lower(), int(row["class_code"]))
    if event == "dead":
        about = row["id"]
    return kept | {"message_id": about, "event": event, "event_time": row["arrived_time"]}


def event_name(queue: str, code: int) -> str:
    """What happened, by where a message lies and what it is."""
    if queue.endswith((";deadletter", ";deadxact")):
        return "dead"
    if code == REPORT:
        return "traced"
    if code != NORMAL:
        return "refused" if code & _NEGATIVE else "acknowledged"
    if queue.endswith("system$;journal"):
        return "sent"
    return "received" if queue.endswith(";journal") else "seen"


def correlated(text: str | None) -> str | None:
    """The identifier that a correlation identifier is; None where it is none."""
    try:
        found = MessageId.unpack(bytes.fromhex(text or ""))
    except (ValueError, QueueError):
        return None
    return None if found == NULL_MESSAGE_ID else str(found)


class AuditTable:
    """The table, in a folder of this machine."""

    def __init__(self, path: str | os.PathLike[str], disk: Disk | None = None) -> None:
        self._place = lake_place(path)
        if self._place.folder is None:
            raise InvalidParameter(
                f"an audit table lies in a folder, not at {self._place}", "Name a folder."
            )
        self._folder = self._place.folder
        self._disk = disk or Disk()
        self._log = LakeLog(self._place, self._disk)

    def create(self) -> None:
        """Makes the table, unless it is there; a folder of something else is refused."""
        if self._log.exists():
            if self._log.table().metadata().name != NAME:
                raise InvalidParameter(
                    f"{self._folder} is another table", "Name a new folder for the audit table."
                )
            return
        if self._folder.exists() and any(self._folder.iterdir()):
            raise InvalidParameter(f"{self._folder} is not empty", "Name a new folder.")
        with self._log.locked(), self._log.change() as uri:
            create_table_with_add_actions(
                uri,
                DeltaSchema.from_arrow(EVENTS),
                [],
                mode="error",
                name=NAME,
                description="Events of messages that `posthouse pipeline audit` has written.",
                configuration=_SETTINGS,
                commit_properties=CommitProperties(),
                post_commithook_properties=NO_HOOKS,
            )

    def version(self) -> int:
        """The newest version."""
        return int(self._log.table().version())

    def position(self, key: str) -> int:
        """Up to which lookup id a queue is in the table, or which start gave that; 0: not known."""
        return _position(self._log.table(), key)

    def append(self, rows: pa.Table, done: list[Transaction]) -> bool:
        """Adds rows, durably; False where another process has added them.

        The first of `done` is how far they go.
        """
        action = self._written(rows) if rows.num_rows else None
        for _ in range(TRIES_MAX):
            try:
                with self._log.locked(), self._log.change() as uri:
                    table = DeltaTable(uri)
                    if _position(table, done[0].app_id) >= done[0].version:
                        return False
                    version = table.version() + 1
                    _commit(table, [] if action is None else [action], done)
            except Conflict:
                continue
            self._log.tidy(version)
            return True
        raise SharingViolation(f"other processes keep changing {self._folder}", "Try again.")

    def _written(self, rows: pa.Table) -> AddAction:
        """A file of rows that is not part of the table yet."""
        path = self._folder / f"events-{secrets.token_hex(16)}.parquet"
        pq.write_table(rows, path, compression="zstd")
        self._disk.sync_file(path)
        self._disk.sync_folder(self._folder)
        statistics = json.dumps({"numRecords": rows.num_rows})
        at_ms = round(time.time() * 1000)
        return AddAction(path.name, path.stat().st_size, {}, at_ms, True, statistics)


def _position(table: DeltaTable, key: str) -> int:
    return int(table.transaction_version(key) or 0)


def _commit(table: DeltaTable, actions: Sequence[AddAction], done: list[Transaction]) -> None:
    table.create_write_transaction(
        list(actions),
        "append",
        table.schema(),
        [],
        commit_properties=CommitProperties(max_commit_retries=0, app_transactions=done),
        post_commithook_properties=NO_HOOKS,
    )
