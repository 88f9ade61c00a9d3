"""Batches of a lake without Spark, and a disk that loses what was not synced."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from posthouse.spark.lakes.columns import LAKE_COLUMNS
from posthouse.spark.lakes.disk import Disk
from posthouse.spark.lakes.files import Added, LakeFiles
from posthouse.spark.lakes.state import LakeFile

ORDERS: Final = "ALPHA\\private$\\orders"
QUERY: Final = "6bd4b6a8-1111-2222-3333-444444444444"
NOON: Final = datetime(2026, 11, 15, 12, tzinfo=UTC)
DAY: Final = timedelta(days=1)
BODY: Final = bytes(range(256))


def rows(queue: str, ids: Iterable[int], at: datetime = NOON, **more: Any) -> pa.RecordBatch:
    """Messages as a queue manager sends them: a second lies between one and the next."""
    numbers = list(ids)
    given: dict[str, list[Any]] = {
        "queue_manager": ["ALPHA"] * len(numbers),
        "queue": [queue] * len(numbers),
        "lookup_id": numbers,
        "label": ["a\nlabel"] * len(numbers),
        "body": [BODY] * len(numbers),
        "arrived_time": [at + timedelta(seconds=number) for number in numbers],
        "journal": [["positive"]] * len(numbers),
        **{name: [value] * len(numbers) for name, value in more.items()},
    }
    columns = [pa.array(values, LAKE_COLUMNS.field(name).type) for name, values in given.items()]
    return pa.RecordBatch.from_arrays(columns, names=list(given))


def written(lake: LakeFiles, *batches: pa.RecordBatch) -> list[LakeFile]:
    """What a task leaves: files of one queue that are not part of the lake yet."""
    with lake.writer(str(batches[0].column("queue")[0])) as writer:
        for batch in batches:
            writer.add(batch)
        return writer.close()


def add_rows(lake: LakeFiles, number: int, *batches: pa.RecordBatch, query: str = QUERY) -> Added:
    """One batch of messages, which may be of several queues."""
    files = [file for batch in batches for file in written(lake, batch)]
    return lake.add(files, query, number)


def add(lake: LakeFiles, ids: Iterable[int], number: int, query: str = QUERY) -> bool:
    """One batch of messages of one queue; whether it was new."""
    return not add_rows(lake, number, rows(ORDERS, ids), query=query).skipped


def ids_in(lake: LakeFiles) -> list[int]:
    """The lookup ids of all messages that the newest version leads to."""
    folder = lake.place.folder
    assert folder is not None
    tables = [parquet.ParquetFile(folder / file.path).read() for file in lake.state().files]
    return sorted(number for table in tables for number in table["lookup_id"].to_pylist())


def data_files(lake: LakeFiles) -> list[str]:
    """Every Parquet file in the folders of a lake, whether it counts or not."""
    folder = lake.place.folder
    assert folder is not None
    found = (path.relative_to(folder) for path in folder.rglob("*.parquet"))
    return sorted(path.as_posix() for path in found if not path.parts[0].startswith("_"))


def _back(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


class PowerLoss(BaseException):
    """The machine goes off in the middle of a step."""


class FragileDisk(Disk):
    """Goes off before its n-th step. What was not synced is lost then, or stays, as it pleases.

    A file whose content was not synced becomes empty, whoever has written it; a name in a folder
    that was not synced is again what it was.
    """

    def __init__(self, steps: int, keeps_names: bool) -> None:
        self.steps_left = steps
        self._keeps_names = keeps_names
        self._undo: dict[Path, list[Callable[[], None]]] = {}
        self._unsynced: set[Path] = set()
        self._synced: set[Path] = set()

    def _step(self) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise PowerLoss

    def _named(self, path: Path, undo: Callable[[], None]) -> None:
        self._undo.setdefault(path.parent, []).append(undo)

    def write(self, path: Path, data: bytes) -> None:
        self._step()
        super().write(path, data)
        self._named(path, lambda: path.unlink(missing_ok=True))

    def create(self, path: Path) -> None:
        self._step()
        super().create(path)
        self._unsynced.add(path)
        self._named(path, lambda: path.unlink(missing_ok=True))

    def sync_file(self, path: Path) -> None:
        self._step()
        self._unsynced.discard(path)
        self._synced.add(path)

    def sync_folder(self, path: Path) -> None:
        self._step()
        self._undo.pop(path, None)

    def link(self, old: Path, new: Path) -> bool:
        self._step()
        made = super().link(old, new)
        if made:
            self._carry(old, new)
            self._named(new, lambda: new.unlink(missing_ok=True))
        return made

    def move(self, old: Path, new: Path) -> None:
        self._step()
        before = new.read_bytes() if new.exists() else None
        super().move(old, new)
        self._carry(old, new)

        def undo() -> None:
            if before is None:
                new.unlink(missing_ok=True)
            else:
                new.write_bytes(before)

        self._named(new, undo)

    def _carry(self, old: Path, new: Path) -> None:
        if old not in self._synced:
            self._unsynced.add(new)

    def delete(self, path: Path) -> None:
        self._step()
        before = path.read_bytes() if path.exists() else None
        super().delete(path)
        if before is not None:
            self._named(path, lambda: _back(path, before))

    def delete_tree(self, path: Path) -> None:
        self._step()
        super().delete_tree(path)

    def make_folder(self, path: Path) -> None:
        if path.is_dir():
            return
        self.make_folder(path.parent)
        self._step()
        path.mkdir(mode=0o700, exist_ok=True)
        self._named(path, lambda: shutil.rmtree(path, ignore_errors=True))
        self.sync_folder(path.parent)

    def lose_power(self) -> None:
        """What is found when the machine is on again."""
        for path in self._unsynced:
            if path.exists():
                path.write_bytes(b"")
        if not self._keeps_names:
            for undoes in self._undo.values():
                for undo in reversed(undoes):
                    undo()
