"""The Delta log of a lake: `deltalake` writes its entries, and this module makes them durable.

delta-rs syncs nothing, so that after a power failure an entry could be there and be empty. On a
file system each change is therefore made in a copy of the log, which consists of hard links. The
new entry is synced there, and then linked into the log unless another writer has taken its number.
So an entry is there as a whole or not at all, and the first of several writers wins. Object stores
give both by themselves: what they have confirmed is durable, and an entry is put if it is absent.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deltalake import DeltaTable, PostCommitHookProperties
from deltalake.exceptions import CommitFailedError

from posthouse.spark.lakes.disk import FOLDER_MODE, Disk, locked
from posthouse.spark.lakes.lake_paths import LakePlace

LOG: Final = "_delta_log"
LAST_CHECKPOINT: Final = "_last_checkpoint"
OURS: Final = "_posthouse"
"""The folder of a lake with what is not the table: readers of Delta pass it by."""
LOCK: Final = "lock"
CHANGES: Final = "changes"
ABANDONED_S: Final = 3600.0  # no change takes that time
CHECKPOINT_EVERY: Final = 50  # versions
_ENTRY: Final = re.compile(r"([0-9]{20})\.json")
# Ours are one file. Other programs write some in parts, or with a name of their own.
_CHECKPOINT: Final = re.compile(r"([0-9]{20})\.checkpoint(?:\.[0-9a-f.-]+)?\.parquet")
# Checkpoints are made here, once the entry is durable.
NO_HOOKS: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class Conflict(Exception):
    """Another writer has changed the lake meanwhile."""


class LakeLog:
    """The log of the lake at a place."""

    def __init__(self, place: LakePlace, disk: Disk) -> None:
        self.place = place
        self._disk = disk

    def exists(self) -> bool:
        """Whether there is a table."""
        return DeltaTable.is_deltatable(self.place.uri, self.place.store_options)

    def table(self) -> DeltaTable:
        """The table as it is now."""
        return DeltaTable(self.place.uri, storage_options=self.place.store_options)

    @contextmanager
    def change(self) -> Iterator[str]:
        """Where to make one change of the table; it is durable when this ends.

        Raises `Conflict` where another writer was faster: then nothing has changed.
        """
        folder = self.place.folder
        try:
            if folder is None:
                yield self.place.uri
            else:
                with self._aside(folder) as copy:
                    yield str(copy)
        except CommitFailedError as error:
            raise Conflict(str(error)) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes of this machine from changing the lake."""
        if self.place.folder is None:
            yield
            return
        self._disk.make_folder(self.place.folder / OURS)
        with locked(self.place.folder / OURS / LOCK, "another process changes the lake"):
            yield

    @contextmanager
    def _aside(self, folder: Path) -> Iterator[Path]:
        """A copy of the log; what is new in it at the end becomes part of the log."""
        copy = folder / OURS / CHANGES / secrets.token_hex(8)
        (copy / LOG).mkdir(FOLDER_MODE, parents=True)
        try:
            known = _linked(folder / LOG, copy / LOG)
            yield copy
            self._publish(folder / LOG, copy / LOG, known)
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _publish(self, log: Path, copy: Path, known: set[str]) -> None:
        self._disk.make_folder(log)
        new = sorted(path.name for path in copy.iterdir() if path.name not in known)
        for name in new:
            self._disk.sync_file(copy / name)
            if _ENTRY.fullmatch(name) and not self._disk.link(copy / name, log / name):
                raise Conflict(f"version {int(name[:20])} is another writer's")
            if _CHECKPOINT.fullmatch(name):
                self._disk.move(copy / name, log / name)
        self._disk.sync_folder(log)
        if any(map(_CHECKPOINT.fullmatch, new)):
            self._disk.sync_file(copy / LAST_CHECKPOINT)
            self._disk.move(copy / LAST_CHECKPOINT, log / LAST_CHECKPOINT)
            self._disk.sync_folder(log)

    def sweep(self) -> None:
        """Deletes copies that killed processes have left."""
        if self.place.folder is None:
            return
        for copy in (self.place.folder / OURS / CHANGES).glob("*"):
            if time.time() - copy.stat().st_mtime > ABANDONED_S:
                self._disk.delete_tree(copy)

    def tidy(self, version: int) -> None:
        """Every now and then: a checkpoint of the log, and the end of old entries."""
        if version % CHECKPOINT_EVERY:
            return
        with self.locked(), self.change() as uri:
            DeltaTable(uri, storage_options=self.place.store_options).create_checkpoint()
        self.table().cleanup_metadata()


def _linked(log: Path, copy: Path) -> set[str]:
    """Links what a reader of the newest version needs; returns the names."""
    if not log.is_dir():
        return set()
    first, names = _checkpointed(log), set[str]()
    for path in log.iterdir():
        found = _ENTRY.fullmatch(path.name) or _CHECKPOINT.fullmatch(path.name)
        if found and int(found[1]) >= first:
            (copy / path.name).hardlink_to(path)
            names.add(path.name)
    if first:
        shutil.copyfile(log / LAST_CHECKPOINT, copy / LAST_CHECKPOINT)
        names.add(LAST_CHECKPOINT)
    return names


def _checkpointed(log: Path) -> int:
    """The version of the newest checkpoint; 0 where there is none."""
    try:
        version = int(json.loads((log / LAST_CHECKPOINT).read_bytes())["version"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return 0
    return version if any(log.glob(f"{version:020}.checkpoint*.parquet")) else 0
