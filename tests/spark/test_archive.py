"""`archive`: every message of a queue once, whatever is repeated."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from posthouse.client.errors import ServerUnreachable
from posthouse.model.errors import InvalidParameter, QueueError, QueueNotFound, SharingViolation
from posthouse.spark.lakes.archive_commit import Naming, RemoteBatches
from posthouse.spark.lakes.archiving import Archive, Archived, archive
from posthouse.spark.lakes.disk import locked
from posthouse.spark.lakes.erasure import erase
from posthouse.spark.lakes.files import Added, FilesGone, LakeFiles
from posthouse.spark.lakes.shared_tally import SharedTally
from posthouse.spark.lakes.table import lake
from posthouse.spark.progress import Meter, Progress
from tests.process.spark_office import SparkOffice, path_of
from tests.spark.change_servers import Server, ServerThread

Archiving = Callable[..., Archived]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def archived(office: SparkOffice, spark: SparkSession, folder: Path) -> Archiving:
    """`archived(name, ...)`: archives queues of the office into the lake of the test."""

    def run(*names: str, **more: object) -> Archived:
        paths = [path_of(name) for name in names]
        access = {"url": office.url, "token_file": office.token_file, "spark": spark}
        return archive(paths, folder, **{**access, **more})  # type: ignore[arg-type]

    return run


def bodies(spark: SparkSession, folder: Path) -> list[bytes]:
    rows = lake(folder, spark).orderBy("lookup_id").select("body").collect()
    return [bytes(row.body) for row in rows]


def numbered(count: int, word: str = "m") -> list[bytes]:
    return [f"{word}{number}".encode() for number in range(count)]


def test_a_queue_is_archived_left_as_it_was_and_emptied_at_last(
    archived: Archiving,
    queue: Callable[..., str],
    office: SparkOffice,
    spark: SparkSession,
    folder: Path,
    tmp_path: Path,
) -> None:
    name, other = queue(), queue()
    office.send(name, numbered(30))
    seen: list[Progress] = []
    done = archived(name, max_messages=10, progress=seen.append)
    assert (done.messages, done.batches) == (30, 3)
    assert [(one.done, one.total) for one in seen] == [(10, 30), (20, 30), (30, 30)]
    assert bodies(spark, folder) == numbered(30)
    assert office.count(name) == 30
    office.send(name, [b"later"])
    office.send(other, [b"elsewhere"])
    # Another set of queues, another checkpoint: it begins behind what the lake has.
    assert archived(name, other, checkpoint=tmp_path / "other").messages == 2
    everything = [*numbered(30), b"later", b"elsewhere"]
    assert bodies(spark, folder) == everything
    office.send(name, [b"last"])
    # What the lake has is received, and not written again.
    assert archived(name, consume=True).messages == 1
    assert bodies(spark, folder) == [*everything, b"last"]
    assert (office.count(name), office.count(other)) == (0, 1)


def test_a_consumed_queue_is_empty_and_its_books_balance(
    archived: Archiving,
    queue: Callable[..., str],
    office: SparkOffice,
    spark: SparkSession,
    folder: Path,
) -> None:
    name = queue(journal=True)
    office.send(name, numbered(25))
    assert archived(name, consume=True, max_messages=10).messages == 25
    assert office.count(name) == 0
    assert bodies(spark, folder) == numbered(25)
    journal = archived(name, journals=True)
    assert journal.messages == 25
    names = {row.queue for row in lake(folder, spark).select("queue").distinct().collect()}
    assert names == {f"ALPHA\\private$\\{name}", f"ALPHA\\private$\\{name};journal"}


def test_a_batch_that_spark_did_not_count_is_not_written_twice(
    archived: Archiving,
    queue: Callable[..., str],
    office: SparkOffice,
    spark: SparkSession,
    folder: Path,
) -> None:
    """What fails after the lake's log and before Spark's commit log is the error of the call."""
    name = queue()
    office.send(name, numbered(5))

    def watch(progress: Progress) -> None:
        if progress.batches == 2:
            raise EOFError("gone")

    with pytest.raises(EOFError):
        archived(name, consume=True, max_messages=3, progress=watch)
    assert bodies(spark, folder) == numbered(5)
    assert office.count(name) == 2
    assert archived(name, consume=True, max_messages=3).messages == 0
    assert bodies(spark, folder) == numbered(5)
    assert office.count(name) == 0


def test_following_goes_on_until_it_is_told_to_stop(
    archived: Archiving,
    queue: Callable[..., str],
    office: SparkOffice,
    spark: SparkSession,
    folder: Path,
) -> None:
    name, stop = queue(), threading.Event()
    office.send(name, [b"first"])

    def watch(progress: Progress) -> None:
        if progress.done == 1:
            office.send(name, [b"second"])
        else:
            stop.set()

    done = archived(name, consume=True, follow=True, every_s=0.01, progress=watch, stop=stop)
    assert (done.messages, done.stopped) == (2, True)
    assert bodies(spark, folder) == [b"first", b"second"]
    assert office.count(name) == 0


class SlowSpark:
    """A query that is asked several times before the batch of the lake is in its commit log."""

    isActive = True

    def __init__(self, checkpoint: Path) -> None:
        self.commit, self.asked = checkpoint / "commits" / "4", 0
        self.committed_at_stop: list[bool] = []
        self.commit.parent.mkdir(parents=True)

    def awaitTermination(self, _: float) -> bool:
        self.asked += 1
        if self.asked == 4:
            self.commit.touch()
        return False

    def stop(self) -> None:
        self.committed_at_stop.append(self.commit.exists())


@pytest.mark.parametrize("remote", [False, True])
def test_a_stop_waits_until_spark_has_committed_what_the_lake_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: bool
) -> None:
    """A stop between the two left messages in the queue that the lake has."""
    checkpoint, stop = tmp_path / "checkpoint", threading.Event()
    naming = Naming(str(tmp_path), None, checkpoint, None)
    running = Archive(naming, checkpoint, Meter(lambda _: stop.set(), 0), stop)
    monkeypatch.setattr(Naming, "add", lambda *_: Added())
    query: Any = SlowSpark(checkpoint)
    if remote:
        SharedTally(checkpoint).begin()
        RemoteBatches(naming, checkpoint)(None, 4)
        stop.set()
    else:
        running._batch(Mock(), 4)
    running._follow(query, remote)
    assert query.committed_at_stop == [True]


def test_a_batch_that_begins_while_the_stream_is_stopped_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark begins the next batch after each commit, and a stop waits for that batch's end."""
    checkpoint, stop = tmp_path / "checkpoint", threading.Event()
    naming = Naming(str(tmp_path), None, checkpoint, None)
    running = Archive(naming, checkpoint, Meter(None, 0), stop)
    added: list[int] = []
    monkeypatch.setattr(Naming, "add", lambda *asked: added.append(asked[2]) or Added())
    running._batch(Mock(), 4)
    (checkpoint / "commits").mkdir(parents=True)
    (checkpoint / "commits" / "4").touch()
    refused: list[Exception] = []

    def next_batch() -> None:
        try:
            running._batch(Mock(), 5)
        except Exception as error:
            refused.append(error)

    def stopped() -> None:
        other = threading.Thread(target=next_batch)
        other.start()
        other.join(30)
        assert not other.is_alive(), "the batch waits for the stop, which waits for the batch"

    query: Any = Mock(isActive=True, stop=stopped)
    query.awaitTermination.return_value = False
    stop.set()
    running._follow(query, False)
    assert added == [4]
    assert [str(error) for error in refused] == ["the archive was stopped before batch 5"]
    assert running._failure is None, "a stop is not a failure"


