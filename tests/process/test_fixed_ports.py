"""Test runs on one machine take turns where ports are fixed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.process.fixed_ports import fixed_ports


@pytest.fixture
def port() -> Iterator[int]:
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(("127.0.0.1", 0))
        yield int(found.getsockname()[1])  # bound and not listening: nobody else gets it


def test_one_has_them_at_a_time(port: int) -> None:
    order: list[str] = []

    def second() -> None:
        with fixed_ports(port):
            order.append("second")

    with fixed_ports(port):
        other = threading.Thread(target=second)
        other.start()
        with pytest.raises(AssertionError, match="another test run uses the ports"):
            fixed_ports(port, patience_s=0).__enter__()
        order.append("first")
    other.join()
    assert order == ["first", "second"]


def test_a_port_that_another_program_has_is_named(port: int) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(AssertionError, match=rf"listens on the ports \[{port}\]"):
            fixed_ports(port, patience_s=0).__enter__()
