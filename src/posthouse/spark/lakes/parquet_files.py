"""Rows of Arrow into Parquet files of a lake: one for each day of a queue, synced when closed.

A file lies where the log will name it. Until then it does not count, and what is never named is
deleted in time. Files have the columns `queue` and `day` too, so that programs that read Parquet
and not Delta see whole rows.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.transaction import AddAction
from pyarrow import parquet

from posthouse.spark.lakes.columns import LAKE_COLUMNS, conformed
from posthouse.spark.lakes.disk import Disk
from posthouse.spark.lakes.lake_paths import LakePlace
from posthouse.spark.lakes.state import US_PER_S, LakeFile

# What files of a lake are called: nothing else is ever touched. The second is by version 0.1, the
# third by other programs that write Delta, and that have compacted the table.
FILE_NAME: Final = re.compile(
    r"(?:messages-[0-9a-f]{32}|(?:batch|compact)-[0-9]{10}-[0-9a-f]{16}-[0-9]{4,}"
    r"|part-[0-9]{5}-[0-9a-f-]{36}-c[0-9]{3}(?:\.[a-z0-9]{1,8})?)\.parquet",
    re.ASCII,
)
GROUP_BYTES: Final = 32 << 20  # of rows that wait for others, so that they share a row group
GROUP_ROWS: Final = 128 << 10
DAYS_MAX: Final = 64  # files that are open at a time
HINT_LENGTH: Final = 64
NAMELESS: Final = "unknown"
DAY_US: Final = 86_400 * US_PER_S
EPOCH: Final = date(1970, 1, 1)
# Columns with few different values, and columns that readers choose row groups by. Of others there
# are not statistics: they would show in the file, and in the log, what an erasure has to remove.
REPEATED: Final = [
    "queue_manager", "queue", "day", "label", "body_type", "body_size", "priority", "class",
    "class_code", "delivery", "source_queue_manager", "destination", "admin_queue",
    "response_queue", "app_specific", "connector_type", "trace", "time_to_be_received", "sender",
    "correlation_id", "sent_time", "arrived_time", "abort_count", "move_count",
    "acknowledge.list.element", "journal.list.element",
]  # fmt: skip
STATISTICS: Final = ["queue", "day", "lookup_id", "arrived_time", "sent_time"]


class DayFile:
    """A file that is being written: messages of one queue and day."""

    def __init__(self, place: LakePlace, disk: Disk, queue: str, day: int, schema: Any) -> None:
        self.day = EPOCH + timedelta(days=day)
        self.queue = queue
        self.path = f"{folder_of(queue)}/{self.day.isoformat()}/{new_name()}"
        self._place = place
        self._disk = disk
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._ids: list[int] = []
        self._times: list[int] = []
        self._schema = schema
        self._sink = self._opened()
        self._writer = parquet.ParquetWriter(
            self._sink,
            schema,
            compression="zstd",
            use_dictionary=[name for name in REPEATED if name.split(".")[0] in schema.names],
            write_statistics=[name for name in STATISTICS if name in schema.names],
        )

    def _opened(self) -> Any:
        if self._place.folder is None:
            return self._place.file_system().open_output_stream(self.path)
        path = self._place.folder / self.path
        self._disk.make_folder(path.parent)
        self._disk.create(path)
        return pa.OSFile(str(path), "wb")

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows of this day."""
        self._note(rows)
        day = pa.scalar(self.day)
        self._waiting.append(conformed(rows, self._schema, self.queue, day))
        self._rows += rows.num_rows

    def _note(self, rows: pa.RecordBatch) -> None:
        self._ids += _extremes(rows.column("lookup_id"))
        self._times += _extremes(rows.column("arrived_time").cast(pa.int64()))

    @property
    def waiting(self) -> int:
        """Bytes of rows that are not in the file yet."""
        return sum(table.nbytes for table in self._waiting)

    def flush(self) -> None:
        """Writes what waits, as one row group or several."""
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting), GROUP_ROWS)
            self._waiting = []

    def close(self) -> LakeFile:
        """Ends the file; it is durable then, and not part of the lake yet."""
        self.flush()
        self._writer.close()
        self._sink.close()
        if self._place.folder is None:
            size = int(self._place.file_system().get_file_info(self.path).size)
        else:
            path = self._place.folder / self.path
            self._disk.sync_file(path)
            # All folders of the lake: a process that was killed may have made them.
            for folder in (path.parent, path.parent.parent, self._place.folder):
                self._disk.sync_folder(folder)
            size = path.stat().st_size
        times = self._times or [0]
        return LakeFile(
            path=self.path,
            queue=self.queue,
            day=self.day.isoformat(),
            rows=self._rows,
            bytes=size,
            first_id=min(self._ids),
            last_id=max(self._ids),
            first_us=min(times),
            last_us=max(times),
        )

    def abandon(self) -> None:
        """Leaves the file as it is; nothing names it."""
        with suppress(Exception):  # whatever it was that failed
            self._writer.close()
        self._sink.close()


