"""Claims have a beginning and a stream: nothing is received that its reader has not read."""

from __future__ import annotations

import msgspec
import pytest

from posthouse.engine.ledger.records import TABLE_GROUP
from posthouse.engine.pipelines.group import decode_group
from tests.engine.group_rig import INVALID_PARAMETER, SHARING_VIOLATION, GroupRig


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig()


def test_a_claim_leaves_nothing_unread_below_it(rig: GroupRig) -> None:
    """Another group name for the checkpoint of a stream that began later (L5)."""
    ids = rig.fill(5)
    epoch = rig.lease()
    with rig.refused(INVALID_PARAMETER, "3 messages of .* in .* has not acknowledged them"):
        rig.claim(epoch, ids[4], after=ids[2], stream="a")
    assert not rig.group().has_claims
    assert rig.ids() == ids


def test_a_refused_claim_names_the_command_that_passes_them_by(rig: GroupRig) -> None:
    ids = rig.fill(2)
    epoch = rig.lease()
    with rig.refused(INVALID_PARAMETER, rf"posthouse group set '.*' g --position {ids[0]}"):
        rig.claim(epoch, ids[1], after=ids[0])


def test_messages_that_are_skipped_stay_in_the_queue(rig: GroupRig) -> None:
    ids = rig.fill(5)
    epoch = rig.lease()
    rig.claim(epoch, ids[4], after=ids[2], stream="a", skip=True)
    assert rig.manager.groups.claimed_messages(rig.group()) == 2
    assert rig.acknowledge(epoch, ids[4], stream="a") == 2
    assert rig.ids() == ids[:3]
    rig.lapse()
    assert rig.receive("q").message.body == b"0"


def test_what_lies_below_the_claim_is_anybodys(rig: GroupRig) -> None:
    ids = rig.fill(3)
    epoch = rig.lease()
    rig.claim(epoch, ids[2], after=ids[0], skip=True)
    rig.lapse()
    assert rig.receive("q").read.lookup_id == ids[0]
    rig.fill(1)
    assert rig.receive("q").read.lookup_id > ids[2]
    assert rig.ids() == ids[1:]


def test_an_acknowledgment_below_the_claim_receives_nothing(rig: GroupRig) -> None:
    ids = rig.fill(3)
    epoch = rig.lease()
    rig.claim(epoch, ids[2], after=ids[1], stream="a", skip=True)
    assert rig.acknowledge(epoch, ids[1], stream="a") == 0
    assert rig.ids() == ids
    assert rig.group().definition.position < ids[0]


def test_the_claim_of_a_stream_is_acknowledged_for_that_stream_alone(rig: GroupRig) -> None:
    ids = rig.fill(2)
    epoch = rig.lease(owner="first reader")
    rig.claim(epoch, ids[1], after=0, stream="a")
    for other in ("b", ""):
        words = r"group g by another stream \(a; .*first reader\).*posthouse group release '.*' g"
        with rig.refused(SHARING_VIOLATION, words):
            rig.acknowledge(epoch, ids[1], stream=other)
    assert rig.ids() == ids
    assert rig.acknowledge(epoch, ids[1], stream="a") == 2


def test_batch_follows_on_batch_while_the_first_is_not_acknowledged(rig: GroupRig) -> None:
    ids = rig.fill(4)
    epoch = rig.lease()
    rig.claim(epoch, ids[1], after=0, stream="a")
    rig.claim(epoch, ids[3], after=ids[1], stream="a")
    assert rig.acknowledge(epoch, ids[1], stream="a") == 2
    assert rig.acknowledge(epoch, ids[3], stream="a") == 2
    assert not rig.ids()


def test_a_gap_above_the_claim_is_refused(rig: GroupRig) -> None:
    ids = rig.fill(4)
    epoch = rig.lease()
    rig.claim(epoch, ids[0], after=0, stream="a")
    for skip in (False, True):
        with rig.refused(INVALID_PARAMETER, "2 messages"):
            rig.claim(epoch, ids[3], after=ids[2], stream="a", skip=skip)


