"""A log cut anywhere: what was taken in is never taken in again, what was not is when resent."""

from __future__ import annotations

import pytest

from posthouse.model.message_classes import NACK_BAD_DEST_QUEUE
from tests.engine.arrivals import ORDERS
from tests.support.routing_rig import RoutingRig
from tests.support.sequence_rig import EastRig


class CrashRig(EastRig, RoutingRig):
    """A rig whose log can be cut behind any record."""

    def batches(self) -> list[list[bytes]]:
        """Some of everything that may arrive."""
        return [
            [self.packet(b"single")],
            [self.packet(b"run %d" % at) for at in range(3)],
            [self.tx(n, n - 1) for n in (1, 2, 2)],
            [self.asking(b"asks"), self.tx(3, 2), self.packet(b"beside it")],
            [self.through(b"passes"), self.packet(b"stays")],
            [
                self.asking(b"astray", destination_queue_format_name=ORDERS + "x"),
                self.tx(1, 0, destination_queue_format_name=ORDERS),
            ],
        ]

    def cut(self, length: int) -> None:
        """A crash that left this many records."""
        self.restart(self.store.log[:length])

    def found(self) -> dict[str, list[bytes]]:
        return {
            "orders": sorted(self.bodies("orders")),
            "east": self.bodies("east"),
            "beyond": [packet.body for packet in self.passed_on()],
        }


def prepared() -> tuple[CrashRig, int]:
    rig = CrashRig(send_insecure_nacks=True)
    return rig, len(rig.store.log)


EXPECTED = {
    "orders": sorted([b"single", b"run 0", b"run 1", b"run 2", b"asks", b"beside it", b"stays"]),
    "east": [b"1", b"2", b"3"],
    "beyond": [b"passes"],
}


def log_of_everything() -> tuple[int, int]:
    rig, start = prepared()
    for batch in rig.batches():
        rig.take(*batch)
    assert rig.found() == EXPECTED
    return start, len(rig.store.log)


START, END = log_of_everything()


@pytest.mark.spec(
    "MS-MQQB 3.1.5.8.7/3", "MS-MQQB 3.1.5.8.6/6", "MS-MQQB 3.1.1.3/7", "MS-MQQB 3.1.1.3.2/1"
)
@pytest.mark.parametrize("length", range(START, END + 1))
def test_resending_everything_after_any_cut_brings_each_message_once(length: int) -> None:
    rig, _ = prepared()
    batches = rig.batches()
    for batch in batches:
        rig.take(*batch)
    rig.cut(length)
    rig.check_books()
    for batch in batches:
        rig.take(*batch)
    assert rig.found() == EXPECTED
    answers = rig.answer_classes()
    assert answers.count(NACK_BAD_DEST_QUEUE) == 1
    assert len(rig.final_acks()) in (1, 2)  # of a refused one every time, which harms nobody
    rig.check_books()
