"""The receiver role (RFC 3208 6), with a clock of its own."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from posthouse.protocols.pgm.receiver import ASKED_MAX, PACKET_COST
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.wire.pgm.options import NO_OPTIONS, Fragment, Reset
from posthouse.wire.pgm.packets import NAK, NCF, ODATA, RDATA, follow, pack_data, read_pgm
from tests.protocols.pgm.rig import FAST, FIRST, MIDDLE, OTHER, OWN, PORT, TSI, Hearer

DOCUMENT = PgmSettings()
A, B, C, D, E = (follow(0xFFFF_FFFE, step) for step in range(5))  # over the end of the range


def begun() -> Hearer:
    """A receiver that has heard of the session before any data."""
    hearer = Hearer()
    hearer.spm(follow(A, -1), trailing=A)
    return hearer


def put(hearer: Hearer, *sequences: int) -> None:
    for sequence in sequences:
        hearer.data(sequence, trailing=A)


@pytest.mark.spec("PGM/30")
def test_a_session_is_taken_up_with_the_first_data() -> None:
    hearer = Hearer()
    hearer.spm(C, trailing=A)
    hearer.data(D, trailing=A)
    hearer.data(B, trailing=A)
    hearer.run_until(60_000)
    assert hearer.units == hearer.texts(D)
    assert (hearer.naks, hearer.losses) == ([], [])


@pytest.mark.spec("PGM/30")
def test_a_session_is_taken_up_by_data_without_an_spm() -> None:
    hearer = Hearer()
    put(hearer, C, D)
    hearer.spm(D, trailing=A)
    hearer.run_until(60_000)
    assert (hearer.units, hearer.naks) == (hearer.texts(C, D), [])


@pytest.mark.spec("MC-MQSRM 2.1.3/4", "PGM/38")
def test_data_is_delivered_in_the_order_sent() -> None:
    hearer = begun()
    put(hearer, B, D, C)
    assert hearer.units == []
    put(hearer, A)
    assert hearer.units == hearer.texts(A, B, C, D)
    assert hearer.holding.bytes == hearer.receiver.held_bytes == 0


@pytest.mark.spec("PGM/38")
def test_duplicates_and_what_lies_behind_are_discarded() -> None:
    hearer = begun()
    put(hearer, A, A, C, C, B, B, A)
    hearer.repair(C, trailing=A)
    assert hearer.units == hearer.texts(A, B, C)
    assert hearer.receiver.counts["duplicates"] == 5


@pytest.mark.spec("PGM/32", "PGM/34")
def test_a_gap_is_a_loss() -> None:
    hearer = begun()
    put(hearer, A, D)
    hearer.run_until(MIDDLE - 1)
    assert hearer.naks == []
    hearer.run_until(MIDDLE)
    assert hearer.naks == [(MIDDLE, (B, C))]


@pytest.mark.spec("PGM/32")
def test_a_leading_edge_beyond_what_came_is_a_loss() -> None:
    hearer = begun()
    put(hearer, A)
    hearer.spm(C, trailing=A, sequence=2)
    hearer.run_until(MIDDLE)
    assert hearer.asked() == [B, C]


@pytest.mark.spec("PGM/32")
def test_a_confirmed_number_that_was_not_seen_is_a_loss() -> None:
    hearer = begun()
    put(hearer, A)
    hearer.hear(NCF, C)
    hearer.run_until(MIDDLE)
    assert hearer.asked() == [B]  # that one is being repaired already
    hearer.run_until(2_000 + MIDDLE)
    assert C in hearer.asked()


@pytest.mark.spec("PGM/31")
def test_an_spm_that_is_not_newer_is_ignored() -> None:
    hearer = Hearer(replace(FAST, network_elements=(OTHER,)))
    hearer.spm(follow(A, -1), trailing=A, sequence=0xFFFF_FFFF)
    hearer.spm(C, trailing=A, sequence=0xFFFF_FFFF, path=OTHER)
    hearer.spm(C, trailing=A, sequence=0xFFFF_FFF0, path=OTHER)
    hearer.run_until(1_000)
    assert (hearer.naks, hearer.receiver.path) == ([], OWN)
    hearer.spm(A, trailing=A, sequence=0, path=OTHER)  # newer, over the end of the range
    hearer.run_until(1_000 + MIDDLE)
    assert (hearer.asked(), hearer.receiver.path) == ([A], OTHER)


def test_naks_go_nowhere_but_to_the_source_and_to_known_network_elements() -> None:
    hearer = Hearer(replace(FAST, network_elements=("192.0.2.99",)))
    hearer.spm(follow(A, -1), trailing=A, sequence=1, path=OTHER)
    hearer.spm(A, trailing=A, sequence=2, path=OTHER)
    hearer.run_until(MIDDLE)
    assert (hearer.asked(), hearer.receiver.path) == ([A], OWN)
    assert hearer.receiver.counts["paths_refused"] == 2
    hearer.spm(A, trailing=A, sequence=3, path="192.0.2.99")
    assert hearer.receiver.path == "192.0.2.99"
    hearer.spm(A, trailing=A, sequence=4, path=OTHER)
    assert hearer.receiver.path == OWN


@pytest.mark.spec("PGM/33")
def test_nobody_is_asked_before_an_spm_has_told_whom() -> None:
    hearer = Hearer()
    put(hearer, A, D)
    hearer.run_until(20_000)
    assert hearer.naks == []
    hearer.spm(D, trailing=A)
    hearer.run_until(20_000 + MIDDLE)
    assert hearer.asked() == [B, C]
    assert hearer.losses == []


@pytest.mark.spec("PGM/34", "MC-MQSRM 2.1.3.1/10")
def test_the_back_off_is_drawn_between_ten_and_fifty_milliseconds() -> None:
    assert (DOCUMENT.back_off_min_ms, DOCUMENT.back_off_max_ms) == (10, 50)
    drawn: list[tuple[int, int]] = []
    hearer = begun()
    hearer.receiver._chance = lambda low, high: drawn.append((low, high)) or high
    put(hearer, A, C)
    hearer.run_until(49)
    assert hearer.naks == []
    hearer.run_until(50)
    assert (hearer.asked(), drawn) == ([B], [(10, 50)])


@pytest.mark.spec("PGM/34", "PGM/36", "MC-MQSRM 2.1.3.1/5")
def test_an_unconfirmed_nak_is_repeated_after_750_milliseconds() -> None:
    assert DOCUMENT.nak_repeat_ms == 750
    hearer = begun()
    put(hearer, A, C)
    hearer.run_until(2 * (750 + MIDDLE) + MIDDLE)
    assert [at for at, _ in hearer.naks] == [MIDDLE, 750 + 2 * MIDDLE, 1_500 + 3 * MIDDLE]


@pytest.mark.spec("PGM/36", "MC-MQSRM 2.1.3.1/6")
def test_a_confirmed_nak_is_repeated_when_two_seconds_bring_no_data() -> None:
    assert DOCUMENT.repair_wait_ms == 2_000
    hearer = begun()
    put(hearer, A, C)
    hearer.run_until(100)
    hearer.hear(NCF, B)
    hearer.run_until(2_100 + MIDDLE - 1)
    assert len(hearer.naks) == 1
    hearer.run_until(2_100 + MIDDLE)
    assert len(hearer.naks) == 2


@pytest.mark.spec("PGM/35")
@pytest.mark.parametrize("kind", [NCF, NAK])
def test_a_nak_of_others_or_its_confirmation_suppresses_the_own(kind: int) -> None:
    hearer = begun()
    put(hearer, A, D)
    hearer.run_until(10)
    hearer.hear(kind, B, C)
    hearer.run_until(2_009)
    assert hearer.naks == []
    hearer.run_until(2_010 + MIDDLE)
    assert hearer.asked() == [B, C]


def test_a_nak_of_others_does_not_lengthen_the_wait_for_a_confirmation() -> None:
    hearer = begun()
    put(hearer, A, C)
    hearer.run_until(MIDDLE)
    hearer.hear(NAK, B)  # perhaps our own, which the group heard
    hearer.run_until(750 + 2 * MIDDLE)
    assert len(hearer.naks) == 2


def test_a_confirmation_begins_the_wait_for_data_anew() -> None:
    hearer = begun()
    put(hearer, A, C)
    hearer.run_until(100)
    hearer.hear(NCF, B)
    hearer.run_until(1_100)
    hearer.hear(NCF, B)
    hearer.run_until(3_099)
    assert len(hearer.naks) == 1


@pytest.mark.spec("PGM/34", "PGM/38")
def test_repair_data_ends_the_asking_and_is_delivered_in_its_place() -> None:
    hearer = begun()
    put(hearer, A, C, D)
    hearer.run_until(100)
    hearer.repair(B, trailing=A)
    assert hearer.units == hearer.texts(A, B, C, D)
    hearer.run_until(60_000)
    assert len(hearer.naks) == 1
    assert (hearer.receiver.counts["repaired"], hearer.receiver.missing) == (1, 0)


@pytest.mark.spec("PGM/36", "PGM/37", "MC-MQSRM 2.1.3.1/7")
def test_a_number_is_given_up_after_ten_tries_without_confirmation() -> None:
    assert DOCUMENT.nak_retries == 10
    hearer = begun()
    put(hearer, A, C, D)
    hearer.run_until(10 * (750 + MIDDLE) - 1)
    assert (len(hearer.naks), hearer.losses, hearer.units) == (10, [], hearer.texts(A))
    hearer.run_until(10 * (750 + MIDDLE))
    assert (len(hearer.naks), hearer.losses) == (10, [1])
    assert hearer.units == hearer.texts(A, C, D)
    assert hearer.receiver.counts["lost"] == 1


@pytest.mark.spec("PGM/36", "PGM/37", "MC-MQSRM 2.1.3.1/7")
def test_a_number_is_given_up_after_ten_confirmations_without_data() -> None:
    assert DOCUMENT.data_retries == 10
    hearer = begun()
    put(hearer, A, C)
    for turn in range(10):
        assert hearer.losses == []
        hearer.run_until(turn * (2_000 + MIDDLE) + MIDDLE)
        assert len(hearer.naks) == turn + 1
        hearer.hear(NCF, B)
    hearer.run_until(10 * (2_000 + MIDDLE))
    assert (hearer.losses, hearer.units) == ([1], hearer.texts(A, C))


@pytest.mark.spec("PGM/37")
def test_what_falls_behind_the_trailing_edge_is_given_up_and_told() -> None:
    hearer = begun()
    put(hearer, A, C, E)
    hearer.data(follow(E), trailing=D)
    assert hearer.units == hearer.texts(A, C)  # B is lost; D can still be asked for
    assert hearer.losses == [1]
    hearer.spm(follow(E), trailing=E, sequence=2)
    assert hearer.losses == [1, 1]
    assert hearer.units == hearer.texts(A, C, E, follow(E))
    hearer.run_until(60_000)
    assert hearer.naks == []


@pytest.mark.spec("PGM/37")
def test_a_window_far_away_costs_no_time_and_is_told_whole() -> None:
    hearer = begun()
    put(hearer, A, C)
    far = follow(A, 1 << 30)
    hearer.data(far, trailing=far)
    assert hearer.losses == [1, (1 << 30) - 3]
    assert hearer.units == hearer.texts(A, C, far)


@pytest.mark.spec("PGM/18")
def test_data_far_beyond_the_window_is_not_kept() -> None:
    hearer = begun()
    hearer.data(follow(A, FAST.receive_packets), trailing=A)
    assert (hearer.receiver.held_bytes, hearer.receiver.counts["beyond"]) == (0, 1)
    hearer.spm(follow(A, (1 << 31) - 1), trailing=A, sequence=2)
    assert hearer.receiver.missing == ASKED_MAX
    hearer.run_until(1_000)
    assert len(hearer.asked()) <= 2 * ASKED_MAX


def test_what_is_missing_is_asked_for_part_by_part() -> None:
    hearer = begun()
    last = follow(A, 3 * ASKED_MAX)
    put(hearer, last)
    hearer.run_until(MIDDLE)
    assert len(hearer.asked()) == ASKED_MAX
    assert [len(sequences) for _, sequences in hearer.naks] == [63] * 16 + [16]
    for step in range(3 * ASKED_MAX):
        hearer.repair(follow(A, step), trailing=A)
    assert len(hearer.units) == 3 * ASKED_MAX + 1
    assert hearer.receiver.missing == 0


def test_what_waits_for_what_is_missing_is_bounded() -> None:
    settings = replace(FAST, receive_bytes=10 * (PACKET_COST + 100))
    hearer = Hearer(settings)
    hearer.spm(follow(A, -1), trailing=A)
    for step in range(1, 50):
        hearer.data(follow(A, step), bytes(100), trailing=A)
    assert hearer.receiver.held_bytes == settings.receive_bytes
    assert hearer.receiver.counts["beyond"] == 39
    for step in range(50):
        hearer.data(follow(A, step), bytes(100), trailing=A, kind=RDATA)
    assert len(hearer.units) == 50
    assert hearer.holding.bytes == 0


def test_all_receivers_together_hold_no_more_than_their_limit() -> None:
    hearer = Hearer(FAST, limit=5 * (PACKET_COST + 100))
    hearer.spm(follow(A, -1), trailing=A)
    for step in range(1, 50):
        hearer.data(follow(A, step), bytes(100), trailing=A)
    assert hearer.holding.bytes == hearer.holding.limit
    hearer.data(A, bytes(100), trailing=A)  # what is next in line is taken all the same
    assert (len(hearer.units), hearer.holding.bytes) == (6, 0)


def test_a_flood_of_confirmations_takes_no_memory() -> None:
    hearer = begun()
    put(hearer, A, follow(A, 60))
    for _ in range(200):
        hearer.hear(NCF, *(follow(A, step) for step in range(1, 60)))
    assert len(hearer.receiver._heap) <= 4 * ASKED_MAX


# -- units in fragments


def pieces(first: int, unit: bytes, size: int) -> list[tuple[int, bytes, Fragment]]:
    return [
        (follow(first, at), unit[at * size :][:size], Fragment(first, at * size, len(unit)))
        for at in range(-(-len(unit) // size))
    ]


@pytest.mark.spec("PGM/38", "PGM/39")
def test_a_unit_is_delivered_when_all_of_its_fragments_are_there() -> None:
    hearer, unit = begun(), bytes(range(250)) * 20
    parts = pieces(A, unit, 1_400)
    for sequence, part, fragment in [parts[1], parts[3], parts[0]]:
        hearer.data(sequence, part, trailing=A, fragment=fragment)
    assert hearer.units == []
    sequence, part, fragment = parts[2]
    hearer.data(sequence, part, trailing=A, fragment=fragment, kind=RDATA)
    put(hearer, follow(A, 4))
    assert hearer.units == [unit, b"%d" % follow(A, 4)]


@pytest.mark.spec("PGM/30", "PGM/39")
def test_a_session_taken_up_inside_a_unit_begins_with_the_next() -> None:
    hearer = Hearer()
    parts = pieces(A, bytes(3_000), 1_400)
    for sequence, part, fragment in parts[1:]:
        hearer.data(sequence, part, trailing=A, fragment=fragment)
    put(hearer, D)
    assert (hearer.units, hearer.losses) == (hearer.texts(D), [])


@pytest.mark.spec("PGM/37", "PGM/39")
def test_a_unit_with_a_lost_fragment_is_never_delivered() -> None:
    hearer = begun()
    parts = pieces(A, bytes(5_600), 1_400)
    for at in (0, 1, 3):
        sequence, part, fragment = parts[at]
        hearer.data(sequence, part, trailing=A, fragment=fragment)
    hearer.data(follow(A, 4), trailing=follow(A, 3))
    assert (hearer.units, hearer.losses) == ([b"%d" % follow(A, 4)], [1])


@pytest.mark.spec("PGM/39")
@pytest.mark.parametrize(
    "second",
    [
        (bytes(100), Fragment(A, 200, 300)),  # a hole
        (bytes(100), Fragment(A, 50, 300)),  # once more
        (bytes(100), Fragment(A, 100, 400)),  # another length
        (bytes(100), Fragment(follow(A, -1), 100, 300)),  # another unit
        (b"", None),  # the next unit
    ],
)
def test_fragments_that_contradict_each_other_are_dropped(
    second: tuple[bytes, Fragment | None],
) -> None:
    hearer = begun()
    hearer.data(A, bytes(100), trailing=A, fragment=Fragment(A, 0, 300))
    hearer.data(B, second[0], trailing=A, fragment=second[1])
    hearer.data(C, bytes(100), trailing=A, fragment=Fragment(A, 200, 300))
    put(hearer, D)
    assert hearer.units == hearer.texts(D)


@pytest.mark.spec("MC-MQSRM 2.1.3.1/15")
def test_a_unit_of_more_than_64_kilobytes_is_not_accepted() -> None:
    hearer, at = begun(), A
    for length in (65_536, 65_537):
        for sequence, part, fragment in pieces(at, bytes(length), 1_400):
            hearer.data(sequence, part, trailing=A, fragment=fragment)
            at = follow(sequence)
    put(hearer, at)
    assert [len(unit) for unit in hearer.units] == [65_536, len(b"%d" % at)]
    small = Hearer(replace(FAST, unit_bytes=100))
    small.data(A, bytes(101), trailing=A)
    assert small.units == []


# -- the end


@pytest.mark.spec("MC-MQSRM 2.1.3/7")
def test_after_opt_fin_a_session_ends_when_all_is_delivered() -> None:
    hearer = begun()
    put(hearer, A, C)
    hearer.spm(C, trailing=A, sequence=2, options=NO_OPTIONS._replace(fin=True))
    assert hearer.receiver.ended == ""
    hearer.run_until(100)
    hearer.repair(B, trailing=A)
    assert (hearer.units, hearer.receiver.ended) == (hearer.texts(A, B, C), "finished")
    put(hearer, D)
    assert len(hearer.units) == 3


@pytest.mark.spec("MC-MQSRM 2.1.3/7")
def test_the_last_data_may_bear_opt_fin() -> None:
    hearer = begun()
    hearer.data(B, trailing=A, options=NO_OPTIONS._replace(fin=True))
    assert hearer.receiver.ended == ""
    put(hearer, A)
    assert (hearer.units, hearer.receiver.ended) == (hearer.texts(A, B), "finished")


@pytest.mark.spec("MC-MQSRM 2.1.3/7", "PGM/37")
def test_a_finished_session_ends_without_what_is_lost() -> None:
    hearer = begun()
    put(hearer, A)
    hearer.spm(B, trailing=A, sequence=2, options=NO_OPTIONS._replace(fin=True))
    hearer.run_until(60_000)
    assert (hearer.losses, hearer.receiver.ended) == ([1], "finished")


@pytest.mark.spec("MC-MQSRM 2.1.3/7")
def test_opt_rst_ends_a_session_at_once() -> None:
    hearer = begun()
    put(hearer, A, C)
    hearer.spm(D, trailing=A, sequence=2, options=NO_OPTIONS._replace(reset=Reset()))
    hearer.run_until(60_000)
    assert (hearer.units, hearer.naks) == (hearer.texts(A), [])
    assert hearer.receiver.ended == "reset by its source"
    assert hearer.holding.bytes == 0


@pytest.mark.spec("MC-MQSRM 2.1.3/6")
def test_opt_syn_and_opt_join_change_nothing() -> None:
    hearer = Hearer()
    hearer.spm(B, trailing=A, options=NO_OPTIONS._replace(join=A))
    hearer.data(C, trailing=A, options=NO_OPTIONS._replace(syn=True, join=A))
    hearer.run_until(60_000)
    assert (hearer.units, hearer.naks, hearer.losses) == (hearer.texts(C), [], [])


@pytest.mark.spec("MC-MQSRM 2.1.3/1", "PGM/13")
def test_parity_packets_have_no_effect() -> None:
    hearer = begun()
    packet = read_pgm(pack_data(ODATA, TSI, PORT, sequence=A, trailing=A, data=b"parity"))
    flags = type(packet.header.options)(0x80)
    parity = packet._replace(header=packet.header._replace(options=flags))
    hearer.receiver.receive(parity, 0)
    put(hearer, A)
    assert hearer.units == hearer.texts(A)


def test_first_and_other_numbers_of_the_rig_are_apart() -> None:
    assert FIRST != A
