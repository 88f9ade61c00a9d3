"""What a checkpoint of Spark holds: which batch was committed last, and how far it had read.

Only a batch with an entry in `commits` is done; one that is merely in `offsets` may be read again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from posthouse.model.errors import InvalidParameter
from posthouse.spark.offsets import StreamOffset, offset_of

_VERSION: Final = re.compile(r"v\d+")
_VERSIONS: Final = ("v1", "v2")  # of entries in `offsets` whose lines are understood here
_NAMED: Final = re.compile(r"[^:{}\[\]\s\"]+:(.*)")  # from version 2 on: the source, its offset
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")  # `hdfs:/a` has one as `hdfs://b/a` has
_ELSEWHERE: Final = (
    "Leave the option `checkpoint` out: then the next batch acknowledges the last one. What a "
    "stream has committed last is settled from a copy of its folders `offsets` and `commits` on "
    "this disk."
)
_LINES: Final = {"offsets": 2, "commits": 1}
_PARTS: Final = ("metadata", "offsets", "commits")
_AGAIN: Final = {
    "offsets": "what was planned there is planned again, and with the same end if it was claimed.",
    "commits": "its batch is done again with the same messages, under the same number.",
}


def committed_offsets(path: str) -> list[StreamOffset]:
    """The offsets of this source's streams as of the last batch that was committed.

    Empty where no batch was committed. A committed batch without an offset of this source is
    refused: it is the checkpoint of something else, or in a form that cannot be read here.
    """
    files, root = _file_system(path)
    batch = _last_batch(files, f"{root}/commits")
    if batch is None:
        return []
    _check_entry(_text(files, f"{root}/commits/{batch}"), "commits", batch)
    text = _text(files, f"{root}/offsets/{batch}")
    _check_entry(text, "offsets", batch)
    found = list(_offsets(text, f"offsets/{batch}"))
    if not found:
        raise InvalidParameter(
            f"the checkpoint's file offsets/{batch} has no offset of a stream that reads queues",
            "Name the checkpoint of such a stream; one with transport=msmq has nothing to settle.",
        )
    return found


def is_committed(checkpoint: Path, batch: int) -> bool:
    """Whether Spark is done with a batch; with a negative number, for no batch, it is."""
    return batch < 0 or (checkpoint / "commits" / str(batch)).exists()


def last_planned(checkpoint: Path) -> int:
    """The number of the last batch that is planned; -1 where there is none."""
    return max(_batches(checkpoint / "offsets"), default=-1)


def last_committed(checkpoint: Path) -> int:
    """The number of the last batch that Spark is done with; -1 where there is none."""
    return max(_batches(checkpoint / "commits"), default=-1)


def planned_offsets(path: str, batch: int) -> list[StreamOffset]:
    """The offsets of this source's streams at the end of a batch that is planned."""
    files, root = _file_system(path)
    text = _text(files, f"{root}/offsets/{batch}")
    _check_entry(text, "offsets", batch)
    return list(_offsets(text, f"offsets/{batch}"))


def change_entry(path: str, change: Callable[[StreamOffset], StreamOffset]) -> None:
    """Change the offsets of this source's streams in the entry of the last committed batch.

    The new entry is durable before it takes the place of the old one. Spark reads one without its
    checksum, and compares texts: an offset is written as Spark gets it from a stream.
    """
    folder = local_folder(path) / "offsets"
    batch = last_committed(folder.parent)
    entry = folder / str(batch)
    version, settings, *lines = entry.read_text(encoding="utf-8").splitlines()
    text = "\n".join([version, settings, *(_changed(line, change) for line in lines)])
    new = folder / f".{batch}.new"
    new.write_text(text, encoding="utf-8")
    _sync(new)
    (folder / f".{batch}.crc").unlink(missing_ok=True)
    _sync(folder)
    new.replace(entry)
    _sync(folder)


def _changed(line: str, change: Callable[[StreamOffset], StreamOffset]) -> str:
    named = _NAMED.fullmatch(line)
    text = named[1] if named else line
    found = _object(text)
    if found is None or "v" not in found or "urls" not in found:
        return line
    new = json.dumps(change(offset_of(found)).to_json())
    return line.removesuffix(text) + new


def local_folder(path: str) -> Path:
    """Return the folder of a checkpoint on a local disk; others are refused."""
    root = _local_root(path)
    if root is None:
        raise InvalidParameter(
            f"{path} is not on a local disk",
            "Copy its folders offsets and commits here to look at it.",
        )
    return root


def require_checkpoint(path: str) -> None:
    """Refuses a folder that does not exist: otherwise nothing would be settled, without an
    error.
    """
    root = _local_root(path)
    if root is not None and not root.is_dir():
        raise InvalidParameter(
            f"there is no checkpoint {path}", "Name the folder that the stream writes it to."
        )
    if root is not None and not any((root / name).exists() for name in _PARTS):
        raise InvalidParameter(
            f"{path} is not a checkpoint: it has none of {', '.join(_PARTS)}",
            "Name the folder that the stream writes it to.",
        )


