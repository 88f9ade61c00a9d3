"""Checks of our own queue manager for messages to and from another machine.

Names and addresses that it takes for its own, what it has refused, and messages that wait for an
acknowledgment which does not come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

import msgspec

from posthouse.client.remote.findings import NAME_LENGTH_MAX, PeerFinding

UNANSWERED_S: Final = 60
"""Acknowledgments take seconds; a sender repeats its messages after half a minute."""
SHOWN_NAMES: Final = 5


class UnansweredQueue(msgspec.Struct, frozen=True):
    """An outgoing queue whose messages have left and are not acknowledged."""

    name: str
    messages: int
    oldest_s: int
    next_hops: tuple[str, ...] = ()

    def leads_to(self, names: set[str]) -> bool:
        """Whether the queue is one of the machine that has these names and addresses."""
        hosts = {hop.rpartition(":")[0].strip("[]").casefold() for hop in self.next_hops}
        named = self.name.casefold().partition(":")[2].lstrip("/").partition("\\")[0]
        return bool(names & {*hosts, named, *(hop.casefold() for hop in self.next_hops)})


class OwnSide(msgspec.Struct, frozen=True):
    """The queue manager here, as its status shows it."""

    name: str
    hosts: frozenset[str]
    takes_any_name: bool = False
    refused_names: tuple[str, ...] = ()
    host_change: str = ""
    unanswered: tuple[UnansweredQueue, ...] = ()
    domain_trouble: str = ""
    guid: str = ""

    def findings(
        self, own_address: str, peer_names: set[str], *, in_container: bool
    ) -> Iterator[PeerFinding]:
        """What can be seen here of names, addresses and acknowledgments."""
        yield from self._name()
        if own_address:
            yield self._address(own_address, in_container=in_container)
        yield from self._translation(own_address, peer_names)
        yield from self._refused()
        yield from self._copied()
        if self.domain_trouble:
            yield PeerFinding(
                "domain users",
                "failed",
                f"users of the domain cannot log in here by NTLM: {self.domain_trouble}",
                "Check `wbinfo --ping-dc`, put the user of the service into the group "
                "winbindd_priv, and see docs/domains.md. Kerberos works without winbind.",
            )
        for queue in self.unanswered:
            if queue.leads_to(peer_names) and queue.oldest_s >= UNANSWERED_S:
                yield _unanswered(queue)

    def _name(self) -> Iterator[PeerFinding]:
        if len(self.name) > NAME_LENGTH_MAX:
            yield PeerFinding(
                "name here",
                "warning",
                f"the queue manager here is {self.name}, more than {NAME_LENGTH_MAX} characters",
                "Windows uses the first 15 characters of a computer name: add those to "
                "[queue_manager] aliases, or take another name (posthouse rename).",
            )

    def _address(self, own: str, *, in_container: bool) -> PeerFinding:
        outside = sorted(host for host in self.hosts if _is_outside(host))
        if self.takes_any_name:
            return PeerFinding("own names", "ok", "messages to any name are taken here")
        if own not in self.hosts:
            return PeerFinding(
                "own names",
                "failed",
                f"{own}, the address that the other machine is reached from, is not an address of "
                "the queue manager here",
                f"Put {own} into [queue_manager] addresses. Messages and acknowledgments to it are "
                "refused otherwise.",
            )
        if in_container and len(outside) <= 1:
            return PeerFinding(
                "own names",
                "warning",
                f"this is a container, and its queue manager has no address but {own}",
                "Other machines send to the name or address of the host: put those into "
                "[queue_manager] aliases and addresses, or set accept_any_name = true.",
            )
        shown = ", ".join([self.name, *outside])
        return PeerFinding("own names", "ok", f"messages to these names are taken here: {shown}")

    def _translation(self, own: str, peer_names: set[str]) -> Iterator[PeerFinding]:
        """A private address here and a public one there: there is a NAT in between."""
        there = [name for name in peer_names if _is_public(name)]
        if own and there and not _is_public(own):
            yield PeerFinding(
                "address translation",
                "warning",
                f"a NAT is between {own} and {there[0]}: the other machine sees another address",
                "Forward TCP 1801 of the gateway to this machine, and put the gateway's address "
                "into [queue_manager] addresses. Or use HTTP (DIRECT=HTTP names), which needs a "
                "way in one direction for each message only.",
            )

    def _refused(self) -> Iterator[PeerFinding]:
        if self.refused_names:
            names = ", ".join(self.refused_names[:SHOWN_NAMES])
            more = len(self.refused_names) - SHOWN_NAMES
            yield PeerFinding(
                "refused names",
                "warning",
                f"messages were refused because they named {names}"
                + (f" and {more} more" if more > 0 else ""),
                "If one of these means this machine: add it to [queue_manager] aliases or "
                "addresses, or set accept_any_name = true.",
            )

    def same_identity(self, peer: str, guid: str) -> Iterator[PeerFinding]:
        """Two queue managers with one GUID get each other's messages."""
        if guid == self.guid:
            yield PeerFinding(
                "identity",
                "failed",
                f"{peer} has the GUID of the queue manager here, {guid}",
                "Its name leads here, or one home is a copy of the other: stop one of them, and "
                "start it with a new home.",
            )

    def _copied(self) -> Iterator[PeerFinding]:
        if self.host_change:
            yield PeerFinding(
                "identity",
                "warning",
                self.host_change,
                "If another copy of the home runs too, both have one GUID, and messages go to "
                "either: stop one of them.",
            )


def _unanswered(queue: UnansweredQueue) -> PeerFinding:
    return PeerFinding(
        f"acknowledgments, {queue.name}",
        "failed",
        f"{queue.messages:,} messages have left and are not acknowledged, the first of them for "
        f"{queue.oldest_s:,} s",
        "The other machine cannot reach TCP 1801 here, or sees another address of this machine "
        "than its own (NAT): open the port, and look at the findings on addresses. A queue there "
        "that does not exist or refuses the sender looks the same: grant ANONYMOUS LOGON the right "
        "Send on it.",
    )


def _is_outside(host: str) -> bool:
    """Whether others could use it: an address that is not loopback."""
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return False


def _is_public(host: str) -> bool:
    try:
        return ip_address(host).is_global
    except ValueError:
        return False
