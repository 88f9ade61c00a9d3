"""One connection of the admin endpoint or the control socket.

Its first bytes decide: `GET /api/v1/session ` becomes a client session, anything else is aiohttp's.
All their bytes pass through this protocol, which counts and bounds them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, cast

from posthouse.model.errors import AccessDenied, QueueError
from posthouse.model.roles import Role
from posthouse.net.connections import Admission
from posthouse.net.sockets import let_go
from posthouse.protocols.engine_calls import Answer, Release
from posthouse.protocols.handlers.audit import begin_act, outcome_of, result_of
from posthouse.protocols.handlers.audit_trail import Act
from posthouse.protocols.handlers.dispatch import Done
from posthouse.protocols.handlers.refusals import BadRequest, WrongToken
from posthouse.protocols.handlers.request_steps import Conversation
from posthouse.protocols.http.answers import plain_response, refusal
from posthouse.protocols.http.authentication import (
    SESSION_LINE,
    SWITCHING,
    ApiIdentity,
    HeaderTooLarge,
    PasswordLogin,
    upgrade_headers,
)
from posthouse.protocols.http.door import HEADER_MAX, AdminDoor
from posthouse.protocols.http.memory_reservations import Rooms
from posthouse.protocols.memory import (
    ANSWERS,
    RECEIVE,
    SEND,
    SMALL_REQUEST,
    UNSYNCED,
    Holder,
)
from posthouse.protocols.sessions.protocol import ClientSession
from posthouse.security.access import Caller
from posthouse.wire.frames.frames import LARGE

TLS_HANDSHAKE: Final = b"\x16\x03"
PLAIN: Final = "Write http://, or give it a certificate: [admin] certificate and private_key."
PIPELINED_MAX: Final = 16  # requests; who sends more of them is not seen to go
LINGER_S: Final = 10.0  # for the last bytes to a peer that may not read them
UNCOUNTED: Final = 2 << 10  # bytes of requests or answers: the connection itself takes more
FAREWELL_S: Final = 0.2  # for answers on their way, to a session whose token is good no more


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _nothing() -> None:
    pass


_COUNTED: Final = (RECEIVE, UNSYNCED, SEND)
Call = tuple[Conversation[Any], Rooms]


class HttpConnection(asyncio.BufferedProtocol):
    """One connection: undecided, then HTTP or a client session. All read into one buffer."""

    def __init__(self, door: AdminDoor, admission: Admission) -> None:
        self.door = door
        self.admission = admission
        self.admin = door.admin
        self.session: ClientSession | None = None
        self.http: Any = None  # aiohttp's RequestHandler
        self.busy = 0  # HTTP requests under way
        self.idle_since = 0.0
        self._address = ""
        self._head = bytearray()
        self._identity: ApiIdentity | None = None
        self._holder: Holder | None = None
        self._answers: Holder | None = None  # what was fetched for the client: it waits by itself
        self._calls: dict[object, Call] = {}  # of the API, under way
        self._ending = False
        self._waiting = b""  # frames that wait for the next turn
        self._room_ahead: memoryview | None = None  # of the large frame that is being read
        self._written = 0  # bytes, in this round of the loop
        self._pinned = 0  # bytes of large answers, of which some are not sent yet
        self._timer: asyncio.TimerHandle | None = None
        self._login: asyncio.Task[None] | None = None  # a password is being checked
        self._loop = asyncio.get_running_loop()

    # -- from the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counts it in, or turns it away."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from it
        transport = self.transport
        self.admission.drop = transport.abort
        if reason := self.door.refuses(transport):
            self.door.refused(reason)
            transport.abort()
            return
        self._address = self.door.address_of(transport)
        self.admin.traffic.connections += 1
        self.door.open.add(self)
        self._set_timer(self.admin.settings.header_timeout_s, self._late)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go; few while much is held, for they cannot be put back.

        Those of a large packet that has memory reserved go where its frame is put together.
        Few also for HTTP: what aiohttp keeps of a body that is not asked for is not counted.
        """
        admin, memory, holder = self.admin, self.admin.memory, self._holder
        session = self.session
        room = None
        if session is not None and holder is not None and holder.announced and not self._waiting:
            room = session.splitter.room()
        self._room_ahead = room  # also where nothing comes after all
        if room is not None:
            return room
        has_room = 4 * (memory.held + memory.reserved) < memory.limit
        return admin.buffer if has_room and session is not None else admin.small_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Hands received bytes to the session, the HTTP server or the login that has the
        connection.
        """
        session, room, self._room_ahead = self.session, self._room_ahead, None
        received = self.admin.buffer[:nbytes] if room is None else room[:nbytes]
        if session is not None:
            if self._waiting or self.admin.turns.is_crowded(known=True):
                self._wait(bytes(received))
            else:
                session.receive(bytes(received) if nbytes < LARGE and room is None else received)
                self._count(session)
            return
        data = bytes(received)
        if self.http is not None:
            self._hand_over(self.http, data)
        elif self._login is not None:
            self._head += data  # of the session that may begin
        elif self._address:
            self._head += data
            self._begin()

    def _hand_over(self, http: Any, data: bytes) -> None:
        http.data_received(data)
        if http.pipelined > PIPELINED_MAX:
            self._too_much("too many requests before their answers")

    def _wait(self, data: bytes) -> None:
        """Frames of a session wait for the next turn where this one has lasted long enough."""
        if self._waiting:  # read before reading was paused
            self._waiting += data
        else:
            self._waiting = data
            self.transport.pause_reading()
            self.admin.turns.later(self._take_waiting, known=True)

    def _take_waiting(self) -> None:
        data, self._waiting = self._waiting, b""
        if data and self.session is not None and not self.transport.is_closing():
            self.session.receive(data)
            self._count(self.session)
            self._pause(self.session.paused)

    def eof_received(self) -> bool:
        """The peer sends nothing more."""
        if self.http is not None:
            self.http.eof_received()
        return self.admission.ends(self.transport)

    def pause_writing(self) -> None:
        """The peer does not read fast enough."""
        if self.session is not None:
            self._count(self.session)
            self.session.hold(True)
        elif self.http is not None:
            self.http.pause_writing()

    def resume_writing(self) -> None:
        """The peer reads again."""
        if self.session is not None:
            self._unpin()
            self._count(self.session)
            self.session.hold(False)
        elif self.http is not None:
            self.http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, by either side."""
        self.admission.leave()
        let_go(self.transport)
        if not self._address:
            return
        self._stop_timer()
        if self._login is not None:
            self._login.cancel()
        self.door.open.discard(self)
        self.admin.traffic.connections -= 1
        if self.http is not None:
            self.door.handlers.pop(self.http, None)
            self.http.connection_lost(exc)
        if self.session is not None:
            self._session_lost(self.session)

    def _session_lost(self, session: ClientSession) -> None:
        self.admin.traffic.sessions -= 1
        token_id = self._identity.token_id if self._identity else ""
        opened = self.admin.sessions.get(token_id, set())
        opened.discard(self)
        if not opened:
            self.admin.sessions.pop(token_id, None)
        for holder in (self._holder, self._answers):
            if holder is not None:
                holder.leave()
        self._holder = self._answers = None
        session.lost()
        session.detach()
        for call, rooms in list(self._calls.values()):
            call.cancel()
            rooms.leave()

    # -- timers

    def _set_timer(self, seconds: float, call: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(seconds, call)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self.admin.traffic.refused["no request in time"] += 1
        self.transport.abort()

    def _look_idle(self) -> None:
        """A connection on which no request is under way ends after a while, whatever trickles."""
        left = self.idle_since + self.admin.settings.idle_timeout_s - self._loop.time()
        if self.busy:
            self._set_timer(self.admin.settings.idle_timeout_s, self._look_idle)
        elif left > 0:
            self._set_timer(left, self._look_idle)
        else:
            self.transport.abort()

    def close(self) -> None:
        """Ends it when what was written is sent, or its peer does not read it."""
        if self.session is not None:
            self.session.flush()  # answers of this round of the loop
        self.transport.close()
        self._set_timer(LINGER_S, self.transport.abort)

    def end(self) -> None:
        """Takes nothing more in, and closes once what was asked a moment ago is answered."""
        self._ending = True
        self._pause(True)
        self._set_timer(FAREWELL_S, self.close)

    # -- the first bytes

    def _begin(self) -> None:
        """Waits for the whole header, so that the timer covers it."""
        head = bytes(self._head)
        end = head.find(b"\r\n\r\n")
        is_tls = head.startswith(TLS_HANDSHAKE)  # whose peer waits for an answer
        if end < 0 and len(head) <= HEADER_MAX and not is_tls:
            return
        self._stop_timer()
        self._head.clear()
        if is_tls:
            self._refuse(BadRequest("this endpoint does not speak TLS", PLAIN))
        elif not head.startswith(SESSION_LINE):
            self._begin_http(head)
        elif 0 <= end <= HEADER_MAX:
            self._begin_session(head[:end], head[end + 4 :])
        else:
            self._refuse(HeaderTooLarge(f"the header has more than {HEADER_MAX} bytes"))

    def _begin_http(self, head: bytes) -> None:
        self.http = self.door.handler()
        self.door.handlers[self.http] = self
        self.http.connection_made(self.transport)
        self._hand_over(self.http, head)
        self.idle_since = self._loop.time()
        self._set_timer(self.admin.settings.idle_timeout_s, self._look_idle)

    def _begin_session(self, head: bytes, rest: bytes) -> None:
        try:
            headers = upgrade_headers(head)
            self.door.gate.check(headers)
            login = self.door.gate.login_of(headers)
            if login is not None:
                self.transport.pause_reading()
                self._login = self._loop.create_task(self._log_in(login, rest))
                return
            identity = self.door.gate.identify(headers, int(time.time()))
        except WrongToken as error:
            self._refuse_later(error)
            return
        except QueueError as error:
            self._refuse(error)
            return
        self._open_session(identity, rest)

    async def _log_in(self, login: PasswordLogin, rest: bytes) -> None:
        """Begin a session with a password, which is checked in a thread."""
        try:
            identity = await self.admin.passwords.identify(login, self._address)
        except QueueError as error:
            self._refuse(error)
            return
        finally:
            self._login = None
        if not self.transport.is_closing():
            rest, self._head = rest + bytes(self._head), bytearray()
            self._open_session(identity, rest)
            self._pause(self.session is not None and self.session.paused)

    def _open_session(self, identity: ApiIdentity, rest: bytes) -> None:
        if not identity.role.includes(Role.LOOK):
            self._refuse(
                AccessDenied(
                    f"the role {identity.role.value} cannot open a session",
                    "Use a token of role look, or of a role that includes it.",
                )
            )
            return
        self.transport.write(SWITCHING)
        self._identity = identity
        self._holder = self.admin.memory.open(self._address, self._too_much, self._resume)
        self._answers = self.admin.memory.open(self._address, self._too_much, self._fetch_on)
        self.admission.prove()
        self._holder.lapses = self._leave_room
        self.session = session = ClientSession(
            self.admin.desk,
            identity.caller.seeing_masked(self.admin.services.views[identity.role].patterns),
            identity.role.value,
            self._write,
            api=self._call,
            limits=self.admin.session_limits,
            soon=self.admin.turns.soon,
            close=self.close,
            pause=self._pause,
            room=self._room,
            has_room=self._answers.may_answer,
            counted=self._count_answers,
            audited=self._audited,
            software=f"posthouse {self.admin.version}",
        )
        self.admin.traffic.sessions += 1
        self.admin.sessions.setdefault(identity.token_id, set()).add(self)
        if identity.expires_s is not None:
            self._set_timer(max(identity.expires_s - time.time(), 0.0), self.close)
        if rest:
            session.receive(rest)

    def _call(
        self, caller: Caller, role: str, method: str, target: str, body: bytes, done: Done
    ) -> None:
        """The API for the CALL frames of the session; what waits ends with it."""
        holder = self.admin.memory.open(self._address, self._too_much, _nothing)
        asked, rooms = object(), Rooms(self.admin.memory, holder)

        def finished(status: int, content: bytes) -> None:
            self._calls.pop(asked, None)
            holder.leave()
            done(status, content)

        api = self.admin.api
        rooms.begin()
        call = api.call(
            caller,
            Role(role),
            method,
            target,
            body,
            finished,
            rooms,
            association=self.session,
            address=self._address,
            token_id="" if self._identity is None else self._identity.token_id,
        )
        if call is not None and not call.ended:
            self._calls[asked] = call, rooms

    def _audited(
        self,
        act: str,
        about: dict[str, str],
        start: Callable[[Release], None],
        release: Release,
    ) -> None:
        """An act of the session that is not a call of the API, but is written down like one."""
        identity, trail = self._identity, self.admin.services.audit
        assert identity is not None
        caller, role = identity.caller.name, identity.role.value
        entry = Act(caller, role, identity.token_id, self._address or "local", act, {**about})

        def ended(answer: Answer) -> None:
            outcome, why = outcome_of(answer.error)
            trail.end(entry, outcome, why, result_of(answer.value), lambda: release(answer))

        begin_act(trail, entry, lambda: start(ended), lambda error: ended(Answer(None, error, ())))

    def _write(self, frames: list[bytes]) -> None:
        self.transport.writelines(frames)
        if self.session is not None:
            size = len(frames[0]) if len(frames) == 1 else sum(map(len, frames))
            if self._written + size > SMALL_REQUEST:
                self._note_written(self.session, size)
            self._count(self.session)

    def _note_written(self, session: ClientSession, size: int) -> None:
        """What was written just now is not in the buffer of the transport before the next round.

        What is small does not count there either. The transport keeps all that is written together
        until the last byte of it is sent; so after large answers it reports when nothing is left.
        """
        if not self._written:
            self._loop.call_soon(self._settle_written, session)
        self._written += size
        if self._written > SMALL_REQUEST:
            if not self._pinned:
                self.transport.set_write_buffer_limits(high=0)
            self._pinned += size

    def _settle_written(self, session: ClientSession) -> None:
        self._written = 0
        if not self.transport.get_write_buffer_size():
            self._unpin()
        self._count(session)

    def _unpin(self) -> None:
        if self._pinned:
            self._pinned = 0
            self.transport.set_write_buffer_limits()

    def _count(self, session: ClientSession) -> None:
        """Puts what the session holds on the account, and waits where there is no room."""
        holder, pending, asked = self._holder, session.splitter.pending, session.request_bytes
        if holder is None:
            return
        unsent = self.transport.get_write_buffer_size() + self._written
        if unsent <= SMALL_REQUEST and not self._pinned:  # the end of the rest is not reported
            unsent = 0
        if asked <= UNCOUNTED:
            asked = 0
        if not (pending or asked or unsent or holder.held or holder.announced or holder.lapsed):
            return
        sizes = pending, asked, max(unsent, self._pinned)
        for kind, size in zip(_COUNTED, sizes, strict=True):
            grown = size - holder.bytes[kind]
            if grown > 0:
                holder.take(kind, grown)
            elif grown < 0:
                holder.give(kind, -grown)
        if holder.follow(session.announced_bytes, _now_ms):
            self._pause(session.paused)

    def _count_answers(self) -> None:
        """Messages read for the client are on the account before all others read theirs."""
        if self._answers is not None and self.session is not None:
            size = self.session.unsent_bytes
            self._answers.hold(ANSWERS, size if size > UNCOUNTED else 0)

    def _room(self) -> int:
        return 0 if self._answers is None else self.admin.memory.room_for(self._answers)

    def _too_much(self, reason: str) -> None:
        self.admin.traffic.refused[reason] += 1
        self.transport.abort()

    def _resume(self) -> None:
        """There is memory again; the session may have reasons of its own to read nothing."""
        if self.session is not None:
            self._count(self.session)  # what waited asks again
            self._pause(self.session.paused)

    def _leave_room(self) -> None:
        """A large packet comes too slowly: no memory is kept for the rest of it."""
        self._room_ahead = None
        if self.session is not None:
            self.session.splitter.leave_room()

    def _fetch_on(self) -> None:
        """There is memory for answers again."""
        if self.session is not None:
            self.session.go_on()

    def _pause(self, paused: bool) -> None:
        if self.transport.is_closing():
            return
        short = self._holder is not None and self._holder.waiting
        if paused or short or self._waiting or self._ending or self.door.stopping:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _refuse_later(self, error: WrongToken) -> None:
        """After the pause that wrong tokens of this address have come to."""
        try:
            pause_ms = self.admin.wrong_tokens.pause_ms(self._address)
        except QueueError as too_many:
            self._refuse(too_many)
            return
        self.transport.pause_reading()
        self._set_timer(pause_ms / 1000, lambda: self._refuse(error))

    def _refuse(self, error: QueueError) -> None:
        self.admin.desk.manager.machine.refused(error)
        answer = refusal(error)
        self.admin.traffic.requests["GET", answer.status] += 1
        self.transport.write(plain_response(answer, HTTPStatus(answer.status).phrase))
        self.transport.close()

    def stop_reading(self) -> None:
        """The server stops: what was asked is answered, nothing more is."""
        if self.session is not None and not self.transport.is_closing():
            self.transport.pause_reading()
        elif self.http is None:
            self.transport.abort()
