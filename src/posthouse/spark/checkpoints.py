"""What a checkpoint of Spark says: which batch was committed last, and how far it had read.

Only a batch with an entry in `commits` is done; one that is merely in `offsets` may be read again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from posthouse.model.errors import InvalidParameter
from posthouse.spark.offsets import StreamOffset, offset_of

NONE: Final = "-"


def committed_offsets(path: str) -> list[StreamOffset]:
    """The offsets of this source's streams as of the last batch that was committed."""
    files, root = _file_system(path)
    batch = _last_batch(files, f"{root}/commits")
    if batch is None:
        return []
    return list(_offsets(_text(files, f"{root}/offsets/{batch}")))


def sync_checkpoint(path: str, part: str) -> None:
    """Makes the newest entry in `offsets` or `commits` survive a power failure.

    Spark syncs nothing of its checkpoint, and what depends on it is durable here: a batch that was
    written and then planned anew with another end would lose messages, or send them twice. Only a
    checkpoint on a local disk can be synced like that; `path` may be empty.
    """
    root = _local_root(path)
    if root is None:
        return
    batch = max(_batches(root / part), default=None)
    if batch is not None:
        for name in (f"{part}/{batch}", f"{part}/.{batch}.crc", "metadata", ".metadata.crc"):
            _sync(root / name)
        for folder in (root / part, root):
            _sync(folder)


def _local_root(path: str) -> Path | None:
    if path.startswith("file:"):
        return Path(unquote(urlsplit(path).path))
    return Path(path) if path and "://" not in path else None


def _batches(folder: Path) -> Iterator[int]:
    with suppress(FileNotFoundError):
        yield from (int(file.name) for file in folder.iterdir() if file.name.isdecimal())


def _sync(path: Path) -> None:
    with suppress(FileNotFoundError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _file_system(path: str) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        if "://" not in path and not path.startswith("file:"):
            return fs.LocalFileSystem(), path.rstrip("/")
        files, root = fs.FileSystem.from_uri(path if "://" in path else f"file://{path[5:]}")
    except (ValueError, OSError) as error:
        raise InvalidParameter(
            f"the checkpoint {path} cannot be reached: {error}", "Name its folder."
        ) from error
    return files, root.rstrip("/")


def _last_batch(files: Any, folder: str) -> int | None:
    from pyarrow import fs

    try:
        found = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    except OSError as error:
        raise InvalidParameter(
            f"{folder} cannot be read: {error}", "Look at its rights."
        ) from error
    return max((int(one.base_name) for one in found if one.base_name.isdecimal()), default=None)


def _text(files: Any, path: str) -> str:
    try:
        with files.open_input_stream(path) as file:
            return bytes(file.read()).decode("utf-8", "replace")
    except OSError as error:
        raise InvalidParameter(
            f"the checkpoint's file {path} cannot be read: {error}",
            "A batch that is in `commits` is in `offsets` too: the checkpoint is damaged.",
        ) from error


def _offsets(text: str) -> Iterator[StreamOffset]:
    """An entry has a line for its version, one for its settings, and one for each source."""
    for line in text.splitlines()[2:]:
        try:
            found = json.loads(line) if line != NONE else None
        except ValueError:
            continue  # of another source
        if isinstance(found, dict) and "v" in found and "urls" in found:
            yield offset_of(found)
