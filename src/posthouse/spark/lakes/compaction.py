"""Compacts a lake: replaces small files by large ones in a new version, and later deletes them.

Rows go from Parquet to Parquet by Arrow, a batch at a time; no Spark is needed.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.state import LakeFile

LARGE_BYTES: Final = 64 << 20  # about as large as files become
FILES_MIN: Final = 8  # fewer are not worth being written again
BATCH_ROWS: Final = 16 << 10

Keep = Callable[[pa.RecordBatch], pa.RecordBatch]


class Compacted(NamedTuple):
    """What a compaction did."""

    replaced: int = 0
    written: int = 0
    rows: int = 0


def compact(
    path: str | os.PathLike[str],
    spark: object = None,
    *,
    files_min: int = FILES_MIN,
    large_bytes: int = LARGE_BYTES,
    storage_options: Mapping[str, str] | None = None,
) -> Compacted:
    """Writes small files of one queue and day together, and deletes what is no longer needed.

    Readers and `archive` may go on meanwhile: files that were replaced stay for seven days. `spark`
    is not needed, and taken for programs that were written for version 0.1.
    """
    lake = LakeFiles(path, storage_options=storage_options)
    done = Compacted()
    for pack in packs(lake.state().files, files_min, large_bytes):
        new = rewritten(lake, pack)
        if lake.replace(pack, new):
            rows = sum(file.rows for file in pack)
            done = Compacted(done.replaced + len(pack), done.written + len(new), done.rows + rows)
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


def rewritten(
    lake: LakeFiles, pack: Sequence[LakeFile], keep: Keep | None = None
) -> list[LakeFile]:
    """The rows of files of one queue in new files, which are not part of the lake yet."""
    with lake.writer(pack[0].queue) as writer:
        for file in pack:
            for batch in batches(lake, file):
                kept = batch if keep is None else keep(batch)
                if kept.num_rows:
                    writer.add(kept)
        return writer.close()


def batches(
    lake: LakeFiles, file: LakeFile, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, some at a time; of these columns, those that it has."""
    with _opened(lake, file) as source, parquet.ParquetFile(source) as read:
        there = read.schema_arrow.names
        names = None if columns is None else [name for name in columns if name in there]
        yield from read.iter_batches(BATCH_ROWS, columns=names)


def _opened(lake: LakeFiles, file: LakeFile) -> AbstractContextManager[Any]:
    if lake.place.folder is not None:
        opened: AbstractContextManager[Any] = pa.OSFile(str(lake.place.folder / file.path), "rb")
        return opened
    store: AbstractContextManager[Any] = lake.place.file_system().open_input_file(file.path)
    return store
