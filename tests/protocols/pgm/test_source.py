"""The source role (RFC 3208 5, MC-MQSRM 2.1.3.1), with a clock of its own."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace

from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.wire.pgm.packets import (
    NCF,
    ODATA,
    RDATA,
    SPM,
    Data,
    Nak,
    Spm,
    Tsi,
    follow,
    pack_nak,
    read_pgm,
    unpack_nla,
)
from tests.protocols.pgm.rig import FAST, FIRST, GROUP, OTHER, OWN, PORT, TSI, Sender

DOCUMENT = PgmSettings()


def numbers(count: int, start: int = FIRST) -> list[int]:
    return [follow(start, step) for step in range(count)]


@pytest.mark.spec("PGM/24")
def test_a_session_begins_with_spms_that_name_the_source() -> None:
    sender = Sender()
    sender.offer(b"one")
    kinds = [packet.header.type for _, packet in sender.packets]
    assert kinds[:4] == [SPM, SPM, SPM, ODATA]
    spm = sender.of(SPM)[0].body
    assert isinstance(spm, Spm)
    assert unpack_nla(spm.path) == OWN
    assert (spm.trailing, spm.leading) == (FIRST, FIRST - 1)


@pytest.mark.spec("PGM/7", "PGM/8", "PGM/19")
def test_data_is_numbered_one_by_one_in_one_session() -> None:
    sender = Sender()
    sender.offer(*[b"%d" % n for n in range(40)])
    assert sender.numbers() == numbers(40)
    assert [packet.data for packet in sender.of(ODATA)] == [b"%d" % n for n in range(40)]
    assert sender.out == [b"%d" % n for n in range(40)]
    for _, packet in sender.packets:
        assert (packet.tsi, packet.header.source_port) == (TSI, TSI.port)
        assert packet.header.destination_port == PORT


@pytest.mark.spec("PGM/22")
def test_spm_numbers_rise_and_tell_the_edges_of_the_window() -> None:
    sender = Sender()
    sender.offer(*[b"x"] * 120)
    sender.run_until(60_000)
    spms = [packet.body for packet in sender.of(SPM)]
    assert all(isinstance(spm, Spm) for spm in spms)
    assert [spm.sequence for spm in spms] == list(range(1, len(spms) + 1))  # type: ignore[union-attr]
    assert sender.last_spm().leading == follow(FIRST, 119)
    assert sender.last_spm().trailing == FIRST


@pytest.mark.spec("MC-MQSRM 2.1.3.1/1", clause="data")
@pytest.mark.spec("PGM/21", "MC-MQSRM 2.1.3.1/8")
def test_everything_together_keeps_within_seventy_kilobytes_a_second() -> None:
    assert DOCUMENT.rate == 70_000
    assert DOCUMENT.bucket_ms == 40
    sender = Sender(DOCUMENT)
    sender.offer(*[b"x" * 1_000] * 700)
    sender.run_until(2_000)
    for number in numbers(30):
        sender.nak(number)
    sender.run_until(14_000)
    sizes = [
        (at, len(packet))
        for (at, _), (kind, packet) in zip(sender.packets, sender.raw, strict=True)
        if kind != NCF
    ]
    assert len(sender.of(RDATA)) == 30
    for begin in range(0, 10_000, 500):
        span = [size for at, size in sizes if begin <= at < begin + 1_000]
        assert sum(span) <= 70_000 + 2_800 + 48
    assert sum(size for _, size in sizes) >= 0.9 * 70_000 * 10


@pytest.mark.spec("MC-MQSRM 2.1.3.1/1", clause="SPMs")
@pytest.mark.spec("PGM/21")
def test_spms_keep_within_the_rate_as_data_does() -> None:
    settings = replace(DOCUMENT, rate=7_000, ambient_packets=1)
    sender = Sender(settings)
    sender.offer(*[b"x"] * 1_000)
    sender.run_until(3_000)
    sizes = [(at, len(raw)) for (at, _), (_, raw) in zip(sender.packets, sender.raw, strict=True)]
    assert len(sender.of(SPM)) > 100
    for begin in range(0, 2_000, 250):
        span = [size for at, size in sizes if begin <= at < begin + 1_000]
        assert sum(span) <= settings.rate + settings.rate * settings.bucket_ms // 1_000 + 48


@pytest.mark.spec("MC-MQSRM 2.1.3.1/9")
def test_rate_and_window_can_be_set() -> None:
    sender = Sender(replace(DOCUMENT, rate=7_000, window_ms=1_000))
    sender.offer(*[b"x" * 1_000] * 100)
    sender.run_until(10_000)
    assert 50 <= len(sender.of(ODATA)) <= 70
    assert sender.last_spm().trailing != FIRST


@pytest.mark.spec("PGM/23", "MC-MQSRM 2.1.3.1/11")
def test_an_ambient_spm_follows_fifty_data_packets() -> None:
    assert (DOCUMENT.ambient_packets, DOCUMENT.ambient_ms) == (50, 500)
    sender = Sender()
    sender.offer(*[b"x"] * 200)
    kinds = [packet.header.type for _, packet in sender.packets][3:]
    assert [at for at, kind in enumerate(kinds) if kind == SPM] == [50, 101, 152, 203]


@pytest.mark.spec("MC-MQSRM 2.1.3.1/11")
def test_repairs_count_for_ambient_spms() -> None:
    sender = Sender()
    sender.offer(*[b"x"] * 30)
    before = len(sender.of(SPM))
    sender.nak(*numbers(20))
    sender.run_until(100)
    assert len(sender.of(RDATA)) == 20
    assert len(sender.of(SPM)) == before + 1


@pytest.mark.spec("PGM/23", "MC-MQSRM 2.1.3.1/11")
def test_an_ambient_spm_comes_half_a_second_after_the_last() -> None:
    sender = Sender()
    for step in range(30):
        sender.run_until(step * 100)
        sender.offer(b"x")
    assert sender.times(SPM) == [0, 0, 0, 500, 1_000, 1_500, 2_000, 2_500]


@pytest.mark.spec("PGM/23", "MC-MQSRM 2.1.3.1/4")
def test_heartbeats_grow_from_one_second_to_fifteen() -> None:
    assert (DOCUMENT.heartbeat_min_ms, DOCUMENT.heartbeat_max_ms) == (1_000, 15_000)
    sender = Sender()
    sender.offer(b"x")
    sender.run_until(500)
    del sender.packets[:]
    sender.run_until(62_000)
    assert sender.times(SPM) == [1_000, 3_000, 7_000, 15_000, 30_000, 45_000, 60_000]
    sender.offer(b"y")
    del sender.packets[:]
    sender.run_until(66_000)
    assert sender.times(SPM) == [62_000, 63_000, 65_000]


@pytest.mark.spec("PGM/26", "PGM/27", "PGM/12")
def test_a_nak_is_confirmed_at_once_and_repaired_then() -> None:
    sender = Sender()
    sender.offer(b"one", b"two", b"three")
    first, second = numbers(2)
    sender.nak(first, second)
    assert sender.confirmed() == [(first, second)]
    assert sender.of(RDATA) == [] or sender.packets[-2][1].header.type == NCF
    sender.run_until(100)
    repairs = sender.of(RDATA)
    assert [packet.data for packet in repairs] == [b"one", b"two"]
    assert sender.numbers(RDATA) == [first, second]
    ncf = sender.of(NCF)[0].body
    assert isinstance(ncf, Nak)
    assert (unpack_nla(ncf.source), unpack_nla(ncf.group)) == (OWN, GROUP)


@pytest.mark.spec("PGM/27")
def test_a_repair_has_the_trailing_edge_of_now() -> None:
    sender = Sender(replace(FAST, window_ms=1_000, advance_percent=10))
    sender.offer(b"old")
    sender.run_until(900)
    sender.offer(b"new")
    sender.run_until(1_200)
    sender.nak(follow(FIRST))
    sender.run_until(1_300)
    (repair,) = sender.of(RDATA)
    assert isinstance(repair.body, Data)
    assert repair.body == Data(follow(FIRST), follow(FIRST))


@pytest.mark.spec("MC-MQSRM 2.1.3.1/12")
def test_repairs_are_delayed_by_their_place_in_the_window() -> None:
    sender = Sender()
    sender.offer(*[b"x"] * 60)
    sender.run_until(1_000)
    for step in (0, 20, 40, 59):
        sender.nak(follow(FIRST, step))
    sender.run_until(1_100)
    assert sender.times(RDATA) == [1_000, 1_020, 1_040, 1_059]


@pytest.mark.spec("PGM/25")
def test_a_nak_for_others_is_not_honoured() -> None:
    sender = Sender()
    sender.offer(b"one")
    sender.nak(FIRST, source=OTHER)
    sender.nak(FIRST, group="234.1.1.2")
    sender.run_until(400)
    assert (sender.of(NCF), sender.of(RDATA)) == ([], [])
    assert sender.source.counts["naks_ignored"] == 2


@pytest.mark.spec("PGM/28", "MC-MQSRM 2.1.3/3")
def test_a_nak_outside_of_the_window_gets_nothing() -> None:
    sender = Sender()
    sender.offer(b"one", b"two")
    sender.nak(FIRST - 1)
    sender.nak(follow(FIRST, 2))
    sender.run_until(400)
    assert (sender.of(NCF), sender.of(RDATA)) == ([], [])
    sender.nak(FIRST - 1, follow(FIRST))
    assert sender.confirmed() == [(follow(FIRST),)]


@pytest.mark.spec("PGM/29", "MC-MQSRM 2.1.3/3")
def test_many_naks_for_one_number_get_as_many_ncfs_and_one_repair() -> None:
    sender = Sender()
    sender.offer(*[b"x"] * 60)
    for _ in range(100):
        sender.nak(follow(FIRST, 50))
    sender.run_until(400)
    assert len(sender.of(NCF)) == 100
    assert sender.numbers(RDATA) == [follow(FIRST, 50)]
    sender.nak(follow(FIRST, 50))
    sender.run_until(480)
    assert len(sender.of(RDATA)) == 2


@pytest.mark.spec("MC-MQSRM 2.1.3/2")
@pytest.mark.parametrize("kind", [0x09, NCF])
def test_null_naks_and_confirmations_have_no_effect_on_a_source(kind: int) -> None:
    sender = Sender()
    sender.offer(b"one")
    packet = pack_nak(kind, TSI, PORT, sequences=(FIRST,), source=OWN, group=GROUP)
    sender.source.receive(read_pgm(packet), 0)
    sender.run_until(400)
    assert (sender.of(NCF), sender.of(RDATA)) == ([], [])


@pytest.mark.spec("MC-MQSRM 2.1.3.1/2", "PGM/20")
def test_data_stays_for_three_hundred_seconds() -> None:
    assert DOCUMENT.window_ms == 300_000
    sender = Sender()
    sender.offer(b"one")
    sender.run_until(299_999)
    sender.nak(FIRST)
    assert len(sender.of(NCF)) == 1
    sender.run_until(360_000)
    sender.nak(FIRST)
    assert len(sender.of(NCF)) == 1
    assert (sender.last_spm().trailing, sender.last_spm().leading) == (follow(FIRST), FIRST)


@pytest.mark.spec("MC-MQSRM 2.1.3.1/3", "MC-MQSRM 2.1.3.1/13", "MC-MQSRM 2.1.3/8")
def test_the_window_moves_each_45_seconds_whatever_is_asked_meanwhile() -> None:
    assert DOCUMENT.advance_ms == 45_000
    sender = Sender()
    edges: list[tuple[int, int]] = []
    trailing = FIRST
    for step in range(500):
        sender.offer(b"x")
        sender.nak(sender.source.window.leading)
        sender.run_until((step + 1) * 1_500)
        if sender.source.window.trailing != trailing:
            trailing = sender.source.window.trailing
            edges.append((sender.now_ms, trailing))
    times = [at for at, _ in edges]
    assert all(later - earlier == 45_000 for earlier, later in pairwise(times))
    assert times[0] == 315_000  # the first multiple of 45 s behind 300 s


@pytest.mark.spec("MC-MQSRM 2.1.3.1/14")
def test_the_window_does_not_pass_a_repair_that_is_due() -> None:
    slow = replace(FAST, window_ms=10_000, repair_delay_ms=20_000)
    sender = Sender(slow)
    sender.offer(b"one", b"two", b"three", b"four")
    sender.run_until(9_000)
    sender.nak(follow(FIRST, 2))  # due at 19 s
    sender.run_until(14_000)
    assert sender.source.window.trailing == follow(FIRST, 2)
    sender.run_until(25_000)
    assert sender.numbers(RDATA) == [follow(FIRST, 2)]
    assert sender.source.window.trailing == follow(FIRST, 4)


def test_a_window_that_is_full_stops_new_data_until_it_moves() -> None:
    small = replace(FAST, window_ms=10_000, window_bytes=20_000)
    sender = Sender(small)
    sender.offer(*[b"x" * 1_000] * 100)
    sender.run_until(9_000)
    sent = len(sender.of(ODATA))
    assert 15 <= sent <= 17
    sender.run_until(12_500)
    assert sent < len(sender.of(ODATA)) < 40
    assert sender.source.window.bytes <= 20_000 + 1_300


@pytest.mark.spec("PGM/16", "PGM/19")
def test_long_units_go_in_fragments() -> None:
    sender = Sender()
    unit = bytes(n % 251 for n in range(5_000))
    sender.offer(b"short", unit, b"end")
    assert max(len(packet) for _, packet in sender.raw) <= FAST.packet_bytes
    short, *parts, end = sender.of(ODATA)
    assert (short.options.fragment, end.options.fragment) == (None, None)
    assert b"".join(part.data for part in parts) == unit
    offset = 0
    for part in parts:
        fragment = part.options.fragment
        assert fragment == (follow(FIRST), offset, len(unit))
        offset += len(part.data)
    sender.nak(follow(FIRST, 2))
    sender.run_until(400)
    assert sender.of(RDATA)[0].options.fragment == parts[1].options.fragment


@pytest.mark.spec("MC-MQSRM 2.1.3.1/15")
def test_units_of_64_kilobytes_are_the_longest() -> None:
    assert DOCUMENT.unit_bytes == 65_536
    sender = Sender()
    sender.offer(bytes(65_536))
    assert sum(len(packet.data) for packet in sender.of(ODATA)) == 65_536
    with pytest.raises(AssertionError):
        sender.offer(bytes(65_537))


@pytest.mark.parametrize("size", [1_351, 1_352, 1_353, 1_367, 1_368, 1_369, 2_704])
def test_no_packet_is_too_long_whatever_the_unit(size: int) -> None:
    sender = Sender()
    sender.offer(bytes(size))
    sender.source.finish(0)
    assert max(len(packet) for _, packet in sender.raw) <= 1_400
    assert sum(len(packet.data) for packet in sender.of(ODATA)) == size


@pytest.mark.spec("PGM/40")
def test_the_end_is_marked_in_the_last_data_in_repairs_and_spms() -> None:
    sender = Sender(DOCUMENT)
    for text in (b"a" * 1_000, b"b" * 1_000, b"c" * 1_000, b"d" * 1_000):
        sender.source.offer(text, text, 0)
    sender.source.finish(0)
    sender.run_until(1_000)
    fins = [packet.options.fin for packet in sender.of(ODATA)]
    assert fins == [False, False, False, True]
    assert sender.of(SPM)[-1].options.fin
    assert sender.last_spm().leading == follow(FIRST, 3)
    sender.nak(follow(FIRST, 3), FIRST)
    sender.run_until(1_200)
    assert {packet.body.sequence: packet.options.fin for packet in sender.of(RDATA)} == {  # type: ignore[union-attr]
        FIRST: False,
        follow(FIRST, 3): True,
    }


@pytest.mark.spec("PGM/40")
def test_a_finished_source_repairs_until_its_window_has_passed() -> None:
    sender = Sender()
    sender.offer(b"one")
    sender.run_until(10_000)
    sender.source.finish(10_000)
    assert sender.packets[-1][0] == 10_000  # at once, not with the next heartbeat
    assert sender.of(SPM)[-1].options.fin
    sender.run_until(299_000)
    sender.nak(FIRST)
    sender.run_until(300_000)
    assert len(sender.of(RDATA)) == 1
    assert all(p.options.fin for at, p in sender.packets if p.header.type == SPM and at >= 10_000)
    assert not sender.source.ended
    sender.run_until(400_000)
    assert sender.source.ended
    assert sender.times(SPM)[-1] <= 310_000


@pytest.mark.spec("MC-MQSRM 2.1.3/7")
def test_a_cancelled_source_resets_and_serves_nobody() -> None:
    sender = Sender(DOCUMENT)
    sender.offer(*[b"x" * 1_000] * 10)
    sender.source.cancel()
    last = sender.of(SPM)[-1]
    assert last.options.reset is not None
    assert last.options.reset.no_naks
    count = len(sender.packets)
    sender.nak(FIRST)
    sender.run_until(60_000)
    assert (sender.source.ended, len(sender.packets)) == (True, count)


@pytest.mark.spec("MC-MQSRM 2.1.3/6")
def test_neither_join_nor_syn_is_ever_sent() -> None:
    sender = Sender()
    sender.offer(b"one", bytes(5_000))
    sender.nak(FIRST)
    sender.run_until(20_000)
    sender.source.finish(20_000)
    sender.run_until(40_000)
    assert {(p.options.join, p.options.syn) for _, p in sender.packets} == {(None, False)}


def test_what_is_not_begun_can_be_taken_back() -> None:
    sender = Sender(DOCUMENT)
    for at, size in enumerate((5_000, 10, 20)):
        sender.source.offer(at, bytes(size), 0)
    sender.source.tick(0)
    assert sender.source.withdraw() == [1, 2]
    sender.run_until(1_000)
    assert sum(len(packet.data) for packet in sender.of(ODATA)) == 5_000
    assert (sender.out, sender.source.is_idle, sender.source.unsent_bytes) == ([0], True, 0)


def test_repairs_and_new_data_take_turns() -> None:
    sender = Sender(DOCUMENT)
    sender.offer(*[b"x" * 1_000] * 100)
    sender.run_until(500)
    for number in sender.numbers():
        sender.nak(number)
    del sender.packets[:]
    sender.run_until(1_000)
    kinds = [p.header.type for _, p in sender.packets if p.header.type in (ODATA, RDATA)]
    assert kinds.count(ODATA) >= kinds.count(RDATA) - 1 > 10


def test_another_session_of_the_same_source_is_not_meant() -> None:
    sender = Sender()
    sender.offer(b"x")
    packet = pack_nak(0x08, Tsi(TSI.gsi, 1), PORT, sequences=(FIRST,), source=OTHER, group=GROUP)
    sender.source.receive(read_pgm(packet), 0)
    assert not sender.of(NCF)
