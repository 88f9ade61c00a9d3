"""The one account of memory: who may begin, who waits, who goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import InsufficientResources
from posthouse.protocols.http.memory_reservations import Loan
from posthouse.protocols.memory import (
    LARGEST,
    SLOW_BYTES,
    SLOW_MS,
    SMALL_REQUEST,
    STANDSTILL,
    TOO_LARGE,
    TOO_SLOW,
    UNREAD,
    Buffer,
    Holder,
    MemoryAccount,
)

MIB = 1 << 20
LIMIT = 100 * MIB


class Bench:
    """An account of 100 MiB, and sessions that note what they are told."""

    def __init__(self, limit: int = LIMIT, unsynced_max: int = 8 * MIB) -> None:
        self.account = MemoryAccount(limit, unsynced_max)
        self.closed: list[Holder] = []
        self.resumed: list[Holder] = []
        self.told: list[str] = []
        self.account.on_short = lambda short: self.told.append("short" if short else "enough")
        self.account.on_full = lambda full: self.told.append("full" if full else "room")
        self.addresses = 0

    def session(self, address: str = "") -> Holder:
        """A session of an address of its own, unless it is named."""
        self.addresses += 1
        holder = self.account.open(
            address or f"10.0.0.{self.addresses}",
            lambda reason: self.closed.append(holder),
            lambda: self.resumed.append(holder),
        )
        return holder

    def begun(self, size: int, address: str = "") -> Holder:
        """A session in the middle of a large packet."""
        holder = self.session(address)
        assert holder.may_begin(size + SMALL_REQUEST, 0)
        holder.take(Buffer.RECEIVE, size)
        return holder


def test_what_is_taken_is_counted_once_and_given_back() -> None:
    bench = Bench()
    holder = bench.session()
    holder.take(Buffer.RECEIVE, 1000)
    holder.take(Buffer.SEND, 500)
    holder.give(Buffer.RECEIVE, 400)
    assert (bench.account.held, holder.held) == (1100, 1100)
    holder.leave()
    assert bench.account.held == 0
    assert bench.account.bytes == [0] * len(Buffer)


def test_above_half_only_small_requests_are_begun() -> None:
    bench = Bench()
    bench.session().take(Buffer.SEND, 50 * MIB)
    assert bench.session().may_begin(MIB, 0)
    bench.session().take(Buffer.SEND, 1)
    assert not bench.session().may_begin(SMALL_REQUEST + 1, 0)
    assert bench.session().may_begin(SMALL_REQUEST, 0)
    assert bench.told == ["short"]


def test_who_was_told_to_wait_may_go_on_when_there_is_room() -> None:
    bench = Bench()
    big = bench.session()
    big.take(Buffer.SEND, 60 * MIB)
    waiting, other = bench.session(), bench.session()
    assert not waiting.may_begin(MIB, 0)
    big.give(Buffer.SEND, 5 * MIB)
    assert bench.resumed == []
    big.give(Buffer.SEND, 5 * MIB)
    assert bench.resumed == [waiting]
    assert other not in bench.resumed
    assert bench.told == ["short", "enough"]
    big.give(Buffer.SEND, MIB)
    assert bench.resumed == [waiting]  # once


def test_a_session_that_leaves_makes_room() -> None:
    bench = Bench()
    big, waiting = bench.session(), bench.session()
    big.take(Buffer.SEND, 60 * MIB)
    assert not waiting.may_begin(MIB, 0)
    big.leave()
    assert bench.resumed == [waiting]


def test_one_address_holds_at_most_a_quarter() -> None:
    bench = Bench()
    bench.session("here").take(Buffer.RECEIVE, 20 * MIB)
    assert bench.session("here").may_begin(5 * MIB, 0)
    assert not bench.session("here").may_begin(5 * MIB + 1, 0)
    assert bench.session("there").may_begin(5 * MIB + 1, 0)


def test_what_alone_is_more_than_a_quarter_may_begin_and_is_closed_as_it_grows() -> None:
    bench = Bench()
    holder = bench.begun(60 * MIB)
    assert bench.closed == []
    holder.take(Buffer.RECEIVE, 20 * MIB)
    assert bench.closed == [holder]


def test_at_four_fifths_the_largest_unfinished_packets_go_until_seven_tenths() -> None:
    bench = Bench()
    small, large, middle = bench.begun(10 * MIB), bench.begun(20 * MIB), bench.begun(15 * MIB)
    finished = bench.session()
    finished.take(Buffer.UNSYNCED, 5 * MIB)
    sending = bench.session()
    sending.take(Buffer.SEND, 29 * MIB)
    assert bench.closed == []
    sending.take(Buffer.SEND, MIB)  # 80 MiB: without the largest it is 60
    assert bench.closed == [large]
    sending.take(Buffer.SEND, MIB)  # it has not given anything back yet
    assert bench.closed == [large]
    sending.take(Buffer.SEND, 20 * MIB)
    assert bench.closed == [large, middle]  # 66 MiB are left without them
    assert small not in bench.closed
    assert bench.account.closed == {LARGEST: 2}
    for holder in bench.closed:
        holder.leave()
    assert bench.told == ["short"]  # messages are taken meanwhile


def test_messages_wait_where_nothing_can_be_let_go() -> None:
    bench = Bench()
    large, finished = bench.begun(10 * MIB), bench.session()
    finished.take(Buffer.UNSYNCED, 69 * MIB)
    finished.take(Buffer.UNSYNCED, MIB)  # 80 MiB, and 70 without the packet
    assert bench.closed == [large]
    assert bench.told == ["short", "full"]
    large.leave()
    finished.give(Buffer.UNSYNCED, MIB)
    assert bench.told == ["short", "full", "room"]


def test_an_answer_that_is_made_alone_does_not_stop_the_messages_of_others() -> None:
    bench = Bench()
    reader, sender = bench.session(), bench.session()
    reader.take(Buffer.FETCHED, 2 * LIMIT)
    sender.take(Buffer.UNSYNCED, 2 * MIB)
    assert "full" not in bench.told
    sender.take(Buffer.UNSYNCED, LIMIT)
    assert bench.told[-1] == "full"
    sender.give(Buffer.UNSYNCED, LIMIT)
    assert bench.told[-1] == "room"


def test_while_the_disk_is_behind_everybody_who_begins_waits() -> None:
    bench = Bench()
    writing = bench.session()
    writing.take(Buffer.UNSYNCED, 8 * MIB)
    assert writing.may_begin(100, 0)
    writing.take(Buffer.UNSYNCED, 1)
    assert not writing.may_begin(100, 0)
    writing.give(Buffer.UNSYNCED, 2 * MIB)
    assert bench.resumed == []  # half of it has to be written first
    writing.give(Buffer.UNSYNCED, 3 * MIB)
    assert bench.resumed == [writing]


def test_slow_packets_end_their_sessions_while_memory_is_short() -> None:
    bench = Bench()
    slow, quick = bench.begun(MIB), bench.begun(MIB)
    idle = bench.session()
    bench.session().take(Buffer.FETCHED, 60 * MIB)
    assert bench.account.close_slow(SLOW_MS) == 0  # both brought a MiB since they began
    assert bench.account.close_slow(2 * SLOW_MS - 1) == 0
    quick.take(Buffer.RECEIVE, SLOW_BYTES)
    slow.take(Buffer.RECEIVE, SLOW_BYTES - 1)
    assert bench.account.close_slow(2 * SLOW_MS) == 1
    assert bench.closed == [slow]
    assert bench.account.close_slow(2 * SLOW_MS) == 0  # once is enough
    assert idle not in bench.closed
    assert bench.account.closed == {TOO_SLOW: 1}


def test_what_is_announced_is_reserved_before_it_comes() -> None:
    bench = Bench()
    holder = bench.session()
    holder.take(Buffer.RECEIVE, MIB)
    assert holder.may_begin(5 * MIB, 0)
    account = bench.account
    assert (account.held, account.reserved, account.used) == (MIB, 4 * MIB, 5 * MIB)
    holder.take(Buffer.RECEIVE, 3 * MIB)
    assert (account.held, account.reserved, account.used) == (4 * MIB, MIB, 5 * MIB)
    holder.take(Buffer.RECEIVE, 3 * MIB)  # more than it announced
    assert (account.held, account.reserved, account.used) == (7 * MIB, 0, 7 * MIB)
    holder.finished()
    holder.give(Buffer.RECEIVE, 7 * MIB)
    assert account.used == 0


def test_a_reservation_shrinks_with_what_is_announced() -> None:
    bench = Bench()
    holder = bench.session()
    assert holder.follow(20 * MIB, lambda: 0)
    assert holder.follow(10 * MIB, lambda: 0)
    assert not holder.follow(10 * MIB, lambda: 0)
    assert bench.account.reserved == 10 * MIB
    assert not holder.follow(SMALL_REQUEST, lambda: 0)
    assert (bench.account.reserved, bench.account.is_watched) == (0, False)


def test_an_address_begins_no_more_than_a_quarter_by_what_it_announces() -> None:
    bench = Bench()
    sessions = [bench.session("here") for _ in range(6)]
    assert [h.may_begin(5 * MIB, 0) for h in sessions] == [True] * 5 + [False]
    assert (bench.account.held, bench.account.short) == (0, False)
    assert bench.session("there").may_begin(5 * MIB, 0)
    sessions[0].leave()
    assert bench.resumed == [sessions[5]]


def test_all_together_begin_no_more_than_half_by_what_they_announce() -> None:
    bench = Bench()
    sessions = [bench.session() for _ in range(11)]
    assert [h.may_begin(5 * MIB, 0) for h in sessions] == [True] * 10 + [False]
    assert sessions[10].waiting
    assert bench.account.delayed == 1
    sessions[3].finished()  # of another address
    assert bench.resumed == [sessions[10]]


def test_who_waits_for_all_is_asked_in_turn_by_address() -> None:
    bench = Bench()
    full = bench.begun(49 * MIB)
    many = [bench.session("many") for _ in range(3)]
    one = bench.session("one")
    for holder in (*many, one):
        assert not holder.may_begin(20 * MIB, 0)
        holder.resume = lambda holder=holder: (
            bench.resumed.append(  # type: ignore[misc]
                holder
            )
            or holder.may_begin(20 * MIB, 0)
        )
    full.leave()
    begun = [h for h in (*many, one) if h.announced]
    assert begun == [many[0], one]
    assert [h.waiting for h in many] == [False, True, True]


def test_a_slow_packet_loses_its_reservation_and_goes_on_where_there_is_plenty() -> None:
    bench = Bench()
    slow = bench.session()
    assert slow.may_begin(5 * MIB, 0)
    slow.take(Buffer.RECEIVE, SLOW_BYTES - 1)
    assert bench.account.close_slow(SLOW_MS - 1) == 0
    assert bench.account.reserved
    assert bench.account.close_slow(SLOW_MS) == 0
    assert (bench.account.reserved, bench.account.released) == (0, 1)
    assert bench.account.is_watched  # for what it holds
    slow.take(Buffer.RECEIVE, 1)
    assert slow.follow(5 * MIB, lambda: SLOW_MS)  # it asks again, and does not begin afresh
    assert bench.account.reserved == 5 * MIB - SLOW_BYTES
    waiting = bench.session()
    assert not waiting.may_begin(60 * MIB, 0)
    assert bench.account.close_slow(2 * SLOW_MS) == 1  # now it is wanted
    assert bench.closed == [slow]


def test_a_silent_packet_whose_reservation_ended_goes_when_others_wait() -> None:
    bench = Bench()
    silent = bench.begun(49 * MIB)
    bench.account.close_slow(SLOW_MS)
    bench.account.close_slow(2 * SLOW_MS)
    assert (bench.closed, bench.account.released) == ([], 1)
    other = bench.session()
    assert other.may_begin(4 * MIB, 2 * SLOW_MS + 1)  # one goes on
    assert bench.account.short
    bench.account.close_slow(3 * SLOW_MS)
    assert bench.closed == [silent]


def test_a_peer_that_brings_packet_after_packet_is_not_slow() -> None:
    bench = Bench()
    holder = bench.begun(900_000)
    bench.session().take(Buffer.FETCHED, 60 * MIB)
    holder.hold(Buffer.RECEIVE, 200_000)  # one is whole, and the next one has begun
    assert bench.account.close_slow(SLOW_MS) == 0
    holder.hold(Buffer.RECEIVE, 190_000)
    holder.hold(Buffer.RECEIVE, 250_000)
    assert bench.account.close_slow(2 * SLOW_MS) == 0
    assert bench.account.close_slow(3 * SLOW_MS) == 1


def test_at_four_fifths_those_go_who_do_not_read_when_nothing_is_unfinished() -> None:
    bench = Bench()
    deaf, other = bench.session(), bench.session()
    other.take(Buffer.UNSYNCED, 45 * MIB)
    deaf.take(Buffer.SEND, 35 * MIB)
    assert bench.closed == [deaf]
    assert bench.account.closed == {UNREAD: 1}


def test_who_does_not_read_for_a_while_goes_where_others_wait() -> None:
    bench = Bench()
    deaf, reader, small = bench.session("a"), bench.session("b"), bench.session("c")
    for holder in (deaf, reader):
        holder.take(Buffer.SEND, 20 * MIB)
    small.take(Buffer.SEND, SMALL_REQUEST)
    assert bench.account.close_slow(SLOW_MS) == bench.account.close_slow(2 * SLOW_MS) == 0
    assert bench.session("d").may_begin(8 * MIB, 9 * SLOW_MS)
    waiting = bench.session("e")
    waiting.resume = lambda: waiting.may_begin(8 * MIB, 0)  # type: ignore[assignment]
    assert not waiting.may_begin(8 * MIB, 0)
    assert bench.account.close_slow(3 * SLOW_MS) == 0  # from now on they are watched
    reader.give(Buffer.SEND, SLOW_BYTES)
    assert bench.account.close_slow(4 * SLOW_MS) == 1
    assert bench.closed == [deaf]
    reader.give(Buffer.SEND, 20 * MIB - SLOW_BYTES)
    reader.take(Buffer.SEND, 2 * SMALL_REQUEST)
    assert bench.account.close_slow(5 * SLOW_MS) == 0


def test_the_most_that_was_held_is_kept_until_somebody_looks() -> None:
    bench = Bench()
    holder = bench.session()
    holder.take(Buffer.SEND, 3 * MIB)
    holder.give(Buffer.SEND, 2 * MIB)
    assert [bench.account.look_at_peak() for _ in range(2)] == [3 * MIB, MIB]


def test_sessions_that_wait_for_each_other_are_ended_until_there_is_room() -> None:
    bench = Bench()
    other = bench.session()
    other.take(Buffer.SEND, 51 * MIB)
    waiting = [bench.session() for _ in range(6)]
    for holder in waiting:
        holder.take(Buffer.RECEIVE, 4 * MIB)
        assert not holder.may_begin(10 * MIB, 0)
    assert bench.account.close_slow(0) == 0  # what is sent makes room
    other.give(Buffer.SEND, 24 * MIB)
    for size, holder in enumerate(waiting):
        holder.take(Buffer.RECEIVE, 4 * MIB + size * MIB // 4)
    other.leave()
    assert (bench.account.short, bench.resumed) == (True, [])
    assert bench.account.close_slow(0) == 1
    assert bench.closed == [waiting[-1]]
    assert bench.account.closed == {STANDSTILL: 1}
    waiting[-1].leave()
    assert bench.resumed == waiting[:-1]


def test_one_of_each_address_goes_on_whatever_the_others_hold() -> None:
    bench = Bench()
    sessions = [bench.session("10.0.0.1") for _ in range(5)]
    for holder in sessions:
        holder.take(Buffer.RECEIVE, 6 * MIB)
    first, second = sessions[:2]
    assert first.may_begin(6 * MIB, 0)
    assert not second.may_begin(6 * MIB, 0)
    first.leave()
    assert bench.resumed == [second]
    assert second.may_begin(6 * MIB, 0)
    second.finished()
    assert sessions[2].may_begin(6 * MIB, 0)


def test_who_asks_again_by_itself_and_may_begin_waits_no_more() -> None:
    bench = Bench()
    first, second = bench.session("10.0.0.1"), bench.session("10.0.0.1")
    for holder in (first, second):
        holder.take(Buffer.RECEIVE, 20 * MIB)
    assert first.may_begin(21 * MIB, 0)
    assert not second.may_begin(21 * MIB, 0)
    first.finished()
    assert second.may_begin(21 * MIB, 0)
    assert not second.waiting
    first.leave()
    assert bench.resumed == [second]  # as the first was finished


def test_who_waits_is_asked_only_when_something_changes_for_it() -> None:
    """A thousand that wait cost those who work nothing."""
    account = MemoryAccount(LIMIT)
    asked: list[int] = []

    def ask(number: int) -> None:
        asked.append(number)
        sessions[number].may_begin(MIB, 0)

    sessions = [
        account.open("10.0.0.1", lambda reason: None, lambda number=number: ask(number))  # type: ignore[misc]
        for number in range(1000)
    ]
    sessions[0].take(Buffer.RECEIVE, 25 * MIB)
    assert sessions[0].may_begin(MIB, 0)
    assert not any(holder.may_begin(MIB, 0) for holder in sessions[1:])
    worker = account.open("10.0.0.2", lambda reason: None, lambda: None)
    for _ in range(10):
        worker.take(Buffer.SEND, MIB)
        worker.give(Buffer.SEND, MIB)
    assert asked == []
    sessions[0].give(Buffer.RECEIVE, 1)
    assert asked == [1]
    sessions[0].leave()
    assert asked[:4] == [1, 1, 2, 3]  # it kept its place in front
    for holder in sessions[1:]:
        assert not holder.waiting
        holder.leave()
    assert account.used == 0


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.sampled_from(["take", "give", "begin", "finish", "leave"]),
            st.integers(0, len(Buffer) - 1),
            st.integers(0, 30 * MIB),
        ),
        max_size=60,
    )
)
def test_the_account_is_the_sum_of_its_holders_and_nobody_waits_for_nothing(
    steps: list[tuple[int, str, int, int]],
) -> None:
    bench = Bench()
    sessions = [bench.session(f"10.0.0.{number % 3}") for number in range(6)]
    for number, step, kind, size in steps:
        holder = sessions[number]
        if step == "take":
            holder.take(kind, size)
        elif step == "give":
            holder.give(kind, min(size, holder.bytes[kind]))
        elif step == "begin":
            holder.may_begin(size, 0)
        elif step == "finish":
            holder.finished()
        else:
            holder.leave()
            sessions[number] = bench.session(f"10.0.0.{number % 3}")
        account = bench.account
        assert account.held == sum(h.held for h in sessions) == sum(account.bytes)
        assert account.reserved == sum(h.reserved for h in sessions)
        for h in sessions:
            assert h.reserved == max(h.announced - h.bytes[Buffer.RECEIVE], 0)
        assert account.short == (2 * account.used > LIMIT)
        if not account.used:
            assert not any(h.waiting for h in sessions)
        if 10 * account.held >= 8 * LIMIT:
            live = account.held - sum(h.held for h in sessions if h.closing)
            kinds = Buffer.RECEIVE, Buffer.SEND
            assert 10 * live < 7 * LIMIT or not any(
                h.bytes[kind] and not h.closing for kind in kinds for h in sessions
            )


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 6 * MIB)), max_size=80))
def test_what_is_begun_never_exceeds_half_nor_an_address_its_quarter(
    steps: list[tuple[int, int]],
) -> None:
    """Packets that announce what they bring, in any order; some are whole, others begin."""
    bench = Bench(40 * MIB)
    sessions = [bench.session(f"10.0.0.{number % 3}") for number in range(20)]
    for number, size in steps:
        holder = sessions[number]
        if holder.announced:
            brought = min(size, holder.reserved)
            holder.take(Buffer.RECEIVE, brought)
            if not holder.reserved:
                holder.hold(Buffer.RECEIVE, 0)
                holder.finished()
        elif not holder.waiting:
            holder.may_begin(size, 0)
        for address in {h.address for h in sessions}:
            mine = [h for h in sessions if h.address == address and h.announced]
            total = sum(h.announced for h in mine)
            assert 4 * total <= 40 * MIB or len(mine) == 1
        assert 2 * bench.account.used <= 40 * MIB
        assert bench.closed == []


def test_an_answer_is_on_the_account_until_it_is_sent() -> None:
    bench = Bench()
    holder, another = bench.session("10.0.0.9"), bench.session("10.0.0.9")
    loan, other = Loan(bench.account, holder), Loan(bench.account, another)
    loan.change(20 * MIB)
    loan.change(-5 * MIB)
    assert bench.account.bytes[Buffer.FETCHED] == 15 * MIB
    assert not other.take(11 * MIB)
    with pytest.raises(InsufficientResources):
        other.change(11 * MIB)
    other.change(SMALL_REQUEST)
    other.send(0, in_any_case=False)
    loan.send(12 * MIB, in_any_case=False)
    assert bench.account.bytes[Buffer.FETCHED] == 0
    assert bench.account.bytes[Buffer.SEND] == bench.account.held == 12 * MIB
    holder.leave()
    assert bench.account.held == 0
    other.change(11 * MIB)


def test_what_was_fetched_becomes_an_answer_before_others_are_let_in() -> None:
    """They would have its room, and an answer that is ready would be refused."""
    bench = Bench()
    holder, waits = bench.session("10.0.0.9"), bench.session("10.0.0.9")
    loan = Loan(bench.account, holder)
    loan.change(20 * MIB)
    waits.resume = lambda: waits.may_answer(10 * MIB) and waits.take(Buffer.FETCHED, 10 * MIB)
    assert not waits.may_answer(10 * MIB)
    loan.send(20 * MIB, in_any_case=False)
    assert (holder.bytes[Buffer.SEND], waits.held) == (20 * MIB, 0)
    loan.send(21 * MIB, in_any_case=True)
    assert bench.account.held == 21 * MIB


def test_an_answer_that_is_larger_than_what_was_fetched_may_be_refused() -> None:
    bench = Bench()
    holder = bench.session("10.0.0.9")
    loan, other = Loan(bench.account, holder), bench.session("10.0.0.9")
    loan.change(20 * MIB)
    other.take(Buffer.SEND, MIB)
    with pytest.raises(InsufficientResources):
        loan.send(25 * MIB, in_any_case=False)
    assert bench.account.bytes[Buffer.FETCHED] == 20 * MIB
    other.leave()
    loan.send(60 * MIB, in_any_case=False)  # of any size, where the address has nothing else
    assert bench.account.held == 60 * MIB


def test_an_answer_for_nobody_is_not_counted() -> None:
    bench = Bench()
    holder = bench.session()
    loan = Loan(bench.account, holder)
    loan.change(MIB)
    holder.leave()
    loan.change(-MIB)
    loan.change(MIB)
    loan.send(MIB, in_any_case=False)
    assert bench.account.held == 0


def test_what_could_never_come_to_its_end_is_not_begun() -> None:
    bench = Bench()
    holder, other = bench.session(), bench.session()
    assert other.follow(69 * MIB, lambda: 0)
    other.finished()
    assert holder.follow(70 * MIB, lambda: 0)
    assert (bench.closed, bench.account.reserved) == ([holder], 0)
    assert bench.account.closed == {TOO_LARGE: 1}
    assert not bench.session().may_begin(70 * MIB, 0)


def test_a_packet_that_announces_little_more_each_time_is_slow_all_the_same() -> None:
    bench = Bench()
    holder = bench.session()
    bench.session().take(Buffer.FETCHED, 40 * MIB)
    for second in range(11):
        holder.follow(MIB + second, lambda now_ms=second * 1000: now_ms)  # type: ignore[misc]
        holder.take(Buffer.RECEIVE, 1)
    assert not bench.session().may_begin(20 * MIB, 0)
    assert bench.account.close_slow(SLOW_MS) == 1
    assert bench.closed == [holder]


def test_a_large_answer_is_not_kept_waiting_by_those_who_ask_later_for_less() -> None:
    """Readers of other addresses ask for 4 MiB again as soon as they have given them back."""
    bench = Bench()
    readers = [bench.session() for _ in range(12)]
    for holder in readers:
        assert holder.may_answer(4 * MIB)
        holder.take(Buffer.ANSWERS, 4 * MIB)
    large, served = bench.session(), list[bool]()
    large.resume = lambda: served.append(large.may_answer(10 * MIB))
    assert not large.may_answer(10 * MIB)
    for turn in range(24):
        holder = readers[turn % 12]
        holder.hold(Buffer.ANSWERS, 0)
        if not (holder.waiting or any(served)) and holder.may_answer(4 * MIB):
            holder.take(Buffer.ANSWERS, 4 * MIB)
    assert any(served)
    assert not large.waiting


def test_what_is_left_free_for_the_first_that_waits_is_free_again_when_it_goes() -> None:
    bench = Bench()
    bench.session().take(Buffer.ANSWERS, 45 * MIB)
    first, second = bench.session(), bench.session()
    assert not first.may_answer(20 * MIB)
    assert not second.may_answer(2 * MIB)
    assert bench.account.room_for(second) == SMALL_REQUEST
    first.leave()
    assert bench.account.room_for(second) == 5 * MIB
    assert second.may_answer(2 * MIB)


def test_the_first_of_an_address_is_not_kept_waiting_by_others_there() -> None:
    bench = Bench()
    bench.session("here").take(Buffer.ANSWERS, 20 * MIB)
    first, second = bench.session("here"), bench.session("here")
    assert not first.may_answer(10 * MIB)
    assert not second.may_answer(MIB)
    assert bench.session("there").may_answer(20 * MIB)
    assert second.may_answer(SMALL_REQUEST)  # those always


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 12 * MIB), st.booleans()),
        max_size=60,
    )
)
def test_whoever_waits_for_an_answer_gets_it_when_the_others_have_had_theirs(
    steps: list[tuple[int, int, bool]],
) -> None:
    bench = Bench(40 * MIB)
    account = bench.account
    wanted: dict[Holder, int] = {}

    def ask(holder: Holder) -> None:
        if holder.may_answer(wanted[holder]):
            holder.take(Buffer.ANSWERS, wanted.pop(holder))

    sessions = [bench.session(f"10.0.0.{number % 3}") for number in range(9)]
    for holder in sessions:
        holder.resume = lambda holder=holder: ask(holder)  # type: ignore[misc]
    for number, size, leaves in steps:
        holder = sessions[number]
        if leaves and not holder.gone:
            wanted.pop(holder, None)
            holder.leave()
        elif not (holder.gone or holder in wanted):
            if holder.held:
                holder.give(Buffer.ANSWERS, holder.held)
            else:
                wanted[holder] = size
                ask(holder)
        assert account.used <= 20 * MIB + 12 * MIB
    for _ in sessions:
        for holder in sessions:
            if holder.held:
                holder.give(Buffer.ANSWERS, holder.held)
    assert not wanted
    assert account.used == 0
    assert not any(holder.waiting for holder in sessions)