def test_a_new_stream_takes_over_what_it_reads_from_its_beginning(rig: GroupRig) -> None:
    ids = rig.fill(4)
    epoch = rig.lease()
    rig.claim(epoch, ids[2], after=0, stream="a")
    rig.lapse()
    epoch = rig.lease(owner="another")
    with rig.refused(SHARING_VIOLATION, "another stream"):
        rig.claim(epoch, ids[3], after=ids[1], stream="b")
    rig.claim(epoch, ids[3], after=0, stream="b")
    with rig.refused(SHARING_VIOLATION, "another stream"):
        rig.acknowledge(epoch, ids[2], stream="a")
    assert rig.acknowledge(epoch, ids[3], stream="b") == 4


def test_a_claim_that_was_emptied_bars_no_other_stream(rig: GroupRig) -> None:
    ids = rig.fill(2)
    epoch = rig.lease()
    rig.claim(epoch, ids[0], after=0, stream="a")
    rig.acknowledge(epoch, ids[0], stream="a")
    rig.claim(epoch, ids[1], after=ids[0], stream="b")
    assert rig.acknowledge(epoch, ids[1], stream="b") == 1


def test_readers_that_name_no_beginning_claim_from_the_groups_position(rig: GroupRig) -> None:
    """As version 0.1 did: it acknowledges without a stream, too."""
    ids = rig.fill(3)
    epoch = rig.lease()
    rig.claim(epoch, ids[1])
    assert rig.acknowledge(epoch, ids[1]) == 2
    assert rig.ids() == ids[2:]


def test_range_and_stream_of_a_claim_survive_a_crash(rig: GroupRig) -> None:
    ids = rig.fill(4)
    epoch = rig.lease()
    rig.claim(epoch, ids[3], after=ids[1], stream="a", skip=True)
    rig.restart()
    group = rig.group()
    assert (group.begin, group.definition.claimed, group.definition.stream) == (
        ids[1],
        ids[3],
        "a",
    )
    with rig.refused(SHARING_VIOLATION, "another stream"):
        rig.acknowledge(epoch, ids[3], stream="b")
    assert rig.acknowledge(epoch, ids[3], stream="a") == 2
    assert rig.ids() == ids[:2]


def test_a_crash_between_steps_goes_on_within_the_range() -> None:
    rig = GroupRig(step_messages=2)
    ids = rig.fill(8)
    epoch = rig.lease()
    rig.claim(epoch, ids[7], after=ids[2], stream="a", skip=True)
    group = rig.group()
    rig.driver.begin_turn()
    rig.driver.decide(lambda m: m.groups.acknowledge(group, epoch, ids[7], "a"), lambda _: None)
    rig.driver.end_turn()
    rig.driver.sync()
    rig.restart()
    assert rig.ids() == [*ids[:3], *ids[5:]]
    assert rig.acknowledge(epoch, ids[7], stream="a") == 3
    assert rig.ids() == ids[:3]


def test_a_stream_gives_back_its_own_claim_only(rig: GroupRig) -> None:
    ids = rig.fill(2)
    epoch = rig.lease()
    rig.claim(epoch, ids[1], after=0, stream="a")
    group = rig.group()
    assert rig.run(lambda m: m.groups.release(group, "b")) == 0
    assert rig.group().has_claims
    assert rig.run(lambda m: m.groups.release(group, "a")) == 2
    assert rig.receive("q").read.lookup_id == ids[0]


@pytest.mark.parametrize(
    ("after", "stream", "words"), [(9, "", "ends before it begins"), (0, "x" * 65, "at most 64")]
)
def test_claims_that_make_no_sense_are_refused(
    after: int, stream: str, words: str, rig: GroupRig
) -> None:
    ids = rig.fill(1)
    epoch = rig.lease()
    with rig.refused(INVALID_PARAMETER, words):
        rig.claim(epoch, ids[0], after=ids[0] + after, stream=stream)


def test_a_group_that_version_1_kept_is_read(rig: GroupRig) -> None:
    """Its claim begins at its position, and has no stream."""
    epoch, ids = rig.claimed(3, 2)
    (key, value), *_ = rig.manager.ledger.state.of_table(TABLE_GROUP)
    fields = msgspec.msgpack.decode(value)
    fields.pop("claim_after", None)
    fields.pop("stream", None)
    definition = decode_group(msgspec.msgpack.encode(fields))
    assert (definition.claim_after, definition.stream) == (0, "")
    rig.manager.ledger.define(TABLE_GROUP, key, msgspec.msgpack.encode(fields))
    rig.turn()
    rig.restart()
    assert rig.acknowledge(epoch, ids[1]) == 2
