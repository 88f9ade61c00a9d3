"""Readiness and the watchdog, over real sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from posthouse.runtime.systemd_notify import Notifier, keep_telling, watchdog_interval_s


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """What systemd listens on, and how it names it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.settimeout(10)
    if request.param == "path":
        name = str(tmp_path / "notify")
        listener.bind(name)
    else:
        name = f"@posthouse-test-{os.getpid()}"
        listener.bind("\0" + name[1:])
    yield listener, name
    listener.close()


def test_the_service_manager_hears_of_readiness_and_the_end(
    manager: tuple[socket.socket, str],
) -> None:
    listener, name = manager
    notifier = Notifier({"NOTIFY_SOCKET": name})
    notifier.ready("queue manager ALPHA")
    assert listener.recv(1000) == b"READY=1\nSTATUS=queue manager ALPHA"
    notifier.stopping()
    assert listener.recv(1000) == b"STOPPING=1\nSTATUS=stopping"
    assert notifier.failures == 0


def test_without_a_service_manager_nothing_is_said() -> None:
    notifier = Notifier({})
    notifier.ready("x")
    notifier.stopping()
    assert notifier.failures == 0


def test_a_service_manager_that_does_not_listen_is_passed_over(tmp_path: Path) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    notifier.ready("x")
    assert notifier.failures == 1


@pytest.mark.parametrize(
    ("environment", "interval"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, 1.5),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 1.5),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_told_twice_as_often_as_it_asks(
    environment: dict[str, str], interval: float | None
) -> None:
    assert watchdog_interval_s(environment) == interval


def test_the_watchdog_is_told_again_and_again(manager: tuple[socket.socket, str]) -> None:
    listener, name = manager
    later: list[tuple[float, Callable[[], None]]] = []
    notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "2000000"})
    keep_telling(notifier, lambda delay, call: later.append((delay, call)))
    for _ in range(3):
        assert listener.recv(1000) == b"WATCHDOG=1"
        delay, call = later.pop()
        assert delay == 1.0
        call()


def test_nobody_is_told_who_did_not_ask() -> None:
    keep_telling(Notifier({}), lambda delay, call: pytest.fail("a timer nobody needs"))
