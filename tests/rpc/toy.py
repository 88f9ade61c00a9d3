"""A toy interface, and a client that speaks in PDUs, for tests of the runtime."""

from collections.abc import Callable, Iterable

from posthouse.model.errors import MalformedPacket
from posthouse.rpc import pdu
from posthouse.rpc.association import AssociationGroups
from posthouse.rpc.connection import ServerConnection
from posthouse.rpc.interface import Call, Interface
from posthouse.rpc.security import NTLM, Authenticator, Level, SecurityContext
from posthouse.rpc.settings import RpcSettings
from posthouse.rpc.statuses import Fault
from posthouse.rpc.syntax import NDR, NDR64, SyntaxId, syntax

from .login_book import LoginBook, acceptor

TOY = syntax("11111111-2222-3333-4444-555555555555", 1)._replace(minor=2)
GUARDED = syntax("99999999-2222-3333-4444-555555555555", 3)
ECHO, WAIT, THROW, BREAK, MALFORM, OPEN, FIND, WHO, LARGE = range(9)
STATUS = 0xC00E0003


class Toy:
    """What the methods did."""

    def __init__(self) -> None:
        self.waiting: list[Call] = []
        self.gone: list[int] = []
        self.served: list[tuple[int, bytes]] = []
        self.run_down: list[object] = []

    def interface(self, name: SyntaxId = TOY, minimum_level: Level = Level.NONE) -> Interface:
        methods = (
            self.echo,
            self.wait,
            self.throw,
            self.fail,
            self.malform,
            self.open,
            self.find,
            self.who,
            self.large,
        )
        return Interface(name, "toy", dict(enumerate(methods)), minimum_level)

    def echo(self, call: Call) -> None:
        self.served.append((call.opnum, call.stub))
        call.answer(call.stub)

    def wait(self, call: Call) -> None:
        call.on_gone = lambda: self.stop(call)
        self.waiting.append(call)

    def stop(self, call: Call) -> None:
        self.gone.append(len(self.waiting))
        self.waiting.remove(call)
        call.answer(b"stopped")

    def throw(self, call: Call) -> None:
        raise Fault(STATUS)

    def fail(self, call: Call) -> None:
        raise ZeroDivisionError

    def malform(self, call: Call) -> None:
        raise MalformedPacket("not an argument")

    def open(self, call: Call) -> None:
        stub = call.stub
        group = call.association.group
        call.answer(group.open(stub, lambda: self.run_down.append(stub), call.identity))

    def find(self, call: Call) -> None:
        found = call.association.group.find(call.stub, call.identity)
        call.answer(found if isinstance(found, bytes) else b"unknown")

    def who(self, call: Call) -> None:
        user = call.identity.user if call.identity is not None else "nobody"
        call.answer(f"{user} at {call.level.name} from {call.address}".encode())

    def large(self, call: Call) -> None:
        call.answer(bytes(range(256)) * (int(call.stub) // 256) + bytes(int(call.stub) % 256))


class Accounts:
    """An Authenticator that knows NTLM and one user."""

    def __init__(self) -> None:
        self.book = LoginBook()

    def acceptor(self, auth_type: int, address: str) -> SecurityContext | None:
        return acceptor(self.book) if auth_type == NTLM else None


class Numbers:
    """Bytes that are different each time, and the same in each run."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, size: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(size, "little")


class Desk:
    """A server without a network: connections share its groups, its clock and its accounts."""

    def __init__(
        self, settings: RpcSettings | None = None, authenticator: Authenticator | None = None
    ) -> None:
        self.toy = Toy()
        self.now_ms = 0
        self.settings = settings or RpcSettings()
        self.groups = AssociationGroups(Numbers(), self.settings.handles_max)
        self.authenticator = authenticator or Accounts()
        self.interfaces = [
            self.toy.interface(),
            self.toy.interface(GUARDED, Level.PRIVACY),
        ]
        self.bugs: list[Exception] = []

    def connect(self, address: str = "10.0.0.1") -> "Wire":
        return Wire(self, address)

    def bound(self, *items: pdu.ContextItem, group_id: int = 0, max_recv: int = 5840) -> "Wire":
        wire = self.connect()
        wire.bind(*items, group_id=group_id, max_recv=max_recv)
        return wire


class Wire:
    """A client's end: PDUs in, PDUs out."""

    def __init__(self, desk: Desk, address: str) -> None:
        self.sent = b""
        self.sends = 0
        self.closed = False
        self.connection = ServerConnection(
            desk.interfaces,
            desk.groups,
            desk.authenticator,
            desk.settings,
            address,
            self.take,
            self.close,
            now=lambda: desk.now_ms,
            secondary_address="2103",
            bug=desk.bugs.append,
        )

    def take(self, parts: list[bytes]) -> None:
        self.sends += 1
        self.sent += b"".join(parts)

    def close(self) -> None:
        assert not self.closed
        self.closed = True

    def say(self, *pdus: bytes) -> list[tuple[pdu.Header, bytes]]:
        """Sends, and returns what came back."""
        self.connection.receive(b"".join(pdus))
        return self.heard()

    def heard(self) -> list[tuple[pdu.Header, bytes]]:
        found, self.sent = list(pdus_of(self.sent)), b""
        return found

    def bind(
        self,
        *items: pdu.ContextItem,
        group_id: int = 0,
        max_recv: int = 5840,
        flags: int = pdu.WHOLE,
        trailer: pdu.Trailer | None = None,
        kind: int = pdu.BIND,
    ) -> pdu.BindAck:
        bind = pdu.Bind(5840, max_recv, group_id, items or (item(0),))
        ((header, whole),) = self.say(pdu.pack(kind, flags, 1, pdu.pack_bind(bind), trailer))
        assert header.kind == kind + 1, whole
        self.ack_header = header
        body, self.trailer = pdu.body_of(whole, header)
        return pdu.read_bind_ack(body)

    def call(
        self, opnum: int, stub: bytes = b"", *, call_id: int = 7, context_id: int = 0
    ) -> bytes:
        """A call in the clear, answered at once; a fault is returned as such."""
        return answer_of(self.say(request(opnum, stub, call_id=call_id, context_id=context_id)))


def pdus_of(data: bytes) -> Iterable[tuple[pdu.Header, bytes]]:
    """The PDUs of a stream, all whole."""
    at = 0
    while at < len(data):
        header = pdu.split(data, at)
        assert isinstance(header, pdu.Header)
        yield header, data[at : at + header.frag_length]
        at += header.frag_length


def item(context_id: int, abstract: SyntaxId = TOY, *transfers: SyntaxId) -> pdu.ContextItem:
    return pdu.ContextItem(context_id, abstract, transfers or (NDR,))


BOTH = (NDR64, NDR)


def request(
    opnum: int,
    stub: bytes = b"",
    *,
    call_id: int = 7,
    context_id: int = 0,
    flags: int = pdu.WHOLE,
    trailer: pdu.Trailer | None = None,
) -> bytes:
    return pdu.pack(pdu.REQUEST, flags, call_id, pdu.pack_request(context_id, opnum, stub), trailer)


def answer_of(heard: list[tuple[pdu.Header, bytes]]) -> bytes:
    """The stub of a response, or what `fault_of` says."""
    assert heard
    if heard[0][0].kind == pdu.FAULT:
        status, executed = fault_of(heard)
        return f"fault {status:08X} {'executed' if executed else 'not executed'}".encode()
    return b"".join(pdu.read_response(whole[16:]).stub for _, whole in heard)


def fault_of(heard: list[tuple[pdu.Header, bytes]]) -> tuple[int, bool]:
    """The status of a fault, and whether its method may have run."""
    ((header, whole),) = heard
    assert header.kind == pdu.FAULT
    status = pdu.read_fault(whole[16:]).status
    return status, not header.flags & pdu.DID_NOT_EXECUTE


Chunks = Callable[[bytes], Iterable[bytes]]
