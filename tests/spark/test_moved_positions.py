"""Positions of a checkpoint whose queue manager has another name now."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from posthouse.model.errors import InvalidParameter
from posthouse.spark import settle
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.source import KNOWN, LAKE, ArchiveReader, FilesPortion
from posthouse.spark.limits import Limits
from posthouse.spark.moved_positions import alone, name_of, renamed, under_names
from posthouse.spark.offsets import StreamOffset
from posthouse.spark.options import source_options
from posthouse.spark.stream_planner import Course
from tests.spark.change_servers import Server, ServerThread
from tests.spark.lake_samples import add_rows, rows
from tests.spark.model_spark import Checkpoint

A, B = "ALPHA\\private$\\a", "BETA\\private$\\a"
ONE, TWO = "{11111111-0000-0000-0000-00000000000A}", "{22222222-0000-0000-0000-00000000000b}"
OFFSET = StreamOffset(
    queues={A: 7},
    urls={"ALPHA": "http://a"},
    purged={A: 3},
    epochs={A: 2},
    began={A: 1},
    starts={A: 5},
    incarnations={A: "0f"},
    created={A: "1.2"},
    managers={"ALPHA": ONE},
)


def test_everything_of_a_queue_moves_to_the_new_name() -> None:
    found = under_names(OFFSET, [(ONE.lower(), "BETA")])
    texts = [str(getattr(found, name)) for name in found._fields]
    assert not any("ALPHA" in text for text in texts)
    assert (found.queues, found.starts, found.managers) == ({B: 7}, {B: 5}, {"BETA": ONE})
    assert (found.urls, found.identity(B).incarnation) == ({"BETA": "http://a"}, "0f")
    assert name_of(A, OFFSET, [(ONE.lower(), "BETA")]) == B


@pytest.mark.parametrize(
    "known",
    [
        [],
        [(ONE.lower(), "ALPHA")],
        [(TWO, "BETA")],
        [(TWO, "ALPHA")],  # another machine has the name: its ids are others
        [(ONE.lower(), "BETA"), (ONE.lower(), "ALPHA")],  # a copy of the home runs, too
        [(ONE.lower(), "BETA"), (ONE.lower(), "GAMMA")],
    ],
)
def test_nothing_moves_to_a_queue_manager_that_is_not_surely_the_same(
    known: list[tuple[str, str]],
) -> None:
    assert under_names(OFFSET, known) is OFFSET


def test_two_queue_managers_may_swap_their_names() -> None:
    both = OFFSET._replace(queues={A: 7, B: 8}, managers={"ALPHA": ONE, "BETA": TWO})
    found = under_names(both, [(ONE.lower(), "BETA"), (TWO, "ALPHA")])
    assert found.queues == {B: 7, A: 8}
    assert found.managers == {"BETA": ONE, "ALPHA": TWO}


def test_a_position_that_is_known_under_the_new_name_stays() -> None:
    """A version that did not know renames read that queue from its first message."""
    both = OFFSET._replace(queues={A: 7, B: 9}, managers={"ALPHA": ONE, "BETA": ONE})
    assert under_names(both, [(ONE.lower(), "BETA")]).queues == {B: 9}


def test_no_position_is_dropped_for_that_of_another_queue_manager() -> None:
    """ALPHA has the name of BETA, which does not answer; or which is gone, and has another name in
    the checkpoint."""
    both = OFFSET._replace(queues={A: 7, B: 8}, managers={"ALPHA": ONE, "BETA": TWO})
    with pytest.raises(InvalidParameter, match="ALPHA is called BETA now") as told:
        under_names(both, [(ONE.lower(), "BETA")])
    assert "checkpoint move CHECKPOINT --from BETA --to ANOTHER" in str(told.value)
    found = under_names(renamed(both, {"BETA": "OLD"}), [(ONE.lower(), "BETA")])
    assert found.queues == {B: 7, "OLD\\private$\\a": 8}
    gone = under_names(both.without([B]), [(ONE.lower(), "BETA")])
    assert (gone.queues, gone.managers) == ({B: 7}, {"BETA": ONE})
    assert under_names(alone(both, A), [(ONE.lower(), "BETA")]).queues == {B: 7}


def test_what_a_copy_of_the_home_brings_meanwhile_is_nothing_of_the_others(tmp_path: Path) -> None:
    """Both have one GUID in the lake: from the copy on, their lookup ids are of other messages."""
    lake = LakeFiles(tmp_path / "lake")
    lake.create()
    lake.know_managers({"ALPHA": ONE, "BETA": ONE})
    add_rows(lake, 0, rows(A, range(1, 6)))
    known = lake.state().through(B)
    assert known == 5
    add_rows(lake, 1, rows(A, range(6, 10)))
    given = {"url": "http://127.0.0.1:9", "queue": json.dumps([B]), LAKE: str(lake.place)}
    assert ArchiveReader({**given, KNOWN: json.dumps({B: known})}).kept() == {B: 5}
    assert add_rows(lake, 2, rows(B, range(6, 8))).rows == 2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    thread = ServerThread()
    made = Server(thread, tmp_path / "alpha", "ALPHA")
    made.create("a")
    yield made
    made.stop()
    thread.close()


def options(server: Server, **more: str) -> dict[str, str]:
    access = {"url": server.url, "tokenFile": str(server.token_file), "retryFor": "5"}
    return {**access, "queue": ".\\private$\\a", **more}


def test_a_batch_has_everything_that_a_copy_of_the_home_has_not_brought(
    server: Server, tmp_path: Path
) -> None:
    server.send("a", [b"1", b"2"])
    lake = LakeFiles(tmp_path / "lake")
    lake.create()
    lake.know_managers({"ALPHA": ONE, "BETA": ONE})
    add_rows(lake, 0, rows(B, range(1, 6)))
    given = options(server, **{LAKE: str(lake.place), KNOWN: json.dumps({A: 0})})
    reader = ArchiveReader({**given, "queue": json.dumps([A])})
    try:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        (portion,) = reader.partitions(start, end)
    finally:
        reader.stop()
    assert isinstance(portion, FilesPortion)
    assert (portion.through, portion.is_new) == (0, True)


@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_driver_that_meets_a_new_name_takes_no_queue_for_deleted(
    server: Server, strict: str
) -> None:
    server.send("a", [b"1", b"2"])
    course = Course(source_options(options(server, failOnDataLoss=strict)))
    try:
        end = course.next(course.first(), Limits(1))
        assert end is not None
        server.rename("BETA")
        with pytest.raises(InvalidParameter, match="was called ALPHA, and is called BETA now"):
            course.next(end, Limits(1))
    finally:
        course.close()


def test_a_last_batch_is_settled_under_the_new_name(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "posthouse")
    server.send("a", [b"1", b"2", b"3"])
    log = Checkpoint(tmp_path / "checkpoint")
    course = Course(source_options(options(server, consume="onCommit", group="g")))
    end = course.next(course.first(), Limits(2))
    assert end is not None
    log.plan(0, end.to_json())
    course.portions(course.first(), end)
    log.commit(0)
    course._leases.disconnect()  # type: ignore[union-attr]
    server.rename("BETA")
    (done,) = settle(log.path, server.url, str(server.token_file))
    assert (done.queue, done.received) == (B, 2)
    assert server.bodies("a") == [b"3"]
