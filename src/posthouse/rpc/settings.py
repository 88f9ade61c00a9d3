"""Every limit and time of the runtime of a server."""

from __future__ import annotations

from dataclasses import dataclass

from posthouse.rpc.pdu import FRAG_LENGTH_MIN

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class RpcSettings:
    """How connections of RPC clients behave. Times are in milliseconds, sizes in bytes."""

    fragment_max: int = 64 * KIB - 16  # of a PDU; clients mostly ask for 5840 or less
    request_max: int = 1 * MIB  # of a call's stub, all fragments together
    held_max: int = 8 * MIB  # of one connection's calls that are not whole
    calls_max: int = 16_384  # of one connection, not answered
    all_calls_max: int = 100_000  # of all connections, not answered
    unsent_max: int = 256 * MIB  # answers that a client does not read
    handles_max: int = 10_000  # of one association group
    bind_ms: int = 30_000  # a connection has so long to bind
    login_ms: int = 60_000  # and, once it has begun, to prove who is there
    unfinished_ms: int = 60_000  # a PDU or a call has so long to become whole
    idle_ms: int = 30 * 60_000  # without calls and handles

    def __post_init__(self) -> None:
        assert FRAG_LENGTH_MIN <= self.fragment_max <= 0xFFF8
        assert self.fragment_max % 8 == 0
