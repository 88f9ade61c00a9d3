"""Which other computer is asked, and as whom.

Apart from `connect.py`, so that commands can offer these options without loading DCE/RPC.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from posthouse.rpc.security import Level

EPM_PORT: Final = 135

Authentication = Literal["privacy", "integrity", "connect", "none"]
Mechanism = Literal["negotiate", "ntlm", "kerberos"]
LEVELS: Final = {
    "privacy": Level.PRIVACY,
    "integrity": Level.INTEGRITY,
    "connect": Level.CONNECT,
    "none": Level.NONE,
}


class RemotePlace(NamedTuple):
    """Where to look."""

    host: str
    rpc_port: int | None = None
    epm_port: int = EPM_PORT


class RemoteLogin(NamedTuple):
    """Who asks, and how that is proved."""

    user: str | None = None
    password: str | None = None
    level: Level = Level.PRIVACY
    mechanism: Mechanism = "negotiate"

    def __repr__(self) -> str:
        """Without the password, which does not belong into a log."""
        return f"Login({self.user!r}, {self.level.name}, {self.mechanism!r})"
