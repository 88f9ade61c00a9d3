"""Ten thousand receives that wait cost nothing, on either side, and all of them are served."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import posthouse
from tests.conftest import Dose
from tests.process import shop
from tests.process.serving import Serving
from tests.process.waiter import QUEUE, memory_mib, processor_s
from tests.process.warm import WarmServer
from tests.support.process.idle_share import IDLE_MAX, QUIET_S, Waiting, idle_shares

RECEIVES, CANCELLED = 10_000, 1_000
KILLS, KILL_WITHIN_S = 3, 0.5


def test_receives_that_wait_cost_nothing_and_all_are_served(tmp_path: Path, dose: Dose) -> None:
    with Serving(tmp_path) as serving:
        serving.ready()
        with posthouse.connect(serving.home) as qm, Waiting(serving.home) as waiting:
            pids = waiting.pid, serving.process.pid
            queue = qm.create_queue(QUEUE)
            assert waiting.tell("wait", 0) == 0
            before = [memory_mib(pid) for pid in pids]
            assert waiting.tell("wait", RECEIVES) == RECEIVES
            after = [memory_mib(pid) for pid in pids]
            time.sleep(QUIET_S)
            shares = idle_shares(dose(3, 30), *pids)
            for who, share, was, now in zip(
                ("client", "server"), shares, before, after, strict=True
            ):
                print(f"{who}: idle {share:.3%} of a processor, memory {was:.0f} to {now:.0f} MiB")
            assert max(shares) < IDLE_MAX

            assert waiting.tell("cancel", CANCELLED) == RECEIVES - CANCELLED
            assert waiting.tell("wait", CANCELLED) == RECEIVES
            bodies = [f"order {number}" for number in range(RECEIVES)]
            queue.send_many(bodies, recoverable=True)
            assert sorted(waiting.tell("served", RECEIVES)) == sorted(bodies)
            assert queue.count() == 0
            (books,) = [book for book in qm.books().books if book.accepted]
            assert (books.accepted, books.received, books.locked) == (RECEIVES, RECEIVES, 0)
            assert qm.books().balanced
            assert all(processor_s(pid) > 0.1 for pid in pids)  # it is measured at all


def test_receives_wait_on_through_kills_and_are_each_served_once(
    tmp_path: Path, dose: Dose
) -> None:
    """One kill while all of them wait, the others while they are served."""
    drawn = random.Random(shop.seed())
    with WarmServer(tmp_path) as server:
        server.start()
        with posthouse.connect(server.home) as qm, Waiting(server.home) as waiting:
            queue = qm.create_queue(QUEUE)
            for day in range(dose(1, 50)):
                assert waiting.tell("wait", RECEIVES) == RECEIVES
                server.kill()
                server.start()
                assert waiting.tell("wait", 0) == RECEIVES
                bodies = [f"order {day}/{number}" for number in range(RECEIVES)]
                sending = threading.Thread(
                    target=queue.send_many, args=(bodies,), kwargs={"recoverable": True}
                )
                sending.start()
                for _ in range(KILLS):
                    time.sleep(drawn.uniform(0, KILL_WITHIN_S))
                    server.kill()
                    server.start()
                assert sorted(waiting.tell("served", RECEIVES)) == sorted(bodies)
                sending.join()
                assert queue.count() == 0
            shop.check_balance(qm, locked=0)
        server.stop()
