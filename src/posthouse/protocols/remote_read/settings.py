"""Every timer and limit of remote read ([MS-MQRR] 3.1.2)."""

from __future__ import annotations

from dataclasses import dataclass

from posthouse.rpc.security import Level

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class RemoteReadSettings:
    """How the server of the interface behaves. Times are in milliseconds."""

    minimum_level: Level = Level.PRIVACY  # decision 7
    cleanup_ms: int = 5 * MINUTE_MS  # 3.1.2.2, note 11
    call_timeout_ms: int = 300_000  # 3.1.2.1, note 10
    pending_max: int = 65_536  # receives begun and not ended on one handle
    read_ahead: int = 4 << 20  # bytes read for a client that it has not taken yet
