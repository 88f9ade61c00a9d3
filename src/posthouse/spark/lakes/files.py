"""The files of a lake: batches come in, small files become large ones, old ones go.

Whatever writes Parquet writes into a staging folder. There the files are synced; then, under the
lock of the manifest, they get their places and the manifest names them. A process that is killed
leaves files that no manifest names, and `sweep` deletes them.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from posthouse.model.errors import InvalidParameter
from posthouse.spark.lakes.disk import Disk, locked, try_lock
from posthouse.spark.lakes.manifest import (
    FILE_NAME,
    FOLDER,
    LakeFile,
    Manifest,
    ManifestStore,
    Removed,
)

STAGING: Final = "staging"
KEEP_S: Final = 3600.0  # as long as a reader may go on with the manifest it began with
QUEUE_NAME: Final = "queue_name"
"""The column with the whole name of a queue whose folder cannot have it."""
US_PER_S: Final = 1_000_000
NO_INCARNATIONS: Final[Mapping[str, str]] = {}


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


class Swept(NamedTuple):
    """What a sweep deleted."""

    replaced: int
    orphans: int
    staged: int


class LakeFiles:
    """The lake in a folder, as its writers see it."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        disk: Disk | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.root = lake_folder(root)
        self.disk = disk or Disk()
        self.manifests = ManifestStore(self.root, self.disk)
        self.now = now
        self._staging = self.root / FOLDER / STAGING

    def create(self) -> None:
        """Makes the folder a lake, unless it is one."""
        self.manifests.create()

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A name for a folder to write into; what is left there at the end is deleted.

        Its lock tells others that somebody still writes: they do not sweep it.
        """
        self.disk.make_folder(self._staging)
        name = secrets.token_hex(16)
        lock = self._staging / f"{name}.lock"
        with ExitStack() as held:
            with self._manifest_locked():  # no sweep comes between creating and locking it
                held.enter_context(locked(lock, "a staging folder is in use"))
            try:
                yield self._staging / name
            finally:
                self.disk.delete_tree(self._staging / name)
                lock.unlink(missing_ok=True)

    @contextmanager
    def _manifest_locked(self) -> Iterator[None]:
        with self.manifests.change():
            yield

    def add(
        self,
        staged: Path,
        rows: int,
        query: str,
        batch: int,
        incarnations: Mapping[str, str] = NO_INCARNATIONS,
    ) -> Added:
        """The files of one batch of so many rows; durable when this returns, all or none.

        `incarnations` are those of its last ids, by queue. A batch that is there already is
        skipped, unless it has more messages now.
        """
        found = self._staged_files(staged, rows)
        with self.manifests.change() as manifest:
            again = manifest.has(query, batch)
            if again and all(file.last_id <= _through(manifest, file) for file in found):
                return Added(skipped=True)
            _check_new(manifest, found)
            # A checkpoint that lost its tail plans a batch anew, with another end.
            writer = f"{query} {manifest.version}" if again else query
            prefix = f"batch-{batch:010}-{sha256(writer.encode()).hexdigest()[:16]}"
            files = self._place(staged, found, prefix)
            manifest.files.extend(files)
            manifest.queries[query] = max(batch, manifest.queries.get(query, batch))
            for file in files:
                last = manifest.through.get(file.queue, file.last_id)
                manifest.through[file.queue] = max(last, file.last_id)
                manifest.incarnations[file.queue] = incarnations.get(file.queue, "")
        return Added(tuple(files))

    def replace(self, old: Iterable[LakeFile], staged: Path) -> bool:
        """Puts staged files in the place of others with the same rows; False: these are gone."""
        gone = list(old)
        found = self._staged_files(staged, sum(file.rows for file in gone))
        with self.manifests.change() as manifest:
            if not set(gone) <= set(manifest.files):
                return False  # somebody else has replaced them
            prefix = f"compact-{manifest.version:010}-{secrets.token_hex(8)}"
            new = self._place(staged, found, prefix)
            outgoing = set(gone)
            manifest.files = [one for one in manifest.files if one not in outgoing] + new
            manifest.removed.extend(Removed(file.path, self.now()) for file in gone)
        return True

    def _staged_files(self, staged: Path, rows: int) -> list[LakeFile]:
        """What was written into a staging folder, synced and looked at."""
        paths = sorted(staged.glob("queue=*/day=*/*.parquet"))
        for path in paths:
            self.disk.sync_file(path)
        found = [_described(path, staged) for path in paths]
        seen = sum(file.rows for file in found)
        if seen != rows:
            raise InvalidParameter(
                f"{rows} messages were written, but only {seen} of them are in {self.root}",
                "A lake has to be a folder that the driver and all executors share.",
            )
        return found

    def _place(self, staged: Path, found: list[LakeFile], prefix: str) -> list[LakeFile]:
        """Moves staged files to their folders under names of ours."""
        placed = []
        for number, file in enumerate(found):
            folder = Path(file.path).parent
            path = folder / f"{prefix}-{number:04}.parquet"
            self.disk.make_folder(self.root / folder)
            self.disk.move(staged / file.path, self.root / path)
            placed.append(msgspec.structs.replace(file, path=path.as_posix()))
        for folder in sorted({Path(file.path).parent for file in placed}):
            self.disk.sync_folder(self.root / folder)
        return placed

    def sweep(self) -> Swept:
        """Deletes what was replaced an hour ago, and what killed processes left behind."""
        with self.manifests.change() as manifest:
            limit = self.now() - KEEP_S
            old = [file for file in manifest.removed if file.at_s <= limit]
            known = manifest.paths
            orphans = [path for path in self._data_files() if path not in known]
            for path in [*(file.path for file in old), *orphans]:
                self.disk.delete(self.root / path)
            staged = self._sweep_staging()
            manifest.removed = [file for file in manifest.removed if file.at_s > limit]
        return Swept(len(old), len(orphans), staged)

    def _data_files(self) -> Iterator[str]:
        """Every file in the folders that is named as those of a lake are."""
        for path in self.root.glob("queue=*/day=*/*.parquet"):
            if FILE_NAME.fullmatch(path.name):
                yield path.relative_to(self.root).as_posix()

    def _sweep_staging(self) -> int:
        """Staging folders whose writer is dead; called under the manifest's lock."""
        count = 0
        for lock in self._staging.glob("*.lock"):
            # A writer that ends takes its lock away without asking.
            with suppress(FileNotFoundError), lock.open("rb") as file:
                if try_lock(file.fileno()):
                    self.disk.delete_tree(lock.with_suffix(""))
                    lock.unlink(missing_ok=True)
                    count += 1
        return count


