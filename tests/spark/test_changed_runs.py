"""What people change between two runs of a stream: nothing is received that no sink has.

L2, L3, L5, L6, W1 and D1 are experiments of a review of version 0.1, which lost messages in them.
Spark's part is played by `Query`, in Spark's order of calls.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from posthouse.model.errors import InvalidParameter, QueueError, SharingViolation
from posthouse.spark import leases as leases_module
from posthouse.spark import settle
from posthouse.spark.limits import Limits
from posthouse.spark.offsets import StreamOffset, offset_of
from posthouse.spark.options import source_options
from posthouse.spark.read_tasks import DataLoss, read_portion
from posthouse.spark.stream_planner import Course
from tests.process.spark_office import SparkOffice, path_of

ORDERS = "ALPHA\\private$\\orders"


class SinkFailed(Exception):
    """The batch is not committed."""


class Query:
    """A query of Spark's with its checkpoint and its sink; each run is an AvailableNow one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sink: dict[int, list[bytes]] = {}
        for part in ("offsets", "commits"):
            (folder / part).mkdir(parents=True)

    def run(self, options: dict[str, str], limit: int | None = None, fail: bool = False) -> None:
        course = Course(source_options(options))
        try:
            course.begin()
            course.set_goal()
            planned, done = self._last("offsets"), self._last("commits")
            if planned > done:
                self._batch(course, planned, fail)
            while True:
                done = self._last("commits")
                end = course.next(self._offset(course, done), Limits(limit))
                if end is None:
                    return
                self._write("offsets", done + 1, f"v1\n{{}}\n{json.dumps(end.to_json())}")
                if done >= 0:
                    course.commit(self._offset(course, done))
                self._batch(course, done + 1, fail)
        finally:
            course.close()

    def _batch(self, course: Course, batch: int, fail: bool) -> None:
        start, end = self._offset(course, batch - 1), self._offset(course, batch)
        self.sink[batch] = [
            body.as_py()
            for portion in course.portions(start, end)
            for rows in read_portion(portion, ["body"])
            for body in rows.column(0)
        ]
        if fail:
            del self.sink[batch]
            raise SinkFailed
        self._write("commits", batch, "v1\n{}")

    def _offset(self, course: Course, batch: int) -> StreamOffset:
        if batch < 0:
            return offset_of(json.loads(json.dumps(course.first().to_json())))
        line = (self.folder / "offsets" / str(batch)).read_text().splitlines()[2]
        return offset_of(json.loads(line))

    def _last(self, part: str) -> int:
        return max((int(file.name) for file in (self.folder / part).iterdir()), default=-1)

    def _write(self, part: str, batch: int, text: str) -> None:
        (self.folder / part / str(batch)).write_text(text)

    @property
    def rows(self) -> list[bytes]:
        return [body for _, bodies in sorted(self.sink.items()) for body in bodies]


