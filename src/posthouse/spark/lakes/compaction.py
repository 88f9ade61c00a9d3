"""Small files of a lake become large ones: new files, a new manifest, and an hour later the end of
the old ones."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.manifest import LakeFile
from posthouse.spark.lakes.rows import save
from posthouse.spark.lakes.table import lake_session, read_files

LARGE_BYTES: Final = 64 << 20  # about as large as files become
FILES_MIN: Final = 8  # fewer are not worth being written again


class Compacted(NamedTuple):
    """What a compaction did."""

    replaced: int = 0
    written: int = 0
    rows: int = 0


def compact(
    path: str | os.PathLike[str],
    spark: SparkSession | None = None,
    *,
    files_min: int = FILES_MIN,
    large_bytes: int = LARGE_BYTES,
) -> Compacted:
    """Writes small files of one queue and day together, and deletes what is no longer needed.

    Readers and `archive` may go on meanwhile: files that were replaced stay for an hour.
    """
    lake = LakeFiles(path)
    done = Compacted()
    for pack in packs(lake.manifests.read().files, files_min, large_bytes):
        if _rewrite(spark or lake_session(), lake, pack):
            rows = sum(file.rows for file in pack)
            done = Compacted(done.replaced + len(pack), done.written + 1, done.rows + rows)
    lake.sweep()
    return done


def packs(
    files: Iterable[LakeFile], files_min: int, large_bytes: int
) -> Iterator[Sequence[LakeFile]]:
    """Small files that belong together, in order of lookup id, up to the size of a large one."""
    small = defaultdict[tuple[str, str], list[LakeFile]](list)
    for file in files:
        if file.bytes < large_bytes // 2:
            small[file.queue, file.day].append(file)
    for alike in small.values():
        for pack in _cut(sorted(alike, key=lambda file: file.first_id), large_bytes):
            if len(pack) >= files_min or (len(pack) > 1 and _size(pack) >= large_bytes):
                yield pack


def _cut(files: Sequence[LakeFile], large_bytes: int) -> Iterator[list[LakeFile]]:
    pack: list[LakeFile] = []
    for file in files:
        pack.append(file)
        if _size(pack) >= large_bytes:
            yield pack
            pack = []
    yield pack


def _size(files: Iterable[LakeFile]) -> int:
    return sum(file.bytes for file in files)


def _rewrite(spark: SparkSession, lake: LakeFiles, pack: Sequence[LakeFile]) -> bool:
    with lake.staging() as folder:
        save(read_files(spark, lake, pack).coalesce(1), folder)
        return lake.replace(pack, folder)
