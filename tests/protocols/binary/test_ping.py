"""Pings: who is asked, who answers, and what is ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.protocols.binary.ping import COOKIE_MASK, Pinger
from posthouse.wire.binary.ping import PING_SIGNATURE, Ping, PingFlags, ping_request, read_ping

ALPHA, BETA = b"\xa1" * 16, b"\xb2" * 16


class Desk:
    """One pinger, its clock, and what it sent and heard."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.sent: list[tuple[str, Ping]] = []
        self.heard: list[bool] = []
        self.pinger = Pinger(
            lambda: ALPHA, lambda to, data: self.sent.append((to, read_ping(data))), self.now
        )

    def now(self) -> int:
        return self.now_ms

    def ask(self, address: str = "10.0.0.2") -> Ping:
        self.pinger.ask(address, self.heard.append)
        return self.sent[-1][1]

    def answer(
        self, cookie: int, *, refused: bool = False, signature: int = PING_SIGNATURE, at: str = ""
    ) -> None:
        response = Ping(PingFlags.of(refused=refused), signature, cookie, BETA)
        self.pinger.receive_response(response.pack(), at or "10.0.0.2")


@pytest.mark.spec("MS-MQQB 3.1.7.6/1", "MS-MQQB 3.1.1.3/11")
def test_each_request_carries_our_guid_and_the_next_cookie() -> None:
    desk = Desk()
    assert desk.pinger.cookie == 0
    first, second = desk.ask(), desk.ask("10.0.0.3")
    assert [first.cookie, second.cookie] == [1, 2]
    assert first.queue_manager == second.queue_manager == ALPHA
    assert [address for address, _ in desk.sent] == ["10.0.0.2", "10.0.0.3"]


def test_the_cookie_goes_round_after_thirty_two_bits() -> None:
    desk = Desk()
    desk.pinger.cookie = COOKIE_MASK
    assert desk.ask().cookie == 0


@pytest.mark.spec("MS-MQQB 3.1.7.6/3", "MS-MQQB 3.1.7.9/1", "MS-MQQB 3.1.1.1.1.9/1")
@pytest.mark.parametrize("refused", [False, True])
def test_a_matching_answer_ends_the_wait_with_what_it_says(refused: bool) -> None:
    desk = Desk()
    desk.answer(desk.ask().cookie, refused=refused)
    assert desk.heard == [not refused]
    assert desk.pinger.next_deadline_ms() is None
    desk.now_ms += 10_000
    desk.pinger.tick()
    assert desk.heard == [not refused]


@pytest.mark.spec(
    "MS-MQQB 3.1.7.6/2",
    "MS-MQQB 3.1.2.9/1",
    "MS-MQQB 3.1.6.8/1",
    "MS-MQQB 3.1.1.1.1.9/1",
)
def test_silence_is_a_no_after_one_second_for_each_request() -> None:
    desk = Desk()
    desk.ask()
    desk.now_ms += 400
    desk.ask("10.0.0.3")
    assert desk.pinger.next_deadline_ms() == 2_000
    desk.now_ms = 1_999
    desk.pinger.tick()
    assert desk.heard == []
    desk.now_ms = 2_000
    desk.pinger.tick()
    assert desk.heard == [False]
    assert desk.pinger.next_deadline_ms() == 2_400
    desk.now_ms = 2_400
    desk.pinger.tick()
    assert desk.heard == [False, False]


@pytest.mark.spec("MS-MQQB 3.1.7.8/1")
def test_a_wrong_signature_cookie_or_sender_and_unasked_answers_are_ignored() -> None:
    desk = Desk()
    desk.answer(1)
    cookie = desk.ask().cookie
    desk.answer(cookie, signature=0x5549)
    desk.answer(cookie - 1)
    desk.answer(cookie, at="10.0.0.9")
    assert desk.heard == []
    desk.answer(cookie)
    desk.answer(cookie)
    assert desk.heard == [True]


@pytest.mark.spec("MS-MQQB 3.1.7.7/1", "MS-MQQB 3.1.7.7/2")
@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("server", [False, True])
def test_an_answer_repeats_the_request_under_our_guid(refused: bool, server: bool) -> None:
    request = ping_request(BETA, 77, server=server)
    data = Desk().pinger.receive_request(request, refused=refused)
    assert data is not None
    answer = read_ping(data)
    assert (answer.signature, answer.cookie, answer.queue_manager) == (0x5548, 77, ALPHA)
    assert answer.flags.client == read_ping(request).flags.client
    assert answer.refused is refused


@given(st.binary(max_size=64) | st.binary(min_size=24, max_size=24))
def test_any_datagram_is_answered_or_ignored(datagram: bytes) -> None:
    desk = Desk()
    desk.ask()
    desk.pinger.receive_response(datagram, "10.0.0.2")
    answer = desk.pinger.receive_request(datagram, refused=False)
    good = len(datagram) == 24 and datagram[2:4] == b"\x48\x55"
    assert (answer is not None) is good
