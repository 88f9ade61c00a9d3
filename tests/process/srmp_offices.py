"""Servers that send to each other over HTTP, with timers that tests can wait for."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.process.bad_line import BadLine
from tests.process.offices import Office, free_port

HOST = "127.0.0.1"
SETTINGS = """
[http]
port = {port}
[srmp]
retransmission_ms = 300
response_ms = 1500
retransmission_max_ms = 1000
receipt_ms = 100
receipt_max_ms = 1000
resend_short_ms = 3000
resend_medium_ms = 4000
resend_long_ms = 6000
resend_final_ms = 8000
cleanup_ms = 5000
"""


class HttpOffice(Office):
    """A server whose queues others know by URL."""

    def __init__(
        self, folder: Path, name: str, running: ExitStack, *, http_port: int = 0, more: str = ""
    ) -> None:
        self.http_port = http_port or free_port()
        super().__init__(folder, name, running, SETTINGS.format(port=self.http_port) + more)

    @property
    def base(self) -> str:
        return f"http://{HOST}:{self.http_port}"

    def name_of(self, queue: str) -> str:
        return f"DIRECT={self.base}/msmq/private$/{queue}"


def redirect(**rules: dict[str, str]) -> str:
    """The settings that send what is for one place to another."""
    lines = (
        f"{name} = {{ {', '.join(f'{old!r} = {new!r}' for old, new in pairs.items())} }}"
        for name, pairs in rules.items()
    )
    return "[srmp.redirect]\n" + "\n".join(lines) + "\n"


def joined_by_lines(
    folder: Path, running: ExitStack, seed: int, *, bad: bool = True
) -> tuple[list[HttpOffice], list[BadLine]]:
    """Two servers, and a line in each direction: whatever one sends goes through it."""
    ports = free_port(), free_port()
    lines = [
        running.enter_context(BadLine(port, seed + number, bad=bad))
        for number, port in enumerate(reversed(ports))
    ]
    offices = []
    for name, mine, other, line in zip(
        ("ALPHA", "BRAVO"), ports, reversed(ports), lines, strict=True
    ):
        rules = {f"http://{HOST}:{other}/*": f"http://{HOST}:{line.port}"}
        office = HttpOffice(
            folder / name, name, running, http_port=mine, more=redirect(outbound=rules)
        )
        offices.append(office)
    return offices, lines
