"""A folder of messages: a file for each body, and its properties as JSON beside it.

`NUMBER-LOOKUPID.body` and `NUMBER-LOOKUPID.json`. Numbers go on from those that are there, so the
names sort in the order in which messages were written, and nothing is overwritten. The JSON file
gets its name last: a body without it is what a crash or a full disk left, and its message is still
in its queue. When `write` returns, both files and the folder are on disk.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import typer

from posthouse.cli.output import json_line
from posthouse.model.message_json import MessageJson

BODY: Final = ".body"
PROPERTIES: Final = ".json"
_UNFINISHED: Final = ".json.partial"
_NUMBERED: Final = re.compile(r"(\d{1,18})-\d+\.(body|json)", re.ASCII)


class MessageFolder:
    """Where messages are written to. It is made if it is not there; its parent has to be.

    New folders and files are for their owner alone.
    """

    def __init__(self, path: Path) -> None:
        if path.exists() and not path.is_dir():
            raise typer.BadParameter(f"--out: {path} is a file; name a folder")
        if not path.exists():
            path.mkdir(0o700)
            sync_folder(path.absolute().parent)
        if not os.access(path, os.W_OK | os.X_OK):
            raise typer.BadParameter(f"--out: you may not write into {path}; name another folder")
        self._path = path
        numbers = (_NUMBERED.fullmatch(file.name) for file in path.iterdir())
        self._last = max((int(found[1]) for found in numbers if found), default=0)

    def write(self, message: MessageJson) -> tuple[Path, Path]:
        """Both files of a message, when they are on disk; nothing is left where one fails."""
        body = self._reserved(message.lookup_id)
        properties, partial = (body.with_suffix(end) for end in (PROPERTIES, _UNFINISHED))
        shown = msgspec.structs.replace(message, body=None, body_text=None)
        text = json_line({**msgspec.to_builtins(shown), "body_file": body.name})
        try:
            _write(body, message.body or b"")
            _write(partial, text.encode() + b"\n")
            partial.rename(properties)
            sync_folder(self._path)
        except BaseException:
            for file in (properties, partial, body):
                with suppress(OSError):
                    file.unlink(missing_ok=True)
            raise
        return body, properties

    def _reserved(self, lookup_id: int) -> Path:
        """A new, empty file for a body; the names that go with it are then ours, too."""
        while True:
            self._last += 1
            body = self._path / f"{self._last:010d}-{lookup_id}{BODY}"
            if body.with_suffix(PROPERTIES).exists():
                continue
            try:
                os.close(os.open(body, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:  # another process writes here, too
                continue
            return body


def _write(path: Path, data: bytes) -> None:
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def sync_folder(path: Path) -> None:
    """The names in a folder are on disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
