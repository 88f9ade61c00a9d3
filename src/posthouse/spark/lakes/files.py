"""The files of a lake: adds batches, replaces or drops files, deletes old ones.

The data is written first, and synced. Then the log names it, in one step with the number of the
batch and the highest lookup id of each queue. A process that is killed leaves files that no version
names; `sweep` deletes them in time.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import FileSelector

from posthouse.model.errors import InvalidParameter, SharingViolation, StatusNotFound
from posthouse.spark.lakes.columns import LAKE_COLUMNS, PARTED_BY
from posthouse.spark.lakes.conversion import convert, has_manifest
from posthouse.spark.lakes.creation import create_table, set_managers
from posthouse.spark.lakes.disk import Disk
from posthouse.spark.lakes.lake_paths import lake_place
from posthouse.spark.lakes.log import LOG, NO_HOOKS, OURS, Conflict, LakeLog
from posthouse.spark.lakes.parquet_files import FILE_NAME, QueueFiles, add_action
from posthouse.spark.lakes.state import LakeFile, LakeState, check_lake, progress

KEEP_S: Final = 7 * 86_400  # as long as readers may go on with an older version
TRIES_MAX: Final = 20
HOUR_S: Final = 3600
UNNAMED_HOURS: Final = 1  # a file of a store that no version names may be another writer's
NO_INCARNATIONS: Final[Mapping[str, str]] = {}
_T = TypeVar("_T")


class FilesGone(InvalidParameter):
    """Files that were written are not where the lake is: somebody has deleted them, or they lie on
    another machine."""


class Added(NamedTuple):
    """What a batch brought; `skipped` where it was there already."""

    files: tuple[LakeFile, ...] = ()
    skipped: bool = False

    @property
    def rows(self) -> int:
        """Messages."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Bytes of Parquet."""
        return sum(file.bytes for file in self.files)


