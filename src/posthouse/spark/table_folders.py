"""Folders of tables that `pipeline run` writes: refuses what a run would delete or leave out.

A snapshot replaces its folder. The folder of a stream may have the only copy of messages that were
received, and a folder of something else is its owner's. A stream adds to its folder, and Spark
passes over batches whose numbers are there already.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from posthouse.model.errors import InvalidParameter
from posthouse.spark.checkpoints import last_planned

STREAM_LOG: Final = "_spark_metadata"
ELSEWHERE: Final = "Choose another folder with --out, or move {} away."
_SNAPSHOT: Final = re.compile(r"part-.*|_SUCCESS|_temporary|[^.=][^=]*=.*|\..*\.crc")
_BATCH: Final = re.compile(r"(\d+)(\.compact)?", re.ASCII)


def check_snapshot(folder: Path) -> None:
    """Refuses a folder that has anything but an earlier snapshot."""
    names = _names(folder)
    if STREAM_LOG in names:
        raise InvalidParameter(
            f"{folder} is the table of a stream, and a snapshot would replace all of its rows",
            ELSEWHERE.format(folder),
        )
    _check_known(folder, names)


def check_stream(folder: Path, checkpoint: Path) -> None:
    """Refuses a folder of something else, and one that is ahead of the checkpoint."""
    names = _names(folder)
    if STREAM_LOG not in names:
        _check_known(folder, names)
        if any(name.startswith("part-") for name in names) or "_SUCCESS" in names:
            raise InvalidParameter(
                f"{folder} is the table of a snapshot: readers would not see its rows any longer "
                "beside those of a stream",
                ELSEWHERE.format(folder),
            )
        return
    found = map(_BATCH.fullmatch, _names(folder / STREAM_LOG))
    written = max((int(match[1]) for match in found if match), default=-1)
    planned = last_planned(checkpoint)
    if written > planned:
        raise InvalidParameter(
            f"{folder} has batches up to number {written}, and its checkpoint {checkpoint} has "
            + (f"planned number {planned}" if planned >= 0 else "planned none")
            + ": it was deleted or put back. Batches of those numbers would be left out of the "
            "table",
            f"Put the checkpoint back, or move {folder} away and begin a new table.",
        )


def _names(folder: Path) -> set[str]:
    try:
        return {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return set()
    except NotADirectoryError:
        file = next(path for path in (folder, *folder.parents) if path.exists())
        raise InvalidParameter(
            f"{file} is a file, and the table needs a folder of that name",
            ELSEWHERE.format(file),
        ) from None


def _check_known(folder: Path, names: set[str]) -> None:
    others = sorted(name for name in names if not _SNAPSHOT.fullmatch(name))
    if others:
        raise InvalidParameter(
            f"{folder} is not a table: it has {others[0]!r}, which a run would delete",
            ELSEWHERE.format(folder),
        )
