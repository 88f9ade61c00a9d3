"""Jobs and their files through backup, restore and compaction."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.engine.settings import EngineSettings
from posthouse.model.bindery import (
    NWOT_JOB_QUEUE,
    NWOT_JOB_SERVER,
    NWOT_USER,
    Q_OPERATORS,
    Q_SERVERS,
    Q_USERS,
    SUPERVISOR,
)
from posthouse.model.qms import NWQueueJobStruct
from posthouse.runtime.backup import backup_embedded, restore
from posthouse.runtime.embedded import EmbeddedQueueManager
from posthouse.runtime.home import STORE
from posthouse.store.disk import RealDisk
from posthouse.store.doctor import check
from posthouse.store.settings import StoreSettings

SMALL = StoreSettings(
    segment_size=16_000, store_id=b"0123456789abcdef", checkpoint_ratio=1, garbage_segments=0
)
JOBS, KEPT_EVERY, SIZE = 40, 4, 3_000
QUEUE = (NWOT_JOB_QUEUE, "WORK")


class Shop:
    """A queue manager with one job queue, in which SUPERVISOR may do everything."""

    def __init__(self, home: Path) -> None:
        settings = EngineSettings("ALPHA", qms=QmsSettings())
        self.qm = EmbeddedQueueManager(home, settings=settings, store_settings=SMALL)
        self.qm.manager.certificates.key_file = lambda: b"s" * 32
        self.station = self.enter(NWOT_USER, SUPERVISOR)

    def enter(self, kind: int, name: str) -> Station:
        station = self.qm.run(lambda m: m.stations.begin("test"))
        self.qm.run(lambda m: m.bindery.enter(station, self.qm.administrator, kind, name))
        return station

    def build(self) -> None:
        run, station = self.qm.run, self.station
        run(lambda m: m.jobs.create_queue(station, *QUEUE, "SYS:SYSTEM"))
        run(lambda m: m.bindery.create_object(station, NWOT_JOB_SERVER, "S"))
        for prop, kind, name in (
            (Q_USERS, NWOT_USER, SUPERVISOR),
            (Q_OPERATORS, NWOT_USER, SUPERVISOR),
            (Q_SERVERS, NWOT_JOB_SERVER, "S"),
        ):
            run(
                lambda m, p=prop, k=kind, n=name: m.bindery.add_object_to_set(  # type: ignore[misc]
                    station, *QUEUE, p, k, n
                )
            )

    @property
    def id(self) -> int:
        return self.qm.manager.bindery.objects.get(*QUEUE).id

    def submit(self, data: bytes) -> int:
        """Written in two pieces, the second one over the end of the first."""
        run, station = self.qm.run, self.station
        job = run(lambda m: m.jobs.create_queue_file(station, self.id, NWQueueJobStruct()))
        handle, half = job.job_file_handle, len(data) // 2
        for at, piece in ((0, data[: half + 9]), (half, data[half:])):
            run(lambda m, a=at, p=piece: m.jobs.write_file(station, handle, a, p))  # type: ignore[misc]
        run(lambda m: m.jobs.close_file_and_start_queue_job(station, self.id, job.job_number))
        return job.job_number

    def remove(self, number: int) -> None:
        self.qm.run(lambda m: m.jobs.remove_job_from_queue(self.station, self.id, number))

    def serviced(self) -> dict[int, bytes]:
        """What a queue server gets, job by job; all are finished."""
        run, server, id = self.qm.run, self.enter(NWOT_JOB_SERVER, "S"), self.id
        run(lambda m: m.jobs.attach_queue_server_to_queue(server, id))
        found: dict[int, bytes] = {}
        for _ in range(self.waiting):
            job = run(lambda m: m.jobs.service_queue_job(server, id, None))
            handle, number = job.job_file_handle, job.job_number
            found[number] = run(
                lambda m, h=handle: m.jobs.read_file(server, h, 0, 2 * SIZE)  # type: ignore[misc]
            )
            run(
                lambda m, n=number: m.jobs.finish_servicing_queue_job(server, id, n)  # type: ignore[misc]
            )
        return found

    @property
    def waiting(self) -> int:
        return len(self.qm.manager.jobs.queue(self.id))

    def rest(self) -> None:
        """Until there is nothing to tidy up."""
        for _ in range(10_000):
            if not self.qm.driver.tidy():
                return
            self.qm.driver.sync()
        raise AssertionError("upkeep never ends")

    def segments(self) -> set[int]:
        return set(self.qm.store.ledger.segments)


@pytest.fixture
def kept(tmp_path: Path) -> dict[int, bytes]:
    """A home in which most jobs that ever were are gone, and their files compacted away."""
    shop, chance = Shop(tmp_path / "home"), Random(7)
    shop.build()
    files = [(data := chance.randbytes(SIZE), shop.submit(data)) for _ in range(JOBS)]
    before = shop.segments()
    for at, (_, number) in enumerate(files):
        if at % KEPT_EVERY:
            shop.remove(number)
    shop.rest()
    assert len(before - shop.segments()) >= 3  # segments that are no more
    jobs = {number: data for at, (data, number) in enumerate(files) if not at % KEPT_EVERY}
    assert shop.waiting == len(jobs)
    shop.qm.close()
    return jobs


def test_files_of_jobs_survive_the_compaction_of_others(
    tmp_path: Path, kept: dict[int, bytes]
) -> None:
    shop = Shop(tmp_path / "home")
    assert shop.serviced() == kept
    shop.rest()
    shop.qm.close()
    assert check(RealDisk(tmp_path / "home" / STORE, read_only=True)).healthy
    again = Shop(tmp_path / "home")
    assert again.waiting == 0
    again.qm.close()


def test_a_restored_backup_has_the_jobs_with_their_files(
    tmp_path: Path, kept: dict[int, bytes]
) -> None:
    shop = Shop(tmp_path / "home")
    backup_embedded(shop.qm.driver, shop.qm.store, tmp_path / "copy", tmp_path / "home")
    later = shop.submit(b"behind the backup")
    assert shop.serviced() == kept | {later: b"behind the backup"}
    shop.qm.close()
    restore(tmp_path / "copy", tmp_path / "other")
    restored = Shop(tmp_path / "other")
    assert restored.serviced() == kept
    new = restored.submit(b"new")
    assert new not in kept
    assert restored.serviced() == {new: b"new"}
    restored.qm.close()
