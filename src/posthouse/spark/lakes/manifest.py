"""The manifest of a lake: which files belong to it, and what has been archived so far.

One JSON file, replaced as a whole under a lock. A file that it does not name is not part of the
lake, whatever lies in the folders: so a batch is there entirely or not at all, and a batch that
comes twice is known by its number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from posthouse.model.errors import InvalidParameter, StatusNotFound
from posthouse.spark.lakes.disk import Disk, locked

FOLDER: Final = "_posthouse"
NAME: Final = "manifest.json"
LOCK: Final = "lock"
FORMAT: Final = 1
# What files of a lake are called: nothing else in its folders is ever touched.
FILE_NAME: Final = re.compile(
    r"(?:batch-[0-9]{10}|compact-[0-9]{10})-[0-9a-f]{16}-[0-9]{4,}\.parquet", re.ASCII
)
FILE_PATH: Final = re.compile(rf"queue=[^/]+/day=[^/]+/{FILE_NAME.pattern}", re.ASCII)
Count = Annotated[int, Meta(ge=0)]


class LakeFile(msgspec.Struct, frozen=True):
    """One Parquet file: where it lies below the lake, and what can be said without opening it."""

    path: str
    queue: str
    day: str
    rows: Count
    bytes: Count
    first_id: int
    last_id: int
    first_us: int  # arrived_time, microseconds since 1970
    last_us: int


class Removed(msgspec.Struct, frozen=True):
    """A file that a compaction has replaced; readers of older manifests may still need it."""

    path: str
    at_s: float


class Manifest(msgspec.Struct):
    """What the manifest says."""

    format: int = FORMAT
    version: Count = 0
    files: list[LakeFile] = []
    removed: list[Removed] = []
    queries: dict[str, int] = {}
    """The last batch of each stream that writes here."""
    through: dict[str, int] = {}
    """The highest lookup id of each queue."""
    managers: dict[str, str] = {}
    """The GUID of each queue manager, by name: lookup ids are only one manager's."""
    incarnations: dict[str, str] = {}
    """By queue, which start of its queue manager gave the id in `through`."""

    def has(self, query: str, batch: int) -> bool:
        """Whether a batch is here already."""
        return batch <= self.queries.get(query, -1)

    @property
    def rows(self) -> int:
        """Messages in the lake."""
        return sum(file.rows for file in self.files)

    @property
    def paths(self) -> set[str]:
        """Every file that may not be deleted yet."""
        return {file.path for file in self.files} | {file.path for file in self.removed}


class ManifestStore:
    """The manifest of the lake in a folder."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self.root = root
        self.disk = disk or Disk()
        self.folder = root / FOLDER
        self.path = self.folder / NAME

    def create(self) -> None:
        """Makes the folder a lake, unless it is one; a folder of something else is refused."""
        if self.path.exists():
            return
        others = _names(self.root) - {FOLDER}
        if others:
            what = "a lake without its manifest" if self.folder.exists() else "no lake"
            raise InvalidParameter(
                f"{self.root} is {what}: it holds {sorted(others)[0]!r}",
                "Name a new folder, or one that `posthouse pipeline archive` has made; "
                "a lost manifest has to come from a backup.",
            )
        self.disk.make_folder(self.folder)
        with self.change():
            pass

    def read(self) -> Manifest:
        """The manifest as it is now; needs no lock, as it is replaced as a whole."""
        try:
            data = self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise StatusNotFound(
                f"{self.root} is no lake: it has no {FOLDER}/{NAME}",
                "Name the folder that `posthouse pipeline archive --lake` wrote.",
            ) from None
        return _parsed(data, self.path)

    @contextmanager
    def change(self) -> Iterator[Manifest]:
        """The manifest under its lock; what was changed in it is durable when this ends.

        An exception changes nothing, and so does a crash at any point before the rename.
        """
        with locked(self.folder / LOCK, "another process changes the lake"):
            manifest = self.read() if self.path.exists() else None
            draft = manifest or Manifest()
            before = b"" if manifest is None else msgspec.json.encode(manifest)
            yield draft
            if msgspec.json.encode(draft) != before:
                draft.version += 1
                self._replace(msgspec.json.encode(draft))

    def _replace(self, data: bytes) -> None:
        temporary = self.folder / f"{NAME}.new"  # under the lock only one can write it
        self.disk.delete(temporary)
        self.disk.write(temporary, data)
        self.disk.move(temporary, self.path)
        self.disk.sync_folder(self.folder)


def _names(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - the names alone
    except FileNotFoundError:
        return set()


def _parsed(data: bytes, path: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(
            f"{path} is no manifest: {error}", "Bring it back from a backup of the lake."
        ) from None
    if manifest.format != FORMAT:
        raise InvalidParameter(
            f"{path} has format {manifest.format}, which this version does not know",
            "Use the version of Posthouse that wrote it, or a newer one.",
        )
    for name in manifest.paths:
        if FILE_PATH.fullmatch(name) is None or "/../" in name:
            raise InvalidParameter(
                f"{path} names {name[:200]!r}, which is no file of a lake",
                "Bring it back from a backup of the lake.",
            )
    return manifest