class QueueFiles:
    """Rows of one queue become files by day. Use it as a context; what fails leaves no name."""

    def __init__(
        self, place: LakePlace, queue: str, schema: Any = LAKE_COLUMNS, disk: Disk | None = None
    ) -> None:
        self._place = place
        self._queue = queue or NAMELESS
        self._schema = schema
        self._disk = disk or Disk()
        self._open: dict[int, DayFile] = {}
        self._done: list[LakeFile] = []

    def __enter__(self) -> QueueFiles:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for file in self._open.values():
            file.abandon()
        self._open.clear()

    def add(self, rows: pa.RecordBatch) -> None:
        """Some rows, in order of their lookup ids."""
        for day, portion in by_day(rows):
            self._file(day).add(portion)
        if sum(file.waiting for file in self._open.values()) >= GROUP_BYTES:
            for file in self._open.values():
                file.flush()

    def _file(self, day: int) -> DayFile:
        if day not in self._open:
            if len(self._open) >= DAYS_MAX:
                self._done.append(self._open.pop(next(iter(self._open))).close())
            self._open[day] = DayFile(self._place, self._disk, self._queue, day, self._schema)
        return self._open[day]

    def close(self) -> list[LakeFile]:
        """Ends all files, and describes them."""
        while self._open:
            self._done.append(self._open[next(iter(self._open))].close())
            del self._open[next(iter(self._open))]
        return self._done


def by_day(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each day (UTC, as a number since 1970) on which messages came."""
    times = rows.column("arrived_time").cast(pa.int64()).fill_null(0)
    extremes = pc.min_max(times).as_py()
    if extremes["min"] is None:
        return
    first, last = extremes["min"] // DAY_US, extremes["max"] // DAY_US
    if first == last:
        yield first, rows
        return
    days = pc.floor(pc.divide(times.cast(pa.float64()), float(DAY_US))).cast(pa.int64())
    for day in sorted(pc.unique(days).to_pylist()):
        yield day, rows.filter(pc.equal(days, day))


def folder_of(queue: str) -> str:
    """The folder of a queue: what no program writes otherwise in an address; a hint for people."""
    hint = re.sub(r"[^A-Za-z0-9._-]+", "-", queue)[:HINT_LENGTH].strip("-._") or "queue"
    return f"{hint}-{sha256(queue.encode()).hexdigest()[:16]}"


def new_name() -> str:
    """A name that no other file has."""
    return f"messages-{secrets.token_hex(16)}.parquet"


def _extremes(column: pa.Array) -> list[int]:
    found = pc.min_max(column).as_py()
    return [value for value in (found["min"], found["max"]) if value is not None]


def add_action(file: LakeFile, at_ms: int, *, is_new: bool) -> AddAction:
    """A file as the log names it; one that only replaces others brings no new rows."""
    statistics = {
        "numRecords": file.rows,
        "minValues": {"lookup_id": file.first_id, "arrived_time": _stamp(file.first_us)},
        "maxValues": {"lookup_id": file.last_id, "arrived_time": _stamp(file.last_us)},
        "nullCount": {"lookup_id": 0},
    }
    parts = {"queue": file.queue, "day": file.day}
    return AddAction(file.path, file.bytes, parts, at_ms, is_new, json.dumps(statistics))


def _stamp(us: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
