"""Messages that submit jobs, and jobs whose end sends a message, each in one step of the log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from posthouse.engine.jobs.settings import QmsSettings
from posthouse.engine.ledger.records import CHANGE, TABLE_COUNTER, Change, unpack_change
from posthouse.model.errors import AccessDenied, InvalidParameter, QueueNotFound
from posthouse.model.message import (
    ACK_FULL_RECEIVE,
    NACK_RECEIVE_REJECTED,
)
from posthouse.model.names import parse_name
from posthouse.model.qms import NWCF_SERVICE_RESTART, NWQueueJobStruct
from posthouse.security.access import Caller, default_queue_descriptor
from posthouse.security.sids import ADMINISTRATORS
from tests.engine.job_rig import JobRig
from tests.engine.rig import RECEIVE

IN, OUT = ".\\private$\\in", ".\\private$\\out"


class BridgeRig(JobRig):
    """Messages in `in` submit jobs to JOBS; whatever ends there is told in `out`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.create("in")
        self.create("out")
        self.jobs("set_bridge", self.super, self.q, submit_from=IN, finished_queue=OUT)

    def caller(self, name: str) -> Caller:
        return self.manager.accounts.caller(name)

    def post(self, body: bytes = b"work", who: str | None = "ANNA", **attributes: Any) -> None:
        """A message in the bound queue, and a turn in which it can become a job."""
        caller = Caller.anonymous() if who is None else self.caller(who)
        descriptor = self.open("in", caller=caller)
        self.send(descriptor, body, **attributes)
        self.turn()

    def told(self, name: str = "out") -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies(name)]


def changes(rig: JobRig, start: int) -> list[Change]:
    """The steps that the log has from there on, without those that only reserve numbers."""
    found = [unpack_change(head) for kind, _, head, _ in rig.store.log[start:] if kind == CHANGE]
    return [c for c in found if c.ends or any(d.table != TABLE_COUNTER for d in c.defines)]


@pytest.fixture
def rig() -> BridgeRig:
    return BridgeRig()


# -- the end of a binding


def test_another_queue_of_the_name_submits_nothing_unasked(rig: BridgeRig) -> None:
    """Its messages became jobs, or were refused for good, and nothing showed why."""
    rig.run(lambda m: m.queues.delete_queue(parse_name(IN), rig.admin))
    rig.turn()
    assert "job_binding_ended" in [event.name for event in rig.events]
    rig.create("in")
    rig.post(b"of a new application")
    assert rig.bodies("in") == [b"of a new application"]
    rig.restart()
    rig.turn()
    assert rig.bodies("in") == [b"of a new application"]
    rig.jobs("set_bridge", rig.super, rig.q, submit_from=IN)
    rig.turn()
    assert rig.bodies("in") == []


# -- submitting


def test_a_message_submits_a_job_as_its_sender(rig: BridgeRig) -> None:
    rig.post(
        b"content",
        label="monthly",
        application_tag=0x70005,
        extension=b"record",
        response_queue_format_name="DIRECT=OS:ALPHA\\private$\\out",
    )
    assert rig.bodies("in") == []
    job = rig.entry(1)
    assert job.client_id == rig.user("ANNA").object_id
    assert (job.description, job.job_type) == ("monthly", 5)
    assert job.queue_record.rstrip(b"\0") == b"record"
    assert job.job_control_flags == 0
    rig.attach()
    taken = rig.service()
    data = rig.jobs("read_file", rig.server("SRV1"), taken.job_file_handle, 0, 99)
    assert data == b"content"
    rig.check()


def test_the_message_is_received_in_the_step_that_submits_the_job(rig: BridgeRig) -> None:
    start = len(rig.store.log)
    rig.post()
    log = list(rig.store.log)
    steps = [c for c in changes(rig, start) if any(d.key[:1] == b"j" for d in c.defines)]
    assert len(steps) == 1
    assert len(steps[0].ends) == 1  # the message, with the job's records
    found = []
    for length in range(start, len(log) + 1):  # a crash behind any record
        rig.restart(log[:length])
        waiting, jobs = len(rig.bodies("in")), len(rig.numbers())
        assert waiting + jobs <= 1
        rig.turn()
        rig.turn()
        assert len(rig.numbers()) == waiting + jobs
        assert rig.bodies("in") == []
        found.append(len(rig.numbers()))
    assert found == sorted(found)
    assert found[-1] == 1


def test_strangers_and_people_without_rights_submit_nothing(rig: BridgeRig) -> None:
    for who in (None, "EVA", "OTTO"):
        rig.post(
            who=who,
            administration_queue_format_name="DIRECT=OS:ALPHA\\private$\\out",
            acknowledgements_requested=ACK_FULL_RECEIVE,
        )
    assert rig.numbers() == []
    assert rig.bodies("in") == []
    classes = [message.message_class for message in rig.messages("out")]
    assert classes == [NACK_RECEIVE_REJECTED] * 3
    assert rig.manager.machine.refusals["job_message_refused"] == 3


