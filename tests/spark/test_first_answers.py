"""An address that never answered fails in seconds; one that has answered is waited for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StructField, StructType

from posthouse.client import admin_http
from posthouse.client.errors import ServerUnreachable
from posthouse.spark import options as options_module
from posthouse.spark.batch import batch_reader
from posthouse.spark.schema import message_schema
from posthouse.spark.sink import writer
from posthouse.spark.stream import StreamReader
from tests.process.offices import free_port
from tests.spark.change_servers import Server, ServerThread

BODY = message_schema(["body"], exact=True)
ROWS = StructType([StructField("body", BinaryType())])


def read(options: dict[str, str]) -> None:
    batch_reader(options, BODY).partitions()


def begin(options: dict[str, str]) -> None:
    StreamReader(options, BODY).initialOffset()


def begin_what_is_there(options: dict[str, str]) -> None:
    made = StreamReader(options, BODY)
    made.prepareForTriggerAvailableNow()
    made.initialOffset()


def write(options: dict[str, str]) -> None:
    writer(options, ROWS, overwrite=False)


@pytest.mark.parametrize("work", [read, begin, begin_what_is_there, write])
@pytest.mark.parametrize("more", ["", ",http://127.0.0.1:{other}"])
def test_a_mistyped_address_fails_in_seconds(
    work: Callable[[dict[str, str]], None], more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if more and work is write:
        return  # a sink has one address
    monkeypatch.setattr(options_module, "FIRST_S", 0.1)
    wrong = f"http://127.0.0.1:{free_port()}{more.format(other=free_port())}"
    began = time.monotonic()
    with pytest.raises(ServerUnreachable, match=r"asked again for 0\.1 s"):
        work({"url": wrong, "queue": ".\\private$\\a"})
    assert time.monotonic() - began < 30  # and not 300


def test_one_that_is_named_is_kept() -> None:
    (named,) = options_module.source_options({"queue": "a", "retryFor": "60"}).managers
    (usual,) = options_module.source_options({"queue": "a"}).managers
    assert (named.retry_s, named.first_s) == (60, 60)
    assert (usual.retry_s, usual.first_s) == (300, options_module.FIRST_S)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    thread = ServerThread()
    made = Server(thread, tmp_path / "alpha", "ALPHA")
    made.create("a")
    yield made
    made.stop()
    thread.close()


def test_a_checkpoint_waits_for_an_address_that_has_answered(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that is started while the queue manager is away."""
    monkeypatch.setattr(options_module, "FIRST_S", 0.0)
    monkeypatch.setattr(admin_http, "_PAUSE_LAST_S", 0.1)
    options = {"url": server.url, "tokenFile": str(server.token_file), "queue": ".\\private$\\a"}
    server.send("a", [b"1"])
    start = StreamReader(options, BODY).initialOffset()
    server.stop()
    starting = Thread(target=server.start)

    def note(record: logging.LogRecord) -> bool:
        if "Asking again for up to 300 s" in record.getMessage():
            starting.start()
        return True

    caplog.handler.addFilter(note)
    again = StreamReader(options, BODY)
    again.prepareForTriggerAvailableNow()
    try:
        end = again.latestOffset(start, ReadAllAvailable())
        starting.join()
    finally:
        caplog.handler.removeFilter(note)
    assert list(end["queues"].values()) == [1]
