"""What filters leave over of a batch read, and what the queue manager leaves out by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from posthouse.client import arrow_read
from posthouse.client.admin_http import BulkHttp
from posthouse.client.arrow_read import PlannedQueue, RowChoice
from posthouse.model.errors import InvalidParameter
from posthouse.spark import batch
from posthouse.spark.batch import BatchReader, PushdownReader, batch_reader
from posthouse.spark.bounds import Bounds
from posthouse.spark.options import source_options
from posthouse.spark.schema import message_schema
from tests.process.spark_office import SparkOffice, path_of

NOON = datetime(2026, 3, 1, 12, 0, 0, 500_000, UTC)
NOON_S = 1_772_366_400


def narrowed(*conditions: Filter, until_s: float | None = None) -> Bounds:
    bounds = Bounds(until_s)
    for condition in conditions:
        bounds.narrow(condition)
    return bounds


@pytest.mark.parametrize(
    ("conditions", "choice"),
    [
        ([GreaterThan(("arrived_time",), NOON)], RowChoice(since=NOON_S)),
        ([GreaterThanOrEqual(("arrived_time",), NOON)], RowChoice(since=NOON_S)),
        ([LessThan(("arrived_time",), NOON)], RowChoice(until=NOON_S + 1)),
        ([LessThanOrEqual(("arrived_time",), NOON)], RowChoice(until=NOON_S + 1)),
        ([EqualTo(("arrived_time",), NOON)], RowChoice(NOON_S, NOON_S + 1)),
        ([EqualTo(("priority",), 7)], RowChoice(priorities=(7,))),
        ([In(("priority",), (1, 9, 7))], RowChoice(priorities=(1, 7))),
        ([GreaterThan(("priority",), 5)], RowChoice(priorities=(6, 7))),
        ([GreaterThanOrEqual(("priority",), 6)], RowChoice(priorities=(6, 7))),
        ([LessThan(("priority",), 2)], RowChoice(priorities=(0, 1))),
        ([LessThanOrEqual(("priority",), 1)], RowChoice(priorities=(0, 1))),
        (
            [GreaterThan(("priority",), 2), LessThan(("priority",), 5)],
            RowChoice(priorities=(3, 4)),
        ),
        ([EqualTo(("class",), "nack-queue-purged")], RowChoice(classes=(0xC001,))),
        ([In(("class",), ("normal", "made-up"))], RowChoice(classes=(0,))),
        ([EqualTo(("class_code",), 1)], RowChoice(classes=(1,))),
        ([GreaterThan(("class_code",), 5)], RowChoice()),  # thousands are left to Spark
        ([IsNotNull(("priority",)), StringStartsWith(("label",), "a")], RowChoice()),
        ([GreaterThan(("arrived_time",), datetime(2026, 3, 1))], RowChoice()),  # of which zone?
        ([EqualTo(("label",), "a"), EqualTo(("priority",), None)], RowChoice()),
    ],
)
def test_filters_become_a_choice_of_rows(conditions: list[Filter], choice: RowChoice) -> None:
    found = narrowed(*conditions).choice()
    assert found == choice


def test_a_read_that_no_row_can_pass_is_not_made() -> None:
    class Anywhere:
        queue = "q"

    for bounds in (
        narrowed(EqualTo(("priority",), 9)),
        narrowed(EqualTo(("class",), "made-up")),
        narrowed(GreaterThan(("priority",), 5), LessThan(("priority",), 3)),
        narrowed(until_s=0.0),
    ):
        assert not bounds.admit(Anywhere())  # type: ignore[arg-type]


def test_an_ending_time_is_exact_in_whole_seconds() -> None:
    assert narrowed(until_s=NOON_S).choice().until == NOON_S - 1
    assert narrowed(until_s=NOON_S + 0.5).choice().until == NOON_S


def test_filters_are_taken_where_spark_asks_for_them(
    monkeypatch: pytest.MonkeyPatch, options: Callable[..., dict[str, str]]
) -> None:
    """In any other of its programs a reader that takes filters would be refused."""
    schema = message_schema(["lookup_id"])
    assert type(batch_reader(options("x", pushdown="true"), schema)) is BatchReader
    monkeypatch.setattr(batch.sys, "argv", ["daemon.py", batch.PUSHING])
    assert type(batch_reader(options("x", pushdown="true"), schema)) is PushdownReader
    assert type(batch_reader(options("x"), schema)) is BatchReader


def test_the_queue_manager_leaves_rows_out(office: SparkOffice, queue: Callable[..., str]) -> None:
    name = queue()
    target = office.qm.queue(path_of(name))
    for number in range(40):
        target.send(str(number).encode(), priority=number % 8)
    with BulkHttp(office.url, token_file=str(office.token_file)) as http:
        (plan,) = arrow_read.plan(http, [PlannedQueue(path_of(name))]).queues

        def ids(choice: RowChoice, columns: list[str] | None = None) -> int:
            batches = arrow_read.read(
                http, plan.queue, plan.after, plan.end, columns or ["priority"], choice
            )
            return sum(batch.num_rows for batch in batches)

        assert ids(RowChoice()) == 40
        assert ids(RowChoice(priorities=(1, 6))) == 10
        assert ids(RowChoice(classes=(0,)), ["class"]) == 40
        assert ids(RowChoice(classes=(1, 0xC001))) == 0
        assert ids(RowChoice(since=1 << 31, until=1 << 32 - 1)) == 0
        assert ids(RowChoice(until=1000)) == 0
        assert ids(RowChoice(since=1000, until=(1 << 32) - 1, priorities=(0,))) == 5


def test_what_load_names_is_the_queue() -> None:
    access = {"url": "http://127.0.0.1:1", "tokenFile": "/t"}
    assert source_options(access | {"path": "orders"}).queues == (".\\private$\\orders",)
    assert source_options(access | {"queue": "./private$/a,b"}).queues == (
        ".\\private$\\a",
        ".\\private$\\b",
    )
    with pytest.raises(InvalidParameter, match="needs its queues named once"):
        source_options(access | {"path": "orders", "queue": "others"})


def test_options_choose_rows_exactly(options: Callable[..., dict[str, str]]) -> None:
    given = options(
        "x", endingTimestamp="2026-03-01T12:00:00Z", priorities="7,0", classes="normal,0xC001"
    )
    reader = batch_reader(given, message_schema(["lookup_id"]))
    assert isinstance(reader, BatchReader)
    assert reader.bounds.choice() == RowChoice(0, NOON_S - 1, (0, 7), (0, 0xC001))
    for wrong in ({"priorities": "8"}, {"classes": "made-up"}, {"priorities": "x"}):
        with pytest.raises(InvalidParameter, match=next(iter(wrong))):
            source_options(options("x", **wrong))


@pytest.mark.parametrize(
    "wrong",
    [{"endingTimestamp": "2026-03-01"}, {"priorities": "7"}, {"classes": "normal"}],
    ids=str,
)
def test_a_stream_leaves_nothing_out(
    options: Callable[..., dict[str, str]], wrong: dict[str, str]
) -> None:
    """What a stream does not read it would receive all the same."""
    from posthouse.spark.stream import StreamReader

    with pytest.raises(InvalidParameter, match="only batch reads"):
        StreamReader(options("x", **wrong), message_schema(["lookup_id"]))


def test_several_queue_managers_are_asked_at_the_same_time() -> None:
    """Each waits until all have been asked."""
    from threading import Barrier

    from posthouse.spark.queue_selection import beside_each_other

    barrier = Barrier(3, timeout=60)

    def ask(number: int) -> int:
        barrier.wait()
        return number * 2

    assert beside_each_other(ask, [1, 2, 3]) == [2, 4, 6]  # type: ignore[arg-type,list-item]