def lake_folder(path: str | os.PathLike[str]) -> Path:
    """The folder of a lake: one that this machine and every executor see under the same name."""
    text = os.fspath(path)
    if text.startswith("file:"):
        text = unquote(text.removeprefix("file://").removeprefix("file:"))
    if "://" in text:
        raise InvalidParameter(
            f"{text} is no folder here", "A lake is a folder of a file system that is mounted here."
        )
    return Path(text).expanduser().absolute()


def file_uri(path: Path) -> str:
    """A path as Spark writes to: it decodes no percent signs."""
    return f"file://{path}"


def file_pattern(path: Path) -> str:
    """A path as Spark reads from: there some characters are a pattern's."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", file_uri(path))


def _through(manifest: Manifest, file: LakeFile) -> int:
    """The highest lookup id that the lake has of a file's queue."""
    return manifest.through.get(file.queue, -1)


def _check_new(manifest: Manifest, found: list[LakeFile]) -> None:
    """Lookup ids grow, so whatever is not above what the lake has is there already."""
    for file in found:
        through = _through(manifest, file)
        if file.first_id <= through:
            raise InvalidParameter(
                f"the lake has got messages of {file.queue} up to lookup id {through} from another "
                f"stream meanwhile, and this batch begins at {file.first_id}",
                "Run it again: what is there is not written twice. One stream for a queue is best.",
            )


def _described(path: Path, staged: Path) -> LakeFile:
    """What the footer of a Parquet file says."""
    from pyarrow import parquet

    footer = parquet.read_metadata(path)
    columns = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    queue = unquote(path.parent.parent.name.partition("=")[2])
    whole = _extremes(footer, columns.get(QUEUE_NAME))
    ids = _extremes(footer, columns["lookup_id"]) or (0, 0)
    times = _extremes(footer, columns.get("arrived_time"))
    return LakeFile(
        path=path.relative_to(staged).as_posix(),
        queue=queue if whole is None else whole[1],
        day=path.parent.name.partition("=")[2],
        rows=footer.num_rows,
        bytes=path.stat().st_size,
        first_id=ids[0],
        last_id=ids[1],
        first_us=0 if times is None else round(times[0].timestamp() * US_PER_S),
        last_us=0 if times is None else round(times[1].timestamp() * US_PER_S),
    )


def _extremes(footer: Any, column: int | None) -> tuple[Any, Any] | None:
    """The least and the greatest value of a column; None where all are null."""
    if column is None:
        return None
    groups = (footer.row_group(n).column(column).statistics for n in range(footer.num_row_groups))
    known = [one for one in groups if one is not None and one.has_min_max]
    return (min(one.min for one in known), max(one.max for one in known)) if known else None
