"""A network that is cut under a queue server: flags are obeyed, and nothing runs after its end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import count
from typing import Any, NamedTuple

import pytest

import posthouse
from posthouse import qms
from posthouse.model.bindery import NWOT_JOB_SERVER
from posthouse.qms.queue_server import JobGone, Pulse, QueueServer, Served, Task
from tests.process.offices import wait_until
from tests.process.spark_office import SparkOffice

PATIENCE_S = 30.0
_NUMBERS = count(1)


class Relay:
    """A network between a queue server and a queue manager."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._answers = True
        self._whole = threading.Event()
        self._whole.set()
        self._flows = threading.Event()
        self._flows.set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            with suppress(OSError):
                near, _ = self._listener.accept()
                self._whole.wait()  # a cut network takes nobody
                far = socket.create_connection(("127.0.0.1", self._port))
                self._pairs.append((near, far))
                for ends in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._pump, args=ends, daemon=True).start()
            if self._listener.fileno() < 0:
                return

    def _pump(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._flows.wait()
                if self._whole.is_set() and (self._answers or not answers):
                    target.sendall(data)
        if self._whole.is_set():
            _close(target)

    def cut(self) -> None:
        """Nothing comes through. The queue manager has noticed; the server hears nothing."""
        self._whole.clear()
        for _, far in self._pairs:
            _close(far)

    def stall(self) -> None:
        """Nothing comes through for a while; connections stay."""
        self._flows.clear()

    def flow(self) -> None:
        """What was held up comes through."""
        self._flows.set()

    def lose_answers(self) -> None:
        """The queue manager is told everything, and the server nothing."""
        self._answers = False

    def heal(self) -> None:
        """Old connections are refused now, new ones work."""
        pairs, self._pairs = self._pairs, []
        self._answers = True
        self._whole.set()
        for near, far in pairs:
            _close(near)
            _close(far)

    def close(self) -> None:
        self._listener.close()
        self.heal()


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


class Hand:
    """Does jobs as the test says."""

    types: Sequence[int] = ()

    def __init__(self, work: Callable[[Task], str]) -> None:
        self._work = work
        self.runs: list[bytes] = []

    def __call__(self, task: Task) -> str:
        self.runs.append(b"".join(task.job.chunks()))
        return self._work(task)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkOffice]:
    with ExitStack() as running:
        yield SparkOffice(tmp_path_factory.mktemp("offices") / "alpha", running)


class Bench(NamedTuple):
    """A job queue and its server's name."""

    office: SparkOffice
    queue: str

    def submit(self, data: bytes, *, restart: bool = False) -> int:
        with qms.on(self.office.qm) as server:
            return server.queue(self.queue).submit(data, restart=restart).number

    def ends(self) -> list[tuple[int, str, int]]:
        jobs = self.office.qm.call("GET", f"/job-history?queue={self.queue}")["jobs"]
        return [(one["number"], one["outcome"], one["attempts"]) for one in jobs]

    def serving(self, relay: Relay, hand: Hand) -> Callable[[], Served]:
        """A queue server behind the relay, for one job; what is returned waits for its end."""
        ended: list[Served] = []
        options: dict[str, Any] = {"jobs": 1, "poll_s": 0.05, "retry_s": 0}
        access: dict[str, Any] = {"url": relay.url, "token_file": self.office.token_file}

        def run() -> None:
            with posthouse.connect(**access, reconnect=PATIENCE_S) as qm:
                server = QueueServer(qm, self.queue, NWOT_JOB_SERVER, [self.queue], hand, **options)
                ended.append(server.run())

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def end() -> Served:
            thread.join(PATIENCE_S)
            return ended[0]

        return end


@pytest.fixture
def bench(office: SparkOffice) -> Bench:
    name = f"WORK{next(_NUMBERS)}"
    with qms.on(office.qm) as server:
        queue = server.create_queue(name, users=["SUPERVISOR"])
        server.create_server(name, queues=[queue])
    return Bench(office, name)


@pytest.fixture
def relay(office: SparkOffice) -> Iterator[Relay]:
    made = Relay(int(office.url.rpartition(":")[2]))
    yield made
    made.close()


@pytest.mark.spec("NCP lost connections/2")
@pytest.mark.parametrize("restart", [True, False], ids=["restart", "no restart"])
def test_a_cut_network_is_the_loss_of_the_server(bench: Bench, relay: Relay, restart: bool) -> None:
    """The server gives its job up by itself; with the flag it gets the same job once more."""
    given_up, cuts = list[str](), iter([True, False])

    def work(task: Task) -> str:
        if not next(cuts):
            return "done"
        with Pulse(task, beat_s=0.05, silent_s=0.5) as pulse:
            relay.cut()
            try:
                while True:
                    pulse.check()
            except JobGone as gone:
                given_up.append(str(gone))
                raise

    number = bench.submit(b"first", restart=restart)
    hand = Hand(work)
    end = bench.serving(relay, hand)
    wait_until(lambda: bool(given_up), lambda: str(hand.runs), PATIENCE_S)
    assert "not answered" in given_up[0]
    with qms.on(bench.office.qm) as server:
        queue = server.queue(bench.queue)
        if restart:
            entry = queue.job(number).entry()
            assert (entry.servicing_server_id_number, bench.ends()) == (0, [])
        else:
            assert (queue.numbers(), bench.ends()) == ([], [(number, "failed", 1)])
            bench.submit(b"second")
    relay.heal()
    assert end() == (1, 0)
    assert hand.runs == [b"first", b"first" if restart else b"second"]
    if restart:
        assert bench.ends() == [(number, "finished", 2)]


def test_a_job_whose_finish_was_not_answered_is_not_run_again(bench: Bench, relay: Relay) -> None:
    """The queue manager has it; the server hears of that only by the loss of its connection."""
    first, second = bench.submit(b"first", restart=True), bench.submit(b"second", restart=True)

    def work(task: Task) -> str:
        if task.number == first:
            relay.lose_answers()
        return "done"

    hand = Hand(work)
    end = bench.serving(relay, hand)
    wait_until(lambda: len(bench.ends()) == 1, lambda: str(hand.runs), PATIENCE_S)
    relay.heal()
    end()
    assert hand.runs == [b"first", b"second"]
    assert bench.ends() == [(first, "finished", 1), (second, "finished", 1)]


def test_a_job_that_was_given_up_while_nothing_came_through_is_done_in_the_end(
    bench: Bench, relay: Relay
) -> None:
    """The connection is the same as before, and so it is still this server's job."""
    stalls = iter([True, False])

    def work(task: Task) -> str:
        if not next(stalls):
            return "done"
        with Pulse(task, beat_s=0.05, silent_s=0.5) as pulse:
            relay.stall()
            try:
                while True:
                    pulse.check()
            finally:
                relay.flow()

    number = bench.submit(b"first", restart=True)
    hand = Hand(work)
    assert bench.serving(relay, hand)() == (1, 0)
    assert hand.runs == [b"first", b"first"]
    assert bench.ends() == [(number, "finished", 2)]
