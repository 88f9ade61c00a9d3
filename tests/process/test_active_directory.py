"""The directory of a domain: the objects that MSMQ itself has there, in the schema it has there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from posthouse.directory.authority import Refused
from posthouse.directory.certificates import with_certificate, without_certificate
from posthouse.directory.ldap.names import Dn
from posthouse.directory.objects import (
    DirectoryObject,
    DistributionList,
    Enterprise,
    Queue,
    QueueAlias,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.runtime.directory.ldap import LdapAuthority
from posthouse.runtime.ldap.connection import LdapConnection
from posthouse.security.keys import certificate_digest
from tests.directory.world import ALICE, NOW
from tests.process.active_directory import ADMIN, ROOT, USERS, ActiveDirectory, active_directory
from tests.security.key_ring import certificate

pytestmark = pytest.mark.peer("activedirectory", "namespaces")


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActiveDirectory]:
    with active_directory(tmp_path_factory.mktemp("domain") / "ad") as server:
        hand = LdapConnection(server.settings())
        server.join(hand, "ALPHA", "BETA")
        hand.close()
        yield server


@pytest.fixture
def hand(domain: ActiveDirectory) -> Iterator[LdapConnection]:
    """Somebody else in the domain."""
    connection = LdapConnection(domain.settings())
    yield connection
    connection.close()


@pytest.fixture
def authority(domain: ActiveDirectory) -> Iterator[LdapAuthority]:
    """The domain without what an earlier test has entered there."""
    found = LdapAuthority(LdapConnection(domain.settings()))
    for kinds in ((Queue, RoutingLink, DistributionList, QueueAlias, User), (QueueManager,)):
        for one in found.changes("").objects:
            if isinstance(one, kinds):
                found.delete(one)
    yield found
    found.close()


def listed(authority: LdapAuthority, kind: type[DirectoryObject]) -> list[Any]:
    return [one for one in authority.changes("").objects if isinstance(one, kind)]


def joined(authority: LdapAuthority, name: str) -> QueueManager:
    return authority.join(QueueManager(computer_name=name), NOW)[0]


def test_the_domain_gives_identifiers_and_a_queue_manager_keeps_its_own(
    authority: LdapAuthority,
) -> None:
    assert [type(one) for one in authority.changes("").objects if isinstance(one, Enterprise)]
    with pytest.raises(Refused, match="begin with a new home"):
        authority.join(QueueManager(computer_name="ALPHA"), NOW, used="holds messages")
    assert listed(authority, QueueManager) == []
    made, created = authority.join(QueueManager(computer_name="ALPHA"), NOW)
    assert created
    assert made.identifier != NULL_GUID
    (first,) = [one for one in listed(authority, Site) if one.name.startswith("Default-First")]
    if len(listed(authority, Site)) == 1:
        assert made.site_identifier_list == (first.identifier,)
    found, created = authority.join(QueueManager(computer_name="alpha"), NOW)
    assert (found, created) == (made, False)
    with pytest.raises(Refused, match="join it to the domain first"):
        joined(authority, "STRANGER")
    with pytest.raises(Refused, match="'BETA' has no queue manager in the directory"):
        authority.create(Queue(pathname=r"BETA\orders"), NOW)
    with pytest.raises(Refused, match="the domain has no account with this SID"):
        authority.create(User(security_identifier=ALICE), NOW)


def test_what_changes_is_told_by_the_count_of_the_server(authority: LdapAuthority) -> None:
    token = authority.changes("").token
    authority._whole_took = 1e9  # no listing of everything because it is cheap
    alpha = joined(authority, "ALPHA")
    later = authority.changes(token)
    assert not later.whole
    assert alpha in later.objects
    assert authority.changes(later.token).objects == []


def test_machines_sites_links_and_queues(authority: LdapAuthority) -> None:
    alpha = joined(authority, "ALPHA")
    names = {one.name for one in listed(authority, Site)}
    for name in {"Berlin", "Paris, (x)"} - names:
        authority.create(Site(name=name), NOW)
    sites = {one.name: one for one in listed(authority, Site)}
    berlin, paris = sites["Berlin"], sites["Paris, (x)"]
    changed = {
        "site_identifier_list": (berlin.identifier,),
        "routing_server": True,
        "addresses": ("alpha:1801",),
        "public_encryption_key_list": b"k" * 40,
        "public_signing_key_list": b"s" * 40,
    }
    wanted = msgspec.structs.replace(alpha, **changed)
    for _ in range(2):  # its settings below the site are entered again
        stored = authority.write(wanted, NOW, list(changed))
        assert {name: getattr(stored, name) for name in changed} == changed
    link = RoutingLink(
        site1_identifier=berlin.identifier,
        site2_identifier=paris.identifier,
        actual_cost=3,
        site_gate_identifier_list=(alpha.identifier,),
    )
    assert getattr(authority.create(link, NOW), "site_gate_identifier_list", ()) == (
        alpha.identifier,
    )
    for path in (r"ALPHA\orders.(a*)#", "ALPHA\\" + "x" * 100):
        queue = authority.create(Queue(pathname=path, label="one"), NOW)
        assert getattr(queue, "pathname", "") == path
        quota = msgspec.structs.replace(queue, quota=5)
        assert getattr(authority.write(quota, NOW, ["quota"]), "quota", 0) == 5
    assert len(listed(authority, Queue)) == 2
    with pytest.raises(Refused, match="others stand below"):
        authority.delete(alpha)
    assert not authority.faults


def test_people_stay_in_groups_whose_queues_change(
    authority: LdapAuthority, hand: LdapConnection
) -> None:
    joined(authority, "ALPHA")
    one, other = (authority.create(Queue(pathname=rf"ALPHA\q{n}"), NOW) for n in range(2))
    place = Dn.parse(f"CN=Staff,{USERS}")
    people = [ADMIN, f"CN=Guest,{USERS}", f"CN=ALPHA,CN=Computers,{ROOT}"]
    assert isinstance(one, Queue)
    members = [text.encode() for text in [*people, one.full_path]]
    hand.add(place, ["group"], {"sAMAccountName": [b"Staff"], "member": members})
    (group,) = listed(authority, DistributionList)
    assert group.members == (f"PUBLIC={format_guid(one.identifier)}",)
    new = (f"PUBLIC={format_guid(other.identifier)}", r"DIRECT=OS:far\private$\q")
    authority.write(msgspec.structs.replace(group, members=new), NOW, ["members"], group)
    (group,) = listed(authority, DistributionList)
    assert set(group.members) == set(new)
    entry = hand.get(place, ["member"])
    assert entry is not None
    assert set(people) <= set(entry.texts("member"))
    hand.delete(place)


class Crossed(LdapConnection):
    """Somebody else changes the entry between our look at it and our change."""

    meanwhile: Callable[[], object] | None = None

    def _exchange(self, method: str, arguments: Any, options: Any) -> tuple[dict[str, Any], Any]:
        if method == "modify" and self.meanwhile is not None:
            call, self.meanwhile = self.meanwhile, None
            call()
        return super()._exchange(method, arguments, options)


def test_certificates_of_an_account_are_changed_by_two_at_once(
    domain: ActiveDirectory, authority: LdapAuthority, hand: LdapConnection
) -> None:
    account = hand.get(ADMIN, ["objectSid"])
    assert account is not None
    old, ours, theirs = (certificate(name) for name in ("old", "ours", "theirs"))

    def added(user: User, encoded: bytes) -> User:
        return with_certificate(user, encoded, certificate_digest(encoded))

    first = added(User(security_identifier=account.octets("objectSid")), old)
    base = authority.create(first, NOW)
    assert isinstance(base, User)
    names = ["certificates", "certificate_digest_list"]
    connection = Crossed(domain.settings())
    crossed = LdapAuthority(connection)
    crossed.changes("")
    withdrawn = without_certificate(added(base, theirs), certificate_digest(old))
    connection.meanwhile = lambda: authority.write(withdrawn, NOW, names, base)
    stored = crossed.write(added(base, ours), NOW, names, base)
    assert isinstance(stored, User)
    wanted = {certificate_digest(one) for one in (ours, theirs)}
    assert set(stored.certificate_digest_list) == wanted
    authority.delete(stored)
    assert listed(authority, User) == []
    crossed.close()
