"""Streams that consume, behind a power failure that took parts of Spark's checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from posthouse.model.errors import InvalidParameter, MessageAlreadyReceived
from posthouse.spark import settle
from posthouse.spark.checkpoints import check_checkpoint
from posthouse.spark.limits import Limits
from posthouse.spark.offsets import StreamOffset, offset_of
from posthouse.spark.options import source_options
from posthouse.spark.stream_planner import Course
from tests.process.spark_office import SparkOffice
from tests.support.course_driver import Driver

Options = Callable[..., dict[str, str]]
BODIES = [b"%d" % number for number in range(9)]


class Query:
    """A stream whose drivers come and go; checkpoint and sink stay."""

    def __init__(self, folder: Path, options: dict[str, str], office: SparkOffice) -> None:
        self.folder = folder
        self.office = office
        self.options = {**options, "checkpoint": str(folder)}
        self.sink: dict[int, list[bytes]] = {}
        self._driver: Driver | None = None

    def start(self) -> Driver:
        """A new driver; the one before it has died."""
        check_checkpoint(str(self.folder))  # as Spark makes the source do
        self.office.lapse()
        self._driver = Driver(self.options, self.folder, lambda: None)
        self._driver.sink = self.sink
        self._driver.start()
        return self._driver

    def close(self) -> None:
        if self._driver is not None:
            self._driver.course.close()

    @property
    def rows(self) -> list[bytes]:
        return [body for _, bodies in sorted(self.sink.items()) for body in bodies]


@pytest.fixture
def query(
    office: SparkOffice, queue: Callable[..., str], options: Options, tmp_path: Path
) -> Iterator[Query]:
    """Nine messages, of which two batches of three are done, and the first is acknowledged."""
    name = queue()
    office.send(name, BODIES)
    made = Query(
        tmp_path / "checkpoint", options(name, consume="onCommit", group="archive"), office
    )
    driver = made.start()
    for _ in range(2):
        assert driver.batch(Limits(3))
    driver.course.close()
    yield made
    made.close()


def drained(query: Query, office: SparkOffice, limits: Limits) -> None:
    """Runs to the end: every message came out once, and the queue is empty."""
    driver = query.start()
    while driver.batch(limits):
        pass
    query.close()
    assert query.rows == BODIES
    settle(query.folder, token_file=query.options["tokenFile"])
    assert office.count(query.options["queue"].rpartition("\\")[2]) == 0


def test_a_batch_whose_commit_is_gone_is_done_again(query: Query, office: SparkOffice) -> None:
    (query.folder / "commits" / "1").unlink()
    drained(query, office, Limits(4))


def test_a_batch_whose_offsets_are_gone_has_the_same_messages_again(
    query: Query, office: SparkOffice
) -> None:
    """A sink that knows its number passes it over: another end would lose or repeat messages."""
    for part in ("commits", "offsets"):
        (query.folder / part / "1").unlink()
    driver = query.start()
    assert driver.batch(Limits(100))
    query.close()
    assert query.sink[1] == BODIES[3:6]
    drained(query, office, Limits(100))


@pytest.mark.parametrize("part", ["offsets", "commits"])
@pytest.mark.parametrize("kept", [0, 3, 30])
def test_a_file_that_is_cut_short_is_told_with_a_remedy_that_works(
    part: str, kept: int, query: Query, office: SparkOffice
) -> None:
    (query.folder / "commits" / "1").write_text('v1\n{"nextBatchWatermarkMs":0,"metadata":{}}')
    if part == "offsets":
        (query.folder / "commits" / "1").unlink()
    torn = query.folder / part / "1"
    torn.write_bytes(torn.read_bytes()[:kept])
    remedy = rf"{part}/1 is empty or cut short.*Remove it together with {part}/\.1\.crc"
    with pytest.raises(InvalidParameter, match=remedy):
        query.start()
    if part == "commits":  # what is not proof is none for `settle` either
        with pytest.raises(InvalidParameter, match=remedy):
            settle(query.folder, token_file=query.options["tokenFile"])
    torn.unlink()
    drained(query, office, Limits(4))


def test_commits_that_lost_their_offsets_acknowledge_nothing(query: Query) -> None:
    (query.folder / "offsets" / "1").write_text("")
    with pytest.raises(InvalidParameter, match="offsets/1 is empty"):
        settle(query.folder, token_file=query.options["tokenFile"])


def test_a_checkpoint_that_is_older_than_the_group_is_refused(query: Query) -> None:
    """Whatever became of the messages, reading on would look as if there had been none."""
    settle(query.folder, token_file=query.options["tokenFile"])
    (query.folder / "commits" / "1").unlink()
    with pytest.raises(MessageAlreadyReceived, match="older than the group"):
        query.start()
    for part in ("commits", "offsets"):  # all of the commits, and of the offsets but the first
        for file in (query.folder / part).iterdir():
            if (part, file.name) != ("offsets", "0"):
                file.unlink()
    with pytest.raises(MessageAlreadyReceived, match="older than the group"):
        query.start()


def test_a_checkpoint_that_is_gone_goes_on_where_the_group_is(
    query: Query, office: SparkOffice
) -> None:
    for part in ("commits", "offsets"):
        for file in (query.folder / part).iterdir():
            file.unlink()
    query.sink = {0: query.sink[0]}  # the second batch was claimed, and not acknowledged
    driver = query.start()
    driver.sink = {}
    while driver.batch(Limits(2)):
        pass
    query.close()
    assert driver.sink[0] == BODIES[3:6]
    assert [body for _, bodies in sorted(driver.sink.items()) for body in bodies] == BODIES[3:]


def test_a_first_batch_is_read_again_from_where_it_began(
    office: SparkOffice, queue: Callable[..., str], options: Options
) -> None:
    """Without a group, too: `latest` is another message by then."""
    name = queue()
    office.send(name, BODIES[:2])
    course = Course(source_options(options(name, startingOffsets="latest")))
    course.begin()
    start = course.first()
    office.send(name, BODIES[2:5])
    end = course.next(start, Limits())
    assert end is not None
    course.close()
    later = Course(source_options(options(name, startingOffsets="latest")))
    later.begin()
    kept = offset_of(json.loads(json.dumps(end.to_json())))
    (portion,) = later.portions(later.first(), kept)
    assert portion.cut.messages == 3
    later.close()


def test_offsets_say_where_the_stream_began() -> None:
    offset = StreamOffset("g", {"q": 7}, {"A": "http://a"}, began={"q": 3})
    assert offset_of(offset.to_json()) == offset
