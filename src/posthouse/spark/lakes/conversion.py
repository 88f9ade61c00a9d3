"""Lakes of version 0.1, which had a manifest of our own, become Delta tables in place.

The files stay where they are: the log's first entry names them, with what the manifest said of
them. Then the manifest is deleted. A crash before that leaves both, and the log counts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import msgspec
from deltalake import DeltaTable, Transaction
from msgspec import Meta

from posthouse.model.errors import InvalidParameter
from posthouse.spark.lakes.creation import create_table, set_managers
from posthouse.spark.lakes.disk import Disk
from posthouse.spark.lakes.log import OURS, LakeLog
from posthouse.spark.lakes.parquet_files import add_action
from posthouse.spark.lakes.state import LakeFile, LakeState, progress

NAME: Final = "manifest.json"
FORMAT: Final = 1
FILE_PATH: Final = re.compile(
    r"queue=[^/]+/day=[^/]+/(?:batch|compact)-[0-9]{10}-[0-9a-f]{16}-[0-9]{4,}\.parquet", re.ASCII
)
Count = Annotated[int, Meta(ge=0)]


class Removed(msgspec.Struct, frozen=True):
    """A file that a compaction had replaced."""

    path: str
    at_s: float


class Manifest(msgspec.Struct):
    """The manifest of version 0.1."""

    format: int = FORMAT
    version: Count = 0
    files: list[LakeFile] = []
    removed: list[Removed] = []
    queries: dict[str, int] = {}
    through: dict[str, int] = {}
    managers: dict[str, str] = {}
    incarnations: dict[str, str] = {}


def has_manifest(folder: Path) -> bool:
    """Whether a folder is a lake of version 0.1."""
    return (folder / OURS / NAME).is_file()


def convert(folder: Path, log: LakeLog, disk: Disk) -> None:
    """Makes a Delta table of a lake of version 0.1; one that is a table loses its manifest."""
    path = folder / OURS / NAME
    with log.locked():
        if not has_manifest(folder):
            return  # another process has done it
        manifest = parsed(path.read_bytes(), path)
        if not log.exists():
            with log.change() as uri:
                _create(uri, manifest)
        elif not LakeState(log.table()).managers and manifest.managers:
            with log.change() as uri:  # a crash has left the first of the log's two entries alone
                set_managers(DeltaTable(uri), manifest.managers)
        disk.delete(path)
        disk.sync_folder(path.parent)


def _create(uri: str, manifest: Manifest) -> None:
    files = [add_action(file, file.last_us // 1000, is_new=True) for file in manifest.files]
    done = [Transaction(stream, batch) for stream, batch in manifest.queries.items()]
    for queue, through in manifest.through.items():
        done += progress(queue, through, manifest.incarnations.get(queue, ""))
    create_table(uri, None, files, done, manifest.managers)


def parsed(data: bytes, path: Path) -> Manifest:
    """Reads a manifest; nothing in it is believed that names other files than a lake's."""
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(
            f"{path} is not a manifest: {error}", "Restore it from a backup of the lake."
        ) from None
    if manifest.format != FORMAT:
        raise InvalidParameter(
            f"{path} has format {manifest.format}, which no version of Posthouse has written",
            "Restore it from a backup of the lake.",
        )
    for file in manifest.files:
        if FILE_PATH.fullmatch(file.path) is None or "/../" in file.path:
            raise InvalidParameter(
                f"{path} names {file.path[:200]!r}, which is not a file of a lake",
                "Restore it from a backup of the lake.",
            )
    return manifest
