"""`kill -9` of client processes at work: their sessions end, and every promise holds."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import posthouse
from tests.conftest import Dose
from tests.process import shop, worker
from tests.process.shop import LEFT, MOVED, ORDERS, RIGHT
from tests.process.warm import WarmServer
from tests.process.worker import Event
from tests.support.process.gone_clients import wait_until_gone

# In this order they are killed: those that feed the others last.
KINDS = ("move", "consume", "send", "pairs", "crowd")
OPENINGS = {"sending": "sent", "committing": "committed", "moving": "moved", "seen": "ended"}
LINES = 6  # that each has told before any of them is killed
KILL_WITHIN_S = 0.1
WORKER = "tests.process.worker"


class Story:
    """What one client process told, until it was killed."""

    def __init__(self, path: Path) -> None:
        self.events = worker.read(path)

    def of(self, what: str) -> Iterator[Event]:
        return (event for event in self.events if event.what == what)

    def bodies(self, what: str) -> set[str]:
        return {body for event in self.of(what) for body in event.bodies}

    def open(self, begun: str) -> list[set[str]]:
        """What was begun, and not told to be done."""
        done = self.bodies(OPENINGS[begun])
        return [set(e.bodies) for e in self.of(begun) if not done.issuperset(e.bodies)]

    @property
    def in_flight(self) -> bool:
        return any(self.open(begun) for begun in OPENINGS)


def kill_round(
    server: WarmServer, folder: Path, drawn: random.Random, number: int
) -> dict[str, Story]:
    """One process of each kind, killed one after the other."""
    paths = {kind: folder / f"{kind}-{number}" for kind in KINDS}
    pids = {}
    for kind, path in paths.items():
        seed = str(drawn.getrandbits(32))
        arguments = (kind, str(server.home), str(path), path.name, seed)
        pids[kind] = server.loaded.fork(WORKER, *arguments)
    for path in paths.values():
        worker.wait_for_line(path, LINES)
    for pid in pids.values():
        time.sleep(drawn.uniform(0, KILL_WITHIN_S))
        server.loaded.kill(pid)
    return {path.name: Story(path) for path in paths.values()}


def check_orders(stories: list[Story], left: list[str]) -> Counter[str]:
    """Nothing that was acknowledged is lost, and what was ended does not come back."""
    sent = set().union(*(story.bodies("sent") for story in stories))
    begun = set().union(*(story.bodies("sending") for story in stories))
    assert len(left) == len(set(left)), "something is there twice"
    seen: dict[str, list[tuple[int, Story]]] = {}
    for story in stories:
        for event in story.of("seen"):
            seen.setdefault(event.bodies[0], []).append((event.at_ns, story))
    found = seen.keys() | set(left)
    assert sent <= found, f"lost: {sorted(sent - found)[:3]}"
    assert found <= begun, f"nobody sent these: {sorted(found - begun)[:3]}"
    ended = {id(story): story.bodies("ended") for story in stories}
    for body, readers in seen.items():
        *former, last = [story for _, story in sorted(readers, key=lambda one: one[0])]
        assert len({id(story) for story in (*former, last)}) == len(readers), "twice in one session"
        assert not any(body in ended[id(story)] for story in former), f"{body} came back"
        assert not (body in ended[id(last)] and body in left), f"{body} came back"
    return Counter(
        {
            "acknowledged": len(sent),
            "unknown sends done": len((begun - sent) & found),
            "unknown sends not done": len(begun - found),
            "seen twice": sum(len(readers) > 1 for readers in seen.values()),
        }
    )


def check_transactions(
    stories: list[Story], left: list[str], right: list[str], moved: list[str]
) -> Counter[str]:
    """All or nothing in both queues, and each message moved once."""
    committed = set().union(*(story.bodies("committed") for story in stories))
    undecided = [bodies for story in stories for bodies in story.open("committing")]
    done = [bodies for bodies in undecided if bodies & set(right)]
    assert all(bodies <= set(right) for bodies in done), "half a transaction"
    assert len(right) == len(set(right)), "something was committed twice"
    assert set(right) == committed.union(*done)
    assert sorted(left + moved) == sorted(right)
    told = set().union(*(story.bodies("moved") for story in stories))
    assert told <= set(moved), "a committed receive was taken back"
    return Counter(
        {
            "committed": len(committed),
            "unknown commits done": len(done),
            "unknown commits not done": len(undecided) - len(done),
            "moved": len(moved),
        }
    )


def drained(qm: posthouse.QueueManagerClient, name: str) -> list[str]:
    return [body.decode() for body in shop.drain(qm, name)]


@pytest.mark.timeout(7200)
def test_what_a_killed_client_had_in_hand_is_back_and_what_it_was_told_stands(
    tmp_path: Path, dose: Dose
) -> None:
    drawn, kills = random.Random(shop.seed()), dose(20, 500)
    stories: dict[str, Story] = {}
    figures: Counter[str] = Counter()
    with WarmServer(tmp_path, WORKER) as server:
        server.start()
        shop.open_shop(server.home)
        with posthouse.connect(server.home) as qm:
            while figures["kills"] < kills:
                told = kill_round(server, tmp_path, drawn, len(stories))
                wait_until_gone(qm)
                for name, story in told.items():
                    figures["kills" if story.in_flight else "idle kills"] += 1
                    figures[name.partition("-")[0] + " in flight"] += story.in_flight
                assert figures["idle kills"] <= kills, "the clients do not work"
                stories |= told
            told_all = list(stories.values())
            figures += check_orders(told_all, drained(qm, ORDERS))
            figures += check_transactions(
                told_all, drained(qm, LEFT), drained(qm, RIGHT), drained(qm, MOVED)
            )
            shop.check_balance(qm, locked=0)
        server.stop()
    print(dict(figures))


def test_another_client_asks_again_under_the_name_of_a_killed_one(
    tmp_path: Path, dose: Dose
) -> None:
    """It follows the same script: what was done is answered as it was, the rest is done now."""
    drawn = random.Random(shop.seed())
    figures: Counter[str] = Counter()
    wanted: set[bytes] = set()
    with WarmServer(tmp_path, WORKER) as server:
        server.start()
        shop.open_shop(server.home)
        for number in count():
            if figures["kills"] == dose(6, 100):
                break
            who = f"script-{number}"
            first, second = tmp_path / who, tmp_path / f"{who}-again"
            pid = server.loaded.fork(WORKER, "script", str(server.home), str(first), who, "0")
            worker.wait_for_line(first, drawn.randint(1, worker.SCRIPT_LENGTH))
            server.loaded.kill(pid)
            told = Story(first).events
            with posthouse.connect(server.home) as qm:
                found = qm.queue(ORDERS).count() + qm.queue(RIGHT).count()
            untold = (found - len(wanted)) / worker.BATCH - len(told) // 2
            assert untold in (0, 1), "an answered request is not done, or one is half done"
            worker.follow_script(str(server.home), worker.Teller(str(second)), who)
            again = Story(second).events
            assert [event[:2] for event in again[: len(told)]] == [event[:2] for event in told]
            wanted.update(shop.Names(who).take(worker.SCRIPT_LENGTH * worker.BATCH))
            figures["kills" if len(told) % 2 else "idle kills"] += 1
            assert figures["idle kills"] < 200, "the clients do not work"
            figures += Counter({"asked again": (len(told) + 1) // 2, "done untold": int(untold)})
        with posthouse.connect(server.home) as qm:
            wait_until_gone(qm)
            right = shop.drain(qm, RIGHT)
            assert shop.drain(qm, LEFT) == right
            shop.each_once([*shop.drain(qm, ORDERS), *right], wanted, set())
            shop.check_balance(qm, locked=0)
        server.stop()
    print(dict(figures))
