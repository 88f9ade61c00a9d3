"""The blocking NCP client against a server that a test plays, on real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from posthouse.client.ncp.core import NcpLost
from posthouse.client.ncp.link import NcpLink, refusal
from posthouse.model.errors import QmsError
from posthouse.wire.ncp import framing as ncp
from posthouse.wire.ncp.bindery_calls import CHANGE_PASSWORD, KEYED_LOGIN, LOGIN_KEY
from posthouse.wire.ncp.calls import NOTHING
from posthouse.wire.ncp.framing import (
    Reply,
    Request,
    Stream,
    frame_reply,
    read_request,
    write_reply,
)
from posthouse.wire.ncp.functions import LOGOUT, NEGOTIATE_SIZE, SERVER_CLOCK, AcceptedSize
from posthouse.wire.ncp.queue_calls import REMOVE_JOB

Answer = Callable[[Request], bytes | None]
ACCEPTED = NEGOTIATE_SIZE.reply.write(AcceptedSize(2048, 0, 0))
CLOCK = bytes(range(7))


def answer(request: Request, completion: int = 0, status: int = 0, data: bytes = b"") -> bytes:
    number = 5 if request.kind == ncp.CREATE_CONNECTION else request.connection
    kind, task = ncp.REPLY, request.task
    return write_reply(Reply(kind, request.sequence, number, task, completion, status, data))


def usual(request: Request) -> bytes:
    data = {0x61: ACCEPTED, 0x14: CLOCK}.get(request.function, b"")
    return answer(request, data=data)


@contextmanager
def tcp_server(reply: Answer = usual) -> Iterator[int]:
    """Answers one client; None closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        stream = Stream()
        with connection:
            while data := connection.recv(4096):
                for message in stream.feed(data):
                    said = reply(read_request(message))
                    if said is None:
                        return
                    connection.sendall(frame_reply(said))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join()
        listener.close()


