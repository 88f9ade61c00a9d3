"""The findings of checks on another machine."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

NAME_LENGTH_MAX: Final = 15
"""Of a NetBIOS name, which Windows has for every computer."""

State = Literal["ok", "warning", "failed", "unknown"]


class PeerFinding(msgspec.Struct, frozen=True):
    """One check: what was found, and what to do about it."""

    check: str
    state: State
    found: str
    remedy: str = ""
