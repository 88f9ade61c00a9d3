"""The client of bulk requests against a real server, and against peers that misbehave."""

from __future__ import annotations

import pickle
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import posthouse
from posthouse.client import admin_http as bulk_http
from posthouse.client import arrow_read as bulk_read
from posthouse.client.admin_http import BulkHttp, segment
from posthouse.client.arrow_read import PlannedQueue, plan, read, split
from posthouse.client.errors import ClientConnectionError, ServerUnreachable, SessionLost
from posthouse.model.errors import AccessDenied, QueueNotFound, ServiceNotAvailable
from tests.client.serving import Serving, serving
from tests.process.offices import free_port

ORDERS = r".\private$\orders"


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bulk_http, "_PAUSE_FIRST_S", 0.001)
    monkeypatch.setattr(bulk_read, "_PAUSE_S", 0.0)
    yield
    while OPEN:
        OPEN.pop().close()


OPEN: list[BulkHttp] = []


def client(url: str, retry_s: float = bulk_http.RETRY_S) -> BulkHttp:
    """One that is closed when the test ends."""
    OPEN.append(BulkHttp(url, retry_s=retry_s))
    return OPEN[-1]


class Peer:
    """Says what it is told to, one answer for each connection, and notes what it was asked."""

    def __init__(self, *answers: bytes) -> None:
        self.asked: list[bytes] = []
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for answer in self._answers:
            connection, _ = self._listener.accept()
            with connection:
                data = b""
                while b"\r\n\r\n" not in data:
                    data += connection.recv(65536)
                self.asked.append(data)
                connection.sendall(answer)
        self._listener.close()


