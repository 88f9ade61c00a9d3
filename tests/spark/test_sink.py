"""Tables and streams into queues: once, whatever is tried again; whole, or not at all."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

import posthouse
from posthouse.client.stages import progress, stage
from posthouse.model.errors import QueueError, TransactionSequence
from posthouse.spark.endpoint import http_of
from posthouse.spark.options import Manager
from posthouse.spark.schema import message_schema
from posthouse.spark.sink import Sink, Staged, row_map, writer, written_as
from posthouse.spark.sink_options import sink_options
from tests.process.spark_office import SparkOffice, path_of

MakeQueue = Callable[..., str]


@pytest.fixture
def write(access: dict[str, str]) -> Callable[..., None]:
    """`write(table, **options)`: appends a table."""

    def run(table: DataFrame, **options: Any) -> None:
        texts = {name: str(value) for name, value in options.items()}
        table.write.format("posthouse").options(**access, **texts).mode("append").save()

    return run


Write = Callable[..., None]


def messages(office: SparkOffice, queue: str) -> list[posthouse.Message]:
    return list(office.qm.queue(path_of(queue)).browse())


def stages(office: SparkOffice) -> list[Any]:
    return list(office.qm.call("GET", "/stages")["stages"])


# -- tables


def test_row_becomes_a_message_with_its_properties(
    spark: SparkSession, office: SparkOffice, queue: MakeQueue, write: Write
) -> None:
    name = queue()
    table = spark.sql(
        r"""
        select cast('body' as binary) body, 'a label' label, 5 priority, repeat('ab', 20)
        correlation_id, 'DIRECT=OS:far\\private$\\answers' response_queue,
        '.\\private$\\acks' admin_queue, array('pos-arrival', 'neg-receive') acknowledge,
        array('negative') journal, 77L app_specific, X'0001' extension,
        3600 time_to_be_received, 'ignored' as sender, 12L as lookup_id
        """
    )
    write(table, queue=path_of(name), timeToReachQueue=60)
    (message,) = messages(office, name)
    shown = message.to_json()
    assert (message.body, message.label, message.priority) == (b"body", "a label", 5)
    assert message.correlation_id == "ab" * 20
    assert message.response_queue == r"DIRECT=OS:far\private$\answers"
    assert message.admin_queue.endswith(r"\private$\acks")
    assert message.acknowledge == ["pos-arrival", "neg-receive"]
    assert (message.app_specific, message.extension) == (77, b"\0\1")
    assert (shown.journal, shown.delivery) == (["negative"], "recoverable")
    assert 0 < (message.time_to_be_received or 0) <= 3600


def test_rows_go_where_they_say(
    spark: SparkSession, office: SparkOffice, queue: MakeQueue, write: Write
) -> None:
    """To a plain queue, to a transactional one, and to another computer."""
    plain, strict = queue(), queue(transactional=True)
    far = r"DIRECT=TCP:127.0.0.1:9\private$\far"
    table = spark.createDataFrame(
        [(path_of(plain), "1"), (path_of(strict), "2"), (far, "3"), (path_of(strict), "4")],
        "destination string, body string",
    )
    write(table.coalesce(1))
    assert office.bodies(plain) == [b"1"]
    assert [m.delivery for m in messages(office, strict)] == ["transactional"] * 2
    assert office.bodies(strict) == [b"2", b"4"]
    outgoing = {one.format_name: one.messages for one in office.qm.queues(outgoing=True)}
    assert outgoing[far] == 1


def test_struct_is_the_body(
    spark: SparkSession, office: SparkOffice, queue: MakeQueue, write: Write
) -> None:
    as_json, as_xml = queue(), queue()
    table = spark.sql("select 7 as id, 'Tom' as who, timestamp'2026-01-31 12:00:00Z' as at")
    body = table.selectExpr("struct(*) as body")
    write(body, queue=path_of(as_json))
    write(body, queue=path_of(as_xml), bodyFormat="xml", xmlRoot="order")
    assert json.loads(office.bodies(as_json)[0]) == {
        "id": 7,
        "who": "Tom",
        "at": "2026-01-31T12:00:00Z",
    }
    assert office.bodies(as_xml) == [
        b"<order><id>7</id><who>Tom</who><at>2026-01-31T12:00:00Z</at></order>"
    ]


def test_bad_row_is_named_and_nothing_is_published(
    spark: SparkSession, office: SparkOffice, queue: MakeQueue, write: Write
) -> None:
    name = queue()
    table = spark.range(0, 1000, 1, 2).selectExpr(
        "cast(id as string) as body", "cast(if(id = 777, 9, 3) as int) as priority"
    )
    with pytest.raises(Exception, match=r"row 277 of partition 1, column priority: 9 is not"):
        write(table, queue=path_of(name))
    assert office.count(name) == 0
    assert stages(office) == []


def test_row_that_only_the_queue_manager_can_refuse_is_named_too(
    spark: SparkSession, office: SparkOffice, queue: MakeQueue, write: Write
) -> None:
    name = queue()
    table = spark.createDataFrame(
        [(path_of(name), "1"), (path_of("nowhere"), "2")], "destination string, body string"
    )
    with pytest.raises(
        Exception, match=r"QUEUE_NOT_FOUND.*row 1 of partition 0, column destination: "
    ):
        write(table.coalesce(1))
    assert office.count(name) == 0


def test_bad_rows_are_dead_letters_where_that_is_asked_for(
    spark: SparkSession, office: SparkOffice, queue: MakeQueue, write: Write
) -> None:
    name, dead = queue(), queue(transactional=True)
    table = spark.range(0, 100, 1, 2).selectExpr(
        "if(id = 60, null, cast(id as string)) as body", "cast(if(id = 5, -1, 3) as int) priority"
    )
    write(table, queue=path_of(name), badRows="deadletter", deadLetterQueue=path_of(dead))
    assert sorted(map(int, office.bodies(name))) == [n for n in range(100) if n not in (5, 60)]
    letters = sorted(messages(office, dead), key=lambda message: message.label)
    assert [letter.label for letter in letters] == [
        "bad row: body: null is not a body",
        "bad row: priority: -1 is not between 0 and 7",
    ]
    said = [json.loads(letter.body) for letter in letters]
    assert [(one["partition"], one["row"], one["column"]) for one in said] == [
        (1, 10, "body"),
        (0, 5, "priority"),
    ]
    assert said[1]["values"] == {"body": "5", "priority": -1}


def test_task_that_is_tried_again_sends_once(
    spark: SparkSession, office: SparkOffice, queue: MakeQueue, write: Write
) -> None:
    name = queue()

    def fails_first(number: int) -> str:
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and number == 2999:
            raise RuntimeError("this attempt fails over its last row")
        return str(number)

    table = spark.range(0, 3000, 1, 2).select(
        udf(fails_first, "string", useArrow=False)("id").alias("body")
    )
    write(table, queue=path_of(name))
    assert sorted(map(int, office.bodies(name))) == list(range(3000))
    assert stages(office) == []


def test_write_with_a_name_and_a_number_is_done_once(
    spark: SparkSession, office: SparkOffice, queue: MakeQueue, write: Write
) -> None:
    """For foreachBatch and for whatever is run again after a crash."""
    name = queue()
    table = spark.range(10).selectExpr("cast(id as string) as body")
    for batch in (0, 0, 1, 1):
        write(table, queue=path_of(name), queryId=f"nightly {name}", batchId=batch)
    assert office.count(name) == 20
    with pytest.raises(Exception, match="has published its batch 1, and now comes with batch 0"):
        write(table, queue=path_of(name), queryId=f"nightly {name}", batchId=0)
    with pytest.raises(Exception, match="3 messages, and the published one has 10"):
        write(table.limit(3), queue=path_of(name), queryId=f"nightly {name}", batchId=1)
    assert office.count(name) == 20
    assert stages(office) == []


def test_empty_table_is_a_batch_too(
    spark: SparkSession, office: SparkOffice, queue: MakeQueue, write: Write
) -> None:
    name = queue()
    nothing = spark.range(0).selectExpr("cast(id as string) as body")
    write(nothing, queue=path_of(name), queryId=name, batchId=4)
    manager = Manager(office.url, str(office.token_file), None, 30.0)
    assert progress(http_of(manager), written_as(name, path_of(name))).batch == 4
    assert office.count(name) == 0


def test_large_rows_travel_in_pieces(
    spark: SparkSession, office: SparkOffice, queue: MakeQueue, write: Write
) -> None:
    name = queue()
    table = spark.range(0, 30, 1, 1).selectExpr(
        "concat(lpad(cast(id as string), 2, '0'), repeat('x', 1 << 20)) as body"
    )
    write(table, queue=path_of(name))
    found = office.bodies(name)
    assert {len(body) for body in found} == {2 + (1 << 20)}
    assert [int(body[:2]) for body in found] == list(range(30))


def test_message_keeps_its_identifier_where_that_is_asked_for(
    spark: SparkSession, office: SparkOffice, queue: MakeQueue, write: Write
) -> None:
    first, second = queue(), queue()
    identifier = "2a1b3c4d-0000-0000-0000-000000000001\\4294967295"
    table = spark.createDataFrame([(identifier, "x")], "id string, body string")
    write(table, queue=path_of(first), sameIds="true")
    write(table, queue=path_of(second))
    assert [message.id for message in messages(office, first)] == [identifier]
    assert [message.id for message in messages(office, second)] != [identifier]


def test_what_one_queue_holds_can_be_written_to_another_as_it_is(
    spark: SparkSession,
    office: SparkOffice,
    queue: MakeQueue,
    options: Callable[..., dict[str, str]],
    write: Write,
) -> None:
    first, second = queue(transactional=True), queue()
    with office.qm.transaction() as tx:
        for label in ("one", "two"):
            office.qm.queue(path_of(first)).send(
                "text", label=label, correlation="ab" * 20, ack="neg-receive", tx=tx,
                admin_queue=path_of(first), extension=b"x",
            )  # fmt: skip
    table = spark.read.format("posthouse").options(**options(first)).load()
    write(table, queue=path_of(second))
    kept = ("label", "text", "body_type", "correlation_id", "acknowledge", "extension", "priority")
    before, after = messages(office, first), messages(office, second)
    assert [[getattr(message, name) for name in kept] for message in after] == [
        [getattr(message, name) for name in kept] for message in before
    ]
    assert [message.delivery for message in after] == ["recoverable"] * 2
    assert {message.id for message in before}.isdisjoint(message.id for message in after)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue": path_of("nowhere")}, "MQ_ERROR_QUEUE_NOT_FOUND"),
        ({"queue": path_of("q"), "tokenFile": "{folder}/wrong"}, "token is unknown, revoked or"),
        ({"queue": path_of("q"), "tokenFile": "{folder}/none"}, "none"),
        ({}, "no queue is named for the messages"),
        ({"quue": "x"}, r"unknown option quue: did you mean queue\?"),
        ({"queue": "x y"}, "option queue is 'x y': .*space"),
        ({"queue": path_of("q"), "priority": "9"}, "the option priority: 9 is not between"),
        ({"queue": path_of("q"), "batchId": "1"}, "queryId and batchId"),
        ({"queue": path_of("q"), "badRows": "deadletter"}, "go together"),
        (
            {"queue": path_of("q"), "url": "http://127.0.0.1:9", "retryFor": "0"},
            "no queue manager answers at",
        ),
    ],
)
def test_write_that_cannot_be_is_refused_when_planned(
    spark: SparkSession,
    access: dict[str, str],
    options: dict[str, str],
    said: str,
    tmp_path: Path,
) -> None:
    (tmp_path / "wrong").write_text("wrong")
    (tmp_path / "wrong").chmod(0o600)
    given = {name: text.replace("{folder}", str(tmp_path)) for name, text in options.items()}
    table = spark.sql("select 'x' as body")
    with pytest.raises(Exception, match=said) as caught:
        table.write.format("posthouse").options(**{**access, **given}).mode("append").save()
    assert "Job aborted" not in str(caught.value)  # no task has begun


def test_queue_is_not_overwritten(
    spark: SparkSession, access: dict[str, str], queue: MakeQueue
) -> None:
    writing = spark.sql("select 'x' as body").write.format("posthouse").options(**access)
    with pytest.raises(Exception, match="messages can only be appended to a queue") as refused:
        writing.option("queue", path_of(queue())).mode("overwrite").save()
    assert "write each batch in foreachBatch" in str(refused.value)
    assert '"update"' not in str(refused.value), "Spark refuses update for this sink"


# -- streams


class Streaming:
    """Files with one line each into one queue: a file is a batch."""

    def __init__(self, spark: SparkSession, options: dict[str, str], folder: Path) -> None:
        self._spark = spark
        self._options = options
        self._files = folder / "files"
        self.checkpoint = folder / "checkpoint"
        self._files.mkdir()

    def add(self, *lines: str) -> None:
        for line in lines:
            (self._files / f"{line}.txt").write_text(line)

    def run(self) -> None:
        """All files that are new."""
        stream = self._spark.readStream.option("maxFilesPerTrigger", 1).text(str(self._files))
        query = (
            stream.selectExpr("value as body", "cast(value as int) as app_specific")
            .repartition(2)
            .writeStream.format("posthouse")
            .options(**self._options)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)

    def forget_last_commit(self) -> int:
        """As after a crash between the publish and Spark's own note of it."""
        commits = sorted(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*"))
        for path in (self.checkpoint / "commits").glob(f"*{commits[-1]}*"):
            path.unlink()
        return commits[-1]


def test_stream_is_written_once_however_often_a_batch_is_replayed(
    spark: SparkSession,
    office: SparkOffice,
    queue: MakeQueue,
    options: Callable[..., dict[str, str]],
    tmp_path: Path,
) -> None:
    name = queue(transactional=True)
    streaming = Streaming(spark, options(name), tmp_path)
    streaming.add("10", "11")
    streaming.run()
    assert streaming.forget_last_commit() == 1
    streaming.add("12")
    streaming.run()
    assert sorted(office.bodies(name)) == [b"10", b"11", b"12"]
    assert sorted(message.app_specific for message in messages(office, name)) == [10, 11, 12]
    assert stages(office) == []


def test_batch_of_a_stream_that_failed_is_published_when_replayed(
    spark: SparkSession,
    office: SparkOffice,
    queue: MakeQueue,
    options: Callable[..., dict[str, str]],
    tmp_path: Path,
) -> None:
    """The destination is missing at first: the same batch goes through when it is there."""
    streaming = Streaming(spark, options("later"), tmp_path)
    streaming.add("20")
    with pytest.raises(Exception, match=r"MQ_ERROR_QUEUE_NOT_FOUND|destination"):
        streaming.run()
    office.create("later")
    streaming.run()
    assert office.bodies("later") == [b"20"]


def test_new_query_with_an_old_batch_number_is_not_mistaken(
    spark: SparkSession,
    office: SparkOffice,
    queue: MakeQueue,
    options: Callable[..., dict[str, str]],
    tmp_path: Path,
) -> None:
    name = queue()
    streaming = Streaming(spark, options(name), tmp_path)
    streaming.add("30")
    streaming.run()
    shutil.rmtree(streaming.checkpoint)
    streaming.run()
    assert office.bodies(name) == [b"30", b"30"]


# -- the commit by itself


@pytest.fixture
def sink(access: dict[str, str], queue: MakeQueue) -> Sink:
    """Into a queue of its own."""
    made = sink_options({**access, "queue": path_of(queue())})
    return Sink(made, row_map(made.writing, message_schema(("body",))))


def staged(sink: Sink, query: str, attempt: int, *bodies: bytes) -> Staged:
    """As a task does it."""
    rows = pa.RecordBatch.from_pydict({"body": pa.array(bodies, pa.binary())})
    with http_of(sink.options.manager) as http:
        stage(http, query, 0, 0, attempt, rows.schema, [rows], sink.options.writing.queue)
    return Staged(query, 0, 0, attempt, 0)


def short(sink: Sink) -> str:
    return sink.options.writing.queue.rpartition("\\")[2]


def test_of_several_attempts_the_one_that_was_committed_counts(
    office: SparkOffice, sink: Sink
) -> None:
    query = short(sink)
    staged(sink, query, 1, b"first", b"attempt")
    counts = staged(sink, query, 2, b"second")
    sink.publish(pickle.loads(pickle.dumps([counts])))
    staged(sink, query, 3, b"too late")
    sink.publish([counts])
    sink.publish([Staged(query, 0, 0, 3, 0)])
    assert office.bodies(query) == [b"second"]


def test_batch_of_long_ago_is_refused(office: SparkOffice, sink: Sink) -> None:
    """A checkpoint whose logs were deleted begins with batch 0 again, under the old name."""
    query = short(sink)
    sink.publish([Staged(query, 7, 0, None, 0)])
    sink.publish([Staged(query, 7, 0, None, 0)])
    with pytest.raises(TransactionSequence, match="its batch 7, and now comes with batch 3"):
        sink.publish([Staged(query, 3, 0, None, 0)])


def test_abort_after_a_commit_whose_answer_was_lost_takes_nothing_back(
    office: SparkOffice, sink: Sink
) -> None:
    query = short(sink)
    sink.publish([staged(sink, query, 1, b"published")])
    sink.discard(query, 0)
    assert office.bodies(query) == [b"published"]


def test_stage_that_is_gone_keeps_everything_back(office: SparkOffice, sink: Sink) -> None:
    query = short(sink)
    there, missing = staged(sink, query, 1, b"there"), Staged(query, 0, 1, 12345, 0)
    with pytest.raises(QueueError):
        sink.publish([there, missing])
    assert office.count(query) == 0
    sink.publish([None])
    sink.discard(query, 0)
    assert stages(office) == []


def test_a_token_comes_from_the_environment(
    office: SparkOffice,
    queue: MakeQueue,
    access: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a cluster fills it from a secret: no file of the driver's is needed."""
    options = {**access, "tokenFile": "env:POSTHOUSE_SECRET", "queue": path_of(queue())}
    monkeypatch.setenv("POSTHOUSE_SECRET", office.token_file.read_text("ascii"))
    assert writer(options, message_schema(["body"]), False)
    monkeypatch.delenv("POSTHOUSE_SECRET")
    with pytest.raises(QueueError, match="names the variable POSTHOUSE_SECRET, which is not set"):
        writer(options, message_schema(["body"]), False)
