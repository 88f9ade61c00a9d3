"""`kill -9` of either of two real servers while they send to each other, again and again."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Dose
from tests.process import shop
from tests.process.offices import ADMIN, JOURNAL, Office, wait_for_delivery
from tests.support.process.binary_traffic import (
    PLAIN,
    SEQUENCED,
    Traffic,
    account,
    check_books,
    kill_often,
)

DAY = 10  # kills; then everything comes to rest and is looked at


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.5/1", "MS-MQQB 3.1.1.6/1", "MS-MQQB 3.1.1.6.2/6")
@pytest.mark.timeout(7200)
def test_messages_between_machines_that_are_killed_arrive_once_and_in_order(
    tmp_path: Path, dose: Dose
) -> None:
    drawn = random.Random(shop.seed())
    met: Counter[str] = Counter()
    with ExitStack() as running:
        offices = [Office(tmp_path / name, name, running) for name in ("ALPHA", "BRAVO")]
        for office in offices:
            office.create(PLAIN, ADMIN)
            office.create(*SEQUENCED, transactional=True)
        for _ in range(dose(10, 200) // DAY):
            met += one_day(offices, drawn)
        for office in offices:
            office.server.stop()
    print(dict(met))


def one_day(offices: list[Office], drawn: random.Random) -> Counter[str]:
    """Work with kills, then rest, then the account."""
    pairs = list(zip(offices, reversed(offices), strict=True))
    traffics = [Traffic(*pair, drawn.getrandbits(32)) for pair in pairs]
    for traffic in traffics:
        traffic.start()
    met = kill_often(offices, traffics, drawn, DAY)
    for traffic in traffics:
        traffic.stop()
    wait_for_delivery(offices, unread=True)
    for traffic in traffics:
        met += account(traffic)
    wait_for_delivery(offices)
    for traffic in traffics:
        check_books(traffic)
        shop.check_balance(traffic.here.qm, locked=0)
        for queue in (JOURNAL, f".\\private$\\{ADMIN}"):
            traffic.here.qm.queue(queue).purge()
    return met
