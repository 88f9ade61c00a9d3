"""`kill -9` of either of two real servers that send to each other over HTTP, on lines that break.

Requests are cut after any byte, answers are lost, receipts too; and every message is where it was
to go, once and in order.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Dose
from tests.process import shop
from tests.process.bad_line import BadLine
from tests.process.offices import ADMIN, JOURNAL, wait_for_delivery
from tests.process.srmp_offices import HttpOffice, joined_by_lines
from tests.support.process.binary_traffic import (
    PLAIN,
    SEQUENCED,
    Traffic,
    account,
    check_books,
    kill_often,
    wait_for_steps,
)

DAY = 6  # kills; then everything comes to rest and is looked at
MOST, PAUSE_S = 6, 0.2  # messages at once, and between them: each waits for an answer of its own
STEPS = 6  # of every application, while the lines are bad and nobody is killed


def open_offices(
    folder: Path, running: ExitStack, drawn: random.Random
) -> tuple[list[HttpOffice], list[BadLine]]:
    offices, lines = joined_by_lines(folder, running, drawn.getrandbits(16))
    for office in offices:
        office.create(PLAIN, ADMIN)
        office.create(*SEQUENCED, transactional=True)
    return offices, lines


def one_day(
    offices: list[HttpOffice], lines: list[BadLine], drawn: random.Random, kills: int
) -> Counter[str]:
    """Work on bad lines, with kills; then rest, then the account."""
    pairs = list(zip(offices, reversed(offices), strict=True))
    traffics = [Traffic(*pair, drawn.getrandbits(32), most=MOST, pause_s=PAUSE_S) for pair in pairs]
    for line in lines:
        line.bad = True
    for traffic in traffics:
        traffic.start()
    for _ in range(STEPS // 3):
        wait_for_steps(traffics)
    met = kill_often(list(offices), traffics, drawn, kills) if kills else Counter[str]()
    for traffic in traffics:
        traffic.stop()
    for line in lines:
        met += line.met
        line.met.clear()
        line.mend()
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


@pytest.mark.spec("MC-MQSRM 3.1.1.1.1/1", "MC-MQSRM 3.1.1.1.2.1/2", "MC-MQSRM 3.1.1.1.3/2")
@pytest.mark.spec("MC-MQSRM 3.1.1.1.6/2", "MC-MQSRM 3.1.2.1/2", "MC-MQSRM 3.1.3.2/1")
@pytest.mark.timeout(7200)
def test_messages_over_http_arrive_once_and_in_order_whoever_is_killed(
    tmp_path: Path, dose: Dose
) -> None:
    drawn = random.Random(shop.seed())
    met: Counter[str] = Counter()
    with ExitStack() as running:
        offices, lines = open_offices(tmp_path, running, drawn)
        for _ in range(dose(DAY, 20 * DAY) // DAY):
            met += one_day(offices, lines, drawn, DAY)
        for office in offices:
            office.server.stop()
    print(dict(met))
    assert met["cut"] > 0
    assert met["answer lost"] > 0
