"""The file in which a run of `archive` over Spark Connect sees what the server has done.

It lies beside the checkpoint, in a folder that the command and the server both see.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

import msgspec

from posthouse.model.errors import InvalidParameter
from posthouse.spark.lakes.files import Added
from posthouse.spark.table_files import new_file

NO_BATCH: Final = -1


class Tally(msgspec.Struct):
    """What batches over Spark Connect have brought so far, and whose run it is."""

    run: str
    messages: int = 0
    batches: int = 0
    files: int = 0
    bytes: int = 0
    last: int = NO_BATCH  # the number of the last of them


class SharedTally:
    """A file beside the checkpoint, which the command and the Connect server both have to see."""

    def __init__(self, checkpoint: Path) -> None:
        self.path = checkpoint.with_name(f"{checkpoint.name}.connect")

    def begin(self) -> str:
        """A new one; the secret of this run, by which the server finds it."""
        run = secrets.token_hex(16)
        self._write(Tally(run))
        return run

    def read(self) -> Tally:
        """As it is now."""
        return msgspec.json.decode(self.path.read_bytes(), type=Tally)

    def add(self, added: Added, number: int) -> None:
        """One more batch."""
        now = self.read()
        now.messages += added.rows
        now.batches += 1
        now.files += len(added.files)
        now.bytes += added.bytes
        now.last = number
        self._write(now)

    def end(self) -> None:
        """Deletes it."""
        self.path.unlink(missing_ok=True)

    def _write(self, tally: Tally) -> None:
        with new_file(self.path) as partial:
            partial.write_bytes(msgspec.json.encode(tally))


def check_shared(checkpoint: str, run: str) -> None:
    """Refuses a Connect server that does not see the folder that the command has written to."""
    tally = SharedTally(Path(checkpoint))
    try:
        found = tally.read().run
    except (OSError, msgspec.DecodeError):
        found = ""
    if found != run:
        raise InvalidParameter(
            f"the Spark Connect server does not see {tally.path}, which this command has written",
            "Name a folder for the lake, or with --checkpoint, that both mount under one path; or "
            "run the command on the machine of the server.",
        )
