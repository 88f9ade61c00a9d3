"""Queue managers that are away for a while: streams wait for them, and go on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from posthouse.client import bulk_http
from posthouse.client.errors import ServerUnreachable
from posthouse.model.errors import QueueNotFound
from posthouse.spark.course import Course
from posthouse.spark.limits import Limits
from posthouse.spark.options import source_options
from posthouse.spark.portions import read_portion
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
    course = Course(source_options(options_of(frail, consume="onCommit", group="g")))
    with away(frail, caplog):
        course.begin()
    start = course.first()
    end = course.next(start, Limits())
    assert end is not None
    with away(frail, caplog):
        portions = course.portions(start, end)
    with away(frail, caplog):
        found = [
            body.as_py()
            for portion in portions
            for batch in read_portion(portion, ["body"])
            for body in batch.column(0)
        ]
    assert found == BODIES
    course.close()


def test_a_refusal_is_told_at_once(frail: SparkOffice, caplog: pytest.LogCaptureFixture) -> None:
    course = Course(source_options(options_of(frail)))
    with pytest.raises(QueueNotFound):
        course.begin()
    course.close()
    assert caplog.records == []


def test_nobody_waits_where_the_option_is_nothing(frail: SparkOffice) -> None:
    frail.create("orders")
    frail.server.kill()
    course = Course(source_options(options_of(frail, retryFor=0)))
    with pytest.raises(ServerUnreachable):
        course.begin()
    course.close()
