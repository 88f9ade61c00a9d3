"""The course of a stream against a real server, without Spark around it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from posthouse.model.errors import (
    InvalidParameter,
    IoTimeout,
    MessageAlreadyReceived,
    QueueNotFound,
    SharingViolation,
)
from posthouse.spark import settle
from posthouse.spark.limits import Limits
from posthouse.spark.offsets import StreamOffset
from posthouse.spark.options import source_options
from posthouse.spark.read_tasks import DataLoss, Portion, read_portion
from posthouse.spark.stream_planner import Course
from tests.process.spark_office import SparkOffice, path_of

Options = Callable[..., dict[str, str]]
MakeQueue = Callable[..., str]
Begin = Callable[..., Course]
NO_LIMITS = Limits()


@pytest.fixture
def begin(options: Options) -> Iterator[Begin]:
    """`begin(name, **options)`: the course of a stream that reads a queue."""
    with ExitStack() as running:

        def make(name: str, **more: object) -> Course:
            course = Course(source_options(options(name, **more)))
            running.callback(course.close)
            course.begin()
            return course

        yield make


def consuming(begin: Begin, name: str, **more: object) -> Course:
    return begin(name, consume="onCommit", group="archive", **more)


def full(name: str, manager: str = "ALPHA") -> str:
    return f"{manager}\\private$\\{name}"


def numbered(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


def read(portions: list[Portion]) -> list[bytes]:
    """What tasks get out of portions."""
    return [
        body.as_py()
        for portion in portions
        for batch in read_portion(portion, ["body"])
        for body in batch.column(0)
    ]


def step(course: Course, start: StreamOffset, limits: Limits = NO_LIMITS) -> StreamOffset:
    end = course.next(start, limits)
    assert end is not None
    return end


def group_of(office: SparkOffice, name: str) -> dict[str, Any]:
    (group,) = office.qm.call("GET", "/groups")["groups"]
    assert group["queue"] == full(name)
    return dict(group)


@pytest.fixture(autouse=True)
def no_groups_left(office: SparkOffice) -> Iterator[None]:
    """Each test has its own groups."""
    yield
    for group in office.qm.call("GET", "/groups")["groups"]:
        path = f"/queues/{group['queue']}/groups/{group['name']}"
        office.qm.call("POST", f"{path}/release")
        office.qm.call("DELETE", path)


def test_micro_batches_follow_each_other(
    office: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    name = queue()
    office.send(name, numbered(0, 3))
    course = begin(name)
    start = course.first()
    middle = step(course, start)
    assert read(course.portions(start, middle)) == numbered(0, 3)
    assert course.next(middle, NO_LIMITS) is None
    office.send(name, numbered(3, 5))
    end = step(course, middle)
    assert read(course.portions(middle, end)) == numbered(3, 5)
    assert course.last().queues == end.queues
    assert office.count(name) == 5


@pytest.mark.parametrize(("word", "first"), [("earliest", 0), ("latest", 3)])
def test_a_stream_begins_where_it_is_told(
    word: str, first: int, office: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    name = queue()
    office.send(name, numbered(0, 3))
    course = begin(name, startingOffsets=word)
    start = course.first()
    office.send(name, [b"3"])
    assert read(course.portions(start, step(course, start))) == numbered(first, 4)


def test_limits_bound_a_micro_batch(office: SparkOffice, queue: MakeQueue, begin: Begin) -> None:
    name = queue()
    office.send(name, numbered(0, 10))
    course = begin(name)
    start = course.first()
    some = step(course, start, Limits(4))
    assert read(course.portions(start, some)) == numbered(0, 4)
    one = step(course, some, Limits(None, 1))
    assert read(course.portions(some, one)) == [b"4"]
    assert read(course.portions(one, step(course, one, Limits(3, 1 << 20)))) == numbered(5, 8)


def test_queues_share_a_limit(office: SparkOffice, queue: MakeQueue, begin: Begin) -> None:
    large, small = queue(), queue()
    office.send(large, numbered(0, 90))
    office.send(small, numbered(90, 100))
    course = begin(large, queue=f"{path_of(large)},{path_of(small)}")
    start, got = course.first(), []
    for _ in range(10):
        end = step(course, start, Limits(10))
        portions = course.portions(start, end)
        assert len(read(portions)) == 10
        got += read(portions)
        start = end
    assert sorted(got, key=int) == numbered(0, 100)
    assert course.next(start, Limits(10)) is None
    office.send(large, [bytes(5000)] * 3)
    office.send(small, [bytes(5000)] * 3)
    portions = course.portions(start, step(course, start, Limits(10, 16_000)))
    assert 0 < sum(portion.cut.bytes for portion in portions) <= 16_000


def test_a_goal_ends_the_stream(office: SparkOffice, queue: MakeQueue, begin: Begin) -> None:
    name = queue()
    office.send(name, numbered(0, 5))
    course = begin(name)
    course.set_goal()
    office.send(name, numbered(5, 9))
    start = course.first()
    middle = step(course, start, Limits(3))
    end = step(course, middle, Limits(3))
    assert read(course.portions(start, middle)) == numbered(0, 3)
    assert read(course.portions(middle, end)) == numbered(3, 5)
    assert course.next(end, Limits(3)) is None


def test_a_purge_of_what_was_not_read_fails_the_stream(
    office: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    name = queue()
    office.send(name, numbered(0, 3))
    strict, lenient = begin(name), begin(name, failOnDataLoss="false")
    start = strict.first()
    office.qm.queue(path_of(name)).purge()
    office.send(name, [b"new"])
    with pytest.raises(DataLoss, match="failOnDataLoss"):
        strict.next(start, NO_LIMITS)
    assert read(lenient.portions(start, step(lenient, start))) == [b"new"]
    fresh = begin(name)
    assert read(fresh.portions(fresh.first(), step(fresh, fresh.first()))) == [b"new"]


def test_a_purge_of_what_was_read_fails_nothing(
    office: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    name = queue()
    office.send(name, numbered(0, 3))
    course = begin(name)
    end = step(course, course.first())
    office.qm.queue(path_of(name)).purge()
    assert course.next(end, NO_LIMITS) is None
    office.send(name, [b"new"])
    assert read(course.portions(end, step(course, end))) == [b"new"]


def test_a_purge_between_plan_and_read_fails_the_task(
    office: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    name = queue()
    office.send(name, numbered(0, 3))
    course = begin(name)
    start = course.first()
    end = step(course, start)
    portions = course.portions(start, end)
    office.qm.queue(path_of(name)).purge()
    with pytest.raises(DataLoss):
        read(portions)
    with pytest.raises(DataLoss):
        begin(name).portions(start, end)


def test_what_others_received_meanwhile_fails_nothing(
    office: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    name = queue()
    office.send(name, numbered(0, 3))
    course = begin(name)
    portions = course.portions(course.first(), step(course, course.first()))
    office.qm.queue(path_of(name)).receive(timeout=0)
    assert read(portions) == numbered(1, 3)


def test_a_group_that_observes_has_a_position_and_locks_nothing(
    office: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    name = queue()
    office.send(name, numbered(0, 3))
    course = begin(name, group="watch")
    end = step(course, course.first())
    course.portions(course.first(), end)
    office.qm.queue(path_of(name)).receive(timeout=0)
    course.commit(end)
    course.close()
    group = group_of(office, name)
    assert (group["mode"], group["position"]) == ("observe", end.queues[full(name)])
    assert office.count(name) == 2
    again = begin(name, group="watch")
    assert again.first().queues == end.queues


def test_committed_messages_are_received(
    office: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    name = queue(journal=True)
    office.send(name, numbered(0, 5))
    course = consuming(begin, name)
    start = course.first()
    middle = step(course, start, Limits(3))
    assert read(course.portions(start, middle)) == numbered(0, 3)
    assert office.count(name) == 5
    course.commit(middle)
    end = step(course, middle)
    course.portions(middle, end)
    course.close()
    assert office.bodies(name) == numbered(3, 5)
    assert len(list(office.qm.queue(f"{path_of(name)};journal").browse())) == 3
    group = group_of(office, name)
    assert (group["acknowledged"], group["claimed_messages"], group["leased"]) == (3, 2, False)


def test_claims_bar_receivers_and_purges(
    office: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    name = queue()
    office.send(name, numbered(0, 3))
    course = consuming(begin, name)
    start = course.first()
    end = step(course, start)
    portions = course.portions(start, end)
    with pytest.raises(SharingViolation, match="archive"):
        office.qm.queue(path_of(name)).receive(timeout=0)
    course.close()
    with pytest.raises(IoTimeout):  # the lease is over, the claims are not
        office.qm.queue(path_of(name)).receive(timeout=0)
    office.qm.queue(path_of(name)).purge()
    assert read(portions) == numbered(0, 3)


def test_a_replay_reads_the_same_again(office: SparkOffice, queue: MakeQueue, begin: Begin) -> None:
    name = queue()
    office.send(name, numbered(0, 4))
    course = consuming(begin, name)
    start = course.first()
    end = step(course, start, Limits(2))
    first = read(course.portions(start, end))
    office.lapse()
    again = consuming(begin, name)
    assert read(again.portions(start, end)) == first
    again.commit(end)
    last = step(again, end)
    assert read(again.portions(end, last)) == numbered(2, 4)


def test_an_older_reader_is_refused(office: SparkOffice, queue: MakeQueue, begin: Begin) -> None:
    name = queue()
    office.send(name, numbered(0, 2))
    old = consuming(begin, name)
    start = old.first()
    end = step(old, start)
    office.lapse()
    new = consuming(begin, name)
    with pytest.raises(SharingViolation, match="epoch"):
        old.portions(start, end)
    new.portions(start, end)
    old.commit(end)
    old.close()
    assert office.count(name) == 2
    assert group_of(office, name)["leased"]


def test_a_checkpoint_that_is_older_than_its_group_is_told(
    office: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    name = queue()
    office.send(name, numbered(0, 4))
    course = consuming(begin, name)
    start = course.first()
    end = step(course, start, Limits(2))
    course.portions(start, end)
    course.commit(end)
    course.close()
    with pytest.raises(MessageAlreadyReceived, match="older than the group"):
        consuming(begin, name).portions(start, end)
    office.lapse()
    lenient = consuming(begin, name, failOnDataLoss="false")
    assert read(lenient.portions(start, end)) == []


def test_what_others_have_locked_bars_the_way(
    office: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    name = queue(transactional=True)
    orders = office.qm.queue(path_of(name))
    with office.qm.transaction() as tx:
        for body in numbered(0, 4):
            orders.send(body, tx=tx)
    (first, *_, last) = [message.lookup_id for message in orders.browse()]
    with office.qm.transaction() as tx:
        assert orders.receive(timeout=0, tx=tx).lookup_id == first
        course = consuming(begin, name)
        assert course.next(course.first(), NO_LIMITS) is None
        tx.abort()
    assert step(course, course.first()).queues == {full(name): last}


def checkpointed(folder: Path, offset: StreamOffset) -> str:
    for part, text in (
        ("offsets", f"v1\n{{}}\n{json.dumps(offset.to_json())}"),
        ("commits", "v1\n{}"),
    ):
        (folder / part).mkdir(parents=True)
        (folder / part / "0").write_text(text)
    return str(folder)


@pytest.mark.parametrize("alive", [True, False])
def test_settling_acknowledges_what_the_checkpoint_committed(
    alive: bool, office: SparkOffice, queue: MakeQueue, begin: Begin, tmp_path: Path
) -> None:
    name = queue()
    office.send(name, numbered(0, 4))
    course = consuming(begin, name)
    start = course.first()
    end = step(course, start, Limits(3))
    course.portions(start, end)
    if not alive:
        course.close()
    path = checkpointed(tmp_path / "checkpoint", end)
    for received in (3, 0):
        (settled,) = settle(path, token_file=str(office.token_file))
        assert settled == (full(name), "archive", end.queues[full(name)], received)
    assert office.qm.queue(path_of(name)).receive(timeout=0).body == b"3"


def test_settling_finds_each_queue_manager_with_its_token(
    office: SparkOffice, branch: SparkOffice, queue: MakeQueue, begin: Begin, tmp_path: Path
) -> None:
    name = queue()
    branch.create(name)
    office.send(name, [b"alpha"])
    branch.send(name, [b"bravo"])
    url, files = f"{branch.url},{office.url}", f"{branch.token_file},{office.token_file}"
    course = consuming(begin, name, url=url, tokenFile=files)
    end = step(course, course.first())
    course.portions(course.first(), end)
    path = checkpointed(tmp_path / "checkpoint", end)
    with pytest.raises(InvalidParameter, match="in the same order"):
        settle(path, token_file=files)
    with pytest.raises(InvalidParameter, match="no url leads to the queue manager of BRAVO"):
        settle(path, office.url, str(office.token_file))
    settled = settle(path, url, files)
    assert {one.queue: one.position for one in settled} == end.queues
    assert (office.count(name), branch.count(name)) == (0, 0)


def test_settling_finds_a_queue_manager_that_has_moved(
    office: SparkOffice, queue: MakeQueue, begin: Begin, tmp_path: Path
) -> None:
    name = queue()
    office.send(name, numbered(0, 2))
    course = consuming(begin, name)
    end = step(course, course.first())
    course.portions(course.first(), end)
    moved = end._replace(urls={"ALPHA": "http://127.0.0.1:9"})
    (settled,) = settle(
        checkpointed(tmp_path, moved), office.url, str(office.token_file), ca_file=None
    )
    assert settled.received == 2


def test_settling_leaves_a_newer_reader_alone(
    office: SparkOffice, queue: MakeQueue, begin: Begin, tmp_path: Path
) -> None:
    name = queue()
    office.send(name, numbered(0, 2))
    course = consuming(begin, name)
    end = step(course, course.first())
    course.portions(course.first(), end)
    office.lapse()
    consuming(begin, name)
    path = checkpointed(tmp_path / "checkpoint", end)
    with pytest.raises(SharingViolation, match="at work"):
        settle(path, token_file=str(office.token_file))


def test_a_stream_acknowledges_what_it_starts_from(
    office: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    """Without a word about its checkpoint: Spark asks for what comes after a committed batch."""
    name = queue()
    office.send(name, numbered(0, 4))
    course = consuming(begin, name)
    start = course.first()
    end = step(course, start, Limits(3))
    course.portions(start, end)
    course.close()
    again = consuming(begin, name)
    again.set_goal()
    last = step(again, end, Limits(1))
    again.portions(end, last)
    assert again.next(last, NO_LIMITS) is None
    assert office.count(name) == 0
    group = group_of(office, name)
    assert (group["acknowledged"], group["claimed_messages"], group["leased"]) == (4, 0, False)


def test_settling_a_stream_without_a_group_does_nothing(
    office: SparkOffice, queue: MakeQueue, begin: Begin, tmp_path: Path
) -> None:
    course = begin(queue())
    assert settle(checkpointed(tmp_path, course.first())) == []


def test_settling_a_group_that_is_gone_is_told(
    office: SparkOffice, queue: MakeQueue, tmp_path: Path
) -> None:
    offset = StreamOffset("gone", {full(queue()): 5}, {"ALPHA": office.url})
    with pytest.raises(QueueNotFound, match="has no group gone"):
        settle(checkpointed(tmp_path, offset), token_file=str(office.token_file))


def test_several_queue_managers_are_one_stream(
    office: SparkOffice, branch: SparkOffice, queue: MakeQueue, begin: Begin
) -> None:
    name = queue()
    branch.create(name)
    office.send(name, [b"alpha"])
    course = begin(
        name,
        url=f"{office.url},{branch.url}",
        tokenFile=f"{office.token_file},{branch.token_file}",
    )
    start = course.first()
    middle = step(course, start)
    assert read(course.portions(start, middle)) == [b"alpha"]
    assert course.next(middle, NO_LIMITS) is None
    branch.send(name, [b"bravo"])
    end = step(course, middle)
    assert read(course.portions(middle, end)) == [b"bravo"]
    assert set(end.queues) == {full(name), full(name, "BRAVO")}
    assert end.urls == {"ALPHA": office.url, "BRAVO": branch.url}


def test_a_queue_that_comes_later_is_read_from_its_beginning(
    office: SparkOffice, queue: MakeQueue, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.spark.stream_planner.LOOK_S", 0.0)
    name = queue()
    office.send(name, [b"old"])
    pattern = f"{path_of(name)}*"
    course = Course(
        source_options(
            {
                "url": office.url,
                "tokenFile": str(office.token_file),
                "queuePattern": pattern,
                "startingOffsets": "latest",
            }
        )
    )
    course.begin()
    start = course.first()
    office.create(f"{name}-later")
    office.send(f"{name}-later", [b"new"])
    end = step(course, start)
    assert read(course.portions(start, end)) == [b"new"]
    course.close()
