"""Jobs against a model of a few lines, in any order of steps, on a disk that loses its power.

Between any two steps there may be a clean stop, a crash, a crash in front of a sync, or compaction.
No job is lost, none runs again that has finished, positions are dense, flags are obeyed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.engine.ledger.state import State
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import QmsError
from posthouse.model.qms import (
    FLAGS_OF_CLIENTS,
    NOT_READY,
    NWCF_ENTRY_OPEN,
    NWCF_OPERATOR_HOLD,
    NWCF_SERVICE_AUTO_START,
    NWCF_SERVICE_RESTART,
    NWCF_USER_HOLD,
    NWQueueJobStruct,
)
from posthouse.runtime.driver import Driver
from posthouse.sim import SimDisk
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.engine.job_rig import JobRig

JOBS_MAX = 12


def _remove(manager: QueueManager, *, station: Station, queue: int, number: int) -> None:
    manager.jobs.remove_job_from_queue(station, queue, number)


USERS, SERVERS = ("ANNA", "BERT"), ("SRV1", "SRV2")
FLAGS = (0, 0x08, 0x10, 0x18, 0x40, 0x50)
users, servers = st.sampled_from(USERS), st.sampled_from(SERVERS)
picks, flags_of_jobs, kinds = st.integers(0, 11), st.sampled_from(FLAGS), st.integers(1, 2)


class DiskRig(JobRig):
    """The same queue manager on a simulated disk with small segments."""

    def __init__(self, seed: int = 1) -> None:
        self.disk = SimDisk(seed)
        self.store_settings = StoreSettings(store_id=b"0123456789abcdef", segment_size=1 << 20)
        super().__init__(qms=QmsSettings(jobs_max=JOBS_MAX, history_max=20))

    def _boot(self, state: State) -> None:
        self.store: Any = LogStore(self.disk, self.store_settings)
        self.manager = QueueManager(
            self.settings,
            self.store.recover().state,
            self.store.read,
            self.random.randbytes,
            self.store.read_many,
        )
        self.manager.start(self.clock.now_ms, self.clock.utc_seconds)
        self.driver = Driver(
            self.manager, self.store, lambda: (self.clock.now_ms, self.clock.utc_seconds)
        )
        self.driver.end_turn()
        self.driver.sync()
        self.manager.certificates.key_file = lambda: b"s" * 32
        self.begin_stations()

    def restart(self) -> None:
        self.driver.close()
        self._boot(State())

    def crash(self) -> None:
        """Power is gone; of what was not synced nothing counted."""
        self.disk = self.disk.crash("nothing")
        self._boot(State())

    def compact(self) -> None:
        """Ends the open segment and copies survivors out of the old ones."""
        self.store._begin_segment()
        self.driver.sync()
        while self.driver.tidy():
            self.driver.sync()  # it goes on when what it copied is safe


@dataclass
class Item:
    """A job."""

    number: int
    owner: str
    flags: int
    kind: int
    data: bytearray = field(default_factory=bytearray)
    server: str = ""
    handle: int = 0  # of whoever writes or services it


class Jobs(RuleBasedStateMachine):
    """Steps of users, an operator and two servers."""

    @initialize()
    def begin(self) -> None:
        self.rig = DiskRig()
        self.items: list[Item] = []
        self.outcomes: dict[str, int] = {}
        self.last = 0
        self.attached: set[str] = set()
        self.ended: set[int] = set()  # serials

    # -- helpers

    def _tried(self, call: Callable[[], Any], code: int | None) -> Any:
        """The value, or None where it is refused as it must be."""
        if code is None:
            return call()
        with pytest.raises(QmsError) as caught:
            call()
        assert caught.value.completion == code
        return None

    def _pick(self, pick: int, items: list[Item] | None = None) -> Item | None:
        found = self.items if items is None else items
        return found[pick % len(found)] if found else None

    def _end(self, item: Item, outcome: str) -> None:
        self.items.remove(item)
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def _new(self, owner: str, flags: int, kind: int) -> Item:
        used = {item.number for item in self.items}
        self.last = self.last % 999 + 1
        while self.last in used:
            self.last = self.last % 999 + 1
        item = Item(self.last, owner, flags, kind)
        self.items.append(item)
        return item

    def _submitter_lost(self, item: Item) -> None:
        item.handle = 0
        if item.flags & NWCF_SERVICE_AUTO_START:
            item.flags &= ~NWCF_ENTRY_OPEN
        else:
            self._end(item, "abandoned")

    def _service_lost(self, item: Item) -> None:
        item.server, item.handle = "", 0
        if not item.flags & NWCF_SERVICE_RESTART:
            self._end(item, "failed")

    # -- users

    @rule(who=users, flags=flags_of_jobs, kind=kinds)
    def create(self, who: str, flags: int, kind: int) -> None:
        rig, full = self.rig, len(self.items) >= JOBS_MAX
        asked = NWQueueJobStruct(job_type=kind, job_control_flags=flags)
        made = self._tried(
            lambda: rig.jobs("create_queue_file", rig.user(who), rig.q, asked),
            0xD4 if full else None,
        )
        if made is not None:
            item = self._new(who, flags | NWCF_ENTRY_OPEN, kind)
            item.handle = made.job_file_handle
            assert made.job_number == item.number

    @rule(who=users, flags=flags_of_jobs, kind=kinds, size=st.integers(0, 300))
    def submit(self, who: str, flags: int, kind: int, size: int) -> None:
        rig, full = self.rig, len(self.items) >= JOBS_MAX
        asked = NWQueueJobStruct(job_type=kind, job_control_flags=flags)
        data = bytes(rig.random.randbytes(size))
        made = self._tried(
            lambda: rig.jobs("submit_job", rig.user(who), rig.q, asked, data),
            0xD4 if full else None,
        )
        if made is not None:
            self._new(who, flags, kind).data[:] = data

    def _open(self) -> list[Item]:
        return [item for item in self.items if item.flags & NWCF_ENTRY_OPEN]

    @rule(pick=picks, offset=st.integers(0, 200), size=st.integers(1, 200))
    def write(self, pick: int, offset: int, size: int) -> None:
        item = self._pick(pick, [i for i in self.items if i.handle])
        if item is not None:
            who = self.rig.server(item.server) if item.server else self.rig.user(item.owner)
            data = self.rig.random.randbytes(size)
            self.rig.jobs("write_file", who, item.handle, offset, data)
            item.data.extend(bytes(max(0, offset + size - len(item.data))))
            item.data[offset : offset + size] = data

    @rule(pick=picks, start=st.booleans())
    def close(self, pick: int, start: bool) -> None:
        item = self._pick(pick, self._open())
        if item is None:
            return
        method = "close_file_and_start_queue_job" if start else "remove_job_from_queue"
        self.rig.jobs(method, self.rig.user(item.owner), self.rig.q, item.number)
        item.handle = 0
        if start:
            item.flags &= ~NWCF_ENTRY_OPEN
        else:
            self._end(item, "removed")

    @rule(pick=picks, who=st.sampled_from((*USERS, "OTTO")))
    def remove(self, pick: int, who: str) -> None:
        item = self._pick(pick)
        if item is None:
            return
        code = None if who in (item.owner, "OTTO") else 0xD6
        rig = self.rig
        self._tried(
            lambda: rig.jobs("remove_job_from_queue", rig.user(who), rig.q, item.number), code
        )
        if code is None:
            self._end(item, "removed")

    @rule(pick=picks, who=st.sampled_from((*USERS, "OTTO")), flags=st.integers(0, 0xFF))
    def change(self, pick: int, who: str, flags: int) -> None:
        item = self._pick(pick)
        if item is None:
            return
        rig, code = self.rig, None
        if who not in (item.owner, "OTTO"):
            code = 0xD6
        elif item.server:
            code = 0xD7
        asked = NWQueueJobStruct(
            job_number=item.number, job_type=item.kind, job_control_flags=flags
        )
        self._tried(lambda: rig.jobs("change_queue_job_entry", rig.user(who), rig.q, asked), code)
        if code is None:
            mask = FLAGS_OF_CLIENTS | (NWCF_OPERATOR_HOLD if who == "OTTO" else 0)
            item.flags = item.flags & ~mask | flags & mask

    @rule(pick=picks, position=st.integers(0, 14))
    def move(self, pick: int, position: int) -> None:
        item = self._pick(pick)
        if item is not None:
            rig = self.rig
            args = (rig.user("OTTO"), rig.q, item.number, position)
            rig.jobs("change_queue_job_position", *args)
            self.items.remove(item)
            self.items.insert(max(position, 1) - 1, item)

    @rule(pick=picks)
    def release(self, pick: int) -> None:
        """An operator clears what holds a job."""
        self.change(pick, "OTTO", NWCF_SERVICE_RESTART)

    # -- servers

    @rule(name=servers, kind=st.integers(0, 2))
    def service(self, name: str, kind: int) -> None:
        rig = self.rig
        if name not in self.attached:
            rig.attach(name)
            self.attached.add(name)
        ready = [i for i in self.items if not i.server and not i.flags & NOT_READY]
        ready = [i for i in ready if kind in (0, i.kind)]
        types = [kind] if kind else None
        taken = self._tried(lambda: rig.service(name, types), None if ready else 0xD5)
        if taken is not None:
            assert taken.job_number == ready[0].number
            ready[0].server, ready[0].handle = name, taken.job_file_handle

    @rule(pick=picks, finish=st.booleans())
    def end_service(self, pick: int, finish: bool) -> None:
        item = self._pick(pick, [i for i in self.items if i.server])
        if item is None:
            return
        args = (self.rig.server(item.server), self.rig.q, item.number)
        serial = self.rig.manager.jobs.queues[self.rig.q].by_number[item.number].serial
        if finish:
            self.rig.jobs("finish_servicing_queue_job", *args)
            self.ended.add(serial)
            self._end(item, "finished")
        else:
            self.rig.jobs("abort_servicing_queue_job", *args)
            self._service_lost(item)

    @rule(name=servers)
    def lose_server(self, name: str) -> None:
        if name in self.attached:
            self.rig.lose(self.rig.server(name))
            self.attached.remove(name)
            for item in [i for i in self.items if i.server == name]:
                self._service_lost(item)

    @rule(name=servers)
    def detach(self, name: str) -> None:
        if name in self.attached:
            self.rig.jobs("detach_queue_server_from_queue", self.rig.server(name), self.rig.q)
            self.attached.remove(name)
            for item in [i for i in self.items if i.server == name]:
                self._service_lost(item)

    @rule(who=users)
    def lose_user(self, who: str) -> None:
        station: Station = self.rig.user(who)
        self.rig.lose(station)
        for item in [i for i in self._open() if i.owner == who]:
            self._submitter_lost(item)

    # -- what happens to the machine

    def _all_lost(self) -> None:
        for item in list(self.items):
            if item.flags & NWCF_ENTRY_OPEN:
                self._submitter_lost(item)
            elif item.server:
                self._service_lost(item)
        self.attached.clear()

    @rule()
    def restart(self) -> None:
        self.rig.restart()
        self._all_lost()

    @rule()
    def crash(self) -> None:
        self.rig.crash()
        self._all_lost()

    @rule(pick=picks)
    def crash_before_the_sync(self, pick: int) -> None:
        """What was decided and not synced has not happened."""
        rig = self.rig
        driver, anna, otto = rig.driver, rig.user("ANNA"), rig.user("OTTO")
        driver.begin_turn()
        job = NWQueueJobStruct()
        calls: list[Callable[[QueueManager], object]] = [
            lambda m: m.jobs.submit_job(anna, rig.q, job, b"lost"),
        ]
        for item in self.items[pick:]:
            number = item.number
            calls.append(partial(_remove, station=otto, queue=rig.q, number=number))
        for call in calls:
            driver.decide(call, lambda answer: None)
        driver.end_turn()
        self.crash()

    @rule()
    def compact(self) -> None:
        self.rig.compact()

    # -- comparing

    @invariant()
    def both_agree(self) -> None:
        rig = self.rig
        queues = rig.manager.jobs
        jobs = queues.queues[rig.q].jobs()
        assert [job.entry.number for job in jobs] == [item.number for item in self.items]
        for job, item in zip(jobs, self.items, strict=True):
            assert job.state.flags == item.flags
            assert bool(job.state.server_id) == bool(item.server)
            assert queues.object_name(job.entry.client_id) == item.owner
            assert rig.run(lambda m, j=job: m.jobs.files.read(j, 0, 1 << 20)) == item.data  # type: ignore[misc]
        assert not self.ended & set(queues.jobs)
        rig.check()
        counts: dict[str, int] = {}
        for row in queues.history.rows():
            counts[row.outcome] = counts.get(row.outcome, 0) + 1
        total = sum(self.outcomes.values())
        if total <= 20:
            assert counts == self.outcomes
        else:
            assert sum(counts.values()) == 20


Jobs.TestCase.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
test_jobs_agree_with_their_model = Jobs.TestCase


@pytest.mark.spec("QMS jobPosition/1", "QMS jobPosition/2", "NCP lost connections/3")
@pytest.mark.parametrize("seed", range(6))
def test_long_lives_agree_with_the_model(seed: int) -> None:
    """By the dice, with many more jobs than short examples have."""
    machine, dice = Jobs(), Random(seed)
    machine.begin()

    def pick() -> int:
        return dice.randint(0, 11)

    def who() -> str:
        return dice.choice(USERS)

    def anybody() -> str:
        return dice.choice((*USERS, "OTTO"))

    steps: list[tuple[int, Callable[[], object]]] = [
        (4, lambda: machine.create(who(), dice.choice(FLAGS), dice.randint(1, 2))),
        (6, lambda: machine.submit(who(), dice.choice(FLAGS), dice.randint(1, 2), 50)),
        (4, lambda: machine.write(pick(), dice.randint(0, 99), dice.randint(1, 99))),
        (4, lambda: machine.close(pick(), dice.random() < 0.8)),
        (1, lambda: machine.remove(pick(), anybody())),
        (2, lambda: machine.change(pick(), anybody(), dice.randint(0, 255))),
        (3, lambda: machine.release(pick())),
        (4, lambda: machine.move(pick(), dice.randint(0, 14))),
        (8, lambda: machine.service(dice.choice(SERVERS), dice.randint(0, 2))),
        (6, lambda: machine.end_service(pick(), dice.random() < 0.7)),
        (1, lambda: machine.lose_server(dice.choice(SERVERS))),
        (1, lambda: machine.detach(dice.choice(SERVERS))),
        (1, lambda: machine.lose_user(who())),
        (1, machine.restart),
        (1, machine.crash),
        (1, lambda: machine.crash_before_the_sync(pick())),
        (1, machine.compact),
    ]
    weights, calls = zip(*steps, strict=True)
    for _ in range(150):
        dice.choices(calls, weights)[0]()
        machine.both_agree()
    assert NWCF_USER_HOLD in FLAGS


def test_a_positive_answer_of_every_call_is_on_the_disk() -> None:
    """Power is lost behind each call of a job's life: what was answered is there."""
    rig = DiskRig()
    calls: list[Callable[[], object]] = []
    anna, otto = "ANNA", "OTTO"
    state: dict[str, Any] = {}

    def crash_and_see() -> tuple[list[int], list[int], list[str]]:
        after = rig.disk.clone().crash("nothing")
        disk, rig.disk = rig.disk, after
        other = DiskRig.__new__(DiskRig)
        other.__dict__.update(rig.__dict__)
        other._boot(State())
        rig.disk = disk
        queue = other.manager.jobs.queues[rig.q]
        flags = [job.state.flags for job in queue.jobs()]
        return other.numbers(), flags, list(other.outcomes().values())

    job = NWQueueJobStruct(job_control_flags=NWCF_SERVICE_AUTO_START | NWCF_SERVICE_RESTART)
    calls.append(
        lambda: state.update(job=rig.jobs("create_queue_file", rig.user(anna), rig.q, job))
    )
    calls.append(
        lambda: rig.jobs("write_file", rig.user(anna), state["job"].job_file_handle, 0, b"x")
    )
    calls.append(lambda: rig.jobs("close_file_and_start_queue_job", rig.user(anna), rig.q, 1))
    calls.append(lambda: rig.jobs("submit_job", rig.user(anna), rig.q, job, b"two"))
    calls.append(lambda: rig.jobs("change_queue_job_position", rig.user(otto), rig.q, 2, 1))
    calls.append(lambda: (rig.attach(), rig.service()))
    calls.append(lambda: rig.finish(2))
    calls.append(lambda: rig.jobs("remove_job_from_queue", rig.user(otto), rig.q, 1))
    seen = []
    for call in calls:
        call()
        seen.append(crash_and_see())
    assert [numbers for numbers, _, _ in seen] == [[1], [1], [1], [1, 2], [2, 1], [2, 1], [1], []]
    assert all(flag == 0x18 for _, flags, _ in seen for flag in flags)
    assert seen[-1][2] == ["finished", "removed"]
