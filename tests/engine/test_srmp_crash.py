"""A log cut anywhere, and answers that wait for the disk: nothing is lost, nothing comes twice."""

from __future__ import annotations

import pytest

from posthouse.runtime.driver import Answer
from posthouse.wire.srmp.message import SrmpMessage
from tests.engine.web import ADMIN, WebRig, arrival_of

ASKS = {"delivery_receipt_to": ADMIN}


class CrashRig(WebRig):
    """A rig whose log can be cut behind any record."""

    def turns(self) -> list[list[tuple[SrmpMessage, bytes]]]:
        """Some of everything that may arrive."""
        return [
            [(self.message(), b"single")],
            [(self.message(), b"run %d" % at) for at in range(3)],
            [(self.streamed(n), b"%d" % n) for n in (1, 2)],
            [(self.message(**ASKS), b"asks"), (self.streamed(3, **ASKS), b"3")],
            [(self.streamed(4, dead_letter=True), b"4"), (self.message(), b"beside it")],
        ]

    def post_all(self, turns: list[list[tuple[SrmpMessage, bytes]]]) -> None:
        for turn in turns:
            arrivals = [arrival_of(message, body) for message, body in turn]
            verdicts = self.run(lambda m, a=arrivals: m.transfer.receive_srmp(a))  # type: ignore[misc]
            assert {verdict.status for verdict in verdicts} == {200}

    def cut(self, length: int) -> None:
        """A crash that left this many records."""
        self.restart(self.store.log[:length])

    def found(self) -> dict[str, list[bytes]]:
        return {"orders": sorted(self.bodies("orders")), "streamed": self.bodies("streamed")}


EXPECTED = {
    "orders": sorted([b"single", b"run 0", b"run 1", b"run 2", b"asks", b"beside it"]),
    "streamed": [b"1", b"2", b"3", b"4"],
}


def log_of_everything() -> tuple[int, int]:
    rig = CrashRig()
    start = len(rig.store.log)
    rig.post_all(rig.turns())
    assert rig.found() == EXPECTED
    return start, len(rig.store.log)


START, END = log_of_everything()


@pytest.mark.spec(
    "MC-MQSRM 3.1.1.1.6/2",
    "MC-MQSRM 3.1.5.1.6/2",
    "MC-MQSRM 3.1.1.1.1/1",
    "MC-MQSRM 3.1.3.1/1",
    "MC-MQSRM 3.1.5.1.11/3",
)
@pytest.mark.parametrize("length", range(START, END + 1))
def test_sending_everything_again_after_any_cut_brings_each_message_once(length: int) -> None:
    rig = CrashRig()
    turns = rig.turns()
    rig.post_all(turns)
    rig.cut(length)
    rig.check_books()
    rig.post_all(turns)
    assert rig.found() == EXPECTED
    rig.advance(1)
    assert [receipt.last_ordinal for receipt in rig.receipts()] == [4]
    assert len(rig.answers()) == 2  # one for each message that asked, however often it came
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.2/1", "MC-MQSRM 3.1.2.3/2", "MC-MQSRM 3.1.5.1.12/9")
@pytest.mark.parametrize("stream", [False, True])
def test_no_answer_before_message_history_and_place_are_synced(stream: bool) -> None:
    """The turn of the driver by hand: decided, appended, and only behind the sync answered."""
    rig = CrashRig()
    message = rig.streamed(1, **ASKS) if stream else rig.message(**ASKS)
    arrivals, answers = [arrival_of(message, b"x")], list[Answer]()
    rig.driver.begin_turn()
    rig.driver.decide(lambda m: m.transfer.receive_srmp(arrivals), answers.append)
    rig.driver.end_turn()
    rig.driver.release()
    assert answers == []  # appended, not synced
    before = rig.store.log[: rig.store.synced]
    rig.driver.sync()
    rig.driver.release()
    ((verdict,),) = [answer.value for answer in answers]  # type: ignore[misc]
    assert verdict.status == 200
    crashed = CrashRig()
    crashed.restart(before)
    assert crashed.found() == {"orders": [], "streamed": []}
    rig.restart()  # a crash right behind the answer
    assert rig.bodies("streamed" if stream else "orders") == [b"x"]
    assert len(rig.answers()) == 1
    if stream:
        (known,) = rig.known()
        assert known.sequence_number == 1
    assert rig.post(message, body=b"x") == [200]
    assert rig.bodies("streamed" if stream else "orders") == [b"x"]
    assert len(rig.answers()) == 1


def busy_stream() -> tuple[CrashRig, int, int]:
    """A stream whose last message had its receipt written at once: none had gone out for long."""
    rig, before, number = CrashRig(), 0, 0
    while not rig.receipts():
        number += 1
        rig.clock.advance(rig.manager.machine.settings.srmp.receipt_ms - 100)
        before = len(rig.store.log)
        assert rig.post(rig.streamed(number, ordinal=number), body=b"%d" % number) == [200]
    return rig, before, number


@pytest.mark.spec("MC-MQSRM 3.1.2.3/2", "MC-MQSRM 3.1.5.1.6.3/8")
def test_a_receipt_is_never_in_the_log_without_the_message_it_tells_of() -> None:
    rig, before, number = busy_stream()
    for length in range(before, len(rig.store.log) + 1):
        rig, _, _ = busy_stream()
        rig.cut(length)
        for each in range(1, number + 1):
            assert rig.post(rig.streamed(each, ordinal=each), body=b"%d" % each) == [200]
        assert rig.bodies("streamed") == [b"%d" % each for each in range(1, number + 1)]
        rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.3/5", "MC-MQSRM 3.1.5.1.6.3/8")
def test_a_repeat_in_the_same_turn_does_not_put_the_place_in_front_of_its_message() -> None:
    def repeated() -> tuple[CrashRig, int]:
        rig = CrashRig()
        before = len(rig.store.log)
        first = rig.streamed(1, ordinal=1)
        assert rig.post(first, first, body=b"1") == [200, 200]
        return rig, before

    rig, before = repeated()
    for length in range(before, len(rig.store.log) + 1):
        rig, _ = repeated()
        rig.cut(length)
        assert rig.post(rig.streamed(1, ordinal=1), body=b"1") == [200]
        assert rig.bodies("streamed") == [b"1"]
        rig.check_books()
