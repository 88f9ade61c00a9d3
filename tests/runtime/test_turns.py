"""Turns of the loop: what they take is measured, and what is too much waits for the next one."""

from __future__ import annotations

import asyncio
import itertools
import time
from functools import partial
from threading import Thread
from typing import NamedTuple

import pytest

from posthouse.runtime import loop as loop_module
from posthouse.runtime.loop_turns import SLOW_S, SlowTurn, TurnMeter, TurnTimes, name_of
from tests.protocols.binary.socket_rig import Server, serving
from tests.support.loop_server import turn, until

TO_BETA = r"DIRECT=TCP:127.0.0.1:{port}\private$\orders"


def work(seconds: float) -> None:
    """Takes processor time."""
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        pass


def test_a_turn_is_measured_in_processor_time() -> None:
    times = TurnTimes()
    meter = TurnMeter(times)
    meter.begin(time.perf_counter())
    other = Thread(target=work, args=(1.2 * SLOW_S,))  # has the processor meanwhile
    other.start()
    other.join()
    meter.end(time.perf_counter(), goes_on=False)
    assert (times.slow_count, times.slow) == (0, None)
    assert sum(times.counts) == 1
    meter.begin(time.perf_counter())
    work(1.2 * SLOW_S)
    meter.calls += 1
    meter.did(partial(work, 1), 0.01)
    meter.did("answers", 0.02)
    meter.end(time.perf_counter(), goes_on=False)
    assert times.slow_count == 1
    assert times.longest_s > SLOW_S
    assert times.slow is not None
    assert times.slow[1:] == (1, "answers", 0.02)


def test_of_turns_that_overlap_each_second_counts_once() -> None:
    times = TurnTimes()
    meter = TurnMeter(times)
    meter.begin(time.perf_counter())
    work(0.01)
    meter.begin(time.perf_counter())  # its answers began the next one
    meter.end(time.perf_counter(), goes_on=True)
    meter.end(time.perf_counter(), goes_on=False)
    assert 0.01 < times.total_s < times.longest_s + 0.005


def test_what_was_slow_is_named_as_it_stands_in_the_program() -> None:
    assert name_of("answers") == "answers"
    assert name_of(partial(TurnTimes.note, 1)) == "runtime.loop_turns:TurnTimes.note"
    assert name_of(work).endswith("test_turns:work")
    assert name_of(object()).endswith("object")


class Figures(NamedTuple):
    slow: int
    turns: int


def figures(server: Server) -> Figures:
    times = server.desk.turn_times
    return Figures(times.slow_count, sum(times.counts))


def test_a_slow_call_is_reported_by_its_name() -> None:
    async def run() -> None:
        async with serving() as beta:
            reported: list[SlowTurn] = []
            beta.desk.turn_times.restart(reported.append)
            await beta.desk.run(lambda manager: work(1.2 * SLOW_S))
            await until(lambda: bool(reported))
            (turn,) = reported
            assert "test_a_slow_call_is_reported_by_its_name" in turn.longest
            assert figures(beta).slow == 1 <= figures(beta).turns

    asyncio.run(run())


def test_slow_timers_are_reported_as_what_was_due() -> None:
    async def run() -> None:
        async with serving() as beta:
            reported: list[SlowTurn] = []
            manager = beta.desk.manager
            manager._timers = (*manager._timers, lambda: work(1.2 * SLOW_S))
            beta.desk.turn_times.restart(reported.append)
            manager.ledger.deadlines.note(0)
            await beta.desk.run(lambda manager: None)
            await until(lambda: bool(reported))
            assert reported[0].longest == "what was due"

    asyncio.run(run())


def test_what_waits_for_the_next_turn_runs_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CROWDED_S", 0.0)

    async def run() -> None:
        async with serving() as beta:
            desk, turns = beta.desk, list[int]()

            def look() -> None:
                desk.decide(lambda manager: turns.append(desk.turns), lambda answer: None)

            def fail() -> None:
                raise ValueError("of one door")

            reported: list[object] = []
            asyncio.get_running_loop().set_exception_handler(
                lambda loop, context: reported.append(context["exception"])
            )
            assert not desk.is_crowded()
            for work in (look, look, fail, look):
                desk.later(work)
            assert desk.is_crowded()
            await until(lambda: len(turns) == 3)
            assert sorted(set(turns)) == turns  # each in a turn of its own
            assert [type(error) for error in reported] == [ValueError]
            assert not desk.is_crowded()

    asyncio.run(run())


