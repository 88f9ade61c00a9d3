"""Runs of messages over HTTP with everything else among them, and logs cut anywhere in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from posthouse.engine.transfer.settings import RedirectSettings
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import MessageId
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.wire.srmp.message import SrmpMessage
from tests.conftest import Dose
from tests.engine.letters import ANONYMOUS, FAR_GUID
from tests.engine.rig import RECEIVE
from tests.engine.web import ADMIN, ORDERS, STREAMED, WebRig, arrival_of
from tests.support.srmp_runs import one_by_one, same

SECOND = "http://alpha/msmq/private$/second"
NARROW = "http://alpha/msmq/private$/narrow"
DENIED = "http://alpha/msmq/private$/denied"
GATE = "http://gate.example/msmq/orders"
BODY = b"x" * 300
RUNS = ("plain", "plain", "again", "narrow")
Make = Callable[[WebRig, int], SrmpMessage]

KINDS: dict[str, Make] = {
    "plain": lambda rig, n: rig.message(ordinal=n),
    "again": lambda rig, n: rig.message(ordinal=1 + n % 3),
    "express": lambda rig, n: rig.message(ordinal=n, durable=False),
    "urgent": lambda rig, n: rig.message(ordinal=n, priority=7),
    "second": lambda rig, n: rig.message(SECOND, ordinal=n),
    "narrow": lambda rig, n: rig.message(NARROW, ordinal=n),
    "denied": lambda rig, n: rig.message(DENIED, ordinal=n),
    "redirected": lambda rig, n: rig.message(GATE, ordinal=n),
    "nowhere": lambda rig, n: rig.message("http://alpha/msmq/none", ordinal=n),
    "elsewhere": lambda rig, n: rig.message("http://bravo/msmq/orders", ordinal=n),
    "unreadable": lambda rig, n: rig.message(f"{ORDERS}%ff", ordinal=n),
    "labelled": lambda rig, n: rig.message(ordinal=n, action="MSMQ:" + "y" * 300),
    "late": lambda rig, n: rig.message(ordinal=n, reach_by=rig.utc - 1),
    "anonymous": lambda rig, n: SrmpMessage("MSMQ:", ORDERS, "x", durable=True),
    "first of nobody": lambda rig, n: rig.message(ordinal=1, source_guid=NULL_GUID),
    "journaled": lambda rig, n: rig.message(ordinal=n, journal=True),
    "asking": lambda rig, n: rig.message(ordinal=n, delivery_receipt_to=ADMIN),
    "streamed": lambda rig, n: rig.streamed(1 + n % 4, ordinal=n),
    "astray": lambda rig, n: rig.streamed(1, to=ORDERS, ordinal=n),
    "unstreamed": lambda rig, n: rig.message(STREAMED, ordinal=n),
    "receipt": lambda rig, n: rig.stream_receipt(n, 77, ordinal=n),
    "told": lambda rig, n: rig.delivery_receipt(ORDERS, MessageId(FAR_GUID, n), ordinal=n),
}
Turn = list[tuple[str, int]]


def turns_of(chance: Random) -> list[Turn]:
    """Some turns; most messages are such that runs come about, and stay there for a while."""
    turns: list[Turn] = []
    for _ in range(chance.randint(1, 4)):
        turn: Turn = []
        while len(turn) < chance.randint(1, 12):
            kind = chance.choice([*RUNS, chance.choice(sorted(KINDS))])
            turn += [(kind, chance.randint(1, 40)) for _ in range(chance.randint(1, 4))]
        turns.append(turn)
    return turns


def make(**options: Any) -> WebRig:
    redirect = RedirectSettings(inbound={GATE: ORDERS})
    rig = WebRig(srmp_redirect=redirect, **options)
    rig.create("second", journaling=True)
    rig.create("narrow", quota_kib=9)
    rig.create("denied")
    rig.deny("denied", ANONYMOUS, WRITE_MESSAGE)
    return rig


def post(rig: WebRig, turn: Turn) -> list[tuple[int, str]]:
    posted = [KINDS[kind](rig, number) for kind, number in turn]
    return [(verdict.status, verdict.why) for verdict in rig.verdicts(*posted, body=BODY)]


def order(rig: WebRig, name: str) -> list[int]:
    """The messages of a queue as readers get them."""
    return [found.identifier.ordinal for found in rig.messages(name)]


def test_runs_come_to_what_messages_one_by_one_do(dose: Dose) -> None:
    for seed in range(dose(120, 3000)):
        compare(Random(seed))


def compare(chance: Random) -> None:
    quota = chance.choice([{}, {}, {"machine_quota_kib": chance.randint(8, 60)}])
    many, one = make(**quota), one_by_one(make(**quota))
    waits = []
    for rig in (many, one):
        descriptor = rig.open("orders", RECEIVE)
        waits.append([rig.wait(descriptor) for _ in range(3)])
    for turn in turns_of(chance):
        full = chance.random() < 0.2
        for rig in (many, one):
            (
                rig.manager.machine.begin_flow_control
                if full
                else rig.manager.machine.end_flow_control
            )("memory")
        assert post(many, turn) == post(one, turn)
    got = [[[answer.packets for answer in wait] for wait in of_rig] for of_rig in waits]
    assert got[0] == got[1]
    for name in ("orders", "second", "narrow", "denied", "streamed"):
        assert order(many, name) == order(one, name)
    assert [packet.data for packet in many.answers()] == [packet.data for packet in one.answers()]
    same(one, many)


LOSSLESS = ("plain", "plain", "express", "urgent", "second", "redirected", "journaled", "streamed")


@pytest.mark.parametrize("seed", range(12))
def test_a_log_cut_behind_any_record_has_all_of_a_turn_or_nothing(seed: int) -> None:
    """What was answered is there, nothing is there twice, and sending all again makes it whole."""
    chance = Random(seed)
    script = [chance.choices(LOSSLESS, k=chance.randint(2, 5)) for _ in range(3)]
    rig, posted, ends, taken = make(), list[list[SrmpMessage]](), list[int](), Counter[str]()
    start, number = len(rig.store.log), 0
    for turn in script:
        messages = []
        for kind in turn:
            number += 1
            taken[kind] += 1
            at = taken["streamed"] if kind == "streamed" else number
            message = rig.streamed(at) if kind == "streamed" else KINDS[kind](rig, 1000 + number)
            messages.append(message)
        assert rig.post(*messages) == [200] * len(messages)
        posted.append(messages)
        ends.append(len(rig.store.log))
    names = ("orders", "second", "streamed")
    whole = {name: sorted(order(rig, name)) for name in names}
    log = rig.store.log
    for length in range(start, len(log) + 1):
        rig.restart(log[:length])
        rig.check_books()
        durable = [
            message.ordinal
            for messages, end in zip(posted, ends, strict=True)
            for message in messages
            if end <= length and message.durable
        ]
        found = [ordinal for name in names for ordinal in order(rig, name)]
        assert set(durable) <= set(found)
        assert len(found) == len(set(found))
        for messages in posted:
            assert rig.post(*messages) == [200] * len(messages)
        assert {name: sorted(order(rig, name)) for name in names} == whole
        rig.check_books()


@pytest.mark.parametrize("bad", ["nowhere", "unreadable", "denied", "astray", "labelled"])
def test_one_bad_message_costs_its_neighbours_nothing(bad: str) -> None:
    rig = make()
    arrivals = [
        arrival_of(KINDS[kind](rig, number), BODY)
        for number, kind in enumerate(("plain", "plain", bad, "plain"), 1)
    ]
    verdicts = rig.run(lambda m: m.transfer.receive_srmp(arrivals))
    assert [verdict.status for verdict in verdicts] == [200, 200, 400, 200]
    assert order(rig, "orders") == [1, 2, 4]
