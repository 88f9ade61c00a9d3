"""The interface between the engine and a protocol between queue managers."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import NamedTuple

from posthouse.engine.settings import host_key

QUIET_MS = 60_000  # a machine that has come has sent by then what it has


class Peer:
    """The queue manager at the other end of a session, as far as its door has it."""

    __slots__ = ("address", "guid", "host", "may_acknowledge", "may_pass_on")

    def __init__(
        self,
        guid: bytes,
        address: str,
        may_acknowledge: Callable[[int], bool | None] = lambda queue: True,
        may_pass_on: Callable[[bytes], bool] = lambda source: True,
    ) -> None:
        self.guid = guid  # as the peer claims it
        self.address = address  # an IPv4 or IPv6 address without port
        # The address in one spelling, an IPv4 address as such, without the zone of a link.
        self.host = host_key(address.partition("%")[0])
        # Decision 24: whether acknowledgments for this outgoing queue count from here. None: that
        # is not known yet, and a door that can do so has them sent again.
        self.may_acknowledge = may_acknowledge
        # Whether acknowledgments that a machine has written are handed on if they come from here.
        self.may_pass_on = may_pass_on

    @property
    def is_loopback(self) -> bool:
        """Whether it runs on this machine."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


class Verdict(NamedTuple):
    """What became of a batch of received packets.

    Those taken in, duplicates and refused ones alike are dealt with, and may be acknowledged on the
    session. `close` states why the rest is not: the session ends without acknowledging it. Without
    a reason the rest was too much for one turn, and is handed in again.
    """

    dealt_with: int
    sequences: tuple[tuple[int, bytes], ...] = ()  # queue, source: an order ack is due
    close: str = ""


class Outbound(NamedTuple):
    """A message on its way out, as it goes on the wire."""

    number: int
    packet: bytes
    recoverable: bool
    transactional: bool  # numbered by us: it stays until its order ack