def test_a_stop_waits_for_no_batch_of_a_query_that_has_ended(tmp_path: Path) -> None:
    stop, query = threading.Event(), Mock(isActive=False)
    query.awaitTermination.return_value = False
    naming = Naming(str(tmp_path), None, tmp_path, None)
    running = Archive(naming, tmp_path, Meter(None, 0), stop)
    running._named = 4
    stop.set()
    running._follow(query, False)
    assert query.awaitTermination.call_count == 1


def test_what_is_wrong_is_said_before_a_lake_is_made(
    archived: Archiving, office: SparkOffice, folder: Path
) -> None:
    with pytest.raises(QueueNotFound, match="nowhere"):
        archived("nowhere")
    with pytest.raises(ServerUnreachable):
        archived("nowhere", url="http://127.0.0.1:1")
    with pytest.raises(QueueError):
        archived("nowhere", token_file=folder / "none")
    assert not folder.exists()


def test_one_checkpoint_is_for_one_archive_at_a_time(
    archived: Archiving, queue: Callable[..., str], tmp_path: Path
) -> None:
    with (
        locked(tmp_path / "mine.lock", "the test has it"),
        pytest.raises(SharingViolation, match="another archive runs"),
    ):
        archived(queue(), checkpoint=tmp_path / "mine")


def test_the_checkpoint_of_another_lake_is_refused(
    archived: Archiving, queue: Callable[..., str], office: SparkOffice, tmp_path: Path
) -> None:
    """What it has read was never written to the second lake, and nothing told so."""
    name, checkpoint = queue(), tmp_path / "progress"
    office.send(name, numbered(3))
    assert archived(name, checkpoint=checkpoint).messages == 3
    access = {"url": office.url, "token_file": office.token_file}
    with pytest.raises(InvalidParameter, match=r"belongs to another lake.*--checkpoint"):
        archive(path_of(name), tmp_path / "second", checkpoint=checkpoint, **access)
    office.send(name, numbered(2))
    assert archived(name, checkpoint=checkpoint).messages == 2, "its own lake goes on"


