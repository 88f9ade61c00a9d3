"""No positive answer of NCP before its sync.

At the moment an answer leaves, the machine loses its power and everything that was not synced.
What the answer said must hold on what is left. A driver that does not wait is noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from posthouse.client.ncp.calls import NcpCalls
from posthouse.model.bindery import NWOT_USER
from posthouse.model.qms import NWCF_ENTRY_OPEN, NWQueueJobStruct
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.sim import SimDisk
from posthouse.wire.ncp import bindery_calls as bindery
from posthouse.wire.ncp import framing as ncp
from posthouse.wire.ncp import functions
from posthouse.wire.ncp import queue_calls as queues
from posthouse.wire.ncp.calls import NcpCall
from tests.protocols.job_queue.rig import JOB_SERVER, NcpRig
from tests.protocols.job_queue.walk import Walk, line_of
from tests.store.faults.harness import check
from tests.store.faults.world import WatchedDriver, World
from tests.support.hasty_driver import HastyDriver


class DiskRig(World, NcpRig):
    """NCP on a queue manager whose disk forgets what is not synced."""

    def __init__(self, driver: type[WatchedDriver]) -> None:
        World.__init__(self, SimDisk(), driver=driver)
        self.ncp_settings = NcpSettings()
        self.start()
        self.serve()


class Scene(Walk):
    """A queue with a job that waits, one that is written and one in service."""

    def __init__(self, driver: type[WatchedDriver]) -> None:
        rig = DiskRig(driver)
        self.disk_rig = rig
        for name in ("ALICE", "OSCAR"):
            rig.user(name)
        rig.user("SERVER", JOB_SERVER)
        queue = rig.queue(users="ALICE", operators="OSCAR", servers=f"SERVER/{JOB_SERVER}")
        super().__init__(rig, queue)
        self.submitted(b"first", job_control_flags=0x10)
        self.in_service = self.server.service_queue_job(queue)
        self.waiting = self.submitted(b"second")
        self.begun = self.created(b"begun").job_number  # gone after a restart unless started
        self.open = self.created(b"third", job_control_flags=0x08)
        self.oscar.get_queue_job_list(queue)


Asked = tuple[NcpCalls, NcpCall[Any, Any], tuple[Any, ...]]
Jobs = dict[int, Any]


class Method(NamedTuple):
    """A call, and what must be so when its answer leaves."""

    name: str
    ask: Callable[[Scene], Asked]
    holds: Callable[[Jobs, Scene], bool]

    def __str__(self) -> str:
        return self.name


METHODS = [
    Method(
        "create",
        lambda s: (s.alice, queues.CREATE_JOB, (s.queue, NWQueueJobStruct(job_control_flags=8))),
        lambda jobs, s: s.open.job_number + 1 in jobs,
    ),
    Method(
        "write",
        lambda s: (
            s.alice,
            functions.WRITE_FILE,
            (0, s.open.job_file_handle, 5, b" and more"),
        ),
        lambda jobs, s: jobs[s.open.job_number].file.size == len(b"third and more"),
    ),
    Method(
        "start",
        lambda s: (s.alice, queues.START_JOB, (s.queue, s.begun)),
        lambda jobs, s: s.begun in jobs and not jobs[s.begun].state.flags & NWCF_ENTRY_OPEN,
    ),
    Method(
        "old start",
        lambda s: (s.alice, queues.OLD_START_JOB, (s.queue, s.begun)),
        lambda jobs, s: s.begun in jobs and not jobs[s.begun].state.flags & NWCF_ENTRY_OPEN,
    ),
    Method(
        "remove",
        lambda s: (s.alice, queues.REMOVE_JOB, (s.queue, s.waiting)),
        lambda jobs, s: s.waiting not in jobs,
    ),
    Method(
        "change",
        lambda s: (
            s.alice,
            queues.CHANGE_JOB,
            (s.queue, NWQueueJobStruct(job_number=s.waiting, job_type=77)),
        ),
        lambda jobs, s: jobs[s.waiting].entry.job_type == 77,
    ),
    Method(
        "finish",
        lambda s: (s.server, queues.FINISH_JOB, (s.queue, s.in_service.job_number, 0)),
        lambda jobs, s: s.in_service.job_number not in jobs,
    ),
]


class Outcome(NamedTuple):
    """What a crash at the moment of the answer left."""

    before_sync: bool
    holds: bool


def outcome(method: Method, driver: type[WatchedDriver]) -> Outcome:
    """Makes a call and crashes the disk while its answer is on its way out."""
    scene = Scene(driver)
    rig = scene.disk_rig
    who, call, asked = method.ask(scene)
    line = line_of(who)
    found: list[Outcome] = []
    synced = False

    def answered(data: bytes) -> None:
        (message,) = ncp.Stream(ncp.REPLY_MAGIC).feed(data)
        assert ncp.read_reply(message).completion == 0
        after = check(rig.disk.clone().crash("nothing"), rig.witness.now(), str(method))
        jobs = {job.entry.number: job for job in after.manager.jobs.jobs.values()}
        found.append(Outcome(not synced, method.holds(jobs, scene)))

    line.send = answered  # type: ignore[assignment, method-assign]
    if isinstance(rig.driver, HastyDriver):
        rig.driver.hasty = True
    line.core.ask(call.function, call.ask(call.request.record(*asked)), rig.clock.now_ms)
    line.push()
    rig.desk.append()
    rig.driver.release()
    synced = True
    rig.driver.sync()
    rig.driver.release()
    (only,) = found
    return only


@pytest.mark.spec("NCP 0x7F/1", "QMS Submitting/4")
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_what_an_answer_says_is_on_the_disk_when_it_leaves(method: Method) -> None:
    assert outcome(method, WatchedDriver) == Outcome(before_sync=False, holds=True)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_an_answer_that_does_not_wait_is_noticed(method: Method) -> None:
    found = outcome(method, HastyDriver)
    assert found.before_sync
    assert not found.holds


def test_a_bindery_that_is_written_holds() -> None:
    """Passwords are changed by clear text only, so that objects stand for the bindery here."""
    scene = Scene(WatchedDriver)
    rig = scene.disk_rig
    root = rig.root()
    rig.run(lambda m: m.bindery.create_object(root, NWOT_USER, "NEW"))
    line = line_of(scene.oscar)
    found = line.request(bindery.GET_OBJECT_ID, bindery.ObjectName(NWOT_USER, "NEW"))
    after = check(rig.disk.clone().crash("nothing"), rig.witness.now(), "create object")
    assert after.manager.bindery.objects.by_id[found.object_id].name == "NEW"
