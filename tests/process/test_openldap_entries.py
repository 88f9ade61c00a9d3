"""Entries of a real OpenLDAP server that others wrote: what cannot be one is told of, with its
place, and what is only unusual is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from posthouse.directory.ldap_names import Dn
from posthouse.directory.ldap_writing import required_of_accounts
from posthouse.directory.mirror import MirroredDirectory
from posthouse.directory.objects import DistributionList, Queue, QueueManager
from posthouse.model.guids import format_guid
from posthouse.model.properties import DirectoryServerType
from posthouse.runtime.directory_ldap import LdapAuthority
from posthouse.runtime.ldap_connection import LdapConnection
from tests.directory.world import NOW, guid, link, machine, queue, site
from tests.process.openldap import ROOT, OpenLdap, openldap

pytestmark = pytest.mark.peer("openldap")

MSMQ = Dn.parse(f"CN=msmq,CN=ALPHA,CN=Computers,{ROOT}")
SERVICES = Dn.parse(f"CN=MsmqServices,CN=Services,CN=Configuration,{ROOT}")


class Shelf:
    """A server with ALPHA, two sites and a link between them, and whoever else writes there."""

    def __init__(self, server: OpenLdap) -> None:
        self.hand = LdapConnection(server.settings(url=server.socket_url))
        server.wipe(self.hand)
        self.authority = LdapAuthority(LdapConnection(server.settings(url=server.socket_url)))
        for value in (machine(1, "ALPHA"), site(2, "Berlin"), site(3, "Paris"), link(4, 2, 3)):
            self.authority.create(value, NOW)

    def faults(self) -> str:
        self.authority.changes("")
        return "\n".join(self.authority.faults)

    def close(self) -> None:
        self.authority.close()
        self.hand.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenLdap]:
    with openldap(tmp_path_factory.mktemp("slapd") / "server") as running:
        yield running


@pytest.fixture
def shelf(server: OpenLdap, tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(server)
    yield made
    made.close()


QUEUE = {"objectGUID": [guid(9)]}
POISON = [
    ({"mSMQPrivacyLevel": [b"7"]}, "mSMQPrivacyLevel is 7"),
    ({"mSMQQueueQuota": [b"9" * 25]}, "mSMQQueueQuota is no number"),
    ({"mSMQBasePriority": [b"99999"]}, "99999"),
    ({"mSMQLabelEx": [b"x" * 70_000]}, "70000 bytes"),
    ({"objectGUID": [bytes(16)]}, "zero"),
]


@pytest.mark.parametrize(("bad", "words"), POISON, ids=[words for _, words in POISON])
def test_a_poisoned_queue_is_told_of_with_its_place(
    shelf: Shelf, bad: dict[str, list[bytes]], words: str
) -> None:
    shelf.hand.add(MSMQ.child("bad"), ["mSMQQueue"], QUEUE | bad)
    mirror = MirroredDirectory(lambda key, value: None, lambda: guid(77))
    news = mirror.take(shelf.authority.changes(""))
    told = [*shelf.authority.faults, *news.faults]
    assert any(words in fault for fault in told), told
    assert mirror.all_known(Queue) == []
    assert len(mirror.all_known(QueueManager)) == 1


def test_a_queue_that_stands_nowhere_is_none(shelf: Shelf) -> None:
    shelf.hand.add(Dn.parse(ROOT).child("stray"), ["mSMQQueue"], QUEUE)
    assert "a queue stands below the queue manager of a computer" in shelf.faults()


def test_a_link_that_costs_too_much_is_told_of(shelf: Shelf) -> None:
    shelf.hand.modify(shelf_link(shelf), {"mSMQCost": [b"10000000"]})
    mirror = MirroredDirectory(lambda key, value: None, lambda: guid(77))
    assert any("the cost" in fault for fault in mirror.take(shelf.authority.changes("")).faults)


def shelf_link(shelf: Shelf) -> Dn:
    (found,) = shelf.hand.search(str(SERVICES), "(objectClass=mSMQSiteLink)", ["cn"])
    return found.dn


def test_two_of_one_name_stay_two_and_the_first_one_is_meant(shelf: Shelf) -> None:
    """Two computers of one name, in different places: which is meant does not change by itself."""
    elsewhere = Dn.parse(f"CN=Elsewhere,{ROOT}")
    shelf.hand.add(elsewhere, ["container"], {})
    made = required_of_accounts("computer", "ALPHA", Dn.parse(ROOT))
    shelf.hand.add(elsewhere.child("ALPHA"), ["computer"], made | {"objectGUID": [guid(20)]})
    double = {"objectGUID": [guid(21)]}
    shelf.hand.add(elsewhere.child("ALPHA").child("msmq"), ["mSMQConfiguration"], double)
    mirror = MirroredDirectory(lambda key, value: None, lambda: guid(77))
    for _ in range(2):
        mirror.take(shelf.authority.changes(""))
        assert len(mirror.all_known(QueueManager)) == 2
    shelf.hand.delete(elsewhere.child("ALPHA").child("msmq"))
    mirror.take(shelf.authority.changes(""))
    assert [one.identifier for one in mirror.all_known(QueueManager)] == [guid(1)]


@pytest.mark.spec("MS-MQDMPR 3.1.1.1/11")
@pytest.mark.parametrize("serving", [True, False])
def test_what_directory_a_machine_serves_is_kept(shelf: Shelf, serving: bool) -> None:
    kind = DirectoryServerType.PRIMARY_SITE_CONTROLLER
    value = machine(5, "BETA", directory_server=serving, directory_server_type=kind)
    shelf.authority.create(value, NOW)
    found = [one for one in shelf.authority.changes("").objects if one.identifier == guid(5)]
    kept = kind if serving else DirectoryServerType.STANDALONE
    assert [getattr(one, "directory_server_type", None) for one in found] == [kept]


def test_lists_in_lists_are_kept(shelf: Shelf) -> None:
    shelf.authority.create(queue(6, r"ALPHA\orders"), NOW)
    inner = DistributionList(
        identifier=guid(7), name="inner", members=(f"PUBLIC={format_guid(guid(6))}",)
    )
    outer = DistributionList(
        identifier=guid(8), name="outer", members=(f"DL={format_guid(guid(7))}",)
    )
    for value in (inner, outer):
        shelf.authority.create(value, NOW)
    found = [
        one for one in shelf.authority.changes("").objects if isinstance(one, DistributionList)
    ]
    assert {one.name: one.members for one in found} == {
        one.name: one.members for one in (inner, outer)
    }
