"""The step from HTTP to a session."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.client.address import Address
from posthouse.client.errors import (
    ClientConnectionError,
    ServerUnreachable,
    SessionEnded,
    SessionLost,
)
from posthouse.client.session_upgrade import (
    Upgrading,
    as_connection_error,
    lost_connection,
    upgrade_request,
    worth_retrying,
)
from posthouse.model.errors import AccessDenied, MalformedPacket, QueueError, ServiceNotAvailable

ADDRESS = Address("http://host:8816", host="host", port=8816, token="pht_secret")
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: posthouse/1\r\n\r\n"
BODY = (
    b'{"error":{"name":"MQ_ERROR_ACCESS_DENIED","code":3222143013,'
    b'"cause":"no such token","remedy":"Make one."}}'
)
REFUSED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


def test_the_request() -> None:
    lines = upgrade_request(ADDRESS).decode().split("\r\n")
    assert lines[0] == "GET /api/v1/session HTTP/1.1"
    assert "Host: host:8816" in lines
    assert "Upgrade: posthouse/1" in lines
    assert "Connection: Upgrade" in lines
    assert "Authorization: Bearer pht_secret" in lines
    assert lines[-2:] == ["", ""]


def test_the_control_socket_needs_no_token() -> None:
    request = upgrade_request(Address("/home", home=Path("/home")))
    assert b"Authorization" not in request
    assert b"Host: localhost\r\n" in request


@given(st.binary(max_size=30), st.integers(1, 60))
def test_the_session_begins_behind_the_head(first: bytes, size: int) -> None:
    upgrading, answer = Upgrading(ADDRESS), SWITCHING + first
    begun = None
    for at in range(0, len(answer), size):
        if begun is None:
            begun = upgrading.receive(answer[at : at + size])
        else:
            begun += answer[at : at + size]
    assert begun == first


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_refusal_is_the_queue_managers(size: int) -> None:
    upgrading = Upgrading(ADDRESS)
    *pieces, last = [REFUSED[at : at + size] for at in range(0, len(REFUSED), size)]
    assert [upgrading.receive(piece) for piece in pieces] == [None] * len(pieces)
    with pytest.raises(AccessDenied) as caught:
        upgrading.receive(last)
    assert (caught.value.cause, caught.value.remedy) == ("no such token", "Make one.")


def test_a_refusal_without_a_length_ends_with_the_connection() -> None:
    upgrading = Upgrading(ADDRESS)
    assert upgrading.receive(b"HTTP/1.1 401 Unauthorized\r\n\r\n" + BODY) is None
    assert isinstance(upgrading.ended(), AccessDenied)


def test_a_connection_that_is_closed_at_once() -> None:
    error = Upgrading(ADDRESS).ended()
    assert isinstance(error, ServerUnreachable)
    assert "http://host:8816" in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
        b"x" * 9000,
        b"HTTP/1.1 500 Oh\r\n\r\n" + b"x" * 70_000,
    ],
)
def test_somebody_else_is_no_queue_manager(answer: bytes) -> None:
    with pytest.raises(ClientConnectionError, match="is another service"):
        Upgrading(ADDRESS).receive(answer)


@given(st.binary(max_size=200))
def test_any_answer_is_one_of_these(answer: bytes) -> None:
    upgrading = Upgrading(ADDRESS)
    with suppress(QueueError, ClientConnectionError):
        if upgrading.receive(answer) is None:
            raise upgrading.ended()


def test_what_broke_a_connection_has_a_name() -> None:
    refusal, ended = AccessDenied("no"), SessionEnded("it stopped")
    assert as_connection_error(refusal) is refusal
    assert as_connection_error(ended) is ended
    assert "an invalid answer" in str(as_connection_error(MalformedPacket("what")))
    assert isinstance(as_connection_error(ConnectionResetError(104, "reset")), ServerUnreachable)
    assert isinstance(lost_connection(refusal), SessionLost)
    assert lost_connection(ended) is ended


def test_a_stop_passes_and_a_refusal_stays() -> None:
    assert worth_retrying(ServiceNotAvailable("stopping"))
    assert worth_retrying(ServerUnreachable("nobody"))
    assert not worth_retrying(AccessDenied("no"))
