"""The state of a lake at one version: its files, and archived positions of queues and streams.

The number of a stream's last batch, the highest lookup id of each queue and the start of the queue
manager that gave it are transactions of Delta's log: they are written in one step with the files,
and stay when the files have gone. Queue managers are properties of the table.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, Transaction

from posthouse.model.errors import InvalidParameter
from posthouse.spark.lakes.columns import PARTED_BY, with_more

THROUGH: Final = "posthouse.through:"
INCARNATION: Final = "posthouse.incarnation:"
MANAGER: Final = "posthouse.manager."
US_PER_S: Final = 1_000_000
READER_VERSION: Final = 1  # of Delta: what a version names is in its files, and nothing else
_NAME_BYTES: Final = 8
_EVER: Final = (1 << 62) // US_PER_S * US_PER_S


class LakeFile(msgspec.Struct, frozen=True):
    """One Parquet file: where it lies below the lake, and what can be said without opening it."""

    path: str
    queue: str
    day: str
    rows: int
    bytes: int
    first_id: int
    last_id: int
    first_us: int  # arrived_time, microseconds since 1970
    last_us: int


class LakeState:
    """A lake as one version of its table has it."""

    def __init__(self, table: DeltaTable) -> None:
        check_lake(table)
        self.table = table
        self.version = int(table.version())

    @cached_property
    def files(self) -> list[LakeFile]:
        """Its files."""
        found = pa.table(self.table.get_add_actions(flatten=True)).to_pylist()
        return [_file(row) for row in found]

    @cached_property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return with_more(pa.schema(self.table.schema().to_arrow()))

    @property
    def rows(self) -> int:
        """Messages in the lake."""
        return sum(file.rows for file in self.files)

    @property
    def queues(self) -> dict[str, int]:
        """The queues it has messages of, and the highest lookup id of each."""
        found: dict[str, int] = {}
        for file in self.files:
            found[file.queue] = max(file.last_id, found.get(file.queue, file.last_id))
        return found

    def has(self, stream: str, batch: int) -> bool:
        """Whether a batch is here already."""
        last = self.table.transaction_version(stream)
        return last is not None and batch <= last

    def through(self, queue: str) -> int:
        """The highest lookup id of a queue that was ever written, under all its names; -1 where
        there is none.

        A copy of a home has the same GUID: check the incarnation before you go on from here.
        """
        return max(map(self.own_through, self.names_of(queue)))

    def own_through(self, queue: str) -> int:
        """Return the highest lookup id that was written under this name alone."""
        found = self.table.transaction_version(THROUGH + queue)
        return -1 if found is None else found

    def incarnation(self, queue: str) -> str:
        """Which start of its queue manager gave that id; empty where it is not known."""
        name = max(self.names_of(queue), key=self.own_through)
        return incarnation_of(self.table.transaction_version(INCARNATION + name))

    def names_of(self, queue: str) -> list[str]:
        """Return the names that a queue has had: one for each name of its queue manager.

        A rename keeps the GUID and the lookup ids.
        """
        machine, sign, rest = queue.partition("\\")
        guid = self.managers.get(machine)
        names = [name for name, one in self.managers.items() if one == guid and name != machine]
        return [queue, *(f"{name}{sign}{rest}" for name in names)]

    @cached_property
    def managers(self) -> dict[str, str]:
        """The GUID of each queue manager by name: lookup ids count within one of them."""
        properties = self.table.metadata().configuration
        return {
            name.removeprefix(MANAGER): guid
            for name, guid in properties.items()
            if name.startswith(MANAGER)
        }


def check_lake(table: DeltaTable) -> None:
    """Refuses tables that are not lakes, and lakes whose files alone do not show what is in them.

    Another program may have switched deletion vectors or column mapping on. Rows that it deleted
    would come back, and be written again.
    """
    if table.metadata().partition_columns != list(PARTED_BY):
        raise InvalidParameter(
            f"this Delta table is not a lake: its partitions are not {' and '.join(PARTED_BY)}",
            "Name a new folder, or one that `posthouse pipeline archive` has made.",
        )
    protocol = table.protocol()
    if protocol.min_reader_version > READER_VERSION:
        features = ", ".join(protocol.reader_features or ()) or "column mapping"
        raise InvalidParameter(
            f"another program has changed the lake to version {protocol.min_reader_version} of "
            f"Delta's readers ({features}), and its files alone do not show what is in it",
            "Read it with that program, or drop the feature there; `--as-of` reads older versions.",
        )


def progress(queue: str, through: int, incarnation: str) -> list[Transaction]:
    """How far a queue is archived, as a commit has it."""
    number = incarnation_number(incarnation)
    return [Transaction(THROUGH + queue, through), Transaction(INCARNATION + queue, number)]


def incarnation_number(name: str) -> int:
    """The name of a start of a queue manager as a transaction has it; 0 where it is not known."""
    packed = bytes.fromhex(name)
    return int.from_bytes(packed, "big", signed=True) if len(packed) == _NAME_BYTES else 0


def incarnation_of(number: int | None) -> str:
    """The name of a start of a queue manager; empty where it is not known."""
    return number.to_bytes(_NAME_BYTES, "big", signed=True).hex() if number else ""


def _file(row: dict[str, Any]) -> LakeFile:
    """A file of the log; one without statistics, as other writers may add it, may hold anything."""
    return LakeFile(
        path=unquote(row["path"]),
        queue=row.get("partition.queue") or "",
        day="" if row.get("partition.day") is None else row["partition.day"].isoformat(),
        rows=row.get("num_records") or 0,
        bytes=row["size_bytes"],
        first_id=_or(row.get("min.lookup_id"), -_EVER),
        last_id=_or(row.get("max.lookup_id"), _EVER),
        first_us=_us(row.get("min.arrived_time"), -_EVER),
        last_us=_us(row.get("max.arrived_time"), _EVER),
    )


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _us(moment: datetime | None, otherwise: int) -> int:
    return otherwise if moment is None else round(moment.timestamp() * US_PER_S)
