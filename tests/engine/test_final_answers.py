"""Negative final acknowledgments: for senders of bound sequences, not for strangers (F14).

Decision 8: whoever tries names must not learn from them which queues exist, of which kind they are
and who may send there.
"""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.transfer.protocol_interface import Peer, Verdict
from posthouse.model.message_classes import (
    NACK_ACCESS_DENIED,
    NACK_BAD_DEST_QUEUE,
    NACK_NOT_TRANSACTIONAL_QUEUE,
    NACK_QUEUE_EXCEED_QUOTA,
)
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.sids import EVERYONE
from tests.engine.arrivals import PEER
from tests.engine.letters import FAR_GUID
from tests.support.answer_rig import AnswerRig
from tests.support.queue_urls import at
from tests.support.signing_rig import SigningRig

NAMES = ("open", "plain", "closed", "full", "missing")


class ProbedRig(AnswerRig):
    """A rig with queues of every kind."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.create("open", transactional=True)
        self.create("plain")
        self.create("closed", transactional=True)
        self.deny("closed", EVERYONE, WRITE_MESSAGE)
        self.create("full", transactional=True, quota_kib=1)

    def probe(self, name: str, number: int = 1, previous: int = 0, **more: Any) -> bytes:
        more.setdefault("body", bytes(2000))
        return self.transactional(number, previous, destination_queue_format_name=at(name), **more)

    def withheld(self) -> list[dict[str, object]]:
        name = "final_acknowledgment_withheld"
        return [dict(one.details) for one in self.events if one.name == name]


@pytest.fixture
def rig() -> ProbedRig:
    return ProbedRig()


@pytest.mark.spec("MS-MQQB 3.1.7.17/8")
def test_a_stranger_who_tries_names_gets_no_negative_answer(rig: ProbedRig) -> None:
    for name in NAMES:
        assert rig.take(rig.probe(name)).dealt_with == 1
    assert [code for code, _, _ in rig.final_acks()] == [NACK_QUEUE_EXCEED_QUOTA]  # it is open
    assert rig.manager.machine.refusals["final_acknowledgment_withheld"] == 3
    told = rig.withheld()
    refused = [one.details["queue"] for one in rig.events if one.name == "message_refused"]
    assert refused == [at(name) for name in NAMES if name != "open"]
    assert {one["address"] for one in told} == {PEER.address}
    assert [one["why"] for one in told] == [
        "nack-not-transactional-queue",
        "nack-access-denied",
        "nack-bad-dest-queue",
    ]


def test_a_message_into_one_queue_opens_no_other(rig: ProbedRig) -> None:
    rig.take(rig.probe("open"))
    for name in ("plain", "closed", "missing"):
        rig.take(rig.probe(name, sequence=(5, 2)))
    assert rig.final_acks() == []


@pytest.mark.spec("MS-MQQB 3.1.7.17/8")
@pytest.mark.parametrize(
    ("code", "change"),
    [
        (NACK_ACCESS_DENIED, lambda rig: rig.deny("open", EVERYONE, WRITE_MESSAGE)),
        (NACK_QUEUE_EXCEED_QUOTA, lambda rig: rig.set("open", quota_kib=1)),
        (NACK_BAD_DEST_QUEUE, lambda rig: rig.delete("open")),
        (
            NACK_NOT_TRANSACTIONAL_QUEUE,
            lambda rig: (rig.delete("open"), rig.create("open"))[1],
        ),
    ],
)
def test_the_sender_of_a_bound_sequence_gets_it(rig: ProbedRig, code: int, change: Any) -> None:
    rig.take(rig.probe("open"))
    rig.receive("open")
    change(rig)
    rig.restart()
    rig.take(rig.probe("open", 2, 1, ordinal=99))
    assert rig.final_acks() == [(code, 99, 2)]
    assert not rig.withheld()


def test_a_name_of_another_host_in_a_bound_sequence_gets_nothing(rig: ProbedRig) -> None:
    """The sequence is the source's: others who claim its messages are not told."""
    rig.take(rig.probe("open"))
    rig.delete("open")
    eve = Peer(b"E" * 16, "203.0.113.66")
    rig.take(rig.probe("open", 2, 1), peer=eve)
    assert rig.final_acks() == []


def test_who_claims_to_be_a_machine_of_the_directory_is_not_told(rig: ProbedRig) -> None:
    """Its GUID is no secret; the address that the directory has for it is another."""
    rig.enter_machine()
    eve = Peer(FAR_GUID, "203.0.113.66", may_pass_on=lambda source: False)
    for name in ("plain", "closed", "missing"):
        rig.take(rig.probe(name), peer=eve)
    assert rig.final_acks() == []
    assert len(rig.withheld()) == 3


def test_machines_of_the_directory_are_told() -> None:
    rig = ProbedRig()
    rig.enter_machine()
    rig.take(rig.probe("missing"))
    assert [code for code, _, _ in rig.final_acks()] == [NACK_BAD_DEST_QUEUE]


def test_the_setting_tells_everyone() -> None:
    rig = ProbedRig(send_insecure_nacks=True)
    for name in NAMES:
        rig.take(rig.probe(name))
    assert len(rig.final_acks()) == 4
    assert not rig.withheld()


def test_a_refused_message_that_was_not_told_is_taken_when_it_may_be(rig: ProbedRig) -> None:
    """Its sender sends it again: it does not know of the refusal, and must not lose it."""
    packet = rig.probe("missing")
    assert rig.take(packet) == Verdict(1)
    rig.create("missing", transactional=True)
    assert rig.take(packet).sequences
    assert rig.bodies("missing") == [bytes(2000)]


def test_who_signs_is_told() -> None:
    rig = SigningRig()
    rig.create("closed", transactional=True)
    rig.deny("closed", EVERYONE, WRITE_MESSAGE)
    packet = rig.transactional(1, 0, destination_queue_format_name=at("closed"))
    rig.take(rig.far.sign(packet, rig.maria))
    assert [code for code, _, _ in rig.final_acks()] == [NACK_ACCESS_DENIED]
