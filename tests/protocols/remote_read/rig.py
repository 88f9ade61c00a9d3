"""The RemoteRead interface on a real engine: no sockets, turns by hand, calls as values."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from posthouse.model.names import PathName, parse_name
from posthouse.protocols.queue_format import QueueFormat, queue_format_of
from posthouse.protocols.remote_read import actions, stubs
from posthouse.protocols.remote_read.protocol import RemoteRead
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.protocols.remote_read.stubs import NO_TRANSACTION, Opnum
from posthouse.rpc.association import Association, AssociationGroups
from posthouse.rpc.interface import BACKLOG_MAX, Call
from posthouse.rpc.security import Identity, Level
from posthouse.security.accounts import Door
from posthouse.security.sids import ADMINISTRATORS
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.remote_read import ReadPacket, read_packet
from tests.engine.rig import Rig
from tests.protocols.admin.session_rig import TurnDesk

ALL = 0xFFFF_FFFF
FOR_EVER = 0xFFFF_FFFF
RECEIVE_ACCESS, PEEK_ACCESS, MOVE_ACCESS = 1, 0x20, 4
NACK, ACK = 1, 2
CLIENT_ID = bytes(range(16))

OK = 0
INVALID_PARAMETER = 0xC00E0006
INVALID_HANDLE = 0xC00E0007
CANCELLED = 0xC00E0008
QUEUE_NOT_FOUND = 0xC00E0003
SHARING_VIOLATION = 0xC00E0009
IO_TIMEOUT = 0xC00E001B
ILLEGAL_CURSOR_ACTION = 0xC00E001C
ALREADY_RECEIVED = 0xC00E001D
ACCESS_DENIED = 0xC00E0025
INSUFFICIENT_RESOURCES = 0xC00E0027
TRANSACTION_USAGE = 0xC00E0050
TRANSACTION_SEQUENCE = 0xC00E0051
TRANSACTION_ENLIST = 0xC00E0058
MESSAGE_NOT_FOUND = 0xC00E0088
LOCKED_UNDER_TRANSACTION = 0xC00E009C
STATUS_INVALID_HANDLE = 0xC0000008
STATUS_INVALID_PARAMETER = 0xC000000D
STATUS_ACCESS_DENIED = 0xC0000022
STATUS_NOT_FOUND = 0xC0000225
BAD_STUB_DATA = 0x6F7


class RigCall(Call):
    """A call whose answer is kept."""

    __slots__ = ("answers", "reader")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.answers: list[bytes | int] = []
        self.reader: Reader

    def answer(self, stub: bytes) -> None:
        self.answers.append(stub)
        self.reader.backlog += len(stub) if self.reader.lazy else 0

    def backlog(self) -> int:
        return 2 * BACKLOG_MAX if self.reader.backlog > self.reader.thirst else 0

    def when_drained(self, callback: Callable[[], None]) -> None:
        self.reader.thirsty.append(callback)

    def fault(self, status: int) -> None:
        self.answers.append(status)

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def response(self) -> Any:
        """The decoded answer; the call has had exactly one, and no fault."""
        (stub,) = self.answers
        assert isinstance(stub, bytes), f"fault 0x{stub:08X}"
        return stubs.decode_response(self.opnum, stub, self.ndr64)

    @property
    def result(self) -> int:
        result: int = self.response.result
        return result

    @property
    def status(self) -> int:
        """Of its fault."""
        (status,) = self.answers
        assert isinstance(status, int), "no fault"
        return status

    @property
    def packet(self) -> ReadPacket:
        """What a Start method has brought."""
        response = self.response
        assert response.result == OK, hex(response.result)
        joined = [each.buffer.ljust(each.size_alloc, b"\0") for each in response.sections]
        return read_packet(b"".join(joined))

    @property
    def body(self) -> bytes:
        return deserialize(self.packet.message).body


class ServerRig(Rig):
    """A queue manager with the interface on it."""

    def __init__(self, settings: RemoteReadSettings | None = None, **engine: Any) -> None:
        super().__init__(**engine)
        self.remote_settings = settings or RemoteReadSettings()
        self._root: Identity | None = None
        self.serve()

    def serve(self) -> None:
        self.desk = TurnDesk(self.driver)
        self.wakes: list[int] = []
        self.remote = RemoteRead(
            self.desk, self.remote_settings, lambda: self.clock.now_ms, self.wakes.append
        )
        self.remote.port = 2103
        self.groups = AssociationGroups(random.Random(7).randbytes)
        self.interface = self.remote.interface

    def restart(self) -> None:
        super().restart()
        self.serve()

    def pass_time(self, milliseconds: int) -> None:
        """The clock goes on; engine and protocol do what is due."""
        self.clock.advance(milliseconds)
        self.turn()
        self.remote.tick()
        self.desk.settle()

    def reader(self, **options: Any) -> Reader:
        """A client of somebody who may do everything."""
        if self._root is None:
            self._root = self.user("root", groups=(ADMINISTRATORS,))
        return Reader(self, self._root, **options)

    def user(self, name: str, **options: Any) -> Identity:
        """An account, and how it looks after a login."""
        account = self.run(lambda m: m.accounts.add(name, doors=(Door.RPC,), **options))
        return Identity(name, "", "ntlm", account.sid)

    def format_of(self, name: str) -> QueueFormat:
        """QUEUE_FORMAT of a path name or a format name."""
        path = name if "\\" in name or "=" in name else f".\\private$\\{name}"
        parsed = parse_name(path)
        if isinstance(parsed, PathName):
            parsed = parse_name(f"DIRECT=OS:{parsed.with_computer('ALPHA')}")
            assert not isinstance(parsed, PathName)
        return queue_format_of(parsed)


class Reader:
    """A client: one association group, any number of connections."""

    def __init__(
        self,
        rig: ServerRig,
        identity: Identity | None = None,
        *,
        level: Level = Level.PRIVACY,
        ndr64: bool = False,
        group_id: int = 0,
        settle: bool = True,
    ) -> None:
        self.rig = rig
        self.identity = identity
        self.level = level
        self.ndr64 = ndr64
        self.settle = settle  # each call is a turn of its own
        joined = rig.groups.join(group_id, "192.0.2.7")
        assert joined is not None
        self.association: Association = joined
        self.outstanding: list[RigCall] = []
        self.lazy = False  # it takes nothing of its answers before `drain`
        self.backlog = 0
        self.thirst = 4000  # bytes in between
        self.thirsty: list[Callable[[], None]] = []
        self.requests = 0

    @property
    def group_id(self) -> int:
        return self.association.group.group_id

    def lose(self) -> None:
        """The connection is gone: its calls hear of it, then the group."""
        for call in self.outstanding:
            if call.waits and call.on_gone is not None:
                call.on_gone()
        self.association.end()
        self.rig.desk.settle()

    def call(self, opnum: int, *parameters: Any) -> RigCall:
        request = stubs.METHODS[opnum].request.parameters(*parameters)
        return self.raw(opnum, stubs.encode_request(opnum, request, self.ndr64))

    def raw(self, opnum: int, stub: bytes) -> RigCall:
        call = RigCall(
            self.association,
            "192.0.2.7",
            self.identity,
            self.level,
            opnum,
            stub,
            ndr64=self.ndr64,
        )
        call.reader = self
        self.outstanding.append(call)
        self.rig.interface.methods[opnum](call)
        if self.settle:
            self.rig.desk.settle()
        return call

    def drain(self) -> None:
        """The client takes what there is."""
        self.backlog = 0
        thirsty, self.thirsty = self.thirsty, []
        for callback in thirsty:
            callback()
        self.rig.desk.settle()

    # -- the methods

    def open(self, name: str | QueueFormat, access: int = RECEIVE_ACCESS, share: int = 0) -> bytes:
        handle: bytes = self.opening(name, access, share).response.handle
        return handle

    def opening(
        self,
        name: str | QueueFormat,
        access: int = RECEIVE_ACCESS,
        share: int = 0,
        *,
        move: bool = False,
        **others: int | bytes,
    ) -> RigCall:
        queue = name if isinstance(name, QueueFormat) else self.rig.format_of(name)
        values: dict[str, Any] = {
            "client_id": CLIENT_ID,
            "non_routing_server": 1,
            "major": 6,
            "minor": 1,
            "build_number": 7601,
            "workgroup": 1,
        }
        opnum = Opnum.OPEN_QUEUE_FOR_MOVE if move else Opnum.OPEN_QUEUE
        return self.call(opnum, queue, access, share, *(values | others).values())

    def open_for_move(self, name: str, access: int = MOVE_ACCESS) -> tuple[int, bytes]:
        response = self.opening(name, access, move=True).response
        return response.move_context, response.handle

    def close(self, handle: bytes) -> RigCall:
        return self.call(Opnum.CLOSE_QUEUE, handle)

    def cursor(self, handle: bytes) -> int:
        response = self.call(Opnum.CREATE_CURSOR, handle).response
        assert response.result == OK
        number: int = response.cursor
        return number

    def start(
        self,
        handle: bytes,
        action: int = actions.RECEIVE,
        *,
        lookup_id: int = 0,
        cursor: int = 0,
        timeout: int = 0,
        request_id: int | None = None,
        max_body: int = ALL,
        max_compound: int = ALL,
        tx: bytes | None = None,
    ) -> RigCall:
        """R_StartReceive, or R_StartTransactionalReceive where a transaction is given."""
        if request_id is None:
            self.requests += 1
            request_id = self.requests
        values = (handle, lookup_id, cursor, action, timeout, request_id, max_body, max_compound)
        if tx is None:
            return self.call(Opnum.START_RECEIVE, *values)
        return self.call(Opnum.START_TRANSACTIONAL_RECEIVE, *values, tx)

    def start_without_transaction(self, handle: bytes, action: int = 0, **options: Any) -> RigCall:
        return self.start(handle, action, tx=NO_TRANSACTION, **options)

    def end(self, handle: bytes, request_id: int, ack: int = ACK) -> RigCall:
        return self.call(Opnum.END_RECEIVE, handle, ack, request_id)

    def end_transactional(self, handle: bytes, request_id: int, ack: int = ACK) -> RigCall:
        return self.call(Opnum.END_TRANSACTIONAL_RECEIVE, handle, ack, request_id)

    def cancel(self, handle: bytes, request_id: int) -> RigCall:
        return self.call(Opnum.CANCEL_RECEIVE, handle, request_id)

    def receive(self, handle: bytes, **options: Any) -> bytes:
        """Start and end of a message that is there."""
        call = self.start(handle, **options)
        assert self.end(handle, self.requests).result == OK
        return call.body

    def move(
        self, source: bytes, context: int, lookup_id: int, tx: bytes = NO_TRANSACTION
    ) -> RigCall:
        return self.call(Opnum.MOVE_MESSAGE, source, context, lookup_id, tx)