@contextmanager
def udp_server(reply: Answer = usual) -> Iterator[int]:
    """Answers datagrams; None drops one."""
    port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port.bind(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            data, peer = port.recvfrom(4096)
            if not data:
                return
            said = reply(read_request(data))
            if said is not None:
                port.sendto(said, peer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield port.getsockname()[1]
    finally:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", port.getsockname())
        thread.join()
        port.close()


@pytest.mark.parametrize(("server", "transport"), [(tcp_server, "tcp"), (udp_server, "udp")])
def test_a_link_is_opened_used_and_closed(server: Callable[..., object], transport: str) -> None:
    heard: list[Request] = []

    def reply(request: Request) -> bytes:
        heard.append(request)
        return usual(request)

    with server(reply) as port:  # type: ignore[attr-defined]
        link = NcpLink("127.0.0.1", port, transport=transport, timeout_s=30)  # type: ignore[arg-type]
        assert (link.connection, link.buffer_size) == (5, 2048)
        assert link.request(SERVER_CLOCK, NOTHING).clock == CLOCK
        link.close()
        link.close()  # once is enough
        with pytest.raises(NcpLost):
            link.request(SERVER_CLOCK, NOTHING)
    kinds = [ncp.CREATE_CONNECTION, ncp.REQUEST, ncp.REQUEST, ncp.DESTROY_CONNECTION]
    assert [request.kind for request in heard] == kinds
    assert [request.sequence for request in heard] == [1, 1, 2, 3]  # as ncpfs counts
    assert {request.connection for request in heard[1:]} == {5}


@pytest.mark.spec("NCP framing/3")
def test_a_connection_is_asked_for_as_real_clients_do() -> None:
    created: list[bytes] = []

    def reply(request: Request) -> bytes:
        if request.kind == ncp.CREATE_CONNECTION:
            created.append(ncp.write_request(request))
        return usual(request)

    with tcp_server(reply) as port:
        NcpLink("127.0.0.1", port, timeout_s=30).close()
    with udp_server(reply) as port:
        NcpLink("127.0.0.1", port, transport="udp").close()
    over_tcp = bytes.fromhex("1111 01 ff 01 ff 01100000") + bytes(15)
    assert created == [over_tcp, bytes.fromhex("1111 01 ff 01 ff 00")]


def test_a_refusal_has_its_code_and_the_link_goes_on() -> None:
    def reply(request: Request) -> bytes:
        return answer(request, completion=0xD3) if request.function == 0x19 else usual(request)

    with tcp_server(reply) as port:
        link = NcpLink("127.0.0.1", port, timeout_s=30)
        with pytest.raises(QmsError) as caught:
            link.request(LOGOUT, NOTHING)
        assert caught.value.completion == 0xD3
        assert link.request(SERVER_CLOCK, NOTHING).clock == CLOCK
        link.close()


@pytest.mark.parametrize(
    "reply",
    [
        lambda request: None,
        lambda request: answer(request, status=0x01),
        lambda request: answer(request, data=b"short"),
        lambda request: answer(request._replace(sequence=77), data=CLOCK),
    ],
    ids=["closed", "unknown connection", "truncated", "another sequence"],
)
def test_a_server_that_breaks_off_is_a_lost_link(reply: Answer) -> None:
    def clock(request: Request) -> bytes | None:
        return reply(request) if request.function == 0x14 else usual(request)

    with tcp_server(clock) as port:
        link = NcpLink("127.0.0.1", port, timeout_s=30)
        depths = set[int]()
        for _ in range(4):
            with pytest.raises(NcpLost) as lost:
                link.request(SERVER_CLOCK, NOTHING)
            depths.add(len(lost.traceback))
        assert max(depths) <= 8  # what was asked in vain before is not kept by the error


def test_datagrams_that_are_lost_are_sent_again() -> None:
    lost: list[Request] = []

    def reply(request: Request) -> bytes | None:
        if request.function == 0x14 and len(lost) < 2:
            lost.append(request)
            return None
        return usual(request)

    with udp_server(reply) as port:
        link = NcpLink("127.0.0.1", port, transport="udp", retransmit_ms=20)
        assert link.request(SERVER_CLOCK, NOTHING).clock == CLOCK
        assert link.repeated >= 2
        assert lost[0] == lost[1]
        link.close()


def test_nobody_answers_on_udp() -> None:
    with udp_server(lambda request: None) as port, pytest.raises(NcpLost, match="not answer"):
        NcpLink("127.0.0.1", port, transport="udp", retransmit_ms=5, retries=2)


def test_an_idle_client_answers_the_watchdog() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        port.bind(("127.0.0.1", 0))
        port.settimeout(30)
        made: list[NcpLink] = []
        place = port.getsockname()
        opening = threading.Thread(
            target=lambda: made.append(NcpLink(*place, transport="udp", timeout_s=30))
        )
        opening.start()
        for _ in range(2):
            data, peer = port.recvfrom(4096)
            port.sendto(usual(read_request(data)), peer)
        opening.join()
        port.sendto(ncp.write_watchdog(5), peer)
        assert port.recvfrom(4096)[0] == ncp.write_watchdog(5, ncp.ALIVE)
        made[0].forked()  # nobody answers its end


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NcpLost, match="cannot be reached"):
        NcpLink("127.0.0.1", port)


def test_codes_of_logins_are_told_as_such() -> None:
    """0xD6 is about a job only where there is one."""
    clear = refusal(CHANGE_PASSWORD, 0xD6)
    assert (clear.completion, "clear text" in clear.remedy) == (0xD6, True)
    assert "password" in refusal(KEYED_LOGIN, 0xFF).remedy
    assert "clear_text=True" in refusal(LOGIN_KEY, 0xFB).remedy
    assert "operator" in refusal(REMOVE_JOB, 0xD6).remedy
    assert "23/0x80" in refusal(REMOVE_JOB, 0xD6).cause