def test_who_is_known_does_not_wait_for_a_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CROWDED_S", 0.0)

    async def run() -> None:
        async with serving() as beta:
            desk, done = beta.desk, list[str]()

            def work(name: str) -> None:
                desk.decide(lambda manager: done.append(name), lambda answer: None)

            for number in range(50):
                desk.later(partial(work, f"stranger {number}"))
            assert desk.is_crowded()
            assert not desk.is_crowded(known=True)
            for name in ("ada", "bob"):
                desk.later(partial(work, name), known=True)
            await until(lambda: len(done) == 52)
            assert done[:4] == ["ada", "stranger 0", "bob", "stranger 1"]

    asyncio.run(run())


@pytest.mark.parametrize("transactional", [False, True])
def test_bytes_of_peers_wait_for_the_next_turn_and_come_in_order(
    monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    async def run() -> None:
        async with serving() as beta, serving("ALPHA") as alpha, serving("GAMMA") as gamma:
            waited: list[object] = []
            later, crowded = beta.desk.later, itertools.cycle([True, True, False])
            monkeypatch.setattr(beta.desk, "later", lambda work: (waited.append(0), later(work)))
            monkeypatch.setattr(beta.desk, "is_crowded", lambda: next(crowded))
            beta.node.turns = beta.desk
            await beta.create("orders", transactional=transactional)
            to, sent = TO_BETA.format(port=beta.port), {}
            for sender, name in ((alpha, b"a%d"), (gamma, b"g%d")):
                sent[name[:1]] = bodies = [name % number for number in range(400)]
                send = sender.send_in_transaction if transactional else sender.send
                for at in range(0, 400, 40):
                    await send(to, *bodies[at : at + 40])
            await until(lambda: beta.count("orders") == 800)
            found = await beta.bodies("orders")
            for name, bodies in sent.items():
                assert [body for body in found if body.startswith(name)] == bodies
            assert waited

    asyncio.run(run())


def test_very_many_answers_leave_over_several_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CROWDED_S", "ENOUGH_S", "LEAST_S"):
        monkeypatch.setattr(loop_module, name, 0.0)  # one answer a round

    async def run() -> None:
        async with serving() as beta:
            answered: list[int] = []
            others: list[int] = []
            for number in range(20):
                beta.desk.decide(
                    lambda manager: None, lambda answer, number=number: answered.append(number)
                )
            while len(answered) < 20:
                await turn()
                others.append(len(answered))
            assert answered == list(range(20))
            assert len(set(others)) >= 5  # others have had their rounds in between

    asyncio.run(run())


def test_a_turn_that_has_lasted_long_lets_answers_out_when_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not in the middle: what they lead to would make it longer still."""
    for name in ("CROWDED_S", "ENOUGH_S", "LEAST_S"):
        monkeypatch.setattr(loop_module, name, 0.0)

    async def run() -> None:
        async with serving() as beta:
            desk, turns = beta.desk, list[int]()

            def go_on(answer: object) -> None:
                turns.append(desk.turns)
                desk.decide(lambda manager: None, lambda answer: None)

            for _ in range(10):
                desk.decide(lambda manager: None, go_on)
            await until(lambda: len(turns) == 10)
            assert len(set(turns)) == 10

    asyncio.run(run())


def test_a_stop_lets_out_every_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CROWDED_S", "ENOUGH_S", "LEAST_S"):
        monkeypatch.setattr(loop_module, name, 0.0)

    async def run() -> None:
        answered: list[int] = []
        async with serving() as beta:
            for number in range(20):
                beta.desk.decide(
                    lambda manager: None, lambda answer, number=number: answered.append(number)
                )
        assert answered == list(range(20))

    asyncio.run(run())
