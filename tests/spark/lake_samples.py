"""Parquet files without Spark, and a disk that loses what was not synced."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import parquet

from posthouse.spark.lakes.disk import Disk
from posthouse.spark.lakes.files import LakeFiles

ORDERS: Final = "ALPHA\\private$\\orders"
QUERY: Final = "6bd4b6a8-1111-2222-3333-444444444444"
NOON: Final = datetime(2026, 11, 15, 12, tzinfo=UTC)
FOLDER: Final = "queue=ALPHA%5Cprivate$%5Corders/day=2026-11-15"
NEXT_DAY: Final = "queue=ALPHA%5Cprivate$%5Corders/day=2026-11-16"
TIMES: Final = pa.timestamp("us", "UTC")


def write_parquet(staged: Path, ids: Iterable[int], place: str = FOLDER) -> None:
    """What Spark leaves in a staging folder: messages of one queue and day."""
    numbers = list(ids)
    times = [NOON + timedelta(seconds=number) for number in numbers]
    table = pa.table({"lookup_id": numbers, "arrived_time": pa.array(times, TIMES)})
    folder = staged / place
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, folder / "part-0.parquet")


def add(lake: LakeFiles, ids: Iterable[int], batch: int, query: str = QUERY) -> bool:
    """One batch of messages with these lookup ids; whether it was new."""
    numbers = list(ids)
    with lake.staging() as folder:
        write_parquet(folder, numbers)
        return not lake.add(folder, len(numbers), query, batch).skipped


def ids_in(lake: LakeFiles) -> list[int]:
    """The lookup ids of all messages that the manifest leads to."""
    tables = [
        parquet.ParquetFile(lake.root / file.path).read() for file in lake.manifests.read().files
    ]
    return sorted(number for table in tables for number in table["lookup_id"].to_pylist())


class PowerLoss(BaseException):
    """The machine goes off in the middle of a step."""


class FragileDisk(Disk):
    """Goes off before its n-th step. What was not synced is lost then, or stays, as it pleases.

    A file whose content was not synced becomes empty, a name in a folder that was not synced is
    again what it was.
    """

    def __init__(self, steps: int, keeps_names: bool) -> None:
        self.steps_left = steps
        self._keeps_names = keeps_names
        self._undo: dict[Path, list[Callable[[], None]]] = {}
        self._unsynced: set[Path] = set()

    def _step(self) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise PowerLoss

    def written_by_others(self, staged: Path) -> None:
        """Files that somebody wrote without a sync."""
        self._unsynced |= set(staged.rglob("*.parquet"))

    def write(self, path: Path, data: bytes) -> None:
        self._step()
        super().write(path, data)
        self._undo.setdefault(path.parent, []).append(lambda: path.unlink(missing_ok=True))

    def sync_file(self, path: Path) -> None:
        self._step()
        self._unsynced.discard(path)

    def sync_folder(self, path: Path) -> None:
        self._step()
        self._undo.pop(path, None)

    def move(self, old: Path, new: Path) -> None:
        self._step()
        before = new.read_bytes() if new.exists() else None
        moved = old.read_bytes()
        super().move(old, new)
        if old in self._unsynced:
            self._unsynced = self._unsynced - {old} | {new}

        def undo() -> None:
            if before is None:
                new.unlink(missing_ok=True)
            else:
                new.write_bytes(before)
            if old.parent.exists():
                old.write_bytes(moved)

        self._undo.setdefault(new.parent, []).append(undo)

    def delete(self, path: Path) -> None:
        self._step()
        super().delete(path)

    def delete_tree(self, path: Path) -> None:
        self._step()
        super().delete_tree(path)

    def make_folder(self, path: Path) -> None:
        if path.is_dir():
            return
        self.make_folder(path.parent)
        self._step()
        path.mkdir(mode=0o700, exist_ok=True)
        undo = self._undo.setdefault(path.parent, [])
        undo.append(lambda: shutil.rmtree(path, ignore_errors=True))
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
