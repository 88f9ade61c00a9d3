"""Fuzz target: any bytes of an RPC client are answered the same way, however they arrive.

The PDUs of both directions, and a connection of a server with logins, fragments and waiting calls.
It runs with its siblings by `make fuzz`; alone, guided by coverage, by
`python -m fuzz.guided rpc_pdus -max_total_time=600` (see there).
"""

import random
import struct
from collections.abc import Callable

from posthouse.model.errors import RemoteProtocolError
from posthouse.rpc import pdu
from posthouse.rpc.association import AssociationGroups
from posthouse.rpc.connection import ServerConnection
from posthouse.rpc.interface import Call, Interface
from posthouse.rpc.protection import Protection
from posthouse.rpc.security import BadProtection, Identity, Level, LoginRefused, SecurityContext
from posthouse.rpc.settings import RpcSettings
from posthouse.rpc.statuses import Fault
from posthouse.rpc.syntax import BIND_TIME_FEATURES, NDR, NDR64, SyntaxId

TOY = SyntaxId(b"t" * 16, 1, 2)
GUARDED = SyntaxId(b"g" * 16, 1)
FEATURES = SyntaxId(BIND_TIME_FEATURES + b"\3" + bytes(7), 1)
GLASS_TYPE = 10
SIGNATURE = b"glass signature."
SETTINGS = RpcSettings(
    fragment_max=4096, request_max=2000, held_max=6000, calls_max=8, handles_max=4
)
HELD_MAX = SETTINGS.held_max + 512 * 2 * SETTINGS.calls_max + 0x10000
FRAG_LENGTH_AT = 8
EDGES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 24, 32, 255, 1432, 5840, 0x7FFF, 0xFFFF, 0xFFFFFFFF)


class Glass:
    """A security provider that can be seen through: any mutation gets past it that should."""

    complete = False
    mechanism = "ntlm"
    signature_size = len(SIGNATURE)

    def signature_size_at(self, level: Level) -> int:
        """One size of signatures at every level."""
        return self.signature_size

    @property
    def identity(self) -> Identity | None:
        """Always the same."""
        return Identity("ann", "D", "ntlm") if self.complete else None

    def step(self, token: bytes) -> bytes | None:
        """Two tokens."""
        if token.startswith(b"hello"):
            return b"who?"
        if not token.startswith(b"ann"):
            raise LoginRefused("not ann")
        self.complete = True
        return None

    def protect(
        self, level: Level, before: bytes, body: bytes, after: bytes
    ) -> tuple[bytes, bytes]:
        """As it is."""
        return body, SIGNATURE

    def unprotect(
        self, level: Level, before: bytes, body: bytes, after: bytes, signature: bytes
    ) -> bytes:
        """Returns the body unchanged if the signature is right."""
        if signature != SIGNATURE:
            raise BadProtection("another signature")
        return body


class GlassHouse:
    """Its accounts."""

    def acceptor(self, auth_type: int, address: str) -> SecurityContext | None:
        """One kind of authentication."""
        return Glass() if auth_type == GLASS_TYPE else None