def test_the_administrator_is_supervisor_and_has_to_be_listed(rig: BridgeRig) -> None:
    rig.send("in", b"x")
    rig.turn()
    assert rig.numbers() == []
    rig.bindery("add_object_to_set", rig.super, 0x0A, "JOBS", "Q_USERS", 1, "SUPERVISOR")
    rig.send("in", b"x")
    rig.turn()
    assert rig.entry(1).client_id == 1


def test_messages_wait_while_the_queue_takes_no_jobs() -> None:
    rig = BridgeRig(qms=QmsSettings(jobs_max=2))
    for at in range(5):
        rig.post(b"%d" % at)
    assert rig.numbers() == [1, 2]
    assert rig.bodies("in") == [b"2", b"3", b"4"]
    rig.attach()
    rig.finish(rig.service().job_number)
    rig.turn()
    assert len(rig.bodies("in")) == 2  # the end of a job makes room at once
    rig.jobs("set_queue_current_status", rig.user("OTTO"), rig.q, 1)
    rig.finish(rig.service().job_number)
    rig.turn()
    assert len(rig.bodies("in")) == 2
    rig.jobs("set_queue_current_status", rig.user("OTTO"), rig.q, 0)
    rig.turn()
    assert len(rig.bodies("in")) == 1
    for _ in range(2):
        rig.finish(rig.service().job_number)
        rig.turn()
    assert rig.bodies("in") == []
    rig.check()


def test_a_message_that_waits_is_tried_again_after_a_while() -> None:
    rig = BridgeRig(qms=QmsSettings(jobs_max=1, bridge_retry_s=5))
    for _ in range(2):
        rig.post()
    told = [event.name for event in rig.events].count("job_bridge_waits")
    for _ in range(3):
        rig.turn()
    assert [event.name for event in rig.events].count("job_bridge_waits") == told == 1
    due = rig.manager.next_deadline_ms()
    assert due is not None
    assert due <= rig.clock.now_ms + 5000
    rig.advance(5)
    assert [event.name for event in rig.events].count("job_bridge_waits") == 2


def test_what_is_too_long_for_a_job_is_refused() -> None:
    rig = BridgeRig(qms=QmsSettings(file_max=10))
    rig.post(bytes(11))
    rig.post(bytes(10))
    assert len(rig.numbers()) == 1
    assert rig.bodies("in") == []


def test_messages_that_somebody_holds_or_has_leased_stay(rig: BridgeRig) -> None:
    rig.jobs("set_bridge", rig.super, rig.q, submit_from="")
    rig.post(b"held")
    reader = rig.open("in", RECEIVE)
    held = rig.receive(reader, two_phase=True)
    rig.jobs("set_bridge", rig.super, rig.q, submit_from=IN)
    rig.turn()
    assert rig.numbers() == []
    rig.run(lambda m: m.messages.dequeue_message_end(reader, held.read.lookup_id, positive=False))
    rig.turn()
    assert rig.numbers() == [1]


def test_bindings_outlive_a_start_and_are_for_one_queue_of_ours(rig: BridgeRig) -> None:
    rig.jobs("set_bridge", rig.super, rig.q, submit_flags=0xFF)
    rig.restart()
    rig.post()
    assert rig.entry(1).job_control_flags == 0x58  # what clients may set
    other = rig.create_jobs("OTHER")
    with pytest.raises(InvalidParameter, match="JOBS"):
        rig.jobs("set_bridge", rig.super, other, submit_from=IN)
    with pytest.raises(QueueNotFound):
        rig.jobs("set_bridge", rig.super, other, submit_from=".\\private$\\none")
    with rig.completion(0xD3):
        rig.jobs("set_bridge", rig.user("OTTO"), rig.q, submit_from="")
    rig.jobs("destroy_queue", rig.super, rig.q)
    rig.jobs("set_bridge", rig.super, other, submit_from=IN)
    rig.post()
    assert len(rig.numbers(other)) == 1


def test_a_bound_queue_that_is_deleted_submits_nothing(rig: BridgeRig) -> None:
    rig.run(lambda m: m.queues.delete_queue(IN, rig.admin))
    rig.turn()
    assert rig.manager.jobs.bridge.next_deadline_ms() is None


# -- ends


