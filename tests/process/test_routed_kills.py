"""Three real servers, ALPHA - RELAY - CAROL: nothing goes past the router, and it is killed."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from posthouse.api.directory import DirectoryImportBody
from posthouse.directory.document.document import Document, MachinePart, SitePart
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

DAY = 5  # kills; then everything comes to rest and is looked at
PAUSE_S = 0.2
ROUTER = "routing_server = true"


class RoutedOffice(Office):
    """A server whose queues others know by its GUID."""

    def __init__(self, folder: Path, name: str, running: ExitStack, machine: str = "") -> None:
        super().__init__(folder, name, running, machine=machine)
        self.guid = self.qm.status().guid
        self._names: dict[str, str] = {}

    def name_of(self, queue: str) -> str:
        if queue not in self._names:
            for info in self.qm.queues():
                self._names[info.path.rpartition("\\")[2]] = info.guid_name
        return self._names[queue]

    def entry(self, *, sites: list[str], routing_server: bool = False) -> MachinePart:
        return MachinePart(
            name=self.name,
            guid=self.guid,
            addresses=[f"127.0.0.1:{self.port}"],
            sites=sites,
            routing_server=routing_server,
        )


def make_known(alpha: RoutedOffice, relay: RoutedOffice, carol: RoutedOffice) -> None:
    """The ends are in sites of their own, and the router is in both."""
    document = Document(
        sites=[SitePart(name="North"), SitePart(name="South")],
        machines=[
            alpha.entry(sites=["North"]),
            relay.entry(sites=["North", "South"], routing_server=True),
            carol.entry(sites=["South"]),
        ],
    )
    for office in (alpha, relay, carol):
        office.qm.call("POST", "/directory", DirectoryImportBody(document=document))


@pytest.mark.spec("MS-MQQB 3.1.7.5/1")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("victims", ["router", "anybody"])
def test_messages_over_a_router_that_is_killed_arrive_once_and_in_order(
    tmp_path: Path, dose: Dose, victims: str
) -> None:
    drawn = random.Random(shop.seed())
    met: Counter[str] = Counter()
    with ExitStack() as running:
        alpha = RoutedOffice(tmp_path / "ALPHA", "ALPHA", running)
        relay = RoutedOffice(tmp_path / "RELAY", "RELAY", running, ROUTER)
        carol = RoutedOffice(tmp_path / "CAROL", "CAROL", running)
        make_known(alpha, relay, carol)
        for office in (alpha, carol):
            office.create(PLAIN, ADMIN)
            office.create(*SEQUENCED, transactional=True)
        offices = [alpha, relay, carol]
        for _ in range(max(dose(DAY, 20 * DAY) // DAY, 1)):
            met += one_day(offices, [relay] if victims == "router" else offices, drawn)
        for office in offices:
            office.server.stop()
    print(dict(met))


def one_day(
    offices: list[RoutedOffice], victims: list[RoutedOffice], drawn: random.Random
) -> Counter[str]:
    """Work with kills, then rest, then the account."""
    alpha, _, carol = offices
    traffics = [
        Traffic(here, there, drawn.getrandbits(32), most=10, pause_s=PAUSE_S)
        for here, there in ((alpha, carol), (carol, alpha))
    ]
    for traffic in traffics:
        traffic.start()
    met = kill_often(list(offices), traffics, drawn, DAY, list(victims))
    for traffic in traffics:
        traffic.stop()
    wait_for_delivery(offices, unread=True)
    for traffic in traffics:
        met += account(traffic)
    wait_for_delivery(offices)
    for traffic in traffics:
        check_books(traffic)
        for queue in (JOURNAL, f".\\private$\\{ADMIN}"):
            traffic.here.qm.queue(queue).purge()
    for office in offices:
        shop.check_balance(office.qm, locked=0)
    assert met["messages on their way"] > 0
    return met
