"""`posthouse.msmq`: straight from this process, through a server, through an embedded manager."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
import tracemalloc
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

import posthouse
from posthouse.client.binary.session import SenderSession
from posthouse.client.errors import ServerUnreachable
from posthouse.model.errors import (
    QueueError,
    RemoteProtocolError,
    TransactionUsage,
)
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.wire.binary.internal import establish_connection_response, read_establish_connection
from tests.client.serving import Serving, serving

QUICK = BinarySettings(
    ack_wait_min_ms=100, ack_wait_ms=200, recoverable_ack_min_ms=20, recoverable_ack_max_ms=20
)


@pytest.fixture(scope="module")
def far() -> Iterator[Serving]:
    """A server that other queue managers reach."""
    home = Path(tempfile.mkdtemp(prefix="ph-"))
    with serving(home, binary=QUICK) as running:
        yield running
    shutil.rmtree(home)


@pytest.fixture
def remote(far: Serving, quick_sender: None) -> Iterator[posthouse.RemoteQueueManager]:
    with posthouse.msmq("127.0.0.1", binary_port=far.binary_port, timeout=20) as manager:
        yield manager


@pytest.fixture
def quick_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posthouse.client.msmq.BinarySettings", lambda: QUICK)
    monkeypatch.setattr("posthouse.client.embedded_delivery.BinarySettings", lambda: QUICK)


@pytest.fixture
def near(far: Serving) -> Iterator[posthouse.QueueManagerClient]:
    with posthouse.connect(far.home) as client:
        yield client


def test_a_recoverable_send_returns_when_the_other_side_has_it(
    remote: posthouse.RemoteQueueManager, near: posthouse.QueueManagerClient, path: str
) -> None:
    there = near.create_queue(path)
    message_id = remote.queue(path).send({"customer": 7}, label="order 1", recoverable=True)
    message = there.receive(timeout=0)
    assert (message.id, message.label, message.json()) == (message_id, "order 1", {"customer": 7})


def test_many_express_messages_arrive_once_and_in_order(
    remote: posthouse.RemoteQueueManager, near: posthouse.QueueManagerClient, path: str
) -> None:
    there = near.create_queue(path)
    bodies = [b"%d" % number for number in range(2500)]
    ids = remote.queue(path).send_many(bodies)
    messages = there.receive_many(3000, timeout=0)
    assert [message.body for message in messages] == bodies
    assert [message.id for message in messages] == list(ids)


def test_what_was_not_acknowledged_is_sent_again_and_taken_once(
    far: Serving,
    remote: posthouse.RemoteQueueManager,
    near: posthouse.QueueManagerClient,
    path: str,
) -> None:
    there, done = near.create_queue(path), threading.Event()

    def cut() -> None:
        while not done.wait(0.01):
            if there.count():
                far.break_sessions()
                return

    cutter = threading.Thread(target=cut)
    cutter.start()
    bodies = [b"%d" % number for number in range(1000)]
    remote.queue(path).send_many(bodies, recoverable=True)
    done.set()
    cutter.join()
    assert [message.body for message in there.receive_many(2000, timeout=0)] == bodies


def test_large_messages_are_in_memory_a_few_at_a_time(
    remote: posthouse.RemoteQueueManager, near: posthouse.QueueManagerClient, path: str
) -> None:
    """Also with small ones between them; the server of the fixture is in this process."""
    there = near.create_queue(path)
    sizes = [100, 1 << 20, 200, 100_000] * 40
    tracemalloc.start()
    try:
        remote.queue(path).send_many(map(sized, sizes), recoverable=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [message.body for message in there.browse()] == [*map(sized, sizes)]
    assert peak < sum(sizes)


def test_after_ctrl_c_in_a_write_the_rest_is_not_taken_from_the_next_message(
    remote: posthouse.RemoteQueueManager, near: posthouse.QueueManagerClient, path: str
) -> None:
    there, queue = near.create_queue(path), remote.queue(path)
    queue.send(b"opens the session")
    sender: Any = remote._sender
    sender._socket = InterruptedWrite(sender._socket)
    with pytest.raises(KeyboardInterrupt):
        queue.send(sized(100_000))
    queue.send(b"x" * 200_000, recoverable=True)
    bodies = [message.body for message in there.browse()]
    assert bodies == [b"opens the session", b"x" * 200_000]


class InterruptedWrite:
    """A socket whose next write Ctrl-C cuts off."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def sendall(self, data: bytes) -> NoReturn:
        self._connection.sendall(data[: len(data) // 2])
        self.sendall = self._connection.sendall  # type: ignore[method-assign,assignment]
        raise KeyboardInterrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_what_ctrl_c_kept_from_being_sent_is_not_waited_for(
    remote: posthouse.RemoteQueueManager, path: str
) -> None:
    sender: Any = remote._sender
    sender._waiting = InterruptedWaiting()
    with pytest.raises(KeyboardInterrupt):
        remote.queue(path).send(b"cut off")
    assert not sender._waiting
    assert not sender._unacknowledged


class InterruptedWaiting(deque[Any]):
    """What is to be sent; Ctrl-C comes as it is added to."""

    def extend(self, added: Any) -> NoReturn:
        super().extend(added)
        raise KeyboardInterrupt


def sized(size: int) -> bytes:
    return size.to_bytes(4, "little") * (size // 4)


def test_a_transactional_send_needs_a_queue_manager(
    remote: posthouse.RemoteQueueManager, path: str
) -> None:
    with pytest.raises(TransactionUsage, match="keeps its place"):
        remote.queue(path).send(b"x", transactional=True)


def test_counting_asks_the_management_interface(far: Serving, path: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        ports = {"binary_port": far.binary_port, "rpc_port": bound.getsockname()[1]}
        with (
            posthouse.msmq("127.0.0.1", timeout=20, **ports) as remote,
            pytest.raises(posthouse.ServerUnreachable, match="management"),
        ):
            remote.queue(path).count()


@pytest.mark.parametrize(
    "wrong",
    [
        {"authentication": "secret"},
        {"authentication": "privacy"},
        {"mechanism": "magic"},
        {"prefetch": -1},
        {"prefetch": 100_000},
    ],
)
def test_what_makes_no_sense_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"authentication|magic|prefetch"):
        posthouse.msmq("shop", **wrong)


def test_a_silent_peer_is_named_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with (
            posthouse.msmq("127.0.0.1", binary_port=port, timeout=0.2) as manager,
            pytest.raises(ServerUnreachable, match=f"{port} acknowledged all but 1"),
        ):
            manager.queue(r"private$\x").send(b"x")


def test_a_peer_that_talks_nonsense_is_named_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        port = listener.getsockname()[1]
        with (
            posthouse.msmq("127.0.0.1", binary_port=port, timeout=0.3) as manager,
            pytest.raises(ServerUnreachable, match="may have arrived"),
        ):
            manager.queue(r"private$\x").send(b"x")
        thread.join()


def test_an_embedded_manager_delivers_transactions(
    far: Serving, near: posthouse.QueueManagerClient, path: str, home: Path, quick_sender: None
) -> None:
    there = near.create_queue(path, transactional=True)
    bodies = [b"%d" % number for number in range(300)]
    with posthouse.msmq("127.0.0.1", binary_port=far.binary_port, home=home) as manager:
        manager.queue(path).send_many(bodies, transactional=True)
        received = [there.receive(timeout=20).body for _ in bodies]
    assert received == bodies
    assert there.count() == 0


def test_what_an_embedded_manager_could_not_deliver_it_delivers_when_opened_again(
    far: Serving, near: posthouse.QueueManagerClient, path: str, home: Path, quick_sender: None
) -> None:
    with posthouse.msmq("127.0.0.1", binary_port=1, home=home) as nobody:
        nobody.queue(path).send(b"lost?", recoverable=True)
        nobody.close(wait=0)
    there = near.create_queue(path)
    name = rf"DIRECT=TCP:127.0.0.1:{far.binary_port}\{path[2:]}"
    with posthouse.open(home) as manager:
        (waiting,) = manager.queues(outgoing=True)
        assert waiting.messages == 1
        manager.queue(name).send(b"found", recoverable=True)
        assert there.receive(timeout=20).body == b"found"


def test_via_a_server_a_transaction_spans_both(
    far: Serving, near: posthouse.QueueManagerClient, path: str, home: Path
) -> None:
    there = near.create_queue(path, transactional=True)
    with serving(home, binary=QUICK) as local, posthouse.connect(local.home) as client:
        here = client.create_queue(r".\private$\here", transactional=True)
        with posthouse.msmq("127.0.0.1", binary_port=far.binary_port, via=client) as manager:
            with client.transaction() as tx:
                here.send(b"here", tx=tx)
                manager.queue(path).send(b"there", tx=tx)
            assert there.receive(timeout=20).body == b"there"
        assert here.receive(timeout=0).body == b"here"


def test_both_ways_at_once_are_refused(home: Path, near: posthouse.QueueManagerClient) -> None:
    with pytest.raises(ValueError, match="not both"):
        posthouse.msmq("127.0.0.1", via=near, home=home)


QUEUE = "6f9619ff-8b86-d011-b42d-00c04fc964ff"


@pytest.mark.parametrize(
    ("host", "port", "name", "format_name"),
    [
        ("shop", 1801, r"private$\orders", r"DIRECT=OS:shop\private$\orders"),
        ("shop", 4000, r".\private$\orders", r"DIRECT=OS:shop:4000\private$\orders"),
        ("10.0.0.1", 1801, "orders", r"DIRECT=TCP:10.0.0.1\orders"),
        ("fe80::1", 4000, r"private$\a", r"DIRECT=TCP:[fe80::1]:4000\private$\a"),
        ("x", 1801, r"DIRECT=OS:y\private$\a", r"DIRECT=OS:y\private$\a"),
        ("10.0.0.1", 1801, r"SHOP\orders", r"DIRECT=TCP:10.0.0.1\orders"),
        ("10.0.0.1", 1801, "SHOP/private$/a", r"DIRECT=TCP:10.0.0.1\private$\a"),
        ("x", 1801, f"PUBLIC={QUEUE}", f"PUBLIC={QUEUE}"),
        ("x", 1801, f"PRIVATE={QUEUE}\\00000007", f"PRIVATE={QUEUE}\\00000007"),
        ("x", 1801, f"MACHINE={QUEUE};DEADLETTER", f"MACHINE={QUEUE};deadletter"),
    ],
)
def test_names_of_queues_there(host: str, port: int, name: str, format_name: str) -> None:
    with posthouse.msmq(host, binary_port=port) as manager:
        assert manager.queue(name).name == format_name


@pytest.mark.parametrize("name", [f"DL={QUEUE}", "MULTICAST=239.1.1.1:9", r"\\"])
def test_names_without_a_computer_are_refused(name: str) -> None:
    with posthouse.msmq("shop") as manager, pytest.raises(QueueError):
        manager.queue(name)


@given(st.binary(max_size=700), st.integers(0, 2))
def test_any_bytes_are_taken_or_break_the_session(data: bytes, stage: int) -> None:
    session = SenderSession(QUICK, bytes(16), deque())
    request = read_establish_connection(session.begin(0))
    if stage:
        session.receive(establish_connection_response(request, b"s" * 16), 1)
    with suppress(RemoteProtocolError):
        session.receive(data, 2)
