"""Messages for the engine and the sizes of their packets, which quotas count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from posthouse.model.message import (
    ACK_NEG_ARRIVAL,
    ACK_NEG_RECEIVE,
    ACK_POS_ARRIVAL,
    ACK_POS_RECEIVE,
    INFINITE,
    DeliveryGuarantee,
    Message,
    TxSequenceId,
)
from posthouse.security.access import Caller
from posthouse.security.sids import make_sid
from posthouse.wire.packet.message import serialize
from tests.engine.model.parts import OUT, Letter

COMPUTER = "ALPHA"
CALLERS = {
    "admin": Caller.administrator(),
    "bob": Caller.user(make_sid(5, 21, 1, 2, 3, 1002), "bob"),
}
ACKS = {
    "arrival": ACK_POS_ARRIVAL,
    "receive": ACK_POS_RECEIVE,
    "no_arrival": ACK_NEG_ARRIVAL,
    "no_receive": ACK_NEG_RECEIVE,
}
TIME_TO_REACH_QUEUE_S = 0x54600
BY_NUMBER = "PRIVATE=00000000-0000-0000-0000-0000000000aa\\00000010"  # any: for its size
_SYSTEM = {"deadletter", "deadxact", "journal"}


def path(name: str) -> str:
    """The path name of a queue by the short name it has here."""
    if name == OUT:
        return r"DIRECT=OS:BRAVO\private$\far"
    return rf".\system$;{name}" if name in _SYSTEM else rf".\private$\{name}"


def format_name(name: str) -> str:
    """The name a packet carries."""
    return path(name) if name == OUT else rf"DIRECT=OS:{COMPUTER}\private$\{name}"


@dataclass(frozen=True)
class Order:
    """What a sender asks for."""

    name: str
    size: int = 0
    priority: int = 3
    express: bool = False
    to_be_received_s: int | None = None
    to_reach_queue_s: int = TIME_TO_REACH_QUEUE_S
    asks: frozenset[str] = frozenset()
    admin: str = ""
    application: str = ""

    def __str__(self) -> str:
        words = [self.name, f"priority {self.priority}"]
        words += ["express"] if self.express else []
        words += [f"{self.size} bytes"] if self.size else []
        if self.to_be_received_s is not None:
            words.append(f"to be received in {self.to_be_received_s} s")
        words += sorted(self.asks)
        words += [f"dead letters to {self.application}"] if self.application else []
        return f"({', '.join(words)})"

    @property
    def body(self) -> bytes:
        return f"{self.name}:".encode() + b"." * self.size

    def message(self) -> Message:
        """The message as an application hands it in."""
        acks = 0
        for ask in self.asks & ACKS.keys():
            acks |= ACKS[ask]
        time = INFINITE if self.to_be_received_s is None else self.to_be_received_s
        return Message(
            body=self.body,
            label=self.name,
            priority=self.priority,
            delivery_guarantee=(
                DeliveryGuarantee.EXPRESS if self.express else DeliveryGuarantee.RECOVERABLE
            ),
            time_to_be_received=time,
            time_to_reach_queue=self.to_reach_queue_s,
            acknowledgements_requested=acks,
            administration_queue_format_name=format_name(self.admin) if self.admin else "",
            negative_journaling_requested="dead" in self.asks,
            positive_journaling_requested="journal" in self.asks,
            application_deadletter_queue=path(self.application) if self.application else "",
        )

    def packet(
        self, to: str, caller: str, *, transactional: bool = False, answers: str = ""
    ) -> bytes:
        """The packet of the message, but for identity, time and numbers."""
        message = self.message()
        if answers:
            message.administration_queue_format_name = answers
        message.destination_queue_format_name = format_name(to)
        message.sender_identifier = CALLERS[caller].sid
        if transactional:
            message.transactional_message_sequence_identifier = TxSequenceId(0, 0)
            message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
        return serialize(message)

    def letter(
        self,
        number: int,
        to: str,
        caller: str,
        utc: int,
        *,
        transactional: bool,
        admin_number: int = 0,
    ) -> Letter:
        """The same for the model; what goes to another machine names our queues by number."""
        by_number = admin_number if to == OUT and self.asks & ACKS.keys() else 0
        answers = BY_NUMBER if by_number else ""
        ends = [] if self.to_be_received_s is None else [utc + self.to_be_received_s]
        if to == OUT:
            ends.append(utc + self.to_reach_queue_s + 1)
        return Letter(
            number=number,
            name=self.name,
            body=self.body,
            size=len(self.packet(to, caller, transactional=transactional, answers=answers)),
            priority=self.priority,
            express=self.express,
            expires=min(ends, default=None),
            asks=self.asks,
            admin=self.admin,
            admin_number=by_number,
            application=self.application,
            sent_to=to,
        )


def size_of_acknowledgment(letter: Letter, message_class: int, admin: str) -> int:
    """The size of the packet that tells an administration queue of a letter's fate."""
    body = len(letter.body) if message_class & 0x8000 else 0
    destination = BY_NUMBER if letter.admin_number else format_name(admin)
    return _acknowledgment_size(letter.name, body, letter.sent_to, destination)


@cache
def _acknowledgment_size(label: str, body: int, sent_to: str, destination: str) -> int:
    return len(
        serialize(
            Message(
                label=label,
                body=bytes(body),
                destination_queue_format_name=destination,
                response_queue_format_name=format_name(sent_to),
            )
        )
    )