class LakeFiles:
    """A lake as its writers see it."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        disk: Disk | None = None,
        now: Callable[[], float] = time.time,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.place = lake_place(path, storage_options)
        self.disk = disk or Disk()
        self.log = LakeLog(self.place, self.disk)
        self.now = now

    # -- the table

    def create(self) -> None:
        """Makes the place a lake, unless it is one; a folder of something else is refused."""
        if self.place.folder is not None:
            self.disk.sync_above(self.place.folder / LOG)
        if self._is_there():
            self._evolve()
            return
        self._check_empty()
        with self.log.locked():
            if not self.log.exists():
                with suppress(Conflict), self.log.change() as uri:  # or another host has made it
                    create_table(uri, self.place.store_options)

    def state(self) -> LakeState:
        """What the lake has now."""
        if not self._is_there():
            raise StatusNotFound(
                f"{self.place} is not a lake: it has no {LOG}",
                "Name the folder that `posthouse pipeline archive --lake` wrote.",
            )
        return LakeState(self.log.table())

    def state_or_none(self) -> LakeState | None:
        """What the lake has now; None where there is none yet."""
        return LakeState(self.log.table()) if self._is_there() else None

    def state_as_of(self, moment: int | datetime) -> LakeState:
        """What the lake had at a version, or at a time."""
        table = self.state().table
        newest = table.version()
        try:
            table.load_as_version(moment)
        except Exception as error:  # deltalake raises several kinds
            is_later = isinstance(moment, int) and moment > newest
            why = f"its newest is {newest}" if is_later else " ".join(str(error).split())
            raise InvalidParameter(
                f"{self.place} has no version {moment}: {why}",
                "Entries of the log are kept for 30 days; `DeltaTable(path).history()` lists them.",
            ) from None
        self._check_begun(table, moment)
        found = LakeState(table)
        self._check_kept(found)
        return found

    def _check_begun(self, table: DeltaTable, moment: int | datetime) -> None:
        """A time before the first version is not one of an empty lake."""
        if isinstance(moment, int):
            return
        asked = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        for entry in table.history(1):
            first = datetime.fromtimestamp(entry["timestamp"] / 1000, UTC)
            if asked >= first:
                continue
            raise InvalidParameter(
                f"the log of {self.place} begins at {first.isoformat(' ', 'seconds')}",
                "Choose a later time.",
            )

    def _check_kept(self, state: LakeState) -> None:
        gone = [file for file in state.files if not self._is_file(file)]
        if gone:
            raise InvalidParameter(
                f"version {state.version} of {self.place} needs {len(gone)} files that were "
                "deleted: messages were erased, or files were replaced more than 7 days before",
                "Choose a later version.",
            )

    def _is_there(self) -> bool:
        """Whether there is a lake; one of version 0.1 becomes a Delta table by this."""
        if self.place.folder is not None and has_manifest(self.place.folder):
            convert(self.place.folder, self.log, self.disk)
        return self.log.exists()

    def _check_empty(self) -> None:
        others = set() if self.place.folder is None else _names(self.place.folder) - {OURS, LOG}
        if others:
            made = self.place.folder is not None and (self.place.folder / OURS).exists()
            what = "a lake without its log" if made else "not a lake"
            raise InvalidParameter(
                f"{self.place} is {what}: it holds {min(others)!r}",
                "Name a new folder, or one that `posthouse pipeline archive` has made; "
                f"a lost {LOG} has to come from a backup.",
            )

    def _evolve(self) -> None:
        """Columns that this version of Posthouse has and the table has not are added to it."""

        def add(table: DeltaTable) -> None:
            check_lake(table)
            known = {field.name for field in table.schema().fields}
            fields = DeltaSchema.from_arrow(LAKE_COLUMNS).fields
            new = [field for field in fields if field.name not in known]
            if new:
                table.alter.add_columns(new, post_commithook_properties=NO_HOOKS)

        self._changed(add)

    def know_managers(self, managers: Mapping[str, str]) -> None:
        """Notes the GUIDs of queue managers; another one of a known name is refused.

        Lookup ids count within one queue manager: a new one of the same name begins at 1 again.
        """

        def note(table: DeltaTable) -> None:
            known = LakeState(table).managers
            for name, guid in managers.items():
                if known.get(name, guid) != guid:
                    raise InvalidParameter(
                        f"{self.place} has messages of another queue manager that was called "
                        f"{name}",
                        "Archive into another folder.",
                    )
            new = {name: guid for name, guid in managers.items() if name not in known}
            if new:
                set_managers(table, new)

        self._changed(note)

    def progress_folder(self, kind: str, key: str) -> Path:
        """Where a pipeline keeps its progress unless a folder is named: in the lake's own."""
        if self.place.folder is None:
            raise InvalidParameter(
                f"the progress of a pipeline with {self.place} is kept in a folder",
                "Name one that stays: --checkpoint DIR.",
            )
        return self.place.folder / OURS / kind / sha256(key.encode()).hexdigest()[:16]

    # -- files

    def writer(self, queue: str) -> QueueFiles:
        """Takes rows of a queue, and makes files of them that are not part of the lake yet."""
        return QueueFiles(self.place, queue, self.state().schema, self.disk)

    def add(
        self,
        files: Sequence[LakeFile],
        stream: str,
        batch: int,
        incarnations: Mapping[str, str] = NO_INCARNATIONS,
    ) -> Added:
        """The files of one batch, which are durable already; so is the batch when this returns.

        `incarnations` are those of its last ids, by queue. A batch that is there already is
        skipped, unless it has more messages now: a checkpoint that lost its tail in a power failure
        plans a batch again, with another end.
        """

        def commit(table: DeltaTable) -> Added:
            state = LakeState(table)
            again = state.has(stream, batch)
            if again and all(file.last_id <= state.own_through(file.queue) for file in files):
                return Added(skipped=True)
            _check_new(state, files)
            self._check_there(files)
            done = [] if again else [Transaction(stream, batch)]
            for queue, last in _lasts(files).items():
                done += progress(queue, last, incarnations.get(queue, ""))
            self._commit(table, self._adds(files, is_new=True), done)
            return Added(tuple(files))

        return self._changed(commit)

    def replace(
        self, old: Iterable[LakeFile], new: Sequence[LakeFile], *, is_same: bool = True
    ) -> bool:
        """Puts files in the place of others; False: these are gone, and nothing is changed.

        `is_same`: the rows are those of the old files, so that readers of changes see none.
        """
        gone = list(old)
        if is_same and sum(file.rows for file in gone) != sum(file.rows for file in new):
            raise InvalidParameter(
                f"{self.place}: files with other rows cannot take the place of {len(gone)} files"
            )

        def commit(table: DeltaTable) -> bool:
            there = {file.path for file in LakeState(table).files}
            if not {file.path for file in gone} <= there:
                return False  # another writer has replaced them
            self._check_there(new)
            at_ms = round(self.now() * 1000)
            removes = [_remove_action(file, at_ms, is_same=is_same) for file in gone]
            adds = self._adds(new, is_new=not is_same)
            self._commit(table, [*adds, *removes], [])
            return True

        return self._changed(commit)

    def _adds(self, files: Iterable[LakeFile], *, is_new: bool) -> list[AddAction]:
        at_ms = round(self.now() * 1000)
        return [add_action(file, at_ms, is_new=is_new) for file in files]

    def _commit(
        self,
        table: DeltaTable,
        actions: Sequence[AddAction | RemoveAction],
        transactions: list[Transaction],
    ) -> None:
        table.create_write_transaction(
            list(actions),
            "append",
            table.schema(),
            list(PARTED_BY),
            commit_properties=CommitProperties(max_commit_retries=0, app_transactions=transactions),
            post_commithook_properties=NO_HOOKS,
        )

    def _changed(self, change: Callable[[DeltaTable], _T]) -> _T:
        """Makes one change on the newest version, and again where another writer was faster."""
        for _ in range(TRIES_MAX):
            try:
                with self.log.locked(), self.log.change() as uri:
                    table = DeltaTable(uri, storage_options=self.place.store_options)
                    version = table.version() + 1
                    done = change(table)
            except Conflict:
                continue
            self.log.tidy(version)
            return done
        raise SharingViolation(
            f"other writers keep changing {self.place}", "Try again when there are fewer."
        )

    def _check_there(self, files: Iterable[LakeFile]) -> None:
        """Files that executors wrote elsewhere, or that were swept meanwhile, are not named."""
        for file in files:
            if not self._is_file(file):
                raise FilesGone(
                    f"{file.rows} messages were written, but {file.path} is not in {self.place}",
                    "A lake has to be a folder that the driver and all executors share, or an "
                    "address of an object store.",
                )

    def _is_file(self, file: LakeFile) -> bool:
        if self.place.folder is None:
            return bool(self.place.file_system().get_file_info(file.path).size == file.bytes)
        try:
            return (self.place.folder / file.path).stat().st_size == file.bytes
        except FileNotFoundError:
            return False

    def parquet_names(self) -> list[str]:
        """Every Parquet file at the place, whether a version names it or not."""
        folder = self.place.folder
        if folder is not None:
            return [path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")]
        found = self.place.file_system().get_file_info(FileSelector("", recursive=True))
        return [file.path for file in found if file.path.endswith(".parquet")]

    # -- the end of files

    def sweep(self, keep_s: float = KEEP_S) -> int:
        """Deletes files that no version of the last days names; returns how many.

        Those were replaced or dropped, or killed processes have left them. No lock keeps writers
        away from an object store: what no version has ever named stays there for an hour.
        """
        with self.log.locked():
            self.log.sweep()
            table, hours = self.log.table(), int(keep_s // HOUR_S)
            folder = self.place.folder
            if folder is None:
                replaced = _vacuum(table, hours, dry_run=False, full=False)
                left = _vacuum(table, max(hours, UNNAMED_HOURS), dry_run=False, full=True)
                return len({*replaced, *left})
            found = _vacuum(table, hours, dry_run=True, full=True)
            ours = [folder / name for name in found if FILE_NAME.fullmatch(Path(name).name)]
            for path in ours:
                self.disk.delete(path)
            for parent in {path.parent for path in ours}:
                self.disk.sync_folder(parent)
        return len(ours)


def _vacuum(table: DeltaTable, hours: int, *, dry_run: bool, full: bool) -> list[str]:
    """Files that were replaced longer ago; `full`: and those that no version names."""
    return table.vacuum(hours, dry_run=dry_run, enforce_retention_duration=False, full=full)


def file_uri(path: Path) -> str:
    """A path as Spark writes to: it decodes no percent signs."""
    return f"file://{path}"


def file_pattern(path: Path) -> str:
    """A path as Spark reads from: there some characters are a pattern's."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", file_uri(path))


def _names(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - the names alone
    except FileNotFoundError:
        return set()


def _lasts(files: Iterable[LakeFile]) -> dict[str, int]:
    """The highest lookup id of each queue."""
    found: dict[str, int] = {}
    for file in files:
        found[file.queue] = max(file.last_id, found.get(file.queue, file.last_id))
    return found


def _check_new(state: LakeState, files: Iterable[LakeFile]) -> None:
    """Lookup ids grow, so whatever is not above what the lake has is there already."""
    for file in files:
        through = state.own_through(file.queue)
        if file.first_id <= through:
            raise InvalidParameter(
                f"the lake received messages of {file.queue} up to lookup id {through} from "
                "another "
                f"stream meanwhile, and this batch begins at {file.first_id}",
                "Run it again: what is there is not written twice. One stream for a queue is best.",
            )


def _remove_action(file: LakeFile, at_ms: int, *, is_same: bool) -> RemoveAction:
    parts: dict[str, str | None] = {"queue": file.queue, "day": file.day}
    return RemoveAction(file.path, not is_same, at_ms, file.bytes, parts)
