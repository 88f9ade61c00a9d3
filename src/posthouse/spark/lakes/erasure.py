"""Erases messages from a lake, by age or by a condition, for good.

An erasure writes the files that hold such messages again, without them, and deletes every file that
the newest version does not name: of older versions nothing remains that could hold them. Then it
looks whether that is so, and returns what it found as the proof.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from posthouse.model.errors import InvalidParameter, SharingViolation
from posthouse.spark.lakes.compaction import rewritten
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.log import LOG, OURS
from posthouse.spark.lakes.state import LakeFile, LakeState

TRIES_MAX: Final = 10
_KEY: Final = ("queue", "lookup_id")
Ids = dict[str, list[int]]  # in order


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
) -> Erased:
    """Removes the messages for which a condition holds from a lake and from all its older versions.

    `where` is SQL over the columns of a message, such as `label = 'customer 4711'`. Older versions
    cannot be read after that. With `dry_run` it counts, and changes nothing.
    """
    lake = LakeFiles(path, storage_options=storage_options)
    found = _matching(lake.state(), where)
    messages = sum(map(len, found.values()))
    if dry_run:
        files = lake.state().files
        held = sum(1 for file in files if _may_hold(file, found))
        return Erased(messages, held, 0, len(files), messages, (), True)
    changed = _rewrite(lake, where) if messages else 0
    deleted = lake.sweep(keep_s=0)
    state = lake.state()
    left = sum(map(len, _matching(state, where).values()))
    erased = Erased(
        messages, changed, deleted, len(state.files), left, _unknown(lake, state), False
    )
    _check_proof(lake, state, erased)
    return erased


def _matching(state: LakeState, where: str) -> Ids:
    """The messages for which a condition holds, by queue and lookup id."""
    found: Ids = defaultdict(list)
    if not state.files:
        return found
    try:
        for batch in state.table.scan(columns=list(_KEY), predicate=where):
            rows = pa.record_batch(batch)
            for queue, number in zip(
                rows.column("queue").to_pylist(), rows.column("lookup_id").to_pylist(), strict=True
            ):
                found[queue].append(number)
    except Exception as error:  # deltalake raises plain ones
        raise InvalidParameter(
            f"the condition does not fit: {' '.join(str(error).split())[:300]}",
            "It is SQL over the columns of a message; texts stand between single quotes.",
        ) from None
    for ids in found.values():
        ids.sort()
    return found


def _rewrite(lake: LakeFiles, where: str) -> int:
    """Writes the files that hold such messages again; as often as other writers come between."""
    changed = 0
    for _ in range(TRIES_MAX):
        state = lake.state()
        found = _matching(state, where)
        if not found:
            return changed
        for file in (file for file in state.files if _may_hold(file, found)):
            changed += _replace_file(lake, file, found[file.queue])
    raise SharingViolation(
        f"other writers keep adding such messages to {lake.place}",
        "Stop them, and erase again.",
    )


def _replace_file(lake: LakeFiles, file: LakeFile, gone: list[int]) -> int:
    unwanted = pa.array(gone, pa.int64())

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.invert(pc.is_in(batch.column("lookup_id"), unwanted)))

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


def _check_proof(lake: LakeFiles, state: LakeState, erased: Erased) -> None:
    if erased.left:
        raise SharingViolation(
            f"{erased.left} such messages arrived in version {state.version} of {lake.place} "
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
