"""What applications of a trial send, and the answers that they get."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from posthouse.model.message import (
    ACK_NONE,
    INFINITE,
    TIME_TO_REACH_QUEUE_MAX,
    DeliveryGuarantee,
    Message,
)
from posthouse.wire.packet.packet import Packet

Kind = Literal["express", "recoverable", "transactional"]
End = Literal["received", "rejected", "purged", "expired"]
Fate = Literal["asked", "accepted", "aborted"]
"""asked: no answer came, so it may have happened or not."""

ADMIN = "admin"  # the queue of each machine for acknowledgments
PLAIN = ("orders", "notes")
SEQUENCED = ("ledger", "moves")
JOURNALED = frozenset({"notes", "moves"})  # queues that keep what was received
HOPS = 0x1F  # UserHeader.Flags.RC
NOWHERE = "nowhere"  # a queue that no machine has
STRANGE = "X-"  # how the labels of messages begin that no application of the trial has sent


@dataclass(slots=True)
class Letter:
    """One message. Its name is its label, so that whatever becomes of it can be told."""

    name: str
    kind: Kind
    sender: str
    target: str
    queue: str
    format_name: str
    body: bytes
    group: int  # those with the same number are sent in one transaction
    positive: bool = False  # journaling
    negative: bool = False
    acks: int = ACK_NONE
    administration: str = ""
    reach_s: int = TIME_TO_REACH_QUEUE_MAX
    live_s: int = INFINITE
    priority: int = 3
    order: int = 0  # the transactions of its sender, as they were committed
    fate: Fate = "asked"

    @property
    def hurries(self) -> bool:
        """Whether its time may be over before it reaches its queue."""
        return self.reach_s != TIME_TO_REACH_QUEUE_MAX or self.live_s != INFINITE

    @property
    def fits(self) -> bool:
        """Whether its queue exists and takes messages of its kind."""
        return self.queue in (SEQUENCED if self.kind == "transactional" else PLAIN)

    @property
    def posted(self) -> bool:
        """Whether it goes over HTTP."""
        return self.format_name.startswith("DIRECT=HTTP")

    def message(self) -> Message:
        """As the application hands it over."""
        durable = self.kind != "express"
        return Message(
            label=self.name,
            body=self.body,
            delivery_guarantee=(
                DeliveryGuarantee.RECOVERABLE if durable else DeliveryGuarantee.EXPRESS
            ),
            positive_journaling_requested=self.positive,
            negative_journaling_requested=self.negative,
            acknowledgements_requested=self.acks,
            administration_queue_format_name=self.administration,
            time_to_reach_queue=self.reach_s,
            time_to_be_received=self.live_s,
            priority=self.priority,
        )


@dataclass
class Told:
    """Requests of applications, and the answers they got. What was not answered may have
    happened.
    """

    letters: dict[str, Letter] = field(default_factory=dict)
    ends: dict[str, list[End]] = field(default_factory=dict)
    doubts: dict[str, set[End]] = field(default_factory=dict)
    places: dict[tuple[str, str], dict[str, set[int]]] = field(default_factory=dict)
    # By machine and queue: reads that waited, and how many of them went down with the machine.
    waiting: Counter[tuple[str, str]] = field(default_factory=Counter)
    vanished: Counter[tuple[str, str]] = field(default_factory=Counter)
    hops: dict[str, int] = field(default_factory=dict)  # routers on the way of what came
    copies: Counter[str] = field(default_factory=Counter)  # that a stranger has sent, unchanged
    vouched: list[str] = field(default_factory=list)  # a stranger's, shown as somebody's
    orders: int = 0

    def came(self, packet: Packet) -> str:
        """A reader sees a message; its name."""
        name, hops = packet.label, packet.summary.user_flags & HOPS
        self.hops[name] = max(hops, self.hops.get(name, 0))
        return name

    def commits(self, letters: list[Letter]) -> None:
        """The engine has just taken these, in this order."""
        for letter in letters:
            self.orders += 1
            letter.order = self.orders

    def read(self, machine: str, queue: str, name: str, lookup_id: int) -> None:
        """A reader was given a message: what they were given is durable."""
        self.places.setdefault((machine, queue), {}).setdefault(name, set()).add(lookup_id)

    def may_end(self, names: list[str], end: End) -> None:
        """The engine has decided so; whether that is durable is not known yet."""
        for name in names:
            self.doubts.setdefault(name, set()).add(end)

    def fell(self, machine: str) -> None:
        """A machine is gone, with whatever its waiting readers were about to be given."""
        for place in [place for place in self.waiting if place[0] == machine]:
            self.vanished[place] += self.waiting.pop(place)

    def ended(self, names: list[str], end: End) -> None:
        """An application was told so."""
        for name in names:
            self.ends.setdefault(name, []).append(end)
