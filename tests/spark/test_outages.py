"""Queue managers that are away for a while: streams wait for them, and go on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import pytest

from posthouse.client import admin_http as bulk_http
from posthouse.client.errors import ServerUnreachable
from posthouse.model.errors import QueueNotFound
from posthouse.spark import leases, manager_availability
from posthouse.spark import stream_planner as course
from posthouse.spark.data_loss import DataLoss
from posthouse.spark.limits import Limits
from posthouse.spark.offsets import StreamOffset
from posthouse.spark.options import source_options
from posthouse.spark.read_tasks import Portion, read_portion
from posthouse.spark.stream_planner import Course
from tests.process.spark_office import SparkOffice, path_of

BODIES = [b"%d" % number for number in range(6)]


@pytest.fixture
def frail(tmp_path: Path) -> Iterator[SparkOffice]:
    """A server that is stopped and started."""
    with ExitStack() as running:
        yield SparkOffice(tmp_path / "frail", running)


@contextmanager
def away(office: SparkOffice, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The server is killed, and starts again once the log shows that somebody waits for it."""
    if office.server.pid:
        office.server.kill()
    missed = Event()

    def note(record: logging.LogRecord) -> bool:
        if "no queue manager answers" in record.getMessage():
            missed.set()
        return True

    def start() -> None:
        missed.wait()
        office.server.start()

    starting = Thread(target=start)
    starting.start()
    caplog.handler.addFilter(note)
    try:
        yield
    finally:
        caplog.handler.removeFilter(note)
        missed.set()
        starting.join()


def options_of(office: SparkOffice, **more: object) -> dict[str, str]:
    access = {"url": office.url, "tokenFile": str(office.token_file), "queue": path_of("orders")}
    return {**access, **{name: str(value) for name, value in more.items()}}


@pytest.fixture
def no_short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that is not the option's is over at once."""
    monkeypatch.setattr(bulk_http, "RETRY_S", 0.0)


def test_driver_and_tasks_wait_for_a_queue_manager_that_is_restarted(
    frail: SparkOffice, caplog: pytest.LogCaptureFixture, no_short_patience: None
) -> None:
    frail.create("orders")
    frail.send("orders", BODIES)
    stream = Course(source_options(options_of(frail, consume="onCommit", group="g")))
    with away(frail, caplog):
        stream.begin()
    start = stream.first()
    end = stream.next(start, Limits())
    assert end is not None
    with away(frail, caplog):
        portions = stream.portions(start, end)
    with away(frail, caplog):
        assert read(portions) == BODIES
    stream.close()


# -- one of several


@pytest.fixture
def branch(tmp_path: Path) -> Iterator[SparkOffice]:
    """A second queue manager, BRAVO, that is stopped and started."""
    with ExitStack() as running:
        yield SparkOffice(tmp_path / "branch", running, "BRAVO")


