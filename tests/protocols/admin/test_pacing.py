"""When bulk reads rest, on times that are arguments; and a step that keeps to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.protocols.handlers.request_steps import Outside
from posthouse.protocols.http.background_work import in_the_background
from posthouse.protocols.pacing import GIVES_WAY, REST_MAX_S, WEIGHT, Busy, Pace


def test_a_read_does_not_rest_while_nobody_else_works() -> None:
    pace = Pace(0.25)
    pace.made(10.0, 10.5, Busy(0.0, 0))
    assert pace.wait_s(10.5) == 0


def test_its_own_looks_are_nobody_elses_work() -> None:
    pace = Pace(0.25)
    pace.looked()
    pace.made(10.0, 10.5, Busy(0.1, 1))
    assert pace.wait_s(10.5) == 0


def test_a_read_rests_some_times_as_long_as_others_worked() -> None:
    pace = Pace(0.01)
    pace.made(10.0, 10.5, Busy(0.02, 4))
    assert pace.wait_s(10.5) == pytest.approx(WEIGHT * 0.02)
    assert pace.wait_s(10.5 + WEIGHT * 0.02) == pytest.approx(0)


def test_work_is_shared_out_by_calls() -> None:
    pace = Pace(0.01)
    pace.looked()
    pace.made(10.0, 10.5, Busy(0.04, 4))
    assert pace.wait_s(10.5) == pytest.approx(WEIGHT * 0.03)


def test_work_of_others_counts_for_one_batch_only() -> None:
    pace = Pace(0.01)
    pace.made(10.0, 10.5, Busy(0.02, 4))
    later_s = 10.5 + pace.wait_s(10.5)
    pace.made(later_s, later_s + 0.5, Busy(0.02, 4))
    assert pace.wait_s(later_s + 0.5) == pytest.approx(0)


def test_work_of_long_ago_does_not_count_as_if_it_were_of_today() -> None:
    pace = Pace(0.5)
    pace.made(0.0, 0.1, Busy(0.0, 0))
    pace.made(1000.0, 1000.5, Busy(10.0, 1000))  # one hundredth of the time
    assert pace.wait_s(1000.5) == pytest.approx(WEIGHT * 0.01, rel=0.01)


def test_a_read_has_its_share_however_busy_the_others_are() -> None:
    pace = Pace(0.25)
    pace.made(10.0, 10.5, Busy(100.0, 1000))
    assert pace.wait_s(10.5) == pytest.approx(1.5)


def test_a_whole_share_never_rests() -> None:
    pace = Pace(1.0)
    pace.made(10.0, 10.5, Busy(100.0, 1000))
    assert pace.wait_s(10.5) == 0


def test_batches_beside_each_other_share_their_time() -> None:
    pace = Pace(0.5)
    pace.made(10.0, 10.5, Busy(100.0, 1000))
    pace.made(10.0, 10.5, Busy(200.0, 2000))
    assert pace.wait_s(10.5) == pytest.approx(0.5)


@given(st.floats(0.01, 0.5), st.lists(st.floats(0.01, 2.0), min_size=1, max_size=64))
def test_many_readers_together_are_not_kept_waiting_for_long(
    share: float, batches: list[float]
) -> None:
    pace, now_s = Pace(share), 0.0
    for count, work_s in enumerate(batches, 1):
        begun_s, now_s = now_s, now_s + work_s
        pace.made(begun_s, now_s, Busy(100.0 * count, 1000 * count))
        assert pace.wait_s(now_s) <= REST_MAX_S + 1e-9


spans = st.floats(0.0001, 1.0)


@given(st.floats(0.01, 1.0), st.lists(st.tuples(spans, spans), min_size=1, max_size=30))
def test_no_load_takes_the_share_away(share: float, batches: list[tuple[float, float]]) -> None:
    pace, now_s, busy_s, worked_s = Pace(share), 0.0, 0.0, 0.0
    for count, (work_s, others_s) in enumerate(batches, 1):
        begun_s = now_s + pace.wait_s(now_s)
        now_s, busy_s, worked_s = begun_s + work_s, busy_s + others_s, worked_s + work_s
        pace.made(begun_s, now_s, Busy(busy_s, count))
    assert worked_s >= share * (now_s + pace.wait_s(now_s)) * 0.999


# -- the step


async def outcome(step: Outside) -> tuple[object, Exception | None]:
    """What a step comes to."""
    came: asyncio.Future[tuple[object, Exception | None]] = (
        asyncio.get_running_loop().create_future()
    )
    step.start(lambda value, error: came.set_result((value, error)))
    return await came


class WatchedPace(Pace):
    """Says what it is asked and told."""

    def __init__(self) -> None:
        super().__init__(0.1)
        self.seen: list[str] = []

    def wait_s(self, now_s: float) -> float:
        self.seen.append("wait")
        return 0.0 if len(self.seen) == 1 else 0.001

    def made(self, begun_s: float, now_s: float, busy: Busy) -> None:
        self.seen.append(f"made beside {busy.calls} calls")


def test_a_step_in_the_background_waits_first_and_tells_what_it_took() -> None:
    pace = WatchedPace()

    async def steps() -> list[object]:
        step = in_the_background(1, pace, lambda: Busy(0.5, 7))
        work: list[Callable[[], object]] = [lambda: "first", lambda: "second"]
        return [await outcome(step(each)) for each in work]

    assert asyncio.run(steps()) == [("first", None), ("second", None)]
    assert pace.seen == ["wait", "made beside 7 calls"] * 2


def test_a_step_in_the_background_that_fails_says_so() -> None:
    def work() -> object:
        raise LookupError("nothing there")

    async def steps() -> tuple[object, Exception | None]:
        return await outcome(in_the_background(1, Pace(0.1), lambda: Busy(0.0, 0))(work))

    value, error = asyncio.run(steps())
    assert value is None
    assert isinstance(error, LookupError)


def test_a_search_gives_way_to_clients_that_mostly_wait() -> None:
    pace = Pace(0.1, GIVES_WAY)
    pace.made(10.0, 10.01, Busy(0.0, 0))
    assert pace.wait_s(10.01) == 0  # there are no others
    pace.made(10.02, 10.03, Busy(0.0001, 1))
    assert pace.wait_s(10.03) == pytest.approx(0.09)


def test_what_a_search_does_on_the_loop_is_its_work() -> None:
    pace = Pace(0.1, GIVES_WAY)
    pace.made(9.99, 10.0, Busy(0.0, 0))
    pace.looked(0.02)
    pace.made(10.03, 10.04, Busy(0.021, 2))
    assert pace.wait_s(10.04) == pytest.approx(0.27)
    assert pace.wait_s(10.31) == pytest.approx(0)
    pace.looked(0.02)
    pace.made(11.0, 11.01, Busy(0.041, 3))  # nobody else
    assert pace.wait_s(11.01) == 0
