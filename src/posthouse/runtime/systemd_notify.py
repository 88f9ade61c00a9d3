"""Notifies systemd of readiness, stopping and the watchdog (sd_notify)."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping


class Notifier:
    """Sends lines to the socket in $NOTIFY_SOCKET; without one nothing is sent.

    A service manager that does not listen is its own trouble: what cannot be sent is counted.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self.address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = watchdog_interval_s(environment)
        self.failures = 0

    def ready(self, status: str) -> None:
        """Every listener accepts."""
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """The end has begun."""
        self._send("STOPPING=1\nSTATUS=stopping")

    def alive(self) -> None:
        """The loop still turns."""
        self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if not self.address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(text.encode(), self.address)
        except OSError:
            self.failures += 1


def watchdog_interval_s(environment: Mapping[str, str]) -> float | None:
    """How often to report that we are alive: twice as often as asked; None if not asked."""
    microseconds = environment.get("WATCHDOG_USEC", "")
    process = environment.get("WATCHDOG_PID", str(os.getpid()))
    if not microseconds.isascii() or not microseconds.isdigit() or process != str(os.getpid()):
        return None
    return int(microseconds) / 2_000_000 or None


def keep_telling(
    notifier: Notifier, call_later: Callable[[float, Callable[[], None]], object]
) -> None:
    """Reports that the loop turns, again and again, where the service manager asks for it."""
    interval_s = notifier.watchdog_s
    if interval_s is None:
        return

    def tell() -> None:
        notifier.alive()
        call_later(interval_s, tell)

    tell()