@pytest.fixture
def pair(frail: SparkOffice, branch: SparkOffice, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Both of them, with a queue each; one that is away is looked for again at once."""
    monkeypatch.setattr(manager_availability, "PAUSE_LAST_S", 0.0)
    monkeypatch.setattr(course, "LOOK_S", 0.0)
    monkeypatch.setattr(leases, "is_dead", lambda owner: True)  # of readers that came before
    for office in (frail, branch):
        office.create("orders")
    return Pair(frail, branch)


class Pair(NamedTuple):
    alpha: SparkOffice
    bravo: SparkOffice

    def begun(self, **more: object) -> Course:
        """A stream that consumes from both."""
        options = options_of(self.alpha, consume="onCommit", group="g", **more)
        options["url"] = f"{self.alpha.url},{self.bravo.url}"
        options["tokenFile"] = f"{self.alpha.token_file},{self.bravo.token_file}"
        made = Course(source_options(options))
        made.begin()
        return made


def batch(made: Course, start: StreamOffset) -> tuple[StreamOffset, list[bytes]]:
    """The next micro-batch: where it ends, and its messages."""
    end = made.next(start, Limits())
    assert end is not None
    if start.starts:  # it is not the first one
        made.commit(start)
    return end, read(made.portions(start, end))


def read(portions: list[Portion]) -> list[bytes]:
    return [
        body.as_py()
        for portion in portions
        for rows in read_portion(portion, ["body"])
        for body in rows.column(0)
    ]


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    return [text for text in found if "the others go on" in text]


def test_one_of_several_that_is_away_does_not_stop_the_others(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.alpha.send("orders", [b"a0"])
    pair.bravo.send("orders", [b"b0"])
    stream = pair.begun()
    end, bodies = batch(stream, stream.first())
    assert sorted(bodies) == [b"a0", b"b0"]
    pair.bravo.server.kill()
    for body in (b"a1", b"a2"):
        pair.alpha.send("orders", [body])
        end, bodies = batch(stream, end)
        assert bodies == [body]
    assert len(reports(caplog)) == 1
    assert stream.away() == [pair.bravo.url]
    pair.bravo.server.start()
    pair.bravo.send("orders", [b"b1"])
    end, bodies = batch(stream, end)
    assert bodies == [b"b1"]
    assert stream.away() == []
    assert stream.next(end, Limits()) is None
    stream.close()
    assert (pair.alpha.count("orders"), pair.bravo.count("orders")) == (0, 0)


def test_a_stream_starts_without_one_that_its_checkpoint_has_queues_of(pair: Pair) -> None:
    pair.bravo.send("orders", [b"b0"])
    first = pair.begun()
    end, bodies = batch(first, first.first())
    assert bodies == [b"b0"]
    first.close()
    pair.bravo.server.kill()
    pair.alpha.send("orders", [b"a0"])
    second = pair.begun()
    end, bodies = batch(second, end)
    assert bodies == [b"a0"]
    pair.bravo.server.start()
    pair.bravo.send("orders", [b"b1"])
    end, bodies = batch(second, end)
    assert bodies == [b"b1"]
    second.close()


def test_a_new_stream_does_not_start_without_one(pair: Pair) -> None:
    pair.bravo.server.kill()
    stream = pair.begun(retryFor=0)
    with pytest.raises(ServerUnreachable, match="a stream begins with all of its queue managers"):
        stream.first()
    known = StreamOffset(urls={"ALPHA": pair.alpha.url}, starts={})
    with pytest.raises(ServerUnreachable, match="the checkpoint has none of its queues"):
        stream.next(known, Limits())
    stream.close()


def test_a_batch_with_messages_of_one_that_is_away_waits_for_it(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.bravo.send("orders", [b"b0"])
    first = pair.begun()
    start = first.first()
    end, _ = batch(first, start)
    first.close()
    pair.bravo.server.kill()
    second = pair.begun(retryFor=0)
    with pytest.raises(ServerUnreachable, match="the batch that is to be done again has messages"):
        second.portions(start, end)
    second.close()
    third = pair.begun()
    with away(pair.bravo, caplog):
        assert read(third.portions(start, end)) == [b"b0"]
    third.close()


def test_a_stream_of_several_that_are_all_away_waits(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    stream = pair.begun()
    start = stream.first()
    pair.alpha.server.kill()
    with away(pair.bravo, caplog):
        assert stream.next(start, Limits()) is None
    pair.alpha.server.start()
    stream.close()


# -- deleted queues


def test_a_deleted_queue_is_told_until_the_operator_chooses_to_go_on(
    frail: SparkOffice, caplog: pytest.LogCaptureFixture
) -> None:
    frail.create("orders", "other")
    frail.send("orders", BODIES[:1])
    frail.send("other", BODIES[1:2])
    pattern = {**options_of(frail), "queuePattern": path_of("o*")}
    del pattern["queue"]

    def begun(**more: str) -> Course:
        made = Course(source_options({**pattern, **more}))
        made.begin()
        return made

    stream = begun()
    end, bodies = batch(stream, stream.first())
    assert sorted(bodies) == BODIES[:2]
    frail.qm.delete_queue(path_of("other"))
    frail.send("orders", BODIES[2:3])
    told = (
        r"ALPHA\\private\$\\other, of which this checkpoint has read.*was deleted.*failOnDataLoss"
    )
    with pytest.raises(DataLoss, match=told):
        stream.next(end, Limits())
    stream.close()
    stream = begun()  # a supervisor does not make that choice
    with pytest.raises(DataLoss, match=told):
        stream.next(end, Limits())
    stream.close()
    stream = begun(failOnDataLoss="false")
    for expected in (BODIES[2:3], BODIES[3:4]):
        end, bodies = batch(stream, end)
        assert bodies == expected
        frail.send("orders", BODIES[3:4])
    assert sum("was deleted" in record.getMessage() for record in caplog.records) == 1
    stream.close()
    stream = begun()
    _, bodies = batch(stream, end)
    assert bodies == BODIES[3:4]
    stream.close()


def test_a_deleted_queue_of_a_group_is_a_loss_too(frail: SparkOffice) -> None:
    frail.create("orders", "other")
    frail.send("other", BODIES[:1])
    options = options_of(frail, consume="onCommit", group="g")
    options["queue"] = f"{path_of('orders')},{path_of('other')}"
    stream = Course(source_options(options))
    stream.begin()
    end, _ = batch(stream, stream.first())
    assert stream.next(end, Limits()) is None
    stream.close()
    frail.qm.delete_queue(path_of("other"))
    frail.send("orders", BODIES[1:2])
    strict = Course(source_options(options))
    with pytest.raises(QueueNotFound, match="other"):
        strict.begin()
    strict.close()
    for more in ({"failOnDataLoss": "false"}, {"queue": path_of("orders")}):
        stream = Course(source_options({**options, **more}))
        stream.begin()
        end, bodies = batch(stream, end)
        assert bodies == BODIES[1:2]
        assert stream.next(end, Limits()) is None
        stream.close()
        frail.send("orders", BODIES[1:2])


def test_a_refusal_is_told_at_once(frail: SparkOffice, caplog: pytest.LogCaptureFixture) -> None:
    stream = Course(source_options(options_of(frail)))
    with pytest.raises(QueueNotFound):
        stream.begin()
    stream.close()
    assert caplog.records == []


def test_nobody_waits_where_the_option_is_nothing(frail: SparkOffice) -> None:
    frail.create("orders")
    frail.server.kill()
    stream = Course(source_options(options_of(frail, retryFor=0)))
    with pytest.raises(ServerUnreachable):
        stream.begin()
    stream.close()
