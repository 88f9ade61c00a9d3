"""What a sender hears of messages to another queue manager, and where they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

import posthouse
from posthouse.cli.main import run
from posthouse.engine.manager import QueueManager
from posthouse.model.enumerations import QueueAccessType
from posthouse.model.message import NACK_RECEIVE_REJECTED, MessageId
from posthouse.security.access import Caller
from tests.client.neighbours import Neighbours, neighbours, until

ALL = "pos-arrival,neg-arrival,pos-receive,neg-receive"
UNREACHABLE = r"DIRECT=TCP:127.0.0.1:1\private$\nobody-"
SYSTEM = ("journal", "deadletter", "deadxact")


@pytest.fixture(scope="module")
def pair() -> Iterator[Neighbours]:
    """Two that tell each other everything."""
    with neighbours(send_insecure_nacks=True) as both:
        yield both


class Sending(NamedTuple):
    """Where a message goes, what is done to it there, and with which times it was sent."""

    name: str
    then: Callable[[], object] = lambda: None
    time_to_be_received: int | None = None
    time_to_reach_queue: int | None = None
    body: bytes = b"<order/>"


# -- what can become of a message; `kind` is whether it is transactional


def received(pair: Neighbours, kind: bool) -> Sending:
    queue = pair.target(transactional=kind)
    return Sending(pair.name_of(queue), lambda: queue.receive(timeout=60))


def missing(pair: Neighbours, kind: bool) -> Sending:
    return Sending(pair.name_of(pair.path("missing")))


def denied(pair: Neighbours, kind: bool) -> Sending:
    queue = pair.target(transactional=kind)
    command = ["queue", "deny", queue.name, "everyone", "send"]
    assert run([*command, "--home", str(pair.there.home)]) == 0
    return Sending(pair.name_of(queue))


def full(pair: Neighbours, kind: bool) -> Sending:
    queue = pair.target(transactional=kind, quota_kib=1)
    return Sending(pair.name_of(queue), body=bytes(2000))


def purged(pair: Neighbours, kind: bool) -> Sending:
    queue = pair.target(transactional=kind)
    return Sending(pair.name_of(queue), lambda: (queue.peek(timeout=60), queue.purge()))


def deleted(pair: Neighbours, kind: bool) -> Sending:
    queue = pair.target(transactional=kind)
    return Sending(pair.name_of(queue), lambda: (queue.peek(timeout=60), queue.delete()))


def rejected(pair: Neighbours, kind: bool) -> Sending:
    queue = pair.target(transactional=kind)

    def reject(manager: QueueManager) -> None:
        caller = Caller.administrator()
        descriptor = manager.queues.open_queue(queue.name, QueueAccessType.RECEIVE, caller)
        read = manager.messages.dequeue_message(descriptor, timeout_ms=0, two_phase=True)
        assert read is not None
        manager.messages.dequeue_message_end(
            descriptor, read.lookup_id, positive=True, message_class=NACK_RECEIVE_REJECTED
        )
        manager.queues.close_queue(descriptor)

    return Sending(pair.name_of(queue), lambda: (queue.peek(timeout=60), pair.there.ask(reject)))


def too_late(pair: Neighbours, kind: bool) -> Sending:
    return Sending(UNREACHABLE + pair.path()[11:], time_to_reach_queue=1)


def withdrawn(pair: Neighbours, kind: bool) -> Sending:
    name = UNREACHABLE + pair.path()[11:]
    command = ["queue", "purge", name, "--yes", "--home", str(pair.here.home)]
    return Sending(name, lambda: run(command))


class Fate(NamedTuple):
    """What the administration queue hears, and where the message is kept then."""

    prepare: Callable[[Neighbours, bool], Sending]
    answers: tuple[str, ...]
    plain: dict[str, str]
    transactional: dict[str, str]


def fate(prepare: Callable[[Neighbours, bool], Sending], *answers: str, there: bool = True) -> Fate:
    """One that failed: a transactional message is kept here with the reason, a plain one there.

    It had reached the other side then, and is in the journal here; unless it never left.
    """
    reason = answers[-1]
    dead = {"far deadletter" if there else "near deadletter": reason}
    return Fate(
        prepare,
        answers,
        {"near journal": "normal"} | dead if there else dead,
        {"near deadxact": reason},
    )


ARRIVED = "ack-reach-queue"
JOURNALED = {"near journal": "normal"}
FATES = {
    "received": Fate(received, (ARRIVED, "ack-receive"), JOURNALED, JOURNALED),
    "missing": fate(missing, "nack-bad-dest-queue"),
    "denied": fate(denied, "nack-access-denied"),
    "full": fate(full, "nack-queue-exceed-quota"),
    "purged": fate(purged, ARRIVED, "nack-queue-purged"),
    "deleted": fate(deleted, ARRIVED, "nack-queue-deleted"),
    "rejected": fate(rejected, ARRIVED, "nack-receive-rejected"),
    "late on the way": fate(too_late, "nack-reach-queue-timeout", there=False),
    "withdrawn": fate(withdrawn, "nack-purged", there=False),
}


def kept(pair: Neighbours, identifier: str) -> dict[str, str]:
    """The system queues of both sides that hold a message, and under which class."""
    return {
        f"{side} {name}": message.class_name
        for side, client in (("near", pair.near), ("far", pair.far))
        for name in SYSTEM
        for message in client.queue(rf".\system$;{name}").browse()
        if message.id == identifier
    }


def admin_queue(pair: Neighbours) -> tuple[posthouse.Queue, str]:
    """A queue for acknowledgments, and its name by the GUID of its queue manager."""
    queue = pair.near.create_queue(pair.path("answers"))
    return queue, queue.properties().guid_name


def send(
    pair: Neighbours, sending: Sending, admin: str, kind: bool, *, recoverable: bool = True
) -> str:
    return pair.near.queue(sending.name).send(
        sending.body,
        label="order 7",
        transactional=kind,
        recoverable=recoverable,
        admin_queue=admin,
        ack=ALL,
        journal=True,
        dead_letter=True,
        time_to_be_received=sending.time_to_be_received,
        time_to_reach_queue=sending.time_to_reach_queue,
    )


def heard_of(answers: posthouse.Queue, sending: Sending, identifier: str) -> str:
    """The class of the next answer, which is about that message."""
    answer = answers.receive(timeout=60)
    assert answer.correlation_id == MessageId.parse(identifier).pack().hex()
    assert (answer.label, answer.response_queue) == ("order 7", sending.name)
    assert answer.body == (sending.body if "nack" in answer.class_name else b"")
    return answer.class_name


@pytest.mark.spec(
    "MS-MQQB 3.1.7.2/1",
    "MS-MQQB 3.1.7.2.1/1",
    "MS-MQQB 3.1.7.2.1/2",
    "MS-MQQB 3.1.7.2.1/3",
    "MS-MQQB 3.1.7.2.2/1",
    "MS-MQQB 3.1.7.15/3",
    "MS-MQQB 3.1.7.15/6",
    "MS-MQQB 3.1.7.15/7",
    "MS-MQQB 3.1.7.15/10",
    "MS-MQQB 3.1.7.1.2/3",
    "MS-MQQB 3.1.7.1.2/4",
    "MS-MQQB 3.1.7.1.2/5",
    "MS-MQQB 3.1.5.5.4/1",
    "MS-MQQB 3.1.5.5.4/2",
    "MS-MQQB 3.1.5.7/4",
    "MS-MQQB 3.1.5.7/5",
    "MS-MQQB 3.1.5.8.8/2",
    "MS-MQQB 3.1.5.8.8/3",
    "MS-MQQB 3.1.5.8.8/4",
    "MS-MQDMPR 3.1.1.12/17",
    "MS-MQDMPR 3.1.1.12/19",
    "MS-MQDMPR 3.1.1.12/21",
    "MS-MQDMPR 3.1.1.12/31",
    "MS-MQDMPR 3.1.1.12/32",
    "MS-MQDMPR 3.1.1.12/33",
    "MS-MQDMPR 3.1.1.12/34",
    "MS-MQDMPR 3.1.7.1.4/1",
)
@pytest.mark.parametrize("kind", [False, True], ids=["recoverable", "transactional"])
@pytest.mark.parametrize("fate", FATES.values(), ids=FATES)
def test_the_sender_hears_what_became_of_its_message_and_it_is_kept_where_it_failed(
    pair: Neighbours, fate: Fate, kind: bool
) -> None:
    answers, admin = admin_queue(pair)
    sending = fate.prepare(pair, kind)
    identifier = send(pair, sending, admin, kind)
    sending.then()
    assert [heard_of(answers, sending, identifier) for _ in fate.answers] == list(fate.answers)
    pair.until_delivered(sending.name)
    assert kept(pair, identifier) == (fate.transactional if kind else fate.plain)
    assert answers.count() == 0


@pytest.mark.spec("MS-MQQB 3.1.7.2.1/3", "MS-MQQB 3.1.7.2.2/1", "MS-MQDMPR 3.1.7.2.7/1")
@pytest.mark.parametrize("kind", [False, True], ids=["recoverable", "transactional"])
def test_what_nobody_receives_in_time_is_told_and_kept(pair: Neighbours, kind: bool) -> None:
    answers, admin = admin_queue(pair)
    for seconds in (1, 4, 16, 64):  # a busy machine may not even deliver it in the first
        name = pair.name_of(pair.target(transactional=kind))
        sending = Sending(name, time_to_be_received=seconds)
        identifier = send(pair, sending, admin, kind)
        if heard_of(answers, sending, identifier) == ARRIVED:
            break
    late = "nack-receive-timeout"
    assert heard_of(answers, sending, identifier) == late
    pair.until_delivered(sending.name)
    plain = JOURNALED | {"far deadletter": late}
    assert kept(pair, identifier) == ({"near deadxact": late} if kind else plain)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [(False, "nack-not-transactional-message"), (True, "nack-not-transactional-queue")],
)
def test_a_queue_of_the_other_kind_takes_no_message(
    pair: Neighbours, kind: bool, answer: str
) -> None:
    answers, admin = admin_queue(pair)
    sending = Sending(pair.name_of(pair.target(transactional=not kind)))
    identifier = send(pair, sending, admin, kind)
    assert heard_of(answers, sending, identifier) == answer
    pair.until_delivered(sending.name)
    plain = JOURNALED | {"far deadletter": answer}
    assert kept(pair, identifier) == ({"near deadxact": answer} if kind else plain)


@pytest.mark.spec("MS-MQQB 3.1.7.15/8", "MS-MQQB 3.1.7.2.1/4")
@pytest.mark.parametrize("recoverable", [False, True])
def test_answers_are_as_safe_as_what_they_answer(pair: Neighbours, recoverable: bool) -> None:
    answers, admin = admin_queue(pair)
    sending = received(pair, False)
    send(pair, sending, admin, False, recoverable=recoverable)
    sending.then()
    delivery = "recoverable" if recoverable else "express"
    assert [answers.receive(timeout=60).delivery for _ in range(2)] == [delivery] * 2


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/30")
def test_only_the_answers_that_were_asked_for_come(pair: Neighbours) -> None:
    answers, admin = admin_queue(pair)
    queue = pair.target()
    remote = pair.near.queue(pair.name_of(queue))
    remote.send(b"1", admin_queue=admin, ack="pos-receive")
    remote.send(b"2", admin_queue=admin, ack="pos-arrival")
    remote.send(b"3", admin_queue=admin)
    remote.send(b"4")
    assert [queue.receive(timeout=60).body for _ in range(4)] == [b"1", b"2", b"3", b"4"]
    assert [answers.receive(timeout=60).class_name for _ in range(2)] == [ARRIVED, "ack-receive"]
    pair.until_delivered(pair.name_of(queue))
    assert answers.count() == 0


@pytest.mark.spec("MS-MQQB 3.1.7.15/5")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_administration_queue_may_have_a_direct_name(pair: Neighbours, host: str) -> None:
    answers, _ = admin_queue(pair)
    protocol = "TCP" if host[0].isdigit() else "OS"
    admin = rf"DIRECT={protocol}:{host}:{pair.here.binary_port}\{answers.name[2:]}"
    sending = received(pair, False)
    identifier = send(pair, sending, admin, False)
    sending.then()
    assert heard_of(answers, sending, identifier) == ARRIVED


def test_the_administration_queue_may_have_a_path_name(pair: Neighbours) -> None:
    answers, _ = admin_queue(pair)
    sending = received(pair, True)
    identifier = send(pair, sending, answers.name, True)
    sending.then()
    assert heard_of(answers, sending, identifier) == ARRIVED
    assert heard_of(answers, sending, identifier) == "ack-receive"


@pytest.mark.spec("MS-MQQB 3.1.7.15/2", "MS-MQQB 3.1.7.17/8")
def test_strangers_are_not_told_what_is_missing_but_sequences_go_on() -> None:
    with neighbours() as pair:
        answers, admin = admin_queue(pair)
        sending = missing(pair, False)
        identifier = send(pair, sending, admin, False)
        pair.until_delivered(sending.name)
        assert kept(pair, identifier) == JOURNALED
        refused = missing(pair, True)
        waits = send(pair, refused, admin, True)
        queue = pair.target(transactional=True)
        sending = Sending(pair.name_of(queue))
        pair.near.queue(sending.name).send(b"1", transactional=True)
        queue.receive(timeout=60)
        queue.delete()
        identifier = send(pair, sending, admin, True)
        pair.until_delivered(sending.name)
        assert kept(pair, identifier) == {"near deadxact": "nack-bad-dest-queue"}
        assert kept(pair, waits) == {}
        assert pair.outgoing(refused.name)[0].messages == 1
        sending = received(pair, False)
        identifier = send(pair, sending, admin, False)
        assert heard_of(answers, sending, identifier) == ARRIVED
        assert answers.count() == 0


@pytest.mark.spec("MS-MQQB 3.1.5.7/5", "MS-MQQB 3.1.7.1.2/5", "MS-MQDMPR 3.1.1.12/4")
@pytest.mark.parametrize("kind", [False, True], ids=["recoverable", "transactional"])
def test_an_application_has_its_dead_letters_in_a_queue_of_its_own(
    pair: Neighbours, kind: bool
) -> None:
    letters = pair.near.create_queue(pair.path("letters"), transactional=kind)
    name = UNREACHABLE + pair.path()[11:] if not kind else pair.name_of(pair.path("missing"))
    sent = pair.near.call(
        "POST",
        f"/queues/{name}/messages".replace("\\", "%5C"),
        {
            "delivery": "transactional" if kind else "recoverable",
            "journal": ["negative"],
            "dead_letter_queue": letters.name,
            "time_to_reach_queue": 1,
        },
    )
    message = letters.receive(timeout=60)
    assert message.id == sent["id"]
    assert message.class_name == ("nack-bad-dest-queue" if kind else "nack-reach-queue-timeout")
    assert kept(pair, message.id) == {}


def test_explain_says_why_a_message_is_a_dead_letter(
    pair: Neighbours, capsys: pytest.CaptureFixture[str]
) -> None:
    sending = missing(pair, True)
    identifier = pair.near.queue(sending.name).send(b"x", transactional=True, dead_letter=True)
    until(lambda: kept(pair, identifier))
    assert run(["message", "explain", identifier, "--home", str(pair.here.home)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "no such queue" in told
    assert "system$;deadxact" in told.lower()