class Server:
    """A connection of a toy server, and all that came of it."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = 0
        self.waiting: list[Call] = []
        self.bugs: list[Exception] = []
        self.run_down = 0
        self.opened = 0
        numbers = iter(range(1, 1 << 30))
        self.groups = AssociationGroups(
            lambda size: next(numbers).to_bytes(size, "little"), SETTINGS.handles_max
        )
        methods = {0: self.echo, 1: self.wait, 2: self.throw, 3: self.open, 4: self.large}
        self.connection = ServerConnection(
            [Interface(TOY, "toy", methods, Level.NONE), Interface(GUARDED, "guarded", methods)],
            self.groups,
            GlassHouse(),
            SETTINGS,
            "10.0.0.1",
            self.sent.extend,
            self.close,
            bug=self.bugs.append,
        )

    def close(self) -> None:
        """Once at most."""
        self.closed += 1

    def echo(self, call: Call) -> None:
        """What came."""
        call.answer(call.stub)

    def wait(self, call: Call) -> None:
        """Until it is cancelled."""
        call.on_gone = lambda: call.answer(b"cancelled")
        self.waiting.append(call)

    def throw(self, call: Call) -> None:
        """A fault, or bad arguments."""
        if len(call.stub) % 2:
            raise RemoteProtocolError("an odd stub")
        raise Fault(0xC00E0003)

    def open(self, call: Call) -> None:
        """A handle."""
        call.answer(call.association.group.open(call.stub, self.ended, call.identity))
        self.opened += 1

    def ended(self) -> None:
        """A handle was run down."""
        self.run_down += 1

    def large(self, call: Call) -> None:
        """More than one PDU takes."""
        call.answer(call.stub * 40)


def fuzz_one(data: bytes) -> bool:
    """Whether the client got as far as a call."""
    pieces = 1 + sum(data[:3]) % 97
    whole, cut = feed(data, len(data) or 1), feed(data, pieces)
    assert (b"".join(whole.sent), whole.closed) == (b"".join(cut.sent), cut.closed)
    answers = check_answers(b"".join(whole.sent))
    for server in (whole, cut):
        end(server)
    read_all(data)
    return answers > 0


def feed(data: bytes, piece: int) -> Server:
    """What becomes of bytes that arrive in such pieces."""
    server = Server()
    for at in range(0, len(data), piece):
        server.connection.receive(data[at : at + piece])
        assert server.connection.held_bytes <= HELD_MAX
        assert server.connection.calls <= SETTINGS.calls_max
    return server


def check_answers(sent: bytes) -> int:
    """All that was sent are PDUs for clients, none larger than was agreed on; how many answer."""
    at, answers = 0, 0
    while at < len(sent):
        header = pdu.split(sent, at)
        assert isinstance(header, pdu.Header)
        assert header.kind in ANSWERS
        if header.kind == pdu.RESPONSE:
            assert header.frag_length <= SETTINGS.fragment_max
            answers += 1
        ANSWERS[header.kind](pdu.body_of(sent[at : at + header.frag_length], header)[0])
        at += header.frag_length
    return answers


def end(server: Server) -> None:
    """Nothing is left of a connection that is gone."""
    assert server.bugs == []
    assert server.closed <= 1
    server.connection.lost()
    assert server.connection.held_bytes == server.connection.calls == len(server.groups) == 0
    assert server.run_down == server.opened
    for call in server.waiting:
        assert call.on_gone is None
        call.answer(b"late")


def read_all(data: bytes) -> None:
    """Offers the bytes to every reader there is."""
    for reader in READERS:
        try:
            reader(data)
        except RemoteProtocolError:
            continue


ANSWERS: dict[int, Callable[[bytes], object]] = {
    pdu.RESPONSE: pdu.read_response,
    pdu.FAULT: pdu.read_fault,
    pdu.BIND_ACK: pdu.read_bind_ack,
    pdu.ALTER_CONTEXT_RESP: pdu.read_bind_ack,
    pdu.BIND_NAK: pdu.read_bind_nak,
}
READERS: tuple[Callable[[bytes], object], ...] = (
    *ANSWERS.values(),
    pdu.read_bind,
    lambda data: pdu.read_request(data, 0),
    lambda data: pdu.read_request(data, pdu.OBJECT_UUID),
)


# -- PDUs of a client


def bind(kind: int = pdu.BIND, level: int = 0, token: bytes = b"hello", flags: int = 3) -> bytes:
    """A bind or alter_context for everything."""
    items = (
        pdu.ContextItem(0, TOY, (NDR,)),
        pdu.ContextItem(1, GUARDED, (NDR64, NDR)),
        pdu.ContextItem(2, TOY, (FEATURES,)),
    )
    trailer = pdu.Trailer(GLASS_TYPE, level, 0, 0, token) if level else None
    return pdu.pack(kind, flags, 1, pdu.pack_bind(pdu.Bind(4096, 4096, 0, items)), trailer)


def request(opnum: int, stub: bytes, call_id: int, flags: int = 3, context_id: int = 0) -> bytes:
    """A request in the clear."""
    return pdu.pack(pdu.REQUEST, flags, call_id, pdu.pack_request(context_id, opnum, stub))


def sealed(opnum: int, stub: bytes, call_id: int, flags: int = 3) -> bytes:
    """A request under glass."""
    head = pdu.pack_request(1, opnum, b"", alloc_hint=len(stub))
    return PROTECTION.pack(pdu.REQUEST, flags, call_id, head, stub)


def small(kind: int, call_id: int) -> bytes:
    """A PDU without a body."""
    return pdu.pack(kind, pdu.WHOLE, call_id, b"")


PROTECTION = Protection(Glass(), GLASS_TYPE, Level.PRIVACY)
AUTH3 = pdu.pack(pdu.AUTH3, 3, 1, bytes(4), pdu.Trailer(GLASS_TYPE, 6, 0, 0, b"ann"))
PDUS = [
    request(0, b"stub", 2),
    request(0, b"o" * 16 + b"stub", 3, pdu.WHOLE | pdu.OBJECT_UUID),
    request(0, b"a" * 700, 4, pdu.FIRST_FRAG),
    request(0, b"b" * 700, 4, 0),
    request(0, b"c" * 99, 4, pdu.LAST_FRAG),
    request(1, b"wait", 5),
    request(2, b"even", 6),
    request(3, b"queue", 7),
    request(4, b"0123456789" * 30, 8),
    request(9, b"", 9),
    small(pdu.CO_CANCEL, 5),
    small(pdu.ORPHANED, 5),
    small(pdu.SHUTDOWN, 0),
    sealed(0, b"secret", 12),
    sealed(0, b"s" * 64, 13, pdu.FIRST_FRAG),
    sealed(0, b"t" * 33, 13, pdu.LAST_FRAG),
    sealed(4, b"0123456789" * 30, 14),
    PROTECTION.pack(pdu.CO_CANCEL, 3, 5, b"", b""),
    bind(pdu.ALTER_CONTEXT),
    bind(pdu.ALTER_CONTEXT, 6, b"ann"),
    AUTH3,
]
SEEDS = [
    b"".join((bind(), *PDUS[:13])),
    b"".join((bind(level=6, flags=7), AUTH3, *PDUS[13:])),
    b"".join((bind(level=2), AUTH3.replace(b"\x0a\x06", b"\x0a\x02"), *PDUS[:9])),
    b"".join((bind(level=5), bind(pdu.ALTER_CONTEXT, 5, b"ann"), PDUS[18])),
    b"GET / HTTP/1.0\r\n\r\n",
]


def mutate(seed: bytes, chance: random.Random) -> bytes:
    """A damaged stream; most PDUs keep a length that fits, or nothing would follow them."""
    pdus = split(seed)
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        pdus.insert(chance.randrange(len(pdus) + 1), bytearray(chance.choice(PDUS)))
    for _ in range(chance.choice((0, 0, 1, 2))):
        if len(pdus) > 1:
            del pdus[chance.randrange(len(pdus))]
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        one = chance.choice(pdus)
        chance.choice(MISTAKES)(one, chance)
        if chance.random() < 0.8 and len(one) >= 16:
            struct.pack_into("<H", one, FRAG_LENGTH_AT, len(one) & 0xFFFF)
    return b"".join(pdus)


def split(data: bytes) -> list[bytearray]:
    """The PDUs of a stream, as far as it has some, and the rest."""
    pdus, at = [], 0
    while at < len(data):
        try:
            header = pdu.split(data, at)
        except RemoteProtocolError:
            break
        if isinstance(header, int):
            break
        pdus.append(bytearray(data[at : at + header.frag_length]))
        at += header.frag_length
    return [*pdus, bytearray(data[at:])]


def place(one: bytearray, chance: random.Random) -> int:
    """Somewhere, more often in the header."""
    return chance.randrange(max(1, min(len(one), chance.choice((16, 24, 60, 1 << 30)))))


def change_byte(one: bytearray, chance: random.Random) -> None:
    """Another byte."""
    at = place(one, chance)
    one[at : at + 1] = bytes([chance.randrange(256)])


def flip_bit(one: bytearray, chance: random.Random) -> None:
    """One bit the other way, in the flags mostly."""
    at = chance.choice((3, 3, 3, place(one, chance)))
    if at < len(one):
        one[at] ^= 1 << chance.randrange(8)


def change_number(one: bytearray, chance: random.Random) -> None:
    """A number at an edge of its range."""
    size = chance.choice((2, 2, 4))
    at = place(one, chance) // 2 * 2
    number = chance.choice((*EDGES, len(one))) & ((1 << 8 * size) - 1)
    one[at : at + size] = number.to_bytes(size, "little")


def shorten(one: bytearray, chance: random.Random) -> None:
    """A piece less."""
    at = place(one, chance)
    del one[at : at + chance.choice((1, 4, 16, 1 << 30))]


def lengthen(one: bytearray, chance: random.Random) -> None:
    """A few bytes more."""
    at = place(one, chance)
    one[at:at] = chance.randbytes(chance.choice((1, 4, 16, 1500)))


MISTAKES = [change_byte, flip_bit, change_number, shorten, lengthen]
