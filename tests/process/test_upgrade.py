"""Two homes that version 0.1 wrote, cut off in mid-stream, go on under this version.

`homes_0_1.tar.xz` was written by two servers of version 0.1 (commit 211f437), over the binary
protocol and over HTTP. ALPHA sent 30 messages to each of three queues of BETA, two of them in
sequences, every third of these with a dead letter asked for:

- 1 to 10 were acknowledged; ALPHA keeps those that want to know what becomes of them;
- 11 to 20 are on the disk of BETA, and ALPHA was killed before it was told so;
- 21 to 30 were sent while BETA was down.

An application received 1 to 15 of both sequences; then BETA was killed, and ALPHA stopped.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import posthouse
from tests.process.offices import (
    TIMERS,
    Office,
    wait_for_delivery,
    wait_until,
)
from tests.process.srmp_offices import SETTINGS as HTTP_TIMERS
from tests.process.warm import WarmServer
from tests.support.process.fixed_ports import fixed_ports

# Python 3.11.2 of Debian 12 has no filters; the archive is our own.
FILTER: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
HOMES = Path(__file__).with_name("homes_0_1.tar.xz")
WRITTEN_S = 1_794_949_200
BINARY_PORT, HTTP_PORT = 19_541, 19_542  # of BETA: they are in the names of the queues
ALPHA_PORTS = 19_543, 19_544  # where receipts are sent
NAMES = {
    "ordered": rf"DIRECT=TCP:127.0.0.1:{BINARY_PORT}\private$\ordered",
    "web": f"DIRECT=HTTP://127.0.0.1:{HTTP_PORT}/msmq/private$/web",
    "plain": rf"DIRECT=TCP:127.0.0.1:{BINARY_PORT}\private$\plain",
}
SEQUENCES = ("ordered", "web")
DEAD_LETTERS = (r".\system$;deadletter", r".\system$;deadxact")


class KeptOffice(Office):
    """A server on one of the homes, at the time when it was written."""

    def __init__(self, folder: Path, name: str, running: ExitStack, binary: int, http: int) -> None:
        self.name, self.port = name, binary
        self.server = WarmServer(folder, program="tests.support.process.earlier_clock")
        self.server.arguments.insert(0, str(WRITTEN_S))
        settings = f"[ping]\nanswer = false\n{HTTP_TIMERS.format(port=http)}"
        settings += f"[binary]\nport = {binary}\n{TIMERS}"
        (self.server.home / "posthouse.toml").write_text(settings, encoding="ascii")
        running.enter_context(self.server)

    def start(self, running: ExitStack) -> None:
        self.server.start()
        self.qm = running.enter_context(posthouse.connect(self.server.home))

    def counts(self) -> dict[str, int]:
        return {name: self.qm.queue(rf".\private$\{name}").count() for name in NAMES}


@pytest.fixture
def offices(tmp_path: Path) -> Iterator[tuple[KeptOffice, KeptOffice]]:
    for name in ("alpha", "beta"):
        (tmp_path / name).mkdir()
    with tarfile.open(HOMES) as kept:
        for member in kept.getmembers():
            name, _, rest = member.name.partition("/")
            member.name = f"{name}/home/{rest}"
            kept.extract(member, tmp_path, **FILTER)
    with ExitStack() as running:
        running.enter_context(fixed_ports(BINARY_PORT, HTTP_PORT, *ALPHA_PORTS))
        alpha = KeptOffice(tmp_path / "alpha", "ALPHA", running, *ALPHA_PORTS)
        beta = KeptOffice(tmp_path / "beta", "BETA", running, BINARY_PORT, HTTP_PORT)
        for office in (alpha, beta):
            office.start(running)
        yield alpha, beta


def bodies(queue: str, first: int, last: int) -> list[bytes]:
    return [f"{queue} {number}".encode() for number in range(first, last + 1)]


def send(alpha: KeptOffice, first: int, last: int) -> None:
    """As the application of version 0.1 did."""
    with alpha.qm.transaction() as tx:
        for queue in SEQUENCES:
            for number, body in enumerate(bodies(queue, first, last), first):
                to = alpha.qm.queue(NAMES[queue])
                to.send(body, tx=tx, dead_letter=number % 3 == 0)
    alpha.qm.queue(NAMES["plain"]).send_many(bodies("plain", first, last), recoverable=True)


def test_homes_of_version_0_1_go_on_in_mid_stream(
    offices: tuple[KeptOffice, KeptOffice],
) -> None:
    """Nothing is lost, delivered twice or in another order, and nothing waits for ever."""
    alpha, beta = offices
    expected = {"ordered": 15, "web": 15, "plain": 30}
    wait_until(lambda: beta.counts() == expected, beta.counts)
    send(alpha, 31, 40)
    expected = {name: count + 10 for name, count in expected.items()}
    wait_until(lambda: beta.counts() == expected, beta.counts)
    wait_for_delivery(offices, unread=True)
    beta.restart()
    for queue in NAMES:
        first = 16 if queue in SEQUENCES else 1
        assert beta.bodies(queue) == bodies(queue, first, 40)
        received = beta.qm.queue(rf".\private$\{queue}").receive_many(100, 10)
        assert [message.body for message in received] == bodies(queue, first, 40)
    wait_for_delivery(offices)  # ALPHA has heard what became of each of them
    assert [alpha.bodies(queue) for queue in DEAD_LETTERS] == [[], []]
    assert not any(beta.counts().values())
