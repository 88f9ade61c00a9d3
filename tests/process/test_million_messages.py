"""A queue of a million messages: its pages, a search that is stopped, and what others notice of it.

`tests/protocols/admin/test_api_messages.py` has the same rules with few messages. Figures are
printed (`-s`); the page of benchmarks has those of one run.
"""

from __future__ import annotations

import http.client
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

import posthouse
from posthouse.protocols.handlers.scanning import STEP_MESSAGES
from tests.process.serving import Serving
from tests.process.waiter import processor_s

MESSAGES = 1_000_000
BATCH = 10_000
PAGES = 9  # of each kind that are asked for
ROUNDS = 20
ROUND_S = 3.0
AT_ONCE = 100  # messages of a client that works in batches
STILL_S = 2.0
NEEDLE = "the one that is looked for"
QUEUE = r".\private$\orders"
PATH = f"/queues/{quote(QUEUE)}/messages"


def bodies(start: int) -> list[str]:
    """A batch of small messages; the last message of the queue is the one that a search finds."""
    batch = [f"order {number} of customer {number % 997}" for number in range(start, start + BATCH)]
    if start + BATCH == MESSAGES:
        batch[-1] = NEEDLE
    return batch


def path(**asked: object) -> str:
    return f"{PATH}?{urlencode(asked)}"


def searching(qm: posthouse.QueueManagerClient, after: str = "") -> Iterator[dict[str, Any]]:
    """The answers of one search, until its end."""
    asked = {"where": f'body_text ~ "{NEEDLE}"', "limit": 50}
    while True:
        answer = qm.call("GET", path(**asked, **({"after": after} if after else {})))
        yield answer
        if not (after := answer.get("next") or ""):
            return


