"""HTTP to the admin endpoint for bulk work, from any thread or process: JSON and Arrow.

`posthouse.connect` holds a session; what reads or writes tables comes and goes by partitions, on
machines of a cluster, and needs no more than requests. One `BulkHttp` serves one thread at a time;
it can be pickled, and connects again where it arrives.
"""

from __future__ import annotations

import http.client
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from posthouse.client.address import Address, resolve
from posthouse.client.errors import ClientConnectionError, ServerUnreachable, SessionLost, refused
from posthouse.client.session_upgrade import OUT_OF_DATE, unreachable
from posthouse.model.errors import QueueError, ServiceNotAvailable
from posthouse.model.extras import install

PREFIX: Final = "/api/v1"
ARROW: Final = "application/vnd.apache.arrow.stream"
JSON: Final = "application/json"
RETRY_S: Final = 4.0  # how long repeatable requests are retried, unless the caller sets it
_PAUSE_FIRST_S: Final = 0.05  # between attempts; each pause is twice as long as the one before
_PAUSE_LAST_S: Final = 5.0
_REUSE_S: Final = 20.0  # a connection that was idle for longer may be closed at the other end
_REPEATABLE: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_OK: Final = (200, 201)
AWAY: Final = (ServerUnreachable, SessionLost, ServiceNotAvailable)
"""What a queue manager is missed by; anything else it has answered."""
_GATEWAY: Final = (502, 503, 504)  # from a proxy whose queue manager does not answer
_ERROR_MAX: Final = 1 << 16

Body = bytes | Iterable[bytes] | None
T = TypeVar("T")
_log = logging.getLogger(__name__)


def arrow() -> Any:
    """pyarrow, or what to do about its absence."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise ImportError(f"tables of messages need pyarrow: {install('spark')}") from error
    return pyarrow


def segment(text: object) -> str:
    """A name as a part of a path."""
    return quote(str(text), safe="$")


class RequestRetries:
    """The attempts at one request: growing pauses between them, for a limited time."""

    def __init__(self, retry_s: float) -> None:
        self._retry_s = retry_s
        self._pause_s = _PAUSE_FIRST_S
        self._began: float | None = None  # when the first attempt failed

    def pause(self, url: str, error: Exception) -> bool:
        """Waits before the next attempt; False: the time is over, and the error has the reason."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        left_s = self._began + self._retry_s - now
        if left_s <= 0:
            if self._retry_s and isinstance(error, ClientConnectionError):
                error.cause += f" (asked again for {self._retry_s:g} s)"
            return False
        if self._pause_s > _PAUSE_FIRST_S:  # one lost connection is not an outage
            _OUTAGES.begun(url, error, left_s)
        time.sleep(min(self._pause_s, left_s))
        self._pause_s = min(2 * self._pause_s, _PAUSE_LAST_S)
        return True