def answer(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


FINE = answer("200 OK", b'{"fine": true}')
BUSY = answer(
    "503 Service Unavailable",
    b'{"error": {"name": "MQ_ERROR_SERVICE_NOT_AVAILABLE", "code": 3222142987, '
    b'"cause": "starting", "remedy": "Wait."}}',
    "Connection: close",
)


def stream(*, whole: bool, last: bool = False) -> bytes:
    """A batch in chunks, and the end of them, or not; `last`: and a stream that says it is."""
    batch = pa.record_batch({"lookup_id": pa.array([1, 2], pa.int64())})
    data = ipc(batch.schema, batch)
    if last:
        data += ipc(pa.schema([], metadata={"last": "true"}))
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = f"{len(data):x}\r\n".encode() + data + b"\r\n"
    return head + chunk + (b"0\r\n\r\n" if whole else b"")


def ipc(schema: Any, *batches: Any) -> bytes:
    """A stream of Arrow's."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@pytest.fixture(scope="module", name="office")
def _office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("home")) as one:
        with posthouse.connect(one.home) as qm:
            qm.create_queue(ORDERS)
            qm.queue(ORDERS).send_many([b"%d" % n for n in range(50)], recoverable=True)
        yield one


def token_of(office: Serving, role: str = "read") -> str:
    with posthouse.connect(office.home) as qm:
        return str(qm.call("POST", "/tokens", {"role": role})["token"])


def test_a_queue_is_planned_split_and_read(office: Serving) -> None:
    with BulkHttp(office.url, token=token_of(office)) as http:
        found = plan(http, [PlannedQueue(ORDERS), PlannedQueue(ORDERS, after=20, max_messages=7)])
        whole, some = found.queues
        assert (whole.messages, some.messages, some.end) == (50, 7, 27)
        cuts = split(http, whole.queue, 0, whole.end, parts=3)
        assert len(cuts) == 3
        bodies = [
            body
            for cut in cuts
            for batch in read(http, whole.queue, cut.after, cut.through, ["body"])
            for body in batch.column("body").to_pylist()
        ]
        assert bodies == [b"%d" % n for n in range(50)]
        (batch,) = read(http, ORDERS, 0, 10)
        assert batch.num_columns > 30
        assert list(read(http, ORDERS, 10, 10)) == []


def test_it_travels_to_other_processes(office: Serving) -> None:
    with BulkHttp(office.url, token=token_of(office)) as http:
        http.call("GET", "/status")
        with pickle.loads(pickle.dumps(http)) as other:
            assert other.call("GET", "/status") == http.call("GET", "/status")


def test_refusals_are_the_queue_managers_own(office: Serving, tmp_path: Path) -> None:
    with BulkHttp(office.url, token=token_of(office)) as http:
        with pytest.raises(QueueNotFound):
            http.call("GET", f"/queues/{segment('.')}%5Cprivate$%5Cnobody")
        with pytest.raises(AccessDenied, match="role"):
            http.call("POST", f"/queues/{segment(ORDERS)}/purge")
        assert http.call("GET", f"/queues/{segment(ORDERS)}")["messages"] == 50
    with pytest.raises(AccessDenied), BulkHttp(office.url, token="pht_wrong") as http:
        http.call("GET", "/status")
    file = tmp_path / "token"
    file.write_text(token_of(office) + "\n")
    with BulkHttp(office.url, token_file=str(file)) as http:
        http.call("GET", "/status")
        file.write_text("pht_other")  # replaced while it is used
        with pytest.raises(AccessDenied):
            http.call("GET", "/status")


def test_nobody_there_is_said_at_once() -> None:
    with pytest.raises(ServerUnreachable, match="no queue manager answers"):
        client(f"http://127.0.0.1:{free_port()}", 0.0).call("GET", "/status")


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://user:pass@host", "http://host/path"])
def test_wrong_addresses_are_refused_before_anything_is_asked(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        BulkHttp(url)


@pytest.mark.parametrize("first", [b"", BUSY, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{"])
def test_what_may_be_asked_again_is(first: bytes) -> None:
    peer = Peer(first, FINE)
    assert client(peer.url).call("GET", "/status") == {"fine": True}
    assert len(peer.asked) == 2


@pytest.mark.parametrize("retry_s", [0.0, 0.05])
def test_attempts_are_bounded(retry_s: float) -> None:
    peer = Peer(*[BUSY] * 99)
    with pytest.raises(ServiceNotAvailable):
        client(peer.url, retry_s).call("GET", "/status")
    assert (len(peer.asked) > 1) == bool(retry_s)


@pytest.mark.parametrize("status", ["502 Bad Gateway", "504 Gateway Timeout"])
def test_a_proxy_without_its_queue_manager_is_asked_again(status: str) -> None:
    peer = Peer(answer(status, b"<html>", "Connection: close"), FINE)
    assert client(peer.url).call("GET", "/status") == {"fine": True}


REFUSED = answer(
    "403 Forbidden",
    b'{"error": {"name": "MQ_ERROR_ACCESS_DENIED", "code": 3222143013, '
    b'"cause": "no", "remedy": "Ask."}}',
)


def test_a_refusal_is_not_asked_again() -> None:
    peer = Peer(REFUSED, FINE)
    with pytest.raises(AccessDenied):
        client(peer.url, 60.0).call("GET", "/status")
    assert len(peer.asked) == 1


def test_a_queue_manager_that_is_away_is_waited_for_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port, begun = free_port(), threading.Event()

    def serve() -> None:
        begun.wait()
        with serving(tmp_path, port=port):
            ended.wait()

    ended = threading.Event()
    server = threading.Thread(target=serve, daemon=True)
    server.start()
    http = client(f"http://127.0.0.1:{port}", 60.0)
    caplog.handler.addFilter(lambda record: begun.set() is None)  # it starts once it is missed
    try:
        with pytest.raises(AccessDenied):
            http.call("GET", "/status")
        missed, back = [record.getMessage() for record in caplog.records]
        assert missed.startswith(f"no queue manager answers at http://127.0.0.1:{port}: ")
        assert back.startswith(f"http://127.0.0.1:{port} answers again, after ")
    finally:
        ended.set()
        server.join()


class PassingTime:
    """Time that passes while somebody sleeps, and only then."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return sum(self.pauses)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def test_pauses_grow_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    passing = PassingTime()
    monkeypatch.setattr(bulk_http, "time", passing)
    with pytest.raises(ServerUnreachable, match="asked again for 300 s"):
        client(f"http://127.0.0.1:{free_port()}", 300.0).call("GET", "/status")
    assert sum(passing.pauses) == pytest.approx(300.0)
    assert passing.pauses[:-1] == sorted(passing.pauses[:-1])
    assert passing.pauses[-2] == 5.0
    assert len(passing.pauses) < 80


def test_the_time_that_was_waited_is_in_the_error() -> None:
    with pytest.raises(ServerUnreachable, match=r"\(asked again for 0\.01 s\)\. Start it"):
        client(f"http://127.0.0.1:{free_port()}", 0.01).call("GET", "/status")


def test_a_connection_that_was_closed_while_idle_is_made_again_at_once() -> None:
    peer = Peer(FINE, FINE)  # one answer for each connection
    http = client(peer.url, 0.0)
    assert [http.call("GET", "/status") for _ in range(2)] == [{"fine": True}] * 2


def test_what_may_not_be_asked_again_is_not() -> None:
    peer = Peer(b"", FINE)
    with pytest.raises(SessionLost):
        client(peer.url).call("POST", "/x", {"a": 1})
    assert len(peer.asked) == 1
    again = Peer(b"", FINE)
    assert client(again.url).call("POST", "/x", {}, repeatable=True) == {"fine": True}


@pytest.mark.parametrize(
    "said",
    [
        answer("404 Not Found", b"<html>"),
        answer("302 Found", b"", "Location: http://elsewhere/"),
        answer("400 Bad Request", b'{"error": 1}'),
        answer("400 Bad Request", b'{"error": {"code": "x"}}'),
    ],
)
def test_strangers_are_told_from_queue_managers(said: bytes) -> None:
    with pytest.raises(ClientConnectionError, match="no reason"):
        client(Peer(said).url).call("GET", "/status")


@pytest.mark.parametrize("said", [b"nonsense\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"])
def test_what_is_no_http_is_a_broken_connection(said: bytes) -> None:
    with pytest.raises(ClientConnectionError):
        client(Peer(*[said] * 9).url, 0.005).call("GET", "/status")


def test_a_stream_that_breaks_off_never_looks_whole() -> None:
    with pytest.raises(SessionLost, match="broke off"):
        list(client(Peer(stream(whole=False)).url).read_arrow("/x"))
    whole = client(Peer(stream(whole=True)).url).read_arrow("/x")
    assert [batch.num_rows for batch in whole] == [2]


def test_reading_goes_on_behind_the_last_row() -> None:
    peer = Peer(stream(whole=False), b"", stream(whole=True), stream(whole=True, last=True))
    batches = list(read(client(peer.url), ORDERS, 0, 9))
    assert sum(batch.num_rows for batch in batches) >= 2
    assert b"after=2&through=9" in peer.asked[-1]


def said_apart(columns: str, **constants: Any) -> bytes:
    """A stream of which some columns are told once."""
    batch = pa.record_batch({"lookup_id": pa.array([1, 2], pa.int64())})
    one = pa.record_batch({name: pa.array([value]) for name, value in constants.items()})
    metadata = {"columns": columns, "constants": ipc(one.schema, one)}
    return ipc(batch.schema.with_metadata(metadata), batch.replace_schema_metadata(metadata))


def test_columns_that_are_told_once_are_in_every_row() -> None:
    data = said_apart("label,lookup_id,journal", label="a", journal=["positive"])
    data += said_apart("label,lookup_id,journal", label="b", journal=[])
    data += ipc(pa.schema([], metadata={"last": "true"}))
    batches = list(client(Peer(answer("200 OK", data)).url).read_arrow("/x", constants=True))
    assert [list(row.values()) for batch in batches for row in batch.to_pylist()] == [
        ["a", 1, ["positive"]],
        ["a", 2, ["positive"]],
        ["b", 1, []],
        ["b", 2, []],
    ]


@pytest.mark.parametrize("metadata", [{}, {"columns": "label"}, {"columns": b"\xff"}])
def test_columns_that_nobody_told_break_a_stream_off(metadata: dict[str, Any]) -> None:
    empty = ipc(pa.schema([]))
    schema = pa.schema([("lookup_id", pa.int64())], metadata={"constants": empty, **metadata})
    peer = Peer(answer("200 OK", ipc(schema)))
    with pytest.raises(SessionLost, match="broke off"):
        list(client(peer.url).read_arrow("/x", constants=True))


def test_reading_gives_up_where_nothing_comes() -> None:
    peer = Peer(*[b""] * 99)
    with pytest.raises(SessionLost):
        list(read(client(peer.url, 0.05), ORDERS, 0, 9))
    assert 1 < len(peer.asked) < 99


def test_batches_are_sent_as_they_come() -> None:
    schema = pa.schema([("body", pa.binary())])

    def batches() -> Iterator[Any]:
        for _ in range(3):
            yield pa.record_batch([pa.array([b"x" * 100])], schema=schema)

    peer = Peer(FINE)
    client(peer.url).write_arrow("PUT", "/stages/q/1/0/0", schema, batches())
    head = peer.asked[0].split(b"\r\n\r\n")[0]
    assert b"Transfer-Encoding: chunked" in head
    assert b"application/vnd.apache.arrow.stream" in head


def test_without_pyarrow_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install '.*\[spark\]'"):
        list(BulkHttp("http://127.0.0.1:1").read_arrow("/x"))
