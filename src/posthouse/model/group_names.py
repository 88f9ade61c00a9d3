"""Names and modes of named groups of queues: shared by engine, API and clients."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from posthouse.model.errors import InvalidParameter

NAME_LENGTH_MAX: Final = 64
NAME_PATTERN: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
OWNER_LENGTH_MAX: Final = 1024  # a checkpoint path may be one
_NAME = re.compile(NAME_PATTERN)


class GroupMode(StrEnum):
    """What acknowledging does: it receives messages, or it only moves the position."""

    CONSUME = "consume"
    OBSERVE = "observe"


def check_name(name: str) -> None:
    """Names of groups stand in addresses and on command lines."""
    if not _NAME.fullmatch(name):
        raise InvalidParameter(
            f"{name[:80]!r} is not a name of a group",
            f"Take up to {NAME_LENGTH_MAX} letters, digits, dots, dashes and underscores.",
        )
