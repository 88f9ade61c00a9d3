"""Entries of a real OpenLDAP server that others wrote: what cannot be one is told of, with its
place, and what is only unusual is read."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from posthouse.directory.authority import Refused
from posthouse.directory.certificates import with_certificate
from posthouse.directory.ldap.names import Dn
from posthouse.directory.ldap.writing import required_of_accounts
from posthouse.directory.mirror import MirroredDirectory
from posthouse.directory.objects import DistributionList, Queue, QueueManager, Site, User
from posthouse.model.guids import format_guid
from posthouse.model.properties import DirectoryServerType
from posthouse.runtime.directory.ldap import LdapAuthority
from posthouse.runtime.ldap.connection import LdapConnection
from posthouse.security.keys import certificate_digest
from tests.directory.world import ALICE, NOW, guid, link, machine, queue, site
from tests.process.openldap import ROOT, OpenLdap, openldap
from tests.security.key_ring import certificate

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
    ({"mSMQQueueQuota": [b"9" * 25]}, "mSMQQueueQuota is not a number"),
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


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as caught:
        call()
    return str(caught.value)


def test_what_is_damaged_is_not_changed_and_its_place_is_told(shelf: Shelf) -> None:
    authority, hand = shelf.authority, shelf.hand
    orders, member = queue(6, r"ALPHA\orders"), r"DIRECT=OS:far\private$\q"
    listed = DistributionList(identifier=guid(7), name="all", members=(member,))
    for value in (orders, listed):
        authority.create(value, NOW)
    hand.modify(MSMQ.child("orders"), {"mSMQPrivacyLevel": [b"7"]})
    assert "mSMQPrivacyLevel is 7" in refused(lambda: authority.write(orders, NOW))
    (recipient,) = hand.search(ROOT, "(objectClass=msMQ-Custom-Recipient)", ["cn"])
    hand.modify(recipient.dn, {"msMQ-Recipient-FormatName": [b"nonsense"]})
    more = DistributionList(identifier=guid(7), name="all", members=(member, member + "2"))
    assert "nonsense" in refused(lambda: authority.write(more, NOW, ["members"], listed))
    many = [f"msmq:h{number}:1".encode() for number in range(5000)]
    hand.modify(MSMQ.parent, {"networkAddress": many})
    assert "5000 values" in refused(lambda: authority.write(machine(1, "ALPHA"), NOW))
    hand.modify(MSMQ.parent, {"networkAddress": []})
    hand.modify(MSMQ, {"mSMQQuota": [b"9" * 12]})
    assert "mSMQQuota" in refused(lambda: authority.join(machine(1, "ALPHA"), NOW))


def test_certificates_that_are_none_are_not_added_to(shelf: Shelf) -> None:
    place = Dn.parse(f"CN=Alice,CN=Users,{ROOT}")
    user = User(identifier=guid(9), security_identifier=ALICE, name="Alice")
    shelf.authority.create(user, NOW)
    shelf.hand.modify(place, {"mSMQSignCertificates": [b"x"]})
    wanted = with_certificate(user, certificate("ours"), certificate_digest(certificate("ours")))
    names = ["certificates", "certificate_digest_list"]
    assert refused(lambda: shelf.authority.write(wanted, NOW, names, user))
    shelf.hand.modify(place, {"mSMQSignCertificates": [], "adminDescription": []})
    told = refused(lambda: shelf.authority.write(wanted, NOW, names))
    assert "is not an object of the directory" in told


class Crossed(LdapConnection):
    """Somebody else always is a little quicker."""

    def _exchange(self, method: str, arguments: Any, options: Any) -> tuple[dict[str, Any], Any]:
        if method == "modify":
            super()._exchange("modify", (arguments[0], {"description": _changed()}), {})
        return super()._exchange(method, arguments, options)


def _changed() -> list[tuple[str, list[bytes]]]:
    return [("MODIFY_REPLACE", [uuid.uuid4().bytes.hex().encode()])]


def test_whoever_is_never_first_is_told_so(shelf: Shelf, server: OpenLdap) -> None:
    authority = LdapAuthority(Crossed(server.settings(url=server.socket_url)))
    told = refused(lambda: authority.write(site(2, "Berlin", foreign_site=True), NOW))
    assert "other programs keep changing it" in told
    authority.close()


def test_who_may_only_read_enters_nothing_that_a_list_needs(shelf: Shelf, server: OpenLdap) -> None:
    first = DistributionList(identifier=guid(7), name="first")
    shelf.authority.create(first, NOW)
    reader = LdapAuthority(
        LdapConnection(server.settings(url=server.socket_url, authentication="anonymous"))
    )
    members = (r"DIRECT=OS:far\private$\q",)
    second = DistributionList(identifier=guid(8), name="second", members=members)
    assert "strongerAuthRequired" in refused(lambda: reader.create(second, NOW))
    assert "strongerAuthRequired" in refused(lambda: reader.create(machine(5, "GAMMA"), NOW))
    place = Dn.parse(f"CN=Alice,CN=Users,{ROOT}")
    made = required_of_accounts("user", "Alice", Dn.parse(ROOT))
    shelf.hand.add(place, ["user", "securityPrincipal"], made | {"objectSid": [ALICE]})
    alice = User(identifier=guid(9), security_identifier=ALICE)
    alice = with_certificate(alice, certificate("ours"), certificate_digest(certificate("ours")))
    assert "strongerAuthRequired" in refused(lambda: reader.create(alice, NOW))
    assert shelf.authority.create(alice, NOW).identifier == guid(9)  # it had none
    reader.close()


def test_a_reference_to_nobody_is_left_out(shelf: Shelf) -> None:
    odd = f"CN=nobody,CN=LostAndFound,{ROOT}".encode()
    shelf.hand.modify(MSMQ, {"mSMQInRoutingServers": [odd]})
    (alpha,) = [one for one in shelf.authority.changes("").objects if one.identifier == guid(1)]
    assert isinstance(alpha, QueueManager)
    assert alpha.in_routing_server_identifier_list == ()


def test_what_others_have_moved_is_found_again(shelf: Shelf) -> None:
    (berlin,) = [one for one in shelf.authority.changes("").objects if one.identifier == guid(2)]
    assert isinstance(berlin, Site)
    shelf.hand.rename(Dn.parse(berlin.full_path), "Bonn")
    stored = shelf.authority.write(site(2, "Bonn", foreign_site=True), NOW, ["foreign_site"])
    assert isinstance(stored, Site)
    assert (stored.name, stored.foreign_site) == ("Bonn", True)
