"""Ten thousand remote receives that wait on two hundred connections cost next to nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import posthouse
from tests.conftest import Dose
from tests.process.offices import wait_until
from tests.process.rpc_house import House
from tests.process.waiter import memory_mib, processor_s
from tests.support.process.idle_share import IDLE_MAX, QUIET_S, Waiting, idle_shares

CONNECTIONS, EACH = 200, 50
WAITS = CONNECTIONS * EACH
CANCELLED, DROPPED = 5, 20  # of each connection; connections
WAIT_BYTES_MAX = 4096


class RemoteWaiting(Waiting):
    """The client process."""

    def __init__(self, port: int, queue: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.process.remote_waiter", str(port), queue],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self.pid = self.process.pid


def wait_for_readers(queue: posthouse.Queue, count: int) -> None:
    """Until the server has this many reads that wait."""
    wait_until(
        lambda: queue.properties().waiting_readers == count,
        lambda: queue.properties().waiting_readers,
    )


def test_remote_receives_that_wait_cost_nothing_and_each_is_served_once(
    tmp_path: Path, dose: Dose
) -> None:
    with ExitStack() as running:
        house = House(tmp_path, "ALPHA", running, minimum="none")
        qm, server = house.qm, house.server.pid
        queue = qm.create_queue(r".\private$\waited")
        name = r"DIRECT=OS:ALPHA\private$\waited"
        waiting = running.enter_context(RemoteWaiting(house.rpc_port, name))
        pids = waiting.pid, server

        empty = memory_mib(server)
        assert waiting.tell("connect", CONNECTIONS) == CONNECTIONS
        before = memory_mib(server)
        assert waiting.tell("wait", EACH) == WAITS
        wait_for_readers(queue, WAITS)
        after = memory_mib(server)
        per_wait = (after - before) * 2**20 / WAITS
        print(
            f"memory of the server: {empty:.1f} MiB, with {CONNECTIONS} connections {before:.1f}, "
            f"with {WAITS} waits {after:.1f}: {per_wait:.0f} bytes a wait"
        )
        assert per_wait < WAIT_BYTES_MAX

        time.sleep(QUIET_S)
        shares = idle_shares(dose(2, 30), *pids)
        print(f"idle: client {shares[0]:.3%} and server {shares[1]:.3%} of a processor")
        assert max(shares) < IDLE_MAX

        assert waiting.tell("cancel", CANCELLED) == WAITS - CANCELLED * CONNECTIONS
        wait_for_readers(queue, WAITS - CANCELLED * CONNECTIONS)
        left = (CONNECTIONS - DROPPED) * (EACH - CANCELLED)
        assert waiting.tell("drop", DROPPED) == left
        wait_for_readers(queue, left)
        assert waiting.tell("connect", DROPPED) == CONNECTIONS
        assert waiting.tell("wait", EACH) == WAITS
        wait_for_readers(queue, WAITS)

        bodies = [f"order {number}" for number in range(WAITS)]
        begun, busy = time.monotonic(), processor_s(server)
        queue.send_many([body.encode() for body in bodies], recoverable=True)
        assert sorted(waiting.tell("bodies", WAITS)) == sorted(bodies)
        print(
            f"{WAITS} were served in {time.monotonic() - begun:.2f} s, "
            f"{processor_s(server) - busy:.2f} s of the server"
        )
        assert queue.count() == 0
        (books,) = [book for book in qm.books().books if book.accepted]
        assert (books.accepted, books.received, books.locked) == (WAITS, WAITS, 0)
        assert qm.books().balanced