def test_a_checkpoint_that_lost_its_metadata_is_told(
    archived: Archiving, queue: Callable[..., str], office: SparkOffice, tmp_path: Path
) -> None:
    """Spark syncs nothing: a power failure leaves the file empty. It has the name of the stream."""
    name, checkpoint = queue(), tmp_path / "progress"
    office.send(name, numbered(3))
    assert archived(name, checkpoint=checkpoint).messages == 3
    office.send(name, numbered(2))
    (checkpoint / "metadata").write_bytes(b"")
    with pytest.raises(InvalidParameter, match=r"metadata is missing.*Move .*progress away"):
        archived(name, checkpoint=checkpoint)
    (checkpoint / "metadata").unlink()
    with pytest.raises(InvalidParameter, match=r"metadata is missing.*Move .*progress away"):
        archived(name, checkpoint=checkpoint)
    checkpoint.rename(tmp_path / "away")
    assert archived(name, checkpoint=checkpoint).messages == 2


def test_lists_of_queues_and_names_that_change_and_change_back(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    """Each list has a checkpoint of its own, which the others leave behind the group."""
    thread = ServerThread()
    server = Server(thread, tmp_path / "alpha", "ALPHA")
    server.create("orders", "bills")
    sent: list[bytes] = []

    def archived(*names: str, fails: bool = False, **more: Any) -> int:
        """After five more orders; `fails`: before Spark has committed the last batch."""
        new = [f"m{len(sent) + number}".encode() for number in range(5)]
        server.send("orders", new)
        sent.extend(new)
        more = {"url": server.url, "token_file": server.token_file, "spark": spark, **more}
        more |= {"progress": Mock(side_effect=EOFError)} if fails else {}
        with pytest.raises(EOFError) if fails else nullcontext():
            return archive([path_of(name) for name in names], folder, **more).messages
        return 5

    try:
        assert archived("orders", consume=True, fails=True) == 5
        assert archived("orders", "bills", consume=True) == 5
        assert server.bodies("orders") == []
        server.rename("BETA")
        assert archived("orders", "bills") == 5
        server.rename("ALPHA")
        assert archived("orders", consume=True) == 5
        assert server.bodies("orders") == []
    finally:
        server.stop()
        thread.close()
    assert bodies(spark, folder) == sent


def test_a_new_queue_manager_of_an_old_name_is_refused(
    archived: Archiving, queue: Callable[..., str], folder: Path
) -> None:
    """Its lookup ids begin again: the lake would take its messages for those it has."""
    files = LakeFiles(folder)
    files.create()
    files.know_managers({"ALPHA": "00000000-0000-0000-0000-000000000000"})
    with pytest.raises(InvalidParameter, match="another queue manager"):
        archived(queue())


def test_a_lake_refuses_a_home_that_gives_its_ids_again(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    """L6: what the put-back home got was taken for what the lake has, and received unwritten."""
    with ExitStack() as running:
        frail = SparkOffice(tmp_path / "frail", running)
        frail.create("orders", "more")
        access = {"url": frail.url, "token_file": frail.token_file, "spark": spark}
        frail.send("orders", numbered(3))
        frail.copy_home()
        frail.send("orders", numbered(3, "lost"))
        archive(path_of("orders"), folder, consume=True, **access)  # type: ignore[arg-type]
        frail.put_back()
        frail.send("orders", numbered(3, "new"))
        for queues in (["orders"], ["orders", "more"]):
            with pytest.raises(InvalidParameter, match=r"never gave.*another folder"):
                archive(map(path_of, queues), folder, consume=True, **access)  # type: ignore[arg-type]
        assert frail.bodies("orders")[-3:] == numbered(3, "new")
        done = archive(path_of("orders"), tmp_path / "other", consume=True, **access)  # type: ignore[arg-type]
        assert done.messages == 6
        assert frail.count("orders") == 0


def test_an_erasure_between_data_and_entry_loses_and_repeats_nothing(
    archived: Archiving,
    office: SparkOffice,
    queue: Callable[..., str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It deletes what tasks have written and no entry names, so the batch is done again."""
    name, erased, add = queue(), list[int](), LakeFiles.add

    def add_late(lake: LakeFiles, *values: Any) -> Added:
        if not erased:
            erased.append(erase(str(lake.place), "label = 'gone'").deleted)
        return add(lake, *values)

    monkeypatch.setattr(LakeFiles, "add", add_late)
    office.send(name, numbered(5))
    assert archived(name, consume=True).messages == 5
    assert erased == [1]
    assert office.count(name) == 0
    assert LakeFiles(folder).state().rows == 5


@pytest.mark.parametrize(("between", "starts"), [(0, 3), (1, 8)])
def test_an_archive_gives_up_after_failures_without_a_batch_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: int, starts: int
) -> None:
    """Else one that follows for months would end with the third erasure."""
    begun = []
    naming = Naming(str(tmp_path), None, tmp_path, None)
    running = Archive(naming, tmp_path / "checkpoint", Meter(None, 0), None)

    def stream(self: Archive, *_: object) -> None:
        begun.append(1)
        if len(begun) == 8:
            return
        self._meter.add(1, between)
        raise FilesGone("erased", "")

    monkeypatch.setattr(Archive, "_stream", stream)
    with nullcontext() if between else pytest.raises(FilesGone):
        running.run(Mock(), {}, None)
    assert len(begun) == starts