@pytest.mark.parametrize("end", ["finished", "failed", "removed", "abandoned", "destroyed"])
def test_the_end_of_a_job_is_told_in_the_same_step(rig: BridgeRig, end: str) -> None:
    number = 1
    if end == "abandoned":
        rig.open_job(job_type=7)
    else:
        rig.submit(b"12345", job_type=7)
    rig.attach()
    server = rig.server("SRV1")
    if end in ("finished", "failed"):
        rig.service()
    before = len(rig.store.log)
    if end == "finished":
        rig.finish(number, result="fine")
    elif end == "failed":
        rig.jobs("abort_servicing_queue_job", server, rig.q, number, "fine")
    elif end == "removed":
        rig.jobs("remove_job_from_queue", rig.user("OTTO"), rig.q, number)
    elif end == "abandoned":
        rig.lose(rig.user("ANNA"))
    else:
        rig.jobs("destroy_queue", rig.super, rig.q)
    assert len(changes(rig, before)) == 1  # the message is pending until the job's end
    (told,) = rig.told()
    assert (told["outcome"], told["number"], told["queue"], told["job_type"]) == (end, 1, "JOBS", 7)
    assert told["result"] == ("fine" if end in ("finished", "failed") else "")
    assert rig.messages("out")[0].label == f"job 1 {end}"
    rig.check()


def test_a_restarted_job_is_not_told_of(rig: BridgeRig) -> None:
    rig.submit(job_control_flags=NWCF_SERVICE_RESTART)
    rig.attach()
    rig.service()
    rig.jobs("abort_servicing_queue_job", rig.server("SRV1"), rig.q, 1)
    assert rig.told() == []


def test_a_job_names_a_queue_of_its_own_if_its_client_may_write_there(rig: BridgeRig) -> None:
    rig.jobs("set_bridge", rig.super, rig.q, finished_queue="")
    anna, job = rig.user("ANNA"), NWQueueJobStruct()
    made = rig.jobs("submit_job", anna, rig.q, job, b"", finished_queue=OUT)
    assert rig.jobs("details", anna, rig.q, made.job_number).finished_queue == OUT
    rig.jobs("remove_job_from_queue", anna, rig.q, made.job_number)
    assert [told["outcome"] for told in rig.told()] == ["removed"]
    shut = default_queue_descriptor(ADMINISTRATORS, ())
    rig.create("shut", security=shut)
    with pytest.raises(AccessDenied):
        rig.jobs("submit_job", anna, rig.q, job, b"", finished_queue=".\\private$\\shut")
    made = rig.jobs("submit_job", anna, rig.q, job, b"", finished_queue=OUT)
    rig.run(lambda m: m.queues.set_queue_security(OUT, rig.admin, shut))
    rig.jobs("remove_job_from_queue", anna, rig.q, made.job_number)
    assert len(rig.told()) == 1  # she may not any more
    assert rig.manager.machine.refusals["job_message_dropped"] == 1


def test_the_answer_to_a_message_carries_its_identifier(rig: BridgeRig) -> None:
    rig.jobs("set_bridge", rig.super, rig.q, finished_queue="")
    sent = rig.open("in", caller=rig.caller("ANNA"))
    identifier = rig.send(sent, b"x", response_queue_format_name="DIRECT=OS:ALPHA\\private$\\out")
    rig.turn()
    rig.attach()
    rig.finish(rig.service().job_number)
    (answer,) = rig.messages("out")
    assert answer.correlation_identifier == identifier


def test_messages_to_other_machines_go_to_their_outgoing_queue(rig: BridgeRig) -> None:
    name = "DIRECT=OS:BETA\\private$\\results"
    rig.jobs("set_bridge", rig.super, rig.q, finished_queue=name)
    rig.submit()
    rig.jobs("remove_job_from_queue", rig.user("ANNA"), rig.q, 1)
    (outgoing,) = rig.manager.queues.outgoing_queues()
    assert (outgoing.definition.format_name, outgoing.state.count) == (name, 1)


def test_a_queue_that_was_made_for_answers_keeps_what_is_told_to_it(rig: BridgeRig) -> None:
    """It no longer gives way when there are too many outgoing queues."""
    name = "DIRECT=OS:BETA\\private$\\results"
    rig.jobs("set_bridge", rig.super, rig.q, finished_queue=name)
    registry = rig.manager.jobs.bridge._registry
    rig.run(lambda _: registry.sending_target(parse_name(name), made_for="192.0.2.9"))
    (outgoing,) = rig.manager.queues.outgoing_queues()
    assert outgoing.definition.made_for
    rig.submit()
    rig.jobs("remove_job_from_queue", rig.user("ANNA"), rig.q, 1)
    assert outgoing.state.count == 1
    assert not outgoing.definition.made_for


def test_a_queue_that_cannot_be_told_does_not_keep_the_job(rig: BridgeRig) -> None:
    rig.create("tx", transactional=True)
    rig.jobs("set_bridge", rig.super, rig.q, finished_queue=".\\private$\\tx")
    rig.submit()
    rig.jobs("remove_job_from_queue", rig.user("ANNA"), rig.q, 1)
    assert rig.numbers() == []
    assert rig.bodies("tx") == []
    assert rig.manager.machine.refusals["job_message_dropped"] == 1
