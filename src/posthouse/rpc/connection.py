"""One connection of a server, without I/O: bytes in, bytes out ([MS-RPCE] 3.3, C706 12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from posthouse.model.address_prefixes import source_of
from posthouse.model.bounded_tables import has_share
from posthouse.model.errors import MalformedPacket, RemoteProtocolError
from posthouse.rpc import pdu, statuses
from posthouse.rpc.association import Association, AssociationGroups
from posthouse.rpc.backpressure import Drains
from posthouse.rpc.binding import Binding, BindRefused, ContextChanged
from posthouse.rpc.calls import Counts, ServerCall, response
from posthouse.rpc.connection_states import CONNECTION_STATES, ConnectionEvent, ConnectionState
from posthouse.rpc.fragments import CALL_OVERHEAD
from posthouse.rpc.interface import Interface
from posthouse.rpc.pdu import CALL_HEADER, CALL_HEADER_SIZE, HEADER_SIZE, LITTLE_ENDIAN, VERSION
from posthouse.rpc.presentation import Context
from posthouse.rpc.request_assembly import Distrusted, Incoming, verified
from posthouse.rpc.security import Authenticator, Level, LoginRefused, VerdictNeeded
from posthouse.rpc.security_contexts import Login
from posthouse.rpc.settings import RpcSettings
from posthouse.rpc.statuses import Fault

Send = Callable[[list[bytes]], None]

_NONE: Final = Level.NONE
_CONNECT: Final = int(Level.CONNECT)
_FAST_FLAGS: Final = pdu.WHOLE | pdu.PENDING_CANCEL | pdu.OBJECT_UUID
OUT_MAX: Final = 64 << 10  # bytes of answers that are gathered before they are sent
_REFUSED: Final = pdu.WHOLE | pdu.DID_NOT_EXECUTE
_EVENTS: Final = {
    pdu.REQUEST: ConnectionEvent.REQUEST,
    pdu.ALTER_CONTEXT: ConnectionEvent.ALTER_CONTEXT,
    pdu.AUTH3: ConnectionEvent.AUTH3,
    pdu.CO_CANCEL: ConnectionEvent.CO_CANCEL,
    pdu.ORPHANED: ConnectionEvent.ORPHANED,
    pdu.SHUTDOWN: ConnectionEvent.SHUTDOWN,
}


def _count_bug(counts: Counts, bug: Callable[[Exception], None], error: Exception) -> None:
    counts.bugs += 1
    bug(error)


class ServerConnection:
    """A client's connection, without I/O: `send` and `close` act for it, `now` gives the time.

    `close` ends the connection once what was sent is sent; `lost` has to be called then, too.
    """

    def __init__(
        self,
        interfaces: Sequence[Interface],
        groups: AssociationGroups,
        authenticator: Authenticator | None,
        settings: RpcSettings,
        address: str,
        send: Send,
        close: Callable[[], None],
        *,
        now: Callable[[], int] = lambda: 0,
        unsent: Callable[[], int] = lambda: 0,
        secondary_address: str = "",
        counts: Counts | None = None,
        bug: Callable[[Exception], None] = lambda error: None,
        paced: Callable[[], None] = lambda: None,
    ) -> None:
        self.address = address
        self._source = source_of(address)
        self.association: Association | None = None
        self.binding = Binding(
            interfaces, groups, authenticator, settings, address, secondary_address, now
        )
        self.counts = counts or Counts()
        self.state = CONNECTION_STATES.first
        self.closing = False  # it has ended; what was sent is on its way
        self.pdus = 0  # received
        self._settings = settings
        self._send = send
        self._close = close
        self._now = now
        self._unsent = unsent  # bytes that were given to `send` and are not gone yet
        self._failed = partial(_count_bug, self.counts, bug)
        self._contexts = self.binding.contexts
        self._login: Login | None = None  # of requests that name none
        self._is_signed = False  # and whether it takes no such requests
        self._calls: dict[int, ServerCall] = {}
        self._incoming = Incoming(self.binding.logins, settings, now)
        self._partials = self._incoming.partials
        self._rest = bytearray()  # of a PDU
        self._need = 0  # bytes, before the rest is worth a look
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._is_held = False  # nothing more is done for it: for one of the two reasons below
        self._is_full = False  # the client does not read
        self.is_asking = False  # a login waits for somebody else's word
        self._paced = paced  # called when that begins and ends
        self._drains = Drains(lambda: self.backlog, self._failed)
        self._receiving = False
        self._made_ms = self._active_ms = self._rest_ms = now()
        self._active_pdus = 0

    def _happened(self, event: ConnectionEvent) -> None:
        self.state = CONNECTION_STATES.after(self.state, event)
        self.closing = self.state is ConnectionState.ENDED

    # -- figures

    @property
    def calls(self) -> int:
        """Calls that wait for their answer."""
        return len(self._calls)

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of PDUs and calls that are not whole."""
        return len(self._rest) + self._incoming.held_bytes

    @property
    def announced_bytes(self) -> int:
        """Bytes of those PDUs and calls when they are whole, as far as they are announced."""
        rest = max(self._need, len(self._rest)) if self._rest else 0
        return max(rest + self._incoming.announced_bytes, self.unfinished_bytes)

    @property
    def held_bytes(self) -> int:
        """Those, and what is kept of calls that are not answered."""
        return self.unfinished_bytes + CALL_OVERHEAD * len(self._calls)

    def overdue(self, now_ms: int) -> str:
        """Why the connection should be ended by now, if it should; asked from time to time."""
        settings = self._settings
        if self.pdus != self._active_pdus or self._calls:
            self._active_pdus, self._active_ms = self.pdus, now_ms
        if self.association is None:
            return "never bound" if now_ms - self._made_ms > settings.bind_ms else ""
        if self.binding.logins.is_overdue(now_ms, settings.login_ms):
            return "never logged in"
        if self.binding.logins.is_outdated(now_ms, settings.domain_login_ms):
            return "the login of a domain user is too old"
        begun = [partial.begun_ms for partial in self._partials.values()]
        if self._rest and not self._is_held:
            begun.append(self._rest_ms)
        if begun and now_ms - min(begun) > settings.unfinished_ms:
            return "sent too slowly"
        idle = now_ms - self._active_ms > settings.idle_ms and not self.association.group.handles
        return "idle" if idle else ""

    # -- bytes in

    def receive(self, data: bytes) -> None:
        """Takes any piece of what the client sends, and answers all that is whole, at once."""
        if self.closing:
            return
        if self._rest or self._is_held:
            self._rest += data
            if len(self._rest) < self._need or self._is_held:
                return
            data = bytes(self._rest)
            self._rest = bytearray()
        self._receiving = True
        try:
            self._keep(data, self._take(data))
        except Exception as error:
            self._failed(error)
            self._end()
        self._receiving = False
        self._flush()
        self.look_at_drain()

    def _keep(self, data: bytes, at: int) -> None:
        """What is left of a chunk waits for the rest of its PDU, or for the client to read."""
        if at < len(data) and not self.closing:
            missing = pdu.split(data, at) if not self._is_held else 0
            self._rest += memoryview(data)[at:]
            self._need = len(self._rest) + (missing if isinstance(missing, int) else 0)
            self._rest_ms = self._now()

    def _take(self, data: bytes) -> int:
        """All PDUs that are whole; where the rest begins."""
        at, size = 0, len(data)
        unpack, dispatch = CALL_HEADER.unpack_from, self._dispatch
        while size - at >= CALL_HEADER_SIZE and not (self.closing or self._is_held):
            version, minor, kind, flags, drep, length, auth, call_id, _, context_id, opnum = unpack(
                data, at
            )
            if (
                kind  # anything but a request that is whole, and in the clear
                or version != VERSION
                or minor > 1
                or drep != LITTLE_ENDIAN
                or flags & _FAST_FLAGS != pdu.WHOLE
                or auth
                or length < CALL_HEADER_SIZE
                or self._partials
                or self._is_signed
            ):
                at = self._take_one(data, at)
                if at < 0:
                    return ~at
                continue
            end = at + length
            if end > size:
                return at
            self.pdus += 1
            stub = data[at + CALL_HEADER_SIZE : end]
            dispatch(call_id, context_id, opnum, stub, self._login)
            at = end
        if size - at >= HEADER_SIZE and not (self.closing or self._is_held):
            at = self._take_one(data, at)
            return ~at if at < 0 else at
        return at

    def _take_one(self, data: bytes, at: int) -> int:
        """Any PDU; where the next one begins, or the complement of where this one does."""
        try:
            header = pdu.split(data, at)
        except pdu.NotRpc as error:
            self._nak(error.call_id, statuses.NAK_PROTOCOL_VERSION)
            return ~at
        except RemoteProtocolError:
            self._unreadable(int.from_bytes(data[at + 12 : at + 16], "little"))
            return ~at
        if isinstance(header, int):
            return ~at
        self.pdus += 1
        end = at + header.frag_length
        try:
            self._handle(header, data[at:end])
        except VerdictNeeded as needed:
            self.pdus -= 1
            self._ask(needed)
            return ~at
        except RemoteProtocolError:
            self._violated(header.call_id)
        except Distrusted as distrusted:
            self._refuse(header.call_id, 0, distrusted.status)
            self._end()
        return end

    def _handle(self, header: pdu.Header, whole: bytes) -> None:
        if header.kind == pdu.BIND:
            self._bind(header, whole)
            return
        event = _EVENTS.get(header.kind)
        if event is None or not CONNECTION_STATES.allows(self.state, event):
            raise MalformedPacket(f"a PDU of kind {header.kind} while {self.state.value}")
        if not header.is_little_endian:
            raise MalformedPacket("a PDU is big-endian")
        if event is ConnectionEvent.REQUEST:
            self._request(header, whole)
        elif event is ConnectionEvent.ALTER_CONTEXT:
            self._alter_context(header, whole)
        elif event is ConnectionEvent.AUTH3:
            self._auth3(header, whole)
        elif event is not ConnectionEvent.SHUTDOWN:  # which asks for nothing (C706 12.6.4.11)
            self._gone(header, whole)

    # -- bind, alter_context, auth3

    def _bind(self, header: pdu.Header, whole: bytes) -> None:
        try:
            answer = self.binding.bind(header, whole)
        except BindRefused as refused:
            self.counts.logins_refused += refused.is_login
            self._nak(header.call_id, refused.reason)
            return
        self._happened(ConnectionEvent.BIND)
        self.association = self.binding.association
        self.counts.binds += 1
        self._out.append(answer)
        self._look_at_logins()

    def _alter_context(self, header: pdu.Header, whole: bytes) -> None:
        try:
            self._out.append(self.binding.alter_context(header, whole))
        except LoginRefused as refused:
            self.counts.logins_refused += 1
            self._refuse(header.call_id, 0, statuses.ACCESS_DENIED)
            if isinstance(refused, ContextChanged):
                self._end()
        self._look_at_logins()

    def _auth3(self, header: pdu.Header, whole: bytes) -> None:
        """The third token. There is no answer to it: what it is worth, later calls show."""
        try:
            self.binding.auth3(header, whole)
        except LoginRefused:
            self.counts.logins_refused += 1

    def _look_at_logins(self) -> None:
        self._login = self.binding.logins.default
        self._is_signed = self._incoming.is_signed

    # -- calls

    def _check_calls(self) -> None:
        if len(self._partials) + len(self._calls) >= self._settings.calls_max:
            raise MalformedPacket("too many calls in fragments")

    def _request(self, header: pdu.Header, whole: bytes) -> None:
        """A fragment of a call, protected or not, or a whole one that is not just plain."""
        flags, call_id = header.flags, header.call_id
        head_size = 24 if flags & pdu.OBJECT_UUID else 8
        if HEADER_SIZE + head_size > header.frag_length:
            raise MalformedPacket("a request ends in its header")
        *_, hint, context_id, opnum = CALL_HEADER.unpack_from(whole)
        login, stub, status = self._incoming.open(header, whole, head_size)
        if flags & pdu.WHOLE != pdu.WHOLE or call_id in self._partials:
            if call_id not in self._partials:
                self._check_calls()
            partial = self._incoming.collect(header, (context_id, opnum), login, stub, status, hint)
            if partial is None:
                return
            stub, status = bytes(partial.parts), partial.status
        if status:
            self._refuse(call_id, context_id, status)
            return
        context = self._contexts.get(context_id)
        if login is not None and login.level > _CONNECT and context is not None:
            checked = verified(stub, (call_id, context_id, opnum), context, login)
            if checked is None:
                self._refuse(call_id, context_id, statuses.ACCESS_DENIED)
                return
            stub = checked
        self._dispatch(call_id, context_id, opnum, stub, login)
        if flags & pdu.PENDING_CANCEL:
            self._tell(self._calls.get(call_id))

    def _dispatch(
        self, call_id: int, context_id: int, opnum: int, stub: bytes, login: Login | None
    ) -> None:
        """Gives a whole call to its method, or refuses it."""
        calls = self._calls
        context = self._contexts.get(context_id)
        if self.association is None or call_id in calls:
            self._violated(call_id)
            return
        if context is None:
            self._refuse(call_id, 0, statuses.UNKNOWN_INTERFACE)
            return
        status = self._objection(context, opnum, login)
        if status:
            self._refuse(call_id, context_id, status)
            return
        if login is None:
            identity, level = None, _NONE
        else:
            identity, level = login.identity, login.level
        call = ServerCall(
            self,
            self.association,
            identity,
            level,
            opnum,
            stub,
            context.ndr64,
            call_id,
            context_id,
            login,
        )
        calls[call_id] = call
        self.counts.calls += 1
        self.counts.waiting += 1
        self.counts.waiting_of[self._source] += 1
        try:
            context.methods[opnum](call)
        except Fault as fault:
            self.throw(call, fault.status)
        except RemoteProtocolError:
            self.throw(call, statuses.BAD_STUB_DATA)
        except Exception as error:
            self._failed(error)
            self.throw(call, statuses.UNSPECIFIED)
        call.stub = b""  # which a call that waits has no use for

    def _objection(self, context: Context, opnum: int, login: Login | None) -> int:
        """Why a call is not given to its method; 0: it is."""
        if login is None:
            if context.minimum_level > 1:
                return statuses.ACCESS_DENIED
        elif not login.is_ready or login.level < context.minimum_level:
            return statuses.ACCESS_DENIED
        if opnum not in context.methods:
            return statuses.OPNUM_OUT_OF_RANGE
        if len(self._calls) >= self._settings.calls_max:
            return statuses.SERVER_TOO_BUSY
        counts = self.counts
        own, most = counts.waiting_of[self._source], self._settings.all_calls_max
        if not has_share(own, counts.waiting, most):
            return statuses.SERVER_TOO_BUSY
        return 0

    def _gone(self, header: pdu.Header, whole: bytes) -> None:
        """The client does not want an answer soon (co_cancel), or none at all (orphaned)."""
        # A signature is optional, but counted by the security context at the other end.
        if header.auth_length and self._incoming.open(header, whole, 0)[2]:
            return
        call = self._calls.get(header.call_id)
        if header.kind == pdu.ORPHANED:
            self._incoming.forget(header.call_id)
            if call is not None:
                self._forget(call)
        self._tell(call)

    def _tell(self, call: ServerCall | None) -> None:
        """Informs a method, once, that its caller no longer waits."""
        if call is not None and call.on_gone is not None:
            on_gone, call.on_gone = call.on_gone, None
            try:
                on_gone()
            except Exception as error:
                self._failed(error)

    # -- answers

    def _forget(self, call: ServerCall) -> bool:
        """Removes a waiting call; whether it was waiting for its answer."""
        if self._calls.get(call.call_id) is not call:
            return False
        del self._calls[call.call_id]
        self._count_down(1)
        return True

    def _count_down(self, calls: int) -> None:
        counts = self.counts
        counts.waiting -= calls
        counts.waiting_of[self._source] -= calls
        if not counts.waiting_of[self._source]:
            del counts.waiting_of[self._source]

    def answer(self, call: ServerCall, stub: bytes) -> None:
        """The response of a call, in as many PDUs as it takes."""
        if not self._forget(call):
            return
        if self.closing:
            return
        size = len(stub)
        self._out_bytes += size
        if size <= self.binding.frag_length - CALL_HEADER_SIZE and not call.is_protected:
            self._out.append(
                CALL_HEADER.pack(
                    5, 0, 2, 3, 16, size + 24, 0, call.call_id, size, call.context_id, 0
                )
            )
            self._out.append(stub)
        else:
            self._out += response(call, stub, self.binding.frag_length)
        if not self._receiving or self._out_bytes > OUT_MAX:
            self._flush()

    def throw(self, call: ServerCall, status: int) -> None:
        """The fault of a method that has run."""
        if self._forget(call):
            self._fault(call.call_id, call.context_id, status, pdu.WHOLE)
            if not self._receiving:
                self._flush()

    def _refuse(self, call_id: int, context_id: int, status: int) -> None:
        """The fault of a call whose method has not been started."""
        self._fault(call_id, context_id, status, _REFUSED)

    def _fault(self, call_id: int, context_id: int, status: int, flags: int) -> None:
        self.counts.faults[status] += 1
        self._out.append(pdu.pack(pdu.FAULT, flags, call_id, pdu.pack_fault(context_id, status)))

    def _violated(self, call_id: int) -> None:
        """The client broke the protocol: it is told, and that was it."""
        self.counts.violations += 1
        self._refuse(call_id, 0, statuses.PROTOCOL_ERROR)
        self._end()

    def _unreadable(self, call_id: int) -> None:
        """A header that contradicts itself: before a bind it may be any protocol's."""
        if self.association is None:
            self._nak(call_id, statuses.NAK_PROTOCOL_VERSION)
        else:
            self._violated(call_id)

    def _nak(self, call_id: int, reason: int) -> None:
        self.counts.naks[reason] += 1
        body = pdu.pack_bind_nak(pdu.BindNak(reason))
        self._out.append(pdu.pack(pdu.BIND_NAK, pdu.WHOLE, call_id, body))
        self._end()

    def _flush(self) -> None:
        if self._out:
            out, self._out = self._out, []
            self._out_bytes = 0
            if not self.closing:
                self._send(out)

    # -- clients that do not read

    @property
    def backlog(self) -> int:
        """Bytes of answers that the client has not taken yet."""
        return self._out_bytes + self._unsent()

    def hold(self) -> None:
        """The client does not read: what it asks for is not looked at meanwhile."""
        self._is_held = self._is_full = True

    def go_on(self) -> None:
        """The client reads again."""
        self._is_full = False
        self._look_again()

    def _ask(self, needed: VerdictNeeded) -> None:
        """A login waits, and everything after it."""
        self._is_held = self.is_asking = True
        self._paced()
        needed.begin(self._told)

    def _told(self) -> None:
        self.is_asking = False
        if not self.closing:
            self._paced()
            self._look_again()

    def _look_again(self) -> None:
        self._is_held = self._is_full or self.is_asking
        if self._rest and not self._is_held:
            self._need = 0
            self.receive(b"")
        self.look_at_drain()

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Calls back once: when little is left of the backlog, or the connection is gone."""
        self._drains.add(callback)

    def look_at_drain(self) -> None:
        """Some of the backlog may be gone. While the connection closes, its end is waited for."""
        if not self.closing:
            self._drains.look()

    # -- the end

    def _end(self) -> None:
        """Takes nothing more, states what is to be said, and closes."""
        if not self.closing:
            self._flush()
            self._happened(ConnectionEvent.END)
            self._close()

    def drop(self) -> None:
        """The connection is being cut off: builds no more answers for it."""
        self._happened(ConnectionEvent.END)

    def cancel(self) -> None:
        """Asks all waiting methods to end; their answers are still sent."""
        for call in list(self._calls.values()):
            self._tell(call)

    def shut_down(self) -> None:
        """The server stops: an idle client is asked to go, then the connection is closed."""
        if not self.closing:
            if self.association is not None:
                self._out.append(pdu.pack(pdu.SHUTDOWN, pdu.WHOLE, 0, b""))
            self._end()

    def lost(self) -> None:
        """The connection is gone: methods that wait are told, and its place in its group ends."""
        self._happened(ConnectionEvent.END)
        calls, self._calls = self._calls, {}
        self._count_down(len(calls))
        self._incoming.clear()
        self._rest = bytearray()
        self._out = []
        self._out_bytes = 0
        for call in calls.values():
            self._tell(call)
        self._drains.end()
        association, self.association = self.association, None
        if association is not None:
            try:
                association.end()
            except Exception as error:
                self._failed(error)
