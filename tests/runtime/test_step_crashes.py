"""Long purges, deletions and expiry on a disk that loses its power between two steps."""

from __future__ import annotations

import pytest

from posthouse.wire.packet.message import deserialize
from tests.runtime.disk_home import PLAIN, RECEIVE, Home

DEAD_LETTERS = r".\system$;deadletter"
COUNT, STEP = 10, 3


def bodies(home: Home, name: str) -> list[bytes]:
    numbers = [number for _, number in home.queue(name).state.order.forward()]
    return [deserialize(packet).body for _, packet in home.store.read_many(numbers)]


def is_there(home: Home) -> bool:
    return any(queue.name.endswith("plain") for queue in home.manager.queues.all())


def filled() -> Home:
    home = Home(step_messages=STEP)
    home.create()
    texts = [b"%02d" % number for number in range(COUNT)]
    home.send(*texts, time_to_be_received=60, negative_journaling_requested=True)
    return home


@pytest.mark.parametrize("synced", [False, True])
@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("step", ["purge", "delete", "expiry"])
def test_every_message_ends_once_however_often_the_power_fails(
    step: str, turns: int, synced: bool
) -> None:
    home = filled()
    reader, answers = home.open(RECEIVE), list[object]()
    home.driver.begin_turn()
    if step == "purge":
        home.driver.decide(lambda m: m.queues.purge_queue(reader), answers.append)
    elif step == "delete":
        home.driver.decide(lambda m: m.queues.delete_queue(PLAIN, home.admin), answers.append)
    else:
        home.clock.advance(60_000)
    home.driver.end_turn()
    for _ in range(turns):
        home.driver.sync()
        home.driver.release()
        home.driver.begin_turn()
        home.driver.end_turn()
    if synced:
        home.driver.sync()
        home.driver.release()
    home.crash()
    home.check_books()
    ended, there = len(bodies(home, DEAD_LETTERS)), is_there(home)
    assert ended == COUNT or not answers
    assert there is (step != "delete") or (turns == 0 and not synced)
    if there:
        assert ended + home.queue().state.count == COUNT
        again = home.open(RECEIVE)
        home.run(lambda m: m.queues.purge_queue(again))
    for _ in range(5):
        home.turn()
    home.check_books()
    assert sorted(bodies(home, DEAD_LETTERS)) == [b"%02d" % number for number in range(COUNT)]
    assert not home.manager.ledger.deleted_queues