class Outages:
    """Which queue managers this process waits for: each outage is logged once."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._lock = threading.Lock()

    def begun(self, url: str, error: Exception, left_s: float) -> None:
        """A queue manager does not answer."""
        with self._lock:
            if url in self._since:
                return
            self._since[url] = time.monotonic()
        _log.warning("%s Asking again for up to %.0f s (option retryFor).", error, left_s)

    def over(self, url: str) -> None:
        """It answers."""
        if url not in self._since:
            return
        with self._lock:
            since = self._since.pop(url, None)
        if since is not None:
            _log.warning("%s answers again, after %.1f s.", url, time.monotonic() - since)


_OUTAGES: Final = Outages()


class BulkHttp:
    """One queue manager's admin endpoint, asked one request at a time."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        token_file: str | None = None,
        timeout_s: float = 30.0,
        ca_file: str | None = None,
        retry_s: float = RETRY_S,
    ) -> None:
        resolve(None, url, token, token_file)  # what is wrong with them is said at once
        self.url = url
        self.timeout_s = timeout_s
        self.retry_s = retry_s
        self._token = token
        self._token_file = token_file
        self._ca_file = ca_file
        self._connection: http.client.HTTPConnection | None = None
        self._used_at = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.url, self._token, self._token_file, self.timeout_s, self._ca_file)
        return BulkHttp, (*arguments, self.retry_s)

    def __enter__(self) -> BulkHttp:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the connection back; the next request makes another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # -- requests

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        repeatable: bool | None = None,
    ) -> dict[str, Any]:
        """What the API answers; `path` is the part after `/api/v1`.

        A request that may be asked twice is, for `retry_s` seconds, while the queue manager does
        not answer, breaks the connection or is just starting. The methods decide which requests
        may, unless `repeatable` does. A refusal is raised at once.
        """
        content = None if body is None else msgspec.json.encode(body)
        again = method in _REPEATABLE if repeatable is None else repeatable

        def ask() -> dict[str, Any]:
            response = self._ask(method, path, content, JSON if content is not None else "")
            return _json(self._whole(response))

        return self._repeated(ask, again)

    def read_arrow(self, path: str, *, constants: bool = False) -> Iterator[Any]:
        """The record batches of a stream; `SessionLost` where it breaks off before its end.

        Only its beginning is asked for again: who has had some rows asks for those after them.
        With `constants` the path asks that columns be told once that are the same in every row;
        the batches have all of them.
        """
        pyarrow = arrow()
        from posthouse.client.constant_columns import completed, is_last

        response = self._repeated(lambda: self._ask("GET", path, None, "", ARROW), True)
        whole = False
        try:
            straight = _Straight(response, pyarrow.allocate_buffer)
            ended = False
            while not ended:
                with pyarrow.ipc.open_stream(pyarrow.PythonFile(straight, "r")) as batches:
                    yield from completed(batches)
                    ended = not constants or is_last(batches.schema)
            response.read()  # the end of the last chunk
            whole = True
        except (OSError, http.client.HTTPException, pyarrow.ArrowInvalid) as error:
            raise SessionLost(
                f"the messages from {self._address().shown} broke off: {error}",
                "Continue after the last message; the log of the queue manager shows the reason.",
            ) from error
        finally:
            if not whole:
                self.close()
            self._used_at = time.monotonic()

    def write_arrow(
        self, method: str, path: str, schema: Any, batches: Iterable[Any]
    ) -> dict[str, Any]:
        """Sends record batches as they come, and returns what the API answers.

        Asked again where the connection breaks if the batches are a list; else the caller does.
        """

        def ask() -> dict[str, Any]:
            response = self._ask(method, path, _stream(schema, batches), ARROW)
            return _json(self._whole(response))

        return self._repeated(ask, method in _REPEATABLE and isinstance(batches, Sequence))

    # -- one attempt

    def _repeated(self, ask: Callable[[], T], again: bool) -> T:
        """Asks until there is an answer, or until `retry_s` seconds are over."""
        retries = RequestRetries(self.retry_s if again else 0.0)
        is_kept = again and self._connection is not None  # it may have been closed while idle
        while True:
            try:
                answer = ask()
            except AWAY as error:
                self.close()
                if not is_kept and not retries.pause(self.url, error):
                    raise
                is_kept = False
            except QueueError:
                _OUTAGES.over(self.url)
                raise
            else:
                _OUTAGES.over(self.url)
                return answer

    def _ask(
        self, method: str, path: str, body: Body, content_type: str, accept: str = JSON
    ) -> http.client.HTTPResponse:
        """The answer of which the header is there; a refusal is raised."""
        address = self._address()
        connection = self._connected(address)
        headers = {"Accept": accept, "Host": address.host_header}
        if content_type:
            headers["Content-Type"] = content_type
        if address.authorization:
            headers["Authorization"] = address.authorization
        try:
            response = _exchange(connection, method, PREFIX + path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise _broken(address, error) from error
        except BaseException:
            self.close()
            raise
        self._used_at = time.monotonic()
        if response.status not in _OK:
            raise self._refusal(address, response)
        return response

    def _address(self) -> Address:
        """Read again each time: a token may have been replaced."""
        return resolve(None, self.url, self._token, self._token_file)

    def _connected(self, address: Address) -> http.client.HTTPConnection:
        connection = self._connection
        if connection is not None and connection.sock is not None:
            if time.monotonic() - self._used_at < _REUSE_S:
                return connection
            self.close()
        try:
            connection = self._new(address)
            connection.connect()
        except ssl.SSLError as error:
            if getattr(error, "verify_code", 0) in OUT_OF_DATE:
                raise unreachable(address, error) from error
            raise ClientConnectionError(
                f"{address.shown} and this client cannot agree on TLS: {error.strerror or error}",
                "Name a file with the certificate to trust, and write https:// in the address.",
            ) from error
        except OSError as error:
            reason = error.strerror or str(error) or "it did not answer in time"
            raise ServerUnreachable(
                f"no queue manager answers at {address.shown}: {reason}"
            ) from error
        self._connection = connection
        return connection

    def _new(self, address: Address) -> http.client.HTTPConnection:
        host, port = address.host, address.port
        if not address.tls:
            return http.client.HTTPConnection(host, port, timeout=self.timeout_s)
        context = ssl.create_default_context(cafile=self._ca_file)
        return http.client.HTTPSConnection(host, port, timeout=self.timeout_s, context=context)

    def _whole(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise _broken(self._address(), error) from error

    def _refusal(self, address: Address, response: http.client.HTTPResponse) -> Exception:
        try:
            content = response.read(_ERROR_MAX)
        except (OSError, http.client.HTTPException):
            content = b""
        if not response.isclosed():
            self.close()
        return _refusal(address, response.status, content)


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Body,
    headers: dict[str, str],
) -> http.client.HTTPResponse:
    streamed = body is not None and not isinstance(body, bytes)
    if streamed:
        headers["Transfer-Encoding"] = "chunked"
    try:
        connection.request(method, path, body, headers, encode_chunked=streamed)
    except (BrokenPipeError, ConnectionResetError):
        if not streamed:
            raise  # else it may have been refused before its end: the answer states why
    return connection.getresponse()


def _broken(address: Address, error: Exception) -> ClientConnectionError:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return SessionLost(f"the connection to {address.shown} broke: {reason}")


def _refusal(address: Address, status: int, content: bytes) -> Exception:
    try:
        body = msgspec.json.decode(content)["error"]
        refusal: QueueError = refused(int(body["code"]), str(body["cause"]), str(body["remedy"]))
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        if status in _GATEWAY:
            return ServerUnreachable(f"{address.shown} answered with status {status}")
        return ClientConnectionError(
            f"{address.shown} answered with status {status} and no reason",
            "Name the admin endpoint of a queue manager, port 8816 unless set otherwise.",
        )
    refusal.row = body.get("row")  # type: ignore[attr-defined]
    refusal.column = body.get("column")  # type: ignore[attr-defined]
    return refusal


def _json(content: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = msgspec.json.decode(content)
    return answer


class _Straight:
    """An answer as a file of Arrow's: the socket's bytes go straight to where Arrow keeps them."""

    closed = False

    def __init__(self, response: http.client.HTTPResponse, allocate: Callable[[int], Any]) -> None:
        self._response = response
        self._allocate = allocate

    def read(self, size: int) -> Any:
        """This many bytes, fewer only at the end, in memory that Arrow keeps and uses again."""
        buffer = self._allocate(size)
        filled = self._response.readinto(memoryview(buffer))
        return buffer if filled == size else buffer.slice(0, filled)


class _Pieces:
    """Takes what Arrow writes until it is sent."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: Any) -> int:
        """Called by Arrow, with something that is its own."""
        self._pieces.append(bytes(piece))
        return len(self._pieces[-1])

    def flush(self) -> None:
        """Nothing is kept back."""

    def take(self) -> bytes:
        """What has come since the last time."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _stream(schema: Any, batches: Iterable[Any]) -> Iterator[bytes]:
    pyarrow = arrow()
    pieces = _Pieces()
    writer = pyarrow.ipc.new_stream(pyarrow.PythonFile(pieces, "w"), schema)
    for batch in batches:
        writer.write_batch(batch)
        yield pieces.take()
    writer.close()
    yield pieces.take()
