"""The order of jobs: dense positions at a cost that does not grow with the queue."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.jobs.file_content import JobFile
from posthouse.engine.jobs.job import GAP, Job, JobEntry, JobQueue, JobQueueDefinition, JobState
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.model.qms import (
    ANY_SERVER,
    NWCF_SERVICE_RESTART,
    NWCF_USER_HOLD,
    NWQueueJobStruct,
    pack_time,
)
from tests.engine.cost import steps
from tests.engine.job_rig import JobRig
from tests.engine.rig import START_UTC

MANY = 8_000


def queue_of(count: int, **fields: object) -> tuple[JobQueue, list[Job]]:
    queue = JobQueue(1, JobQueueDefinition())
    jobs = []
    for number in range(1, count + 1):
        entry = JobEntry(1, number, 0, 0, 1, bytes(6), 0, **fields)  # type: ignore[arg-type]
        job = Job(number, entry, JobState(queue.tail_place(), 0), JobFile())
        queue.add(job)
        jobs.append(job)
    return queue, jobs


def moved(queue: JobQueue, job: Job, position: int) -> int:
    """As the engine does it; returns how many records that takes."""
    records, place = 1, queue.place_at(job, position)
    if place is None:
        spaced = queue.respaced(min(max(position, 1), len(queue)) - 1)
        for other, _ in spaced:
            queue.take(other)
        for other, at in spaced:
            other.state = other.state._replace(place=at)
            queue.put(other)
        records += len(spaced)
        place = queue.place_at(job, position)
    assert place is not None
    queue.take(job)
    job.state = job.state._replace(place=place)
    queue.put(job)
    return records


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 39), st.integers(0, 45)), max_size=60))
def test_moves_put_jobs_where_they_say(count: int, moves: list[tuple[int, int]]) -> None:
    queue, jobs = queue_of(count)
    expected = list(jobs)
    for pick, position in moves:
        job = jobs[pick % count]
        moved(queue, job, position)
        expected.remove(job)
        expected.insert(max(position, 1) - 1, job)
        assert queue.jobs() == expected
        assert [queue.position(one) for one in expected] == list(range(1, count + 1))


@pytest.mark.parametrize("count", [3, 40, 1000])
@pytest.mark.parametrize("position", [2, "middle"])
def test_moves_into_the_same_gap_again_and_again_stay_cheap(
    count: int, position: int | str
) -> None:
    queue, jobs = queue_of(count)
    to = count // 2 + 1 if position == "middle" else 2
    records = [moved(queue, queue.jobs()[-1], to) for _ in range(500)]
    assert max(records) <= 200
    assert sum(records) / len(records) < 8
    places = [job.state.place for job in queue.jobs()]
    assert places == sorted(set(places))
    assert sorted(jobs, key=lambda job: job.serial) == jobs


def test_places_never_leave_their_eight_bytes() -> None:
    queue, _ = queue_of(3)
    for _ in range(10_000):
        moved(queue, queue.jobs()[-1], 1)
    assert min(job.state.place for job in queue.jobs()) == -10_000 * GAP
    assert 2**62 // GAP > 10**12  # this many moves to the head, or jobs without an empty queue


# -- cost


def filled(count: int) -> JobRig:
    """A queue of held jobs with one that is ready at the end."""
    rig = JobRig(qms=QmsSettings(jobs_max=MANY + 10))
    queues = rig.manager.jobs
    anna = rig.user("ANNA")
    held = NWQueueJobStruct(job_control_flags=NWCF_USER_HOLD | NWCF_SERVICE_RESTART)
    rig.driver.begin_turn()
    for _ in range(count):
        queues.submit_job(anna, rig.q, held, b"")
    rig.driver.end_turn()
    rig.driver.sync()
    rig.submit()
    rig.attach()
    rig.user("OTTO")
    return rig


def cost_of(rig: JobRig) -> dict[str, int]:
    numbers = rig.numbers()
    middle, last = numbers[len(numbers) // 2], numbers[-1]
    otto, anna, server = rig.user("OTTO"), rig.user("ANNA"), rig.server("SRV1")
    costs = {
        "read": steps(lambda: rig.jobs("read_queue_job_entry", anna, rig.q, middle)),
        "move": steps(lambda: rig.jobs("change_queue_job_position", otto, rig.q, middle, 3)),
        "move back": steps(
            lambda: rig.jobs("change_queue_job_position", otto, rig.q, middle, len(numbers) - 5)
        ),
        "service": steps(lambda: rig.jobs("service_queue_job", server, rig.q)),
        "finish": steps(lambda: rig.finish(last)),
        "submit": steps(lambda: rig.submit()),
    }
    some = 100
    listed = steps(lambda: rig.jobs("get_queue_job_list", anna, rig.q, 5, some))
    costs["list"] = listed // some
    return costs


def test_the_cost_of_a_call_does_not_grow_with_the_queue() -> None:
    """Counted in lines of our code that run: with 8,000 jobs as with 200."""
    few, many = cost_of(filled(200)), cost_of(filled(MANY))
    for name, cost in few.items():
        assert many[name] <= cost * 1.2 + 20, (name, cost, many[name])


def test_a_move_is_one_small_record() -> None:
    rig = filled(2_000)
    dice, sizes = Random(1), []
    numbers = rig.numbers()
    for _ in range(50):
        before = len(rig.store.log)
        number, position = dice.choice(numbers), dice.randint(1, len(numbers))
        rig.jobs("change_queue_job_position", rig.user("OTTO"), rig.q, number, position)
        records = rig.store.log[before:]
        assert len(records) == 1
        sizes.append(sum(len(head) + len(packet) for _, _, head, packet in records))
    assert max(sizes) < 100


# -- jobs whose time has not come


def test_jobs_that_are_held_and_released_leave_nothing_behind() -> None:
    later = pack_time(START_UTC + 1000)
    queue, (job,) = queue_of(1, target_execution_time=later)
    for _ in range(1000):
        queue.withdraw(job)
        queue.offer(job)
    assert len(queue._timed) < 200
    assert queue.find(5, None) is None
    queue.promote(START_UTC + 1000, {1: job})
    assert queue.find(5, None) is job
    queue.withdraw(job)
    assert queue.find(5, None) is None
    assert queue._lanes == {}


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.sampled_from((ANY_SERVER, 5, 6)),
            st.sampled_from((0, NWCF_USER_HOLD)),
        ),
        max_size=12,
    ),
    st.sampled_from((None, (1,), (2, 3))),
    st.sampled_from((5, 6)),
)
def test_the_job_that_is_found_is_the_first_that_a_look_at_all_finds(
    kinds: list[tuple[int, int, int]], types: tuple[int, ...] | None, server: int
) -> None:
    queue = JobQueue(1, JobQueueDefinition())
    for number, (kind, target, flags) in enumerate(kinds, 1):
        entry = JobEntry(1, number, 0, 0, 1, bytes(6), 0, target, b"\xff" * 6, kind)
        queue.add(Job(number, entry, JobState(queue.tail_place(), flags), JobFile()))
    fitting = [
        number
        for number, (kind, target, flags) in enumerate(kinds, 1)
        if not flags and target in (ANY_SERVER, server) and (types is None or kind in types)
    ]
    found = queue.find(server, None if types is None else frozenset(types))
    assert (None if found is None else found.serial) == next(iter(fitting), None)
