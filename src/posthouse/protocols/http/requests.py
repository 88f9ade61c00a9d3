"""HTTP requests of the admin endpoint on aiohttp: reads, dispatches and answers them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from aiohttp import StreamReader, web
from multidict import CIMultiDict

from posthouse.api.audit import SIGN_IN
from posthouse.api.route import ARROW
from posthouse.model.errors import QueueError, without_frames
from posthouse.model.trace_context import TRACEPARENT, TRACESTATE
from posthouse.protocols.engine_calls import Answer, Call, Turns
from posthouse.protocols.handlers.audit_trail import Act
from posthouse.protocols.handlers.dispatch import Api, media_of, takes_stream
from posthouse.protocols.handlers.peers import PEER_CALL, call_of
from posthouse.protocols.handlers.refusals import BadRequest, BodyTooLarge, OurFault, WrongToken
from posthouse.protocols.handlers.request_trace import RequestTrace
from posthouse.protocols.http.answer_streams import HEADERS, Streaming
from posthouse.protocols.http.answers import (
    HEALTH,
    JSON,
    METRICS,
    READINESS,
    HttpAnswer,
    Pages,
    api_answer,
    check_content,
    refusal,
)
from posthouse.protocols.http.authentication import ApiIdentity, Gate, Headers, PasswordLogin
from posthouse.protocols.http.console import (
    SESSION,
    SIGN_IN_MAX,
    Console,
    check_origin,
    led_there,
)
from posthouse.protocols.http.console_sessions import PAGE_KEY
from posthouse.protocols.http.memory_reservations import Rooms
from posthouse.protocols.http.passwords import PasswordLogins
from posthouse.protocols.http.request_streams import PORTIONS_MAX, UPLOAD_BYTES, Incoming
from posthouse.protocols.http.wrong_tokens import WrongTokens
from posthouse.protocols.memory import RECEIVE, UPLOADS, Holder, MemoryAccount
from posthouse.protocols.metrics.exposition import CONTENT_TYPE, Traffic
from posthouse.wire.block_buffer import Gathered

SENT_COPIES: Final = 2  # of an answer: aiohttp joins it with its header for the transport
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})


Cancel = Callable[[], None]


class PendingRequests:
    """Requests of the API under way, by the tokens that were shown for them."""

    def __init__(self) -> None:
        self._of_token: dict[str, set[Cancel]] = {}

    @contextmanager
    def held(self, token_id: str, cancel: Cancel) -> Iterator[None]:
        """One of them, for as long as it takes."""
        self._of_token.setdefault(token_id, set()).add(cancel)
        try:
            yield
        finally:
            left = self._of_token[token_id]
            left.discard(cancel)
            if not left:
                del self._of_token[token_id]

    def cancel(self, token_id: str) -> None:
        """The token has become invalid: ends what waits or reads with it."""
        for cancel in list(self._of_token.get(token_id, ())):
            cancel()


class HttpFace:
    """Answers the requests of one listener."""

    def __init__(
        self,
        api: Api,
        gate: Gate,
        passwords: PasswordLogins,
        wrong_tokens: WrongTokens,
        pages: Pages,
        traffic: Traffic,
        *,
        memory: MemoryAccount,
        pending: PendingRequests,
        body_size_max: int,
        body_timeout_s: float,
        identified: Callable[[web.BaseRequest], None],
        turns: Turns,
        console: Console | None = None,
    ) -> None:
        self._turns = turns
        self._console = console
        self._api = api
        self._gate = gate
        self._passwords = passwords
        self._wrong_tokens = wrong_tokens
        self._pages = pages
        self._traffic = traffic
        self._memory = memory
        self._pending = pending
        self._body_size_max = body_size_max
        self._body_timeout_s = body_timeout_s
        self._identified = identified
        self._portions = asyncio.Semaphore(PORTIONS_MAX)
        self.closing = False  # every answer is the last of its connection

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to a request, whatever it is."""
        if isinstance(request.protocol, RequestHandler):
            request.protocol.body = request.content
        answer = await self._answer(request)
        method = request.method if request.method in METHODS else "other"
        self._traffic.requests[method, answer.status] += 1
        if isinstance(answer, web.StreamResponse):
            return answer
        response: web.StreamResponse = _response(answer)
        content = request.content
        unread = request.body_exists and not (content.at_eof() and content.exception() is None)
        if (
            self.closing or unread or answer.last
        ):  # an unread body must not be taken for the next request
            response.force_close()
        return response

    def broken(self, status: int, error: BaseException | None) -> web.Response:
        """The answer to bytes that are not a request, or to one over which the server failed."""
        refused: QueueError = BadRequest("this is not an HTTP request, or its header is too large")
        if status >= 500:
            refused = OurFault("the server failed to handle this request")
            if isinstance(error, Exception):
                self._api.services.fault(error)
        self._api.desk.manager.machine.refused(refused)
        answer = refusal(refused)
        self._traffic.requests["other", answer.status] += 1
        response = _response(answer)
        response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest) -> HttpAnswer | web.StreamResponse:
        path = request.raw_path.partition("?")[0]
        pages, browsed = self._pages, self._pages.is_browsed(path)
        try:
            if path == HEALTH:
                return pages.health(request.method)
            if path == READINESS:
                return await self._readiness(request)
            self._gate.check(request.headers)
            if path == PEER_CALL:
                return await self._peer_answer(request)
            if self._console is not None:
                if self._console.is_path(path):
                    return await self._console_answer(self._console, request, path)
                if self._console.leads(path, request.headers):
                    return led_there()
            identity = await self._identify(request, browsed=browsed)
            if path == METRICS:
                return await _joined(pages.scrape(request.method, identity), self._turns)
            if browsed:
                return pages.show(path, request.method, identity)
            return await self._api_answer(request, path, identity)
        except QueueError as error:
            self._api.desk.manager.machine.refused(error)
            return refusal(without_frames(error), browsed=browsed)

    async def _identify(self, request: web.BaseRequest, *, browsed: bool = False) -> ApiIdentity:
        """Who asks, by a token, by a password or by a session of the console."""
        headers = request.headers
        login = self._gate.login_of(headers)
        if login is not None:
            identity = await self._passwords.identify(login, request.remote or "")
        elif self._console is not None and not browsed and _is_of_console(headers):
            check_origin(headers, request.method)
            identity, _ = self._console.sessions.identify(
                headers, secure=_is_secure(request), now_s=int(time.time())
            )
        else:
            identity = await self._by_token(request, headers, browsed=browsed)
        self._identified(request)
        return identity

    async def _by_token(
        self, request: web.BaseRequest, headers: Headers, *, browsed: bool
    ) -> ApiIdentity:
        try:
            return self._gate.identify(headers, int(time.time()), browsed=browsed)
        except WrongToken:
            pause_ms = self._wrong_tokens.pause_ms(request.remote or "")
            await asyncio.sleep(pause_ms / 1000)
            raise

    async def _console_answer(
        self, console: Console, request: web.BaseRequest, path: str
    ) -> HttpAnswer:
        """A file of the console, or its session: shown, begun, ended."""
        headers, secure, now_s = request.headers, _is_secure(request), int(time.time())
        if path != SESSION:
            return console.show(path, request.method)
        console.check(headers, request.method)
        if request.method == "GET":
            return console.session(headers, now_s, secure=secure)
        if request.method == "DELETE":
            return console.signed_out(headers, now_s, secure=secure)
        holder = self._memory.open(request.remote or "", _abort(request), lambda: None)
        try:
            given = console.read(await self._body(request, holder, JSON, SIGN_IN_MAX))
        finally:
            holder.leave()
        if given.token:
            shown = CIMultiDict({"Authorization": f"Bearer {given.token}"})
            identity = await self._by_token(request, shown, browsed=False)
        else:
            login = PasswordLogin(given.user, given.password)
            identity = await self._passwords.identify(login, request.remote or "")
        self._identified(request)
        answer = console.signed_in(identity, headers, secure=secure)
        await self._written_down(SIGN_IN, identity, request.remote or "")
        return answer

    async def _written_down(self, act: str, identity: ApiIdentity, address: str) -> None:
        """An entry of the audit log; the answer leaves when it is durable."""
        written = asyncio.Event()
        entry = Act(identity.caller.name, identity.role.value, identity.token_id, address, act, {})
        self._api.services.audit.end(entry, "done", "", {}, written.set)
        await written.wait()

    async def _readiness(self, request: web.BaseRequest) -> HttpAnswer:
        """Whether messages are taken; a turn of the engine has looked at the disk before."""
        told = "Authorization" in request.headers or self._gate.is_local
        if told:
            self._gate.check(request.headers)
            await self._identify(request)
        if self.closing:
            return HttpAnswer(
                503, b"not ready: stopping\n" if told else b"not ready\n", "text/plain"
            )
        if self._pages.healthy:
            await self._decided(lambda manager: None)
        return self._pages.readiness(request.method, told=told)

    async def _decided(self, call: Call) -> Answer:
        """A turn of the engine."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._api.desk.decide(call, done)
        return await answered

    async def _peer_answer(self, request: web.BaseRequest) -> HttpAnswer:
        """The signed answer to a call of another queue manager."""
        text = call_of(request.method, request.headers.getall("Authorization", []))
        answer = await self._decided(lambda manager: manager.transactions.called(text))
        if answer.error is not None:
            return refusal(answer.error)
        assert isinstance(answer.value, str)
        self._identified(request)
        return HttpAnswer(200, answer.value.encode("ascii"), "text/plain")

    async def _api_answer(
        self, request: web.BaseRequest, path: str, identity: ApiIdentity
    ) -> HttpAnswer | web.StreamResponse:
        """The API's answer; both bodies are on the account for memory until it is written."""
        holder = self._memory.open(request.remote or "", _abort(request), lambda: None)
        rooms = Rooms(self._memory, holder)
        flow = Streaming(request, holder, self._memory, closing=self.closing)
        incoming: Incoming | None = None
        headers = request.headers
        trace = RequestTrace(headers.getall(TRACEPARENT, ()), headers.getall(TRACESTATE, ()))
        try:
            method = "GET" if request.method == "HEAD" else request.method
            if takes_stream(method, path, identity.role):
                body, incoming = b"", await self._incoming(request, holder)
            else:
                body = await self._body(request, holder, media_of(method, path)[0])
            status, content = await self._ask(
                identity,
                method,
                request.raw_path,
                body,
                rooms,
                None if request.method == "HEAD" else flow,
                incoming,
                request.remote or "",
                trace,
            )
            if flow.response is not None:
                holder.leave()
                return flow.finished(whole=status < 300)
            rooms.send(SENT_COPIES * len(content), in_any_case=method != "GET")
        except BaseException:
            flow.leave()
            rooms.leave()
            raise
        finally:
            if incoming is not None:
                incoming.close()
        handler = request.protocol
        assert isinstance(handler, RequestHandler)
        handler.holder = holder
        return api_answer(status, content, method, path, trace.received)

    async def _body(
        self, request: web.BaseRequest, holder: Holder, kind: str, limit: int = 0
    ) -> bytes:
        """The body of a request, up to the limit in size and time."""
        if not request.body_exists:
            return b""
        check_content(request.headers, kind)
        limit = limit or self._body_size_max
        too_large = BodyTooLarge(f"a request has at most {limit} bytes")
        if (request.content_length or 0) > limit:
            raise too_large
        if not holder.may_begin(request.content_length or limit, time.monotonic_ns() // 1_000_000):
            raise self._memory.refusal("body", "Try again.")
        await _invite(request)
        body = Gathered()
        try:
            async with asyncio.timeout(self._body_timeout_s):
                while chunk := await request.content.readany():
                    body.add(chunk)
                    holder.take(RECEIVE, len(chunk))
                    if body.size > limit:
                        raise too_large
        except TimeoutError:
            raise BadRequest("the body did not arrive in time") from None
        except (web.RequestPayloadError, web.PayloadAccessError) as error:
            without_frames(error)  # the body keeps it, and would be kept by it as a circle
            raise BadRequest("the body broke off, or its chunks are malformed") from None
        holder.finished()
        return body.take()

    async def _incoming(self, request: web.BaseRequest, holder: Holder) -> Incoming:
        """A body that is a stream, of any length; each of its pieces has its time.

        What an upload takes while it waits is on the account. Its client may have gone: that does
        not show while nothing is read.
        """
        check_content(request.headers, ARROW)
        if not self._memory.may_hold(holder, UPLOAD_BYTES):
            raise self._memory.refusal("body", "Try again.")
        holder.take(UPLOADS, UPLOAD_BYTES)
        await _invite(request)
        return Incoming(
            request, holder, self._memory, self._portions, timeout_s=self._body_timeout_s
        )

    async def _ask(
        self,
        identity: ApiIdentity,
        method: str,
        target: str,
        body: bytes,
        rooms: Rooms,
        outflow: Streaming | None,
        inflow: Incoming | None,
        address: str,
        trace: RequestTrace,
    ) -> tuple[int, bytes]:
        """The API's answer; waits end when the client has left."""
        answered: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

        def done(status: int, content: bytes) -> None:
            rooms.finished()
            if not answered.done():
                answered.set_result((status, content))

        caller, role = identity.caller, identity.role
        rooms.begin()
        conversation = self._api.call(
            caller,
            role,
            method,
            target,
            body,
            done,
            rooms,
            outflow,
            inflow,
            None,
            address,
            identity.token_id,
            trace,
            in_console=identity.in_console,
        )
        if conversation is None:
            return await answered

        def cancel() -> None:
            conversation.cancel()
            rooms.cancel()

        with self._pending.held(identity.token_id, cancel), _until(identity, cancel):
            try:
                return await answered
            except asyncio.CancelledError:
                conversation.cancel()
                raise


def _forget_frames(error: BaseException | None) -> None:
    if isinstance(error, Exception):
        without_frames(error)


@contextmanager
def _until(identity: ApiIdentity, cancel: Cancel) -> Iterator[None]:
    """What waits or looks ends when the token does."""
    if identity.expires_s is None:
        yield
        return
    left_s = max(identity.expires_s - time.time(), 0.0)
    timer = asyncio.get_running_loop().call_later(left_s, cancel)
    try:
        yield
    finally:
        timer.cancel()


def _is_of_console(headers: Headers) -> bool:
    """Whether a request shows a session of the console, and nothing else."""
    return "Authorization" not in headers and PAGE_KEY in headers


def _is_secure(request: web.BaseRequest) -> bool:
    """Whether the browser speaks TLS: with this endpoint, or with a proxy before it."""
    return request.secure or request.headers.get("Origin", "").startswith("https://")


async def _joined(pieces: Iterator[bytes], turns: Turns) -> HttpAnswer:
    """The metrics; others have their turn between the pieces."""
    parts = list[bytes | None]()
    while not parts or parts[-1] is not None:
        turns.measured(lambda: parts.append(next(pieces, None)))
        await asyncio.sleep(0)
    return HttpAnswer(200, b"".join(filter(None, parts)), CONTENT_TYPE)


async def _invite(request: web.BaseRequest) -> None:
    """Answers `Expect: 100-continue`, so that the client sends its body."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0


def _abort(request: web.BaseRequest) -> Callable[[str], None]:
    def abort(reason: str) -> None:
        if request.transport is not None:
            request.transport.abort()

    return abort


def _response(answer: HttpAnswer) -> web.Response:
    return web.Response(
        status=answer.status,
        body=answer.body,
        headers={
            "Content-Type": answer.content_type,
            **HEADERS,
            **answer.headers,
        },
    )


class RequestHandler(web.RequestHandler):
    """The request handler of aiohttp, with errors in our form and no log of its own."""

    face: HttpFace
    holder: Holder | None = None  # of the answer that is being written
    body: StreamReader | None = None  # of the last request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to serve it."""
        super().connection_made(transport)
        if self._task_handler is not None:
            self._task_handler.add_done_callback(self._let_go)

    def _let_go(self, task: asyncio.Task[None]) -> None:
        """Errors refer to where they happened, and aiohttp's frames to itself: circles."""
        body, self.body = self.body, None
        _forget_frames(None if body is None else body.exception())
        with suppress(asyncio.CancelledError):
            task.result()

    def data_received(self, data: bytes) -> None:
        """Take in bytes of the peer."""
        super().data_received(data)
        self._forget_refusal()

    def _forget_refusal(self) -> None:
        """What is not a request waits in line as its error, and the error's frames have us."""
        for message, _ in self._messages:
            _forget_frames(getattr(message, "exc", None))

    @property
    def pipelined(self) -> int:
        """Requests that have come and wait for the answer to the one before them."""
        return len(self._messages)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Writes the answer; until the peer has taken it in, it is on the account."""
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._forget_refusal()  # of what came after a request to upgrade
            holder, self.holder = self.holder, None
            if holder is not None:
                holder.leave()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Bytes that are not a request, or a request over which the server failed."""
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun, and cannot become another one")
        return self.face.broken(status, exc)
