"""Erases messages from a lake, by age or by a condition, for good.

The condition chooses messages once, in the SQL of every other command; from there on an erasure
goes by queue and lookup id. It writes the files that hold such messages again, without them, and
deletes every file that the newest version does not name: of older versions nothing remains that
could hold them. Then it looks for the identifiers and for the condition in every file that is left,
and returns what it found as the proof.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from posthouse.model.errors import InvalidParameter, SharingViolation
from posthouse.spark.lakes.compaction import batches, rewritten
from posthouse.spark.lakes.conditions import Ids, Sessions, matching
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.log import LOG, OURS
from posthouse.spark.lakes.state import LakeFile, LakeState

TRIES_MAX: Final = 10
ID: Final = "lookup_id"


class Erased(NamedTuple):
    """What an erasure did, and the proof that it is done."""

    messages: int
    rewritten: int  # files that held some of them
    deleted: int  # files of older versions, and files that no version names
    files: int  # that the lake has now; all were looked at
    left: int  # messages in them for which the condition holds: none
    unknown: tuple[str, ...]  # Parquet files in the folder that are not the lake's, not looked at
    dry_run: bool


def erase(
    path: str | os.PathLike[str],
    where: str,
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    spark: Sessions | None = None,
    approve: Callable[[int], None] | None = None,
) -> Erased:
    """Removes the messages for which a condition holds from a lake and from all its older versions.

    `where` is SQL over the columns of a message, such as `label = 'customer 4711'`, with the
    meaning that it has in `sql` and `replay`. DuckDB answers it, or else the session that `spark`
    starts. Older versions cannot be read after that. With `dry_run` it counts, and changes nothing;
    `approve` gets the count before anything is changed, and raises to stop it.
    """
    lake = LakeFiles(path, storage_options=storage_options)
    state = lake.state()
    found = matching(lake, state, where, spark)
    messages = _count(found)
    if dry_run:
        held = sum(1 for file in state.files if _may_hold(file, found))
        return Erased(messages, held, 0, len(state.files), messages, (), True)
    if approve is not None:
        approve(messages)
    changed = _rewrite(lake, found)
    deleted = lake.sweep(keep_s=0)
    after = lake.state()
    left = matching(lake, after, where, spark)
    _check_proof(lake, state, after, left)
    return Erased(messages, changed, deleted, len(after.files), 0, _unknown(lake, after), False)


def _count(found: Ids) -> int:
    return sum(map(len, found.values()))


def _rewrite(lake: LakeFiles, found: Ids) -> int:
    """Writes the files that hold such messages again, until none does; returns how many it wrote.

    A file that a compaction replaced meanwhile is found again under its new name.
    """
    changed = 0
    for _ in range(TRIES_MAX):
        files = [file for file in lake.state().files if _holds(lake, file, found)]
        if not files:
            return changed
        for file in files:
            changed += _replace_file(lake, file, found[file.queue])
    raise SharingViolation(
        f"other writers keep replacing the files of {lake.place}",
        "Stop them, and erase again.",
    )


def _holds(lake: LakeFiles, file: LakeFile, found: Ids) -> bool:
    """Whether a file has one of these messages."""
    if not _may_hold(file, found):
        return False
    ids = pa.array(found[file.queue], pa.int64())
    return any(
        pc.any(pc.is_in(batch.column(ID), ids)).as_py() for batch in batches(lake, file, [ID])
    )


def _replace_file(lake: LakeFiles, file: LakeFile, gone: list[int]) -> int:
    unwanted = pa.array(gone, pa.int64())

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.invert(pc.is_in(batch.column(ID), unwanted)))

    new = rewritten(lake, [file], keep)
    if sum(one.rows for one in new) == file.rows:
        return 0
    return int(lake.replace([file], new, is_same=False))


def _may_hold(file: LakeFile, found: Ids) -> bool:
    """Whether a file can have one of these messages."""
    ids = found.get(file.queue, [])
    at = bisect_left(ids, file.first_id)
    return at < len(ids) and ids[at] <= file.last_id


def _unknown(lake: LakeFiles, state: LakeState) -> tuple[str, ...]:
    """Parquet files that lie in the folder, and that the newest version does not name."""
    known = {file.path for file in state.files}
    return tuple(
        name
        for name in sorted(lake.parquet_names())
        if name.partition("/")[0] not in (LOG, OURS) and name not in known
    )


def _check_proof(lake: LakeFiles, before: LakeState, after: LakeState, left: Ids) -> None:
    """Refuses to call it done while the condition holds for a message."""
    if not left:
        return
    known = before.queues
    if any(ids[0] <= known.get(queue, -1) for queue, ids in left.items()):
        raise InvalidParameter(
            f"the condition now holds for {_count(left)} other messages of {lake.place}: it does "
            "not choose the same ones each time",
            "Those that it chose at first are erased. Write it without random values, and with "
            "fixed times.",
        )
    raise SharingViolation(
        f"{_count(left)} such messages arrived in version {after.version} of {lake.place} "
        "meanwhile",
        "Stop the archive, and erase again.",
    )


def retain(lake: LakeFiles, keep: timedelta) -> int:
    """Drops the days that are older; returns how many messages. Their files go a week later."""
    if keep < timedelta(days=1):
        raise InvalidParameter("a lake keeps whole days", "Name a day or more, such as 400d.")
    first = (datetime.fromtimestamp(lake.now(), UTC) - keep).date().isoformat()
    old = [file for file in lake.state().files if file.day and file.day < first]
    if old and not lake.replace(old, [], is_same=False):
        return retain(lake, keep)
    return sum(file.rows for file in old)
