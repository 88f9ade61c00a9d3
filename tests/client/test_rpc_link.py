"""A connection that threads share: who reads, who waits, and what a break does to all of them."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from posthouse.client.errors import SessionEnded
from posthouse.client.rpc_link import CallTimeout, LinkLost, PendingCall, RpcLink
from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.remote_read.stubs import REMOTE_READ, Opnum, decode_response
from posthouse.rpc.client import BindRefused, ClientConnection
from posthouse.rpc.interface import Call
from posthouse.rpc.statuses import Fault
from posthouse.rpc.syntax import NDR
from tests.client.read_peer import Peer
from tests.support.result_thread import Thread

PORT = Opnum.GET_SERVER_PORT


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


@pytest.fixture
def link(peer: Peer) -> Iterator[RpcLink]:
    link = RpcLink(("127.0.0.1", peer.port), ClientConnection(REMOTE_READ), 20)
    yield link
    link.close()


class Held:
    """Calls that are answered when a test says so."""

    def __init__(self, peer: Peer) -> None:
        self.calls: list[Call] = []
        self._peer = peer
        peer.instead[PORT] = self.hold

    def hold(self, request: object, call: Call) -> None:
        self.calls.append(call)

    def answer(self, nth: int, value: int) -> None:
        with self._peer._changed:
            self.calls[nth].answer(value.to_bytes(4, "little"))


def test_a_call_has_its_answer(peer: Peer, link: RpcLink) -> None:
    assert decode_response(PORT, link.call(PORT, b"")).port == peer.port


def test_the_error_of_a_lost_link_keeps_nothing_of_earlier_calls(peer: Peer, link: RpcLink) -> None:
    link.close()
    pending = PendingCall()
    pending.error = link.lost
    for ask in (lambda: link.call(PORT, b""), pending.result):
        depths = set[int]()
        for _ in range(4):
            with pytest.raises(LinkLost) as lost:
                ask()
            depths.add(len(lost.traceback))
        assert len(depths) == 1


def test_answers_find_the_threads_that_wait_for_them(peer: Peer, link: RpcLink) -> None:
    held = Held(peer)
    threads = []
    for number in range(20):
        threads.append(Thread(lambda: link.call(PORT, b"")))
        peer.await_calls(PORT, number + 1)
    for number in (*range(19, 0, -2), *range(0, 19, 2)):
        held.answer(number, number)
        assert threads[number].result() == number.to_bytes(4, "little")


def test_who_has_his_answer_hands_over_to_who_waits(peer: Peer, link: RpcLink) -> None:
    """The first one reads; when they are served, another one has to."""
    held = Held(peer)
    first = Thread(lambda: link.call(PORT, b""))
    peer.await_calls(PORT)
    others = []
    for number in range(5):
        others.append(Thread(lambda: link.call(PORT, b"")))
        peer.await_calls(PORT, number + 2)
    held.answer(0, 0)
    first.result()
    for number in (5, 1, 4, 2, 3):
        held.answer(number, number)
        assert others[number - 1].result() == number.to_bytes(4, "little")


@pytest.mark.parametrize("reader_first", [True, False])
def test_one_whose_time_is_over_leaves_the_others_alone(
    peer: Peer, link: RpcLink, reader_first: bool
) -> None:
    held = Held(peer)
    patience = (0.05, 20.0) if reader_first else (20.0, 0.05)
    threads = []
    for number, seconds in enumerate(patience):
        threads.append(Thread(partial(link.call, PORT, b"", seconds)))
        peer.await_calls(PORT, number + 1)
    hasty, patient = threads if reader_first else reversed(threads)
    assert isinstance(hasty.result(), CallTimeout)
    held.answer(0, 7)
    held.answer(1, 7)
    assert patient.result() == b"\7\0\0\0"


def test_a_break_reaches_everybody(peer: Peer, link: RpcLink) -> None:
    Held(peer)
    threads = []
    for number in range(5):
        threads.append(Thread(lambda: link.call(PORT, b"")))
        peer.await_calls(PORT, number + 1)
    peer.cut()
    for thread in threads:
        assert isinstance(thread.result(), LinkLost)
    with pytest.raises(LinkLost):
        link.submit(PORT, b"")
    link.flush()


def test_a_close_reaches_everybody(peer: Peer, link: RpcLink) -> None:
    Held(peer)
    threads = []
    for number in range(3):
        threads.append(Thread(lambda: link.call(PORT, b"")))
        peer.await_calls(PORT, number + 1)
    link.close()
    for thread in threads:
        assert isinstance(thread.result(), LinkLost)
    link.close()


def test_a_break_that_nobody_read_of_is_found_by_looking(peer: Peer, link: RpcLink) -> None:
    link.look()
    assert link.lost is None
    peer.cut()
    link.look()
    assert link.lost is not None
    link.look()


def test_a_fault_is_raised(peer: Peer, link: RpcLink) -> None:
    def throw(request: object, call: Call) -> None:
        raise Fault(0xC00E0003)

    peer.instead[PORT] = throw
    with pytest.raises(Fault) as fault:
        link.call(PORT, b"")
    assert fault.value.status == 0xC00E0003


def test_an_abandoned_call_is_heard_of_by_somebody(peer: Peer, link: RpcLink) -> None:
    held = Held(peer)
    heard: list[bytes] = []
    pending = link.submit(PORT, b"")
    link.flush()
    link.abandon(pending, lambda ended: heard.append(ended.stub))
    peer.await_calls(PORT)
    held.answer(0, 1)
    del peer.instead[PORT]
    link.call(PORT, b"")
    assert heard == [b"\1\0\0\0"]
    link.abandon(pending, lambda ended: heard.append(b"at once"))
    assert heard[-1] == b"at once"


def test_an_abandoned_call_hears_of_a_break(peer: Peer, link: RpcLink) -> None:
    Held(peer)
    heard: list[object] = []
    pending = link.submit(PORT, b"")
    link.abandon(pending, lambda ended: heard.append(ended.error))
    link.close()
    assert heard == [link.lost]


def test_an_answer_to_nobody_breaks_the_connection(peer: Peer, link: RpcLink) -> None:
    pending = link.submit(PORT, b"")
    link._waiting.clear()
    other = PendingCall()
    link._waiting[77] = other
    link.flush()
    link.wait(other, None)
    with pytest.raises(LinkLost, match="was not made"):
        other.result()
    assert not pending.done


def test_a_bind_that_is_refused_closes_the_socket(peer: Peer) -> None:
    with pytest.raises(BindRefused):
        RpcLink(("127.0.0.1", peer.port), ClientConnection(NDR), 20)


def test_a_child_does_not_use_the_connection_of_its_parent(link: RpcLink) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            link.submit(PORT, b"")
        except SessionEnded:
            os.write(write, b"told")
        finally:
            link.close()
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert os.read(read, 10) == b"told"
    os.close(read)
    link.call(PORT, b"")


def test_many_threads_make_many_calls(peer: Peer, link: RpcLink) -> None:
    def work() -> bool:
        return all(decode_response(PORT, link.call(PORT, b"")).port for _ in range(40))

    threads = [Thread(work) for _ in range(8)]
    assert all(thread.result() is True for thread in threads)


def test_a_server_that_does_not_multiplex_gets_one_call_at_a_time(
    peer: Peer, link: RpcLink
) -> None:
    link.connection.multiplexed = False
    held = Held(peer)
    pending = [link.submit(PORT, b"") for _ in range(3)]
    link.flush()
    for number, one in enumerate(pending):
        peer.await_calls(PORT, number + 1)
        assert len(held.calls) == number + 1
        held.answer(number, number)
        link.wait(one, None)
        assert one.result() == number.to_bytes(4, "little")


def test_calls_that_have_to_take_turns_hear_of_a_break(peer: Peer, link: RpcLink) -> None:
    link.connection.multiplexed = False
    Held(peer)
    pending = [link.submit(PORT, b"") for _ in range(3)]
    link.flush()
    peer.await_calls(PORT)
    peer.cut()
    for one in pending:
        link.wait(one, None)
        assert one.error is link.lost


def test_requests_leave_in_order(peer: Peer, link: RpcLink) -> None:
    """A security context counts the PDUs."""
    pending = [link.submit(PORT, b"") for _ in range(100)]
    link.flush()
    for one in pending:
        link.wait(one, None)
    assert [one.call_id for one in pending] == sorted(one.call_id for one in pending)


def test_what_is_no_rpc_is_told(peer: Peer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(RemoteProtocolError):
            RpcLink(listener.getsockname(), ClientConnection(REMOTE_READ), 20)
        thread.join()


class Interrupted:
    """A socket at which somebody presses a key just when something was done."""

    def __init__(self, real: socket.socket, at: str) -> None:
        self._real = real
        self._at = at

    def __getattr__(self, name: str) -> object:
        if name != self._at:
            return getattr(self._real, name)
        done = getattr(self._real, name)

        def interrupted(*arguments: object) -> None:
            done(*arguments)
            raise KeyboardInterrupt

        return interrupted


@pytest.mark.parametrize("at", ["recv", "send"])
def test_an_interrupt_in_the_middle_of_a_transfer_breaks_the_link(
    link: RpcLink, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would wait for ever for what was lost with it."""
    other = link.submit(PORT, b"")
    monkeypatch.setattr(link, "_socket", Interrupted(link._socket, at))
    with pytest.raises(KeyboardInterrupt):
        link.call(PORT, b"")
    link.wait(other, None)
    with pytest.raises(LinkLost, match="KeyboardInterrupt"):
        other.result()


def test_an_interrupt_while_nothing_comes_breaks_nothing(
    peer: Peer, link: RpcLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(peer)
    pending = link.submit(PORT, b"")
    with monkeypatch.context() as patched:
        patched.setattr(link, "_poll", InterruptedPoll())
        link.flush()
        with pytest.raises(KeyboardInterrupt):
            link.wait(pending, None)
    peer.await_calls(PORT)
    held.answer(0, 7)
    link.wait(pending, None)
    assert pending.result() == b"\7\0\0\0"


class InterruptedPoll:
    def poll(self, left_ms: float | None) -> None:
        raise KeyboardInterrupt
