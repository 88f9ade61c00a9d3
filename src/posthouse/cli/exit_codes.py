"""The exit codes of commands."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
REFUSED: Final = 1
WRONG_USAGE: Final = 2
NOT_REACHABLE: Final = 3
NOTHING_THERE: Final = 4
