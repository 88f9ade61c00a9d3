"""MessageIDHistoryTable ([MS-MQQB] 3.1.1.3, 3.1.2.8, 3.1.5.8.1-2, 3.1.6.7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.records import TABLE_HISTORY, Change
from posthouse.engine.settings import EngineSettings
from posthouse.engine.transfer.message_history import MessageHistory
from tests.engine.arrivals import PEER, PeerRig
from tests.engine.letters import FAR_GUID
from tests.engine.rig import Rig
from tests.engine.settings import changed

PERIOD = 30 * 60


def history(rig: Rig) -> MessageHistory:
    return rig.manager.transfer.receiving.history


def kept(rig: Rig) -> int:
    """Definitions of the history in the log."""
    return sum(1 for table, _ in rig.manager.ledger.state.definitions if table == TABLE_HISTORY)


@pytest.mark.spec("MS-MQQB 3.1.1.3/5", "MS-MQQB 3.1.5.8.2/4")
def test_an_entry_is_source_ordinal_and_time() -> None:
    rig = PeerRig()
    rig.take(rig.packet(ordinal=7))
    assert history(rig).knows(FAR_GUID, 7)
    assert not history(rig).knows(FAR_GUID, 8)
    assert not history(rig).knows(bytes(16), 7)
    assert history(rig).known_of(FAR_GUID)[7].time == rig.clock.utc_seconds


@pytest.mark.spec("MS-MQQB 3.1.1.3/6")
def test_the_history_is_bounded_by_default() -> None:
    assert EngineSettings("ALPHA").binary.message_history_max == 10_000
    assert (
        MessageHistory(PeerRig(message_history_max=1 << 40).manager.ledger).entries_max == 1 << 32
    )


def test_messages_that_come_again_and_again_are_kept_once() -> None:
    rig = PeerRig(message_history_max=5)
    packets = [rig.packet(b"%d" % at) for at in range(3)]
    rig.take(*packets)
    for _ in range(50):
        rig.take(packets[1])
    assert len(history(rig)._runs[PEER.host]) <= 10
    assert kept(rig) <= 10
    for _ in range(2):
        assert [history(rig).knows(FAR_GUID, n) for n in (1, 2, 3, 4)] == [True, True, True, False]
        rig.restart()


@pytest.mark.spec("MS-MQQB 3.1.5.8.2/4", "MS-MQQB 3.1.1.3/6")
def test_a_full_history_drops_its_oldest_entry() -> None:
    rig = PeerRig(message_history_max=3)
    packets = [rig.packet(b"%d" % at) for at in range(4)]
    rig.take(packets[0])
    rig.take(*packets[1:])
    assert [history(rig).knows(FAR_GUID, n) for n in (1, 2, 3, 4)] == [False, True, True, True]
    rig.take(*packets)
    assert rig.bodies("orders") == [b"0", b"1", b"2", b"3", b"0"]
    assert kept(rig) == 1


@pytest.mark.spec("MS-MQQB 3.1.1.3/7")
def test_what_is_known_of_recoverable_messages_survives_a_crash() -> None:
    rig = PeerRig()
    packets = [rig.packet(b"%d" % at) for at in range(5)]
    rig.take(*packets[:3])
    rig.take(packets[3])
    rig.restart()
    rig.take(*packets)
    assert rig.bodies("orders") == [b"0", b"1", b"2", b"3", b"4"]


def test_what_is_known_of_express_messages_survives_a_clean_stop() -> None:
    rig = PeerRig()
    packets = [rig.packet(b"%d" % at, express=True) for at in range(3)]
    rig.take(*packets, rig.packet(b"recoverable"))
    rig.run(lambda m: m.stop())
    rig.restart()
    assert all(history(rig).knows(FAR_GUID, n) for n in (1, 2, 3, 4))
    crashed = PeerRig()
    crashed.take(*packets)
    crashed.restart()
    assert not history(crashed).count


@pytest.mark.spec("MS-MQQB 3.1.5.8.1/3")
def test_a_duplicate_is_as_new_as_its_last_copy() -> None:
    rig = PeerRig(message_history_max=3)
    packets = [rig.packet(b"%d" % at) for at in range(4)]
    rig.take(*packets[:3])
    rig.clock.advance(5000)
    rig.take(packets[0])
    assert history(rig).known_of(FAR_GUID)[1].time == rig.clock.utc_seconds
    rig.take(packets[3])  # in place of the second, the oldest now
    rig.restart()
    assert [history(rig).knows(FAR_GUID, n) for n in (1, 2, 3, 4)] == [True, False, True, True]


@pytest.mark.spec("MS-MQQB 3.1.2.8/2", "MS-MQQB 3.1.6.7/1")
def test_entries_older_than_a_period_go_when_the_timer_fires() -> None:
    rig = PeerRig()
    rig.take(rig.packet(b"old"))
    rig.advance(PERIOD - 1)
    rig.take(rig.packet(b"new"))
    rig.advance(1)
    assert history(rig).count == 2  # just a period old: not older
    rig.advance(PERIOD)
    assert [history(rig).knows(FAR_GUID, n) for n in (1, 2)] == [False, False]
    assert not kept(rig)


@pytest.mark.spec("MS-MQQB 3.1.2.8/1", "MS-MQQB 3.1.6.7/2", "MS-MQQB 3.1.5.8.2/5")
def test_the_timer_runs_while_there_are_entries() -> None:
    rig = PeerRig(directory_integrated=False)
    assert history(rig).next_deadline_ms() is None
    assert rig.manager.next_deadline_ms() is None
    rig.take(rig.packet())
    due = rig.clock.now_ms + PERIOD * 1000
    assert rig.manager.next_deadline_ms() == due
    rig.advance(60)
    rig.take(rig.packet())
    assert rig.manager.next_deadline_ms() == due  # one timer for all
    rig.advance(PERIOD - 30)
    assert history(rig).count == 1
    again = history(rig).next_deadline_ms()
    assert again == rig.clock.now_ms + PERIOD * 1000
    rig.advance(PERIOD)
    assert history(rig).next_deadline_ms() is None


@pytest.mark.spec("MS-MQQB 3.1.2.8/1", "MS-MQQB 3.1.3.1/2")
def test_the_timer_runs_from_the_start_if_anything_was_kept() -> None:
    rig = PeerRig()
    rig.take(rig.packet())
    rig.clock.advance(1000)
    rig.restart()
    assert history(rig).next_deadline_ms() == rig.clock.now_ms + PERIOD * 1000


def test_a_smaller_history_keeps_the_newest_of_what_was_kept() -> None:
    rig = PeerRig()
    for _ in range(4):
        rig.take(rig.packet(), rig.packet())
    rig.settings = changed(rig.settings, message_history_max=3)
    rig.restart()
    assert [history(rig).knows(FAR_GUID, n) for n in (5, 6, 7, 8)] == [False, True, True, True]
    assert kept(rig) == 2


BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 1), st.integers(1, 12)), min_size=1, max_size=6),
        st.booleans(),
        st.integers(0, 900),
    ),
    max_size=12,
)


@given(BATCHES, st.integers(1, 8))
def test_the_history_is_the_newest_entries_whatever_came(batches: list, limit: int) -> None:  # type: ignore[type-arg]
    rig = Rig(message_history_max=limit)
    expected: dict[tuple[bytes, int], tuple[int, bool]] = {}  # the oldest first
    for entries, durable, pause in batches:
        notes: dict[bytes, dict[int, bytes]] = {}
        for source, ordinal in entries:
            notes.setdefault(bytes([source]) * 16, {})[ordinal] = b"d" * 16
        rig.run(
            lambda m, n=notes, d=durable: _add(
                m.transfer.receiving.history, n if d else {}, {} if d else n
            )
        )
        for source, ordinals in notes.items():
            for ordinal in ordinals:
                expected.pop((source, ordinal), None)
                expected[source, ordinal] = rig.clock.utc_seconds, durable
        while len(expected) > limit:
            del expected[next(iter(expected))]
        _compare(history(rig), set(expected))
        rig.advance(pause)
        old = rig.clock.utc_seconds - PERIOD
        present = {key for key in expected if history(rig).knows(*key)}
        assert {key for key, (time, _) in expected.items() if time >= old} <= present
        expected = {key: value for key, value in expected.items() if key in present}
    rig.restart()
    _compare(history(rig), {key for key, (_, durable) in expected.items() if durable})


def _add(table: MessageHistory, recoverable: dict, express: dict) -> None:  # type: ignore[type-arg]
    change = Change()
    table.add(recoverable, express, change)
    table.core.commit(change)


def _compare(table: MessageHistory, expected: set[tuple[bytes, int]]) -> None:
    known = {(s, o) for s in (bytes(16), b"\1" * 16) for o in table.known_of(s)}
    assert expected <= known
    assert table.count == len(known)
    if len(known) > len(expected):  # a copy that came later as express was forgotten with it
        assert table.count <= table.entries_max