class House:
    """A queue manager whose home can be thrown away."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.office = SparkOffice(folder, running)

    def options(self, *queues: str, **more: str) -> dict[str, str]:
        access = {"url": self.office.url, "tokenFile": str(self.office.token_file)}
        return {**access, "queue": ",".join(map(path_of, queues)), "retryFor": "30", **more}

    def consuming(self, *queues: str, **more: str) -> dict[str, str]:
        return self.options(*queues, consume="onCommit", **{"group": "shop", **more})

    def make_again(self) -> None:
        """A container without its volume: the same name and address, and nothing else."""
        office, home = self.office, self.office.server.home
        office.server.stop()
        settings = (home / "posthouse.toml").read_text()
        shutil.rmtree(home)
        home.mkdir(mode=0o700)
        (home / "posthouse.toml").write_text(settings)
        office.server.start()
        with posthouse.connect(home) as qm:
            token = qm.call("POST", "/tokens", {"role": "administer"})["token"]
        office.token_file.write_text(token)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with ExitStack() as running:
        made = House(tmp_path / "alpha", running)
        made.office.create("orders")
        yield made


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "checkpoint")


def numbered(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


# -- queues that are left out (L2)


def test_a_queue_that_is_left_out_of_a_batch_is_not_done(house: House, query: Query) -> None:
    """L2: the batch was committed without it, and its messages were received unread."""
    office = house.office
    office.create("more")
    office.send("orders", numbered(0, 3))
    office.send("more", numbered(3, 6))
    with pytest.raises(SinkFailed):
        query.run(house.consuming("orders", "more"), fail=True)
    with pytest.raises(DataLoss, match=r"more, which this stream does not read now.*queue again"):
        query.run(house.consuming("orders"))
    assert (office.count("orders"), office.count("more")) == (3, 3)
    query.run(house.consuming("orders", "more"))
    assert sorted(query.rows) == numbered(0, 6)
    assert (office.count("orders"), office.count("more")) == (0, 0)


def test_with_leave_the_rest_of_the_batch_is_done_and_the_queue_keeps_its_messages(
    house: House, query: Query
) -> None:
    office = house.office
    office.create("more")
    office.send("orders", numbered(0, 3))
    office.send("more", numbered(3, 6))
    with pytest.raises(SinkFailed):
        query.run(house.consuming("orders", "more"), fail=True)
    query.run(house.consuming("orders", failOnDataLoss="false"))
    assert query.rows == numbered(0, 3)
    settle(query.folder, token_file=str(office.token_file))
    assert office.bodies("more") == numbered(3, 6)
    assert office.qm.queue(path_of("more")).receive(timeout=0).body == b"3"


# -- other queue managers and homes (L3, L6)


def test_a_queue_manager_that_was_made_again_is_another_one(house: House, query: Query) -> None:
    """L3: the third start received what the stream had passed by unread."""
    office = house.office
    office.send("orders", numbered(0, 5))
    query.run(house.consuming("orders"))
    house.make_again()
    office.create("orders")
    office.send("orders", numbered(100, 107))
    for _ in range(3):
        with pytest.raises(DataLoss, match="another queue manager answers"):
            query.run(house.consuming("orders"))
    with pytest.raises(QueueError):
        settle(query.folder, token_file=str(office.token_file))
    assert office.count("orders") == 7


def test_with_leave_all_of_the_new_queue_manager_is_read(
    house: House, query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    office = house.office
    office.send("orders", numbered(0, 5))
    query.run(house.consuming("orders"))
    house.make_again()
    office.create("orders")
    office.send("orders", numbered(100, 107))
    with caplog.at_level(logging.WARNING):
        query.run(house.consuming("orders", failOnDataLoss="false"), limit=2)
    assert query.rows == [*numbered(0, 5), *numbered(100, 107)]
    assert office.count("orders") == 0
    told = [one for one in caplog.records if "data loss" in one.getMessage()]
    assert len(told) == 1


@pytest.mark.parametrize("consume", [True, False])
def test_a_home_that_was_put_back_gives_ids_again_and_none_is_passed_by(
    consume: bool, house: House, query: Query
) -> None:
    """L6: the new messages had ids that the stream had read, and it read none of them."""
    office = house.office
    wanted = house.consuming("orders") if consume else house.options("orders")
    office.send("orders", numbered(0, 3))
    query.run(wanted)
    office.copy_home()
    office.send("orders", numbered(3, 6))
    query.run(wanted)
    office.put_back()
    office.send("orders", numbered(100, 103))
    with pytest.raises(DataLoss, match="put back from a copy"):
        query.run(wanted)
    assert numbered(100, 103) == office.bodies("orders")[-3:]
    query.run({**wanted, "failOnDataLoss": "false"})
    assert query.rows[-3:] == numbered(100, 103)
    query.run(wanted)
    assert query.rows[-3:] == numbered(100, 103)


def test_an_ordinary_crash_is_no_loss(house: House, query: Query) -> None:
    office = house.office
    for at in range(0, 9, 3):
        office.send("orders", numbered(at, at + 3))
        query.run(house.consuming("orders"))
        office.server.kill()
        office.server.start()
    assert query.rows == numbered(0, 9)
    assert office.count("orders") == 0


def test_a_queue_that_was_made_again_is_another_one(house: House, query: Query) -> None:
    office = house.office
    office.send("orders", numbered(0, 3))
    query.run(house.options("orders"))
    office.qm.delete_queue(path_of("orders"))
    office.create("orders")
    with office.connect() as qm:
        qm.queue(path_of("orders")).send_many(numbered(3, 5), recoverable=True)
    with pytest.raises(DataLoss, match="deleted and made again"):
        query.run(house.options("orders"))
    query.run(house.options("orders", failOnDataLoss="false"))
    assert query.rows == numbered(0, 5)


def test_a_batch_that_was_planned_elsewhere_is_not_read_here(house: House, query: Query) -> None:
    """Its ids mean other messages by now."""
    office = house.office
    office.send("orders", numbered(0, 3))
    with pytest.raises(SinkFailed):
        query.run(house.consuming("orders"), fail=True)
    house.make_again()
    office.create("orders")
    office.send("orders", numbered(100, 104))
    with pytest.raises(DataLoss, match="another queue manager answers"):
        query.run(house.consuming("orders"))
    query.run(house.consuming("orders", failOnDataLoss="false"))
    assert query.rows == numbered(100, 104)
    assert office.count("orders") == 0


# -- groups and checkpoints (L5, D1)


def test_another_group_name_deletes_nothing_that_was_not_read(house: House, query: Query) -> None:
    """L5: the third start received the older messages, which no reader had seen."""
    office = house.office
    office.send("orders", numbered(0, 3))
    course = Course(source_options(house.consuming("orders", startingOffsets="latest")))
    course.begin()
    course.close()
    office.send("orders", numbered(3, 6))
    query.run(house.consuming("orders"))
    office.send("orders", numbered(6, 9))
    for _ in range(3):
        with pytest.raises(InvalidParameter, match=r"3 messages.*checkpoint rebase"):
            query.run(house.consuming("orders", group="other"))
    assert office.bodies("orders") == [*numbered(0, 3), *numbered(6, 9)]
    query.run(house.consuming("orders", group="other", failOnDataLoss="false"))
    assert query.rows == numbered(3, 9)
    assert office.bodies("orders") == numbered(0, 3)


def test_a_living_reader_keeps_its_lease(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D1: a cell that runs twice; the second reader took over, and a batch came twice."""
    monkeypatch.setattr(leases_module, "TAKE_OVER_S", 0.0)
    monkeypatch.setattr(leases_module, "RETRY_S", 0.0)
    office = house.office
    office.send("orders", numbered(0, 3))
    living = Course(source_options(house.consuming("orders")))
    living.begin()
    end = living.next(living.first(), Limits())
    assert end is not None
    portions = living.portions(living.first(), end)
    monkeypatch.setattr(leases_module.Leases, "_lapses_in_s", lambda *_: None)
    with pytest.raises(SharingViolation, match="has the lease"):
        Query(tmp_path / "second").run(house.consuming("orders"))
    living._leases.check()  # type: ignore[union-attr]
    living.commit(end)
    living.close()
    assert portions[0].cut.messages == 3
    assert office.count("orders") == 0


