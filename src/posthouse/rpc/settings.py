"""The limits and times of `[rpc]` that any RPC server has."""

from __future__ import annotations

from typing import Annotated

from posthouse.model.settings_kinds import (
    DAY_MS,
    GIB,
    KIB,
    MIB,
    MINUTE_MS,
    Section,
    size,
    within,
)
from posthouse.rpc.pdu import FRAG_LENGTH_MIN


class RpcSettings(Section, frozen=True):
    """How connections of RPC clients behave."""

    calls_max: Annotated[
        int,
        within(
            1,
            1_000_000,
            "Largest number of unanswered calls of one connection, including reads that wait "
            "for a message.",
        ),
    ] = 16_384
    all_calls_max: Annotated[
        int,
        within(
            1,
            10_000_000,
            "Largest number of unanswered calls of all connections. Clients of one address alone "
            "have half of them.",
        ),
    ] = 100_000
    handles_max: Annotated[
        int, within(1, 1_000_000, "Largest number of queues that one client may have open.")
    ] = 10_000
    request_max: Annotated[
        int,
        size(4 * KIB, GIB, "Largest call. A transaction token needs 128 KiB."),
    ] = MIB
    unsent_max: Annotated[
        int,
        size(4 * KIB, GIB, "Size of unread answers above which a client's connection is closed."),
    ] = 256 * MIB
    bind_ms: Annotated[int, within(1, DAY_MS, "Time that a connection has to bind.")] = 30_000
    login_ms: Annotated[int, within(1, DAY_MS, "Time allowed for a login, from its beginning.")] = (
        60_000
    )
    domain_login_ms: Annotated[
        int,
        within(
            0,
            31 * DAY_MS,
            "Time that a login is good for which a domain has verified (Kerberos, winbind). Then "
            "its connection is closed, with what its client has open, and the client has to log "
            "in again. 0: as long as the connection.",
        ),
    ] = 0
    unfinished_ms: Annotated[
        int, within(1, DAY_MS, "Time allowed for a call to arrive completely.")
    ] = 60_000
    idle_ms: Annotated[
        int, within(1, DAY_MS, "Time after which a connection without calls and handles is closed.")
    ] = 30 * MINUTE_MS
    # Not in the file: of a PDU (clients mostly ask for 5840 or less), and of calls not yet whole.
    fragment_max: int = 64 * KIB - 16
    held_max: int = 8 * MIB

    def __post_init__(self) -> None:
        assert FRAG_LENGTH_MIN <= self.fragment_max <= 0xFFF8
        assert self.fragment_max % 8 == 0
