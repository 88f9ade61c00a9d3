"""What a checkpoint of Spark says: which batch was committed last, and how far it had read.

Only a batch with an entry in `commits` is done; one that is merely in `offsets` may be read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

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