def test_another_streams_claim_is_taken_over_from_its_beginning_only(
    house: House, tmp_path: Path
) -> None:
    """A new checkpoint reads what the lost one had claimed; the lost one receives nothing then."""
    office = house.office
    office.send("orders", numbered(0, 4))
    lost, new = Query(tmp_path / "lost"), Query(tmp_path / "new")
    with pytest.raises(SinkFailed):
        lost.run(house.consuming("orders"), fail=True)
    with pytest.raises(SinkFailed):
        new.run(house.consuming("orders"), fail=True)
    lost._write("commits", 0, "v1\n{}")
    with pytest.raises(
        SharingViolation, match=r"another stream.*posthouse group release '.*' shop"
    ):
        settle(lost.folder, token_file=str(office.token_file))
    assert office.count("orders") == 4
    new.run(house.consuming("orders"))
    assert new.rows == numbered(0, 4)


def test_another_streams_checkpoint_is_refused_as_an_option(
    house: House, query: Query, tmp_path: Path
) -> None:
    office = house.office
    office.send("orders", numbered(0, 2))
    other = Query(tmp_path / "other")
    other.run(house.options("orders"))
    with pytest.raises(InvalidParameter, match="not the checkpoint of this stream"):
        query.run(house.consuming("orders", checkpoint=str(other.folder)))
    assert office.count("orders") == 2
    query.run(house.consuming("orders", checkpoint=str(query.folder)))
    assert office.count("orders") == 0


# -- names (W1)


def test_two_queue_managers_of_one_name_are_refused(house: House, tmp_path: Path) -> None:
    """W1: of queues of one name the second one's was left out."""
    with ExitStack() as running:
        twin = House(tmp_path / "twin", running)
        twin.office.create("orders")
        urls = f"{house.office.url},{twin.office.url}"
        files = f"{house.office.token_file},{twin.office.token_file}"
        with pytest.raises(InvalidParameter, match=r"the same computer name, ALPHA"):
            Course(source_options(house.options("orders", url=urls, tokenFile=files))).begin()
    twice = f"{house.office.url},{house.office.url.replace('127.0.0.1', 'localhost')}"
    with pytest.raises(InvalidParameter, match=r"the same computer name, ALPHA"):
        Course(source_options(house.options("orders", url=twice))).begin()


# -- checkpoints of version 0.1


def test_a_checkpoint_of_version_1_goes_on_and_gains_identity(house: House, query: Query) -> None:
    office = house.office
    office.send("orders", numbered(0, 3))
    query.run(house.consuming("orders"))
    path = query.folder / "offsets" / "0"
    head, settings, line = path.read_text().splitlines()
    new = json.loads(line)
    old = {name: new[name] for name in ("group", "queues", "urls")} | {"v": 1}
    path.write_text(f"{head}\n{settings}\n{json.dumps(old)}")
    office.send("orders", numbered(3, 5))
    query.run(house.consuming("orders"))
    assert query.rows == numbered(0, 5)
    assert office.count("orders") == 0
    gained = json.loads((query.folder / "offsets" / "1").read_text().splitlines()[2])
    assert gained["stream"]
    assert gained["incarnations"][ORDERS]
    assert gained["managers"]["ALPHA"] == new["managers"]["ALPHA"]
