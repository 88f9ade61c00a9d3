"""Taking in many packets at once does what taking them in one by one does."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.engine.transfer.protocol_interface import Verdict
from posthouse.engine.transfer.receiving import Receiving
from tests.engine.letters import FAR_GUID
from tests.engine.rig import RECEIVE
from tests.support.run_rig import contents
from tests.support.sequence_rig import EastRig

OTHER = bytes(range(32, 48))
SOMETIMES = st.sampled_from([0, 0, 0, 0, 0, 1])
NEXT = st.tuples(st.integers(1, 3), SOMETIMES, SOMETIMES, SOMETIMES)

plain = st.fixed_dictionaries(
    {},
    optional={
        "express": st.booleans(),
        "priority": st.integers(2, 3),
        "source": st.sampled_from([FAR_GUID, FAR_GUID, FAR_GUID, OTHER]),
        "negative_journaling_requested": st.booleans(),
        "positive_journaling_requested": st.booleans(),
        "time_to_be_received": st.sampled_from([0xFFFFFFFF, 0xFFFFFFFF, 0, 50]),
        "time_to_reach_queue": st.sampled_from([0xFFFFFFFF, 500]),
        "label": st.sampled_from(["", "label"]),
        "body": st.binary(max_size=4),
        "acknowledgements_requested": st.sampled_from([0, 0, 0, 1, 4]),
        "destination_queue_format_name": st.sampled_from(
            [r"DIRECT=OS:ALPHA\private$\orders"] * 4 + [r"DIRECT=OS:ALPHA\private$\none"]
        ),
        "tracing_requested": SOMETIMES.map(bool),
    },
)


def one_by_one(rig: EastRig) -> EastRig:
    """The same rig without the short way."""
    rig.manager.transfer.receiving._run = lambda peer, packets, looks: None  # type: ignore[method-assign]
    return rig


def same(one: EastRig, many: EastRig) -> None:
    for rig in (one, many):
        rig.check_books()
    assert contents(many.manager.ledger.state) == contents(one.manager.ledger.state)
    assert many.store.disk.packets == one.store.disk.packets
    for source in (FAR_GUID, OTHER):
        entries = [
            r.manager.transfer.receiving.history.known_of(source).keys() for r in (one, many)
        ]
        assert entries[0] == entries[1]
        infos = [r.manager.transfer.outgoing.incoming(r.queue("east"), source) for r in (one, many)]
        assert infos[0] == infos[1]
    one.restart()
    many.restart()
    assert contents(many.manager.ledger.state) == contents(one.manager.ledger.state)


def taken(rigs: tuple[EastRig, EastRig], packets: list[bytes]) -> None:
    verdicts = [rig.take(*packets) for rig in rigs]
    assert verdicts[0] == verdicts[1]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(plain, st.lists(st.tuples(st.integers(1, 30), plain, SOMETIMES), max_size=8)),
        max_size=4,
    )
)
def test_plain_packets_at_once_are_the_same(batches: list[Any]) -> None:
    many, one = EastRig(), one_by_one(EastRig())
    for common, entries in batches:
        packets = [
            many.packet(**{**common, "ordinal": ordinal, **(own if odd else {})})
            for ordinal, own, odd in entries
        ]
        taken((many, one), packets)
    same(one, many)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.integers(1, 3), SOMETIMES, SOMETIMES, SOMETIMES),
                min_size=1,
                max_size=8,
            ),
            SOMETIMES,
            st.booleans(),
        ),
        max_size=4,
    )
)
def test_sequences_at_once_are_the_same(batches: list[Any]) -> None:
    many, one = EastRig(), one_by_one(EastRig())
    number, sequence = 0, 1
    for entries, new_sequence, journal in batches:
        if new_sequence:
            number, sequence = 0, sequence + 1
        packets = []
        for step, again, gap, final in entries:
            previous, number = number, number + step
            packets.append(
                many.tx(
                    number - again,
                    previous + gap,
                    (5, sequence),
                    negative_journaling_requested=journal,
                    final_ack_required=bool(final),
                )
            )
        taken((many, one), packets)
    same(one, many)


def test_the_short_way_is_taken() -> None:
    rig = EastRig()
    runs = []
    take_run = Receiving._take_run

    def noted(self: Receiving, peer: Any, run: Any) -> Verdict:
        runs.append(len(run.packets))
        return take_run(self, peer, run)

    rig.manager.transfer.receiving._take_run = noted.__get__(rig.manager.transfer.receiving)  # type: ignore[method-assign]
    rig.take(*(rig.packet() for _ in range(3)))
    rig.take(*(rig.packet(express=True) for _ in range(4)))
    rig.take_tx(1, 2, 3, 4, 5)
    rig.take_tx(6, 7)
    rig.take_tx(6, 7)
    assert runs == [3, 4, 5, 2]
    assert rig.bodies("east") == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]


def test_waiting_readers_get_what_came_at_once() -> None:
    rig = EastRig()
    answers = [rig.wait(rig.open("orders", RECEIVE), timeout_ms=1000) for _ in range(2)]
    rig.take(*(rig.packet(b"%d" % at) for at in range(3)))
    assert [len(got) for got in answers] == [1, 1]
    assert rig.bodies("orders") == [b"2"]