def check_checkpoint(path: str) -> None:
    """Refuses a checkpoint whose newest entries are empty or cut short, and states what to do.

    A power failure leaves such files, since Spark syncs nothing; it would start with none of them
    and report less. Only one on a local disk is looked at; `path` may be empty.
    """
    root = _local_root(path)
    if root is None:
        return
    try:
        for part in ("offsets", "commits"):
            batch = max(_batches(root / part), default=None)
            if batch is not None:
                text = (root / part / str(batch)).read_text(encoding="utf-8", errors="replace")
                _check_entry(text, part, batch)
    except OSError as error:
        raise InvalidParameter(
            f"the checkpoint {path} cannot be read: {error.strerror}",
            "Name a folder, and look at its rights.",
        ) from error


def _check_entry(text: str, part: str, batch: int) -> None:
    """An entry has a line for its version, then lines of JSON; `offsets` has two or more.

    Lines of other sources may be anything but the beginning of an object.
    """
    version, *lines = text.splitlines() or [""]
    offsets = [named[1] if (named := _NAMED.fullmatch(line)) else line for line in lines]
    objects = [offset for offset in offsets if offset.startswith("{")]
    if _VERSION.fullmatch(version) and len(lines) >= _LINES[part] and all(map(_is_json, objects)):
        return
    raise InvalidParameter(
        f"the checkpoint's file {part}/{batch} is empty or cut short, as a power failure leaves it",
        f"Remove it together with {part}/.{batch}.crc and start again: {_AGAIN[part]}",
    )


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def sync_checkpoint(path: str, part: str) -> None:
    """Makes the newest entry in `offsets` or `commits` survive a power failure.

    Spark syncs nothing of its checkpoint, and what depends on it is durable here: a batch that was
    written and then planned again with another end would lose messages, or send them twice. Only a
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
    if not path:
        return None
    scheme = _SCHEME.match(path)
    if scheme is None:
        return Path(path)
    return Path(unquote(urlsplit(path).path)) if scheme[1].lower() == "file" else None


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

    if (root := _local_root(path)) is not None:
        return fs.LocalFileSystem(), str(root)
    try:
        files, found = fs.FileSystem.from_uri(path)
    except (ValueError, OSError) as error:  # Spark's own ways to reach it are not ours
        first = str(error).partition("\n")[0]
        raise InvalidParameter(
            f"the checkpoint {path} cannot be reached from here: {first}", _ELSEWHERE
        ) from error
    return files, found.rstrip("/")


def _last_batch(files: Any, folder: str) -> int | None:
    from pyarrow import fs

    try:
        found = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    except OSError as error:
        raise InvalidParameter(
            f"{folder} cannot be read: {error}", "Check its permissions."
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


def _offsets(text: str, name: str) -> Iterator[StreamOffset]:
    """An entry has a line for its version, one for its settings, and one for each source.

    Version 2 has the name of the source, or its number, before each offset: `orders:{...}`.
    """
    version, _, *lines = text.splitlines()
    if version not in _VERSIONS:
        raise InvalidParameter(
            f"the checkpoint's file {name} is written in format {version}, which is newer than "
            "this program",
            "Update posthouse, or start the stream again with its checkpoint: it settles itself.",
        )
    for line in lines:
        named = _NAMED.fullmatch(line)
        found = _object(named[1] if named else line)
        if found is not None and "v" in found and "urls" in found:
            yield offset_of(found)


def _object(text: str) -> dict[str, Any] | None:
    """An object in JSON; None: the offset of another source."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def check_own(path: str, end: StreamOffset) -> None:
    """Refuses another stream's checkpoint: Spark has logged a batch before it is read.

    Only one on a local disk is looked at; `path` may be empty.
    """
    root = _local_root(path)
    if root is None:
        return
    batch = max(_batches(root / "offsets"), default=None)
    planned = [] if batch is None else planned_offsets(path, batch)
    wanted = end.stream, end.queues
    if all((one.stream, one.queues) != wanted for one in planned):
        raise InvalidParameter(
            f"the option checkpoint names {path}, which is not the checkpoint of this stream: its "
            "newest offsets are others",
            "Leave the option out, or give it the folder that checkpointLocation names.",
        )


def batch_content(path: str, batch: int) -> str:
    """What a batch was made of, as its checkpoint has it; empty where that is not on a local disk.

    Spark writes this file once for each batch: another one under its number is another batch.
    """
    root = _local_root(path)
    try:
        data = b"" if root is None else (root / "offsets" / str(batch)).read_bytes()
    except OSError:
        data = b""
    return sha256(data).hexdigest() if data else ""
