"""Errors of commands that open a home themselves: settings, a damaged store, rights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from posthouse.cli.error_output import CommandFailed
from posthouse.cli.exit_codes import WRONG_USAGE
from posthouse.runtime.settings.file import SettingsError
from posthouse.store.errors import FormatUnknown, StoreDamaged, StoreError

_NAME = "HOME_NOT_OPENED"


@contextmanager
def opening(home: Path, outcome: str) -> Iterator[None]:
    """Turns errors of the start into a line and an exit code; `outcome` begins the line."""
    try:
        yield
    except SettingsError as error:
        raise CommandFailed(str(error), exit_code=WRONG_USAGE, name="WRONG_SETTINGS") from None
    except StoreError as error:
        raise CommandFailed(f"{outcome}: {_explained(error, home)}", name=_NAME) from None
    except PermissionError as error:
        raise CommandFailed(
            f"{outcome}: {error.filename or home}: {error.strerror}",
            "Run as the owner of the home, or name one of your own with --home.",
            name=_NAME,
        ) from None


def _explained(error: StoreError, home: Path) -> str:
    """The cause and what to do; nothing in the store has been changed."""
    if isinstance(error, StoreDamaged):
        return f"{error}.".replace("--store HOME", f"--store {home}")
    if isinstance(error, FormatUnknown):
        return f"{error}."
    return f"{error}. Free the disk or repair it, then start again."