def bytes_read(pid: int) -> int:
    """What a process has read from files so far: it counts the messages that a search fetches."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("rchar:")))


def print_pages(qm: posthouse.QueueManagerClient, pid: int, name: str, after: str) -> None:
    processor, wall = list[float](), list[float]()
    asked = {"limit": 50, **({"after": after} if after else {})}
    for _ in range(PAGES):
        busy, begun = processor_s(pid), time.perf_counter()
        answer = qm.call("GET", path(**asked))
        wall.append(1e3 * (time.perf_counter() - begun))
        processor.append(1e3 * (processor_s(pid) - busy))
        assert len(answer["messages"]) == 50
    print(
        f"{name}: processor time of the server {min(processor):.1f} ms at best, "
        f"{statistics.median(processor):.1f} median, {max(processor):.1f} worst; "
        f"wall time {min(wall):.1f}, {statistics.median(wall):.1f}, {max(wall):.1f} ms"
    )


def one_at_a_time(queue: posthouse.Queue) -> int:
    queue.send(b"x")
    assert queue.receive(timeout=10).body == b"x"
    return 1


def in_batches(queue: posthouse.Queue) -> int:
    queue.send_many([b"x"] * AT_ONCE)
    for _, message in zip(range(AT_ONCE), queue.consume(timeout=10), strict=False):
        assert message.body == b"x"
    return AT_ONCE


def rate(work: Callable[[posthouse.Queue], int], queue: posthouse.Queue) -> float:
    """Messages a second that a client sends and receives."""
    count, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < ROUND_S:
        count += work(queue)
    return count / passed


@contextmanager
def a_search_beside(home: Path) -> Iterator[list[int]]:
    """Somebody searches, again and again; how many messages each answer has looked at."""
    scanned, enough = list[int](), threading.Event()

    def search() -> None:
        with posthouse.connect(home=home) as qm:
            while not enough.is_set():
                for answer in searching(qm):
                    scanned.append(answer["scanned"])
                    if enough.is_set():
                        return

    thread = threading.Thread(target=search)
    thread.start()
    try:
        yield scanned
    finally:
        enough.set()
        thread.join()


def print_rates(home: Path, work: Callable[[posthouse.Queue], int], queue: posthouse.Queue) -> None:
    alone, beside, scanned = list[float](), list[float](), 0
    for number in range(2 * ROUNDS):
        if number % 4 in {0, 3}:  # each is the first of its round as often as the other
            alone.append(rate(work, queue))
            continue
        with a_search_beside(home) as answers:
            beside.append(rate(work, queue))
        scanned += sum(answers)
    assert scanned  # it gives way, and goes on
    shares = sorted(one / other for one, other in zip(beside, alone, strict=True))
    print(
        f"another client, {work.__name__.replace('_', ' ')}: {statistics.median(alone):,.0f} "
        f"messages a second alone ({min(alone):,.0f} to {max(alone):,.0f}), "
        f"{statistics.median(beside):,.0f} beside a search, "
        f"{statistics.median(shares):.2f} of its rate ({shares[0]:.2f} to {shares[-1]:.2f}); "
        f"the search looked at {scanned / ROUNDS / ROUND_S:,.0f} a second"
    )


def leave_half_way(address: str, token: str, after: str, pid: int) -> None:
    """A client goes while the server searches for it."""
    connection = http.client.HTTPConnection(address, timeout=60)
    before = bytes_read(pid)
    asked = path(where=f'body_text ~ "{NEEDLE}"', after=after)
    connection.request("GET", f"/api/v1{asked}", headers={"Authorization": f"Bearer {token}"})
    while bytes_read(pid) < before + 100_000:
        time.sleep(0.001)
    connection.close()


def messages_until_still(pid: int, bytes_each: float) -> float:
    """How many messages a search fetches from now until it stands still."""
    begun, last = bytes_read(pid), 0
    while (now := bytes_read(pid)) != last:
        last = now
        time.sleep(STILL_S)
    return (now - begun) / bytes_each


@pytest.mark.soak  # a search is answered once a second: it takes many messages to see it go on
@pytest.mark.timeout(1800)
def test_pages_come_and_a_search_goes_on_can_be_stopped_and_gives_way(tmp_path: Path) -> None:
    with Serving(tmp_path, "--name", "ALPHA") as server, ExitStack() as stack:
        address, pid = server.ready()["endpoints"]["admin"], server.process.pid
        qm = stack.enter_context(posthouse.connect(home=server.home))
        queue, another = qm.create_queue(QUEUE), qm.create_queue(r".\private$\another")
        for start in range(0, MESSAGES, BATCH):
            queue.send_many(bodies(start), recoverable=True)
        assert queue.count() == MESSAGES
        print(f"\nload of the machine: {Path('/proc/loadavg').read_text().strip()}")

        read, busy, begun = bytes_read(pid), processor_s(pid), time.perf_counter()
        answers = list(searching(qm))
        whole = bytes_read(pid) - read
        print(
            f"a search for one message: {len(answers)} answers, {processor_s(pid) - busy:.1f} s of "
            f"processor time, {time.perf_counter() - begun:.1f} s"
        )
        assert len(answers) > 4
        assert all(answer["scanned"] for answer in answers)  # each is further than the one before
        assert sum(answer["scanned"] for answer in answers) == MESSAGES
        assert [len(answer["messages"]) for answer in answers] == [0] * (len(answers) - 1) + [1]
        assert answers[-1]["messages"][0]["body_text"] == NEEDLE

        half = answers[len(answers) // 2]["next"]
        print_pages(qm, pid, "first page", "")
        print_pages(qm, pid, "page in the middle", half)

        token = qm.call("POST", "/tokens", {"role": "read"})["token"]
        leave_half_way(address, token, half, pid)
        more = messages_until_still(pid, whole / MESSAGES)
        print(f"a search that its client left looked at {more:,.0f} messages more")
        assert more < 5 * STEP_MESSAGES  # the steps under way, and not the rest of a second

        for work in (one_at_a_time, in_batches):
            print_rates(server.home, work, another)
        assert queue.count() == MESSAGES
