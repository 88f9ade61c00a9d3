"""The directory of a real OpenLDAP server: how it is reached, read, changed, and lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from posthouse.directory.authority import AuthorityAway, Refused
from posthouse.directory.ldap.names import Dn
from posthouse.directory.ldap.reading import MARK
from posthouse.directory.ldap.settings import Server
from posthouse.directory.ldap.writing import required_of_accounts
from posthouse.directory.objects import (
    ConnectedNetwork,
    DirectoryObject,
    DistributionList,
    Queue,
    QueueManager,
    Site,
    User,
)
from posthouse.model.guids import format_guid
from posthouse.model.properties import DirectoryOperationResult
from posthouse.runtime.directory.ldap import REPLICATION_S, LdapAuthority
from posthouse.runtime.ldap.connection import LdapConnection
from tests.directory.world import ALICE, NOW, guid, link, machine, queue, site
from tests.process.nginx import make_certificate
from tests.process.offices import free_port
from tests.process.openldap import HOST, PASSWORD, ROOT, OpenLdap, openldap

pytestmark = pytest.mark.peer("openldap")

EXISTS = DirectoryOperationResult.OBJECT_ALREADY_EXISTS
NOT_FOUND = DirectoryOperationResult.OBJECT_NOT_FOUND
GENERIC_ERROR = DirectoryOperationResult.GENERIC_ERROR


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenLdap]:
    with openldap(tmp_path_factory.mktemp("slapd") / "server") as server:
        yield server


@pytest.fixture
def server(running: OpenLdap) -> OpenLdap:
    with running.connected(url=running.socket_url) as connection:
        running.wipe(connection)
    return running


@contextmanager
def asked(server: OpenLdap, **settings: Any) -> Iterator[LdapAuthority]:
    usual = {} if "url" in settings else {"url": server.socket_url}
    authority = LdapAuthority(LdapConnection(server.settings(**usual, **settings)))
    try:
        yield authority
    finally:
        authority.close()


def listed(authority: LdapAuthority, kind: type[DirectoryObject] = DirectoryObject) -> list[Any]:
    return [one for one in authority.changes("").objects if isinstance(one, kind)]


def refused(call: Any) -> DirectoryOperationResult:
    with pytest.raises(Refused) as caught:
        call()
    assert str(caught.value)
    return caught.value.status


# -- how it is reached


def test_connections_are_encrypted_and_the_server_is_checked(
    server: OpenLdap, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger.pem"
    make_certificate(stranger, tmp_path / "key.pem")
    for url in (server.url, server.tls_url):
        with asked(server, url=url) as authority:
            assert authority.changes("").whole
        with (
            asked(server, url=url, ca_file=str(stranger)) as authority,
            pytest.raises(AuthorityAway, match="certificate verify failed"),
        ):
            authority.changes("")
        numbered = url.replace("localhost", "127.0.0.2")
        with asked(server, url=numbered) as authority, pytest.raises(AuthorityAway):
            authority.changes("")


def logins(server: OpenLdap) -> list[dict[str, Any]]:
    by_certificate = {
        "certificate_file": str(server.certificate),
        "key_file": str(server.key),
    }
    return [
        {"url": server.tls_url},
        {"url": server.url, "authentication": "digest", "user": "manager"},
        {"url": server.url, "authentication": "plain", "user": "manager"},
        {"url": server.socket_url, "authentication": "external"},
        {"url": server.url, "authentication": "external", **by_certificate},
    ]


@pytest.mark.parametrize("number", range(5))
def test_every_way_to_log_in_may_write(server: OpenLdap, number: int) -> None:
    with server.connected(url=server.socket_url) as connection:
        person = {"sn": [b"m"], "userPassword": [PASSWORD.encode()]}
        connection.add(Dn.parse(f"CN=manager,{ROOT}"), ["person"], person)
    with asked(server, **logins(server)[number]) as authority:
        authority.create(site(1, "Berlin"), NOW)
        assert [one.name for one in listed(authority, Site)] == ["Berlin"]


def test_without_login_the_directory_can_be_read_only(server: OpenLdap) -> None:
    with asked(server) as authority:
        authority.create(site(1, "Berlin"), NOW)
    with asked(server, authentication="anonymous") as authority:
        assert [one.name for one in listed(authority, Site)] == ["Berlin"]
        assert refused(lambda: authority.delete(site(1, "Berlin"))) is GENERIC_ERROR
        assert refused(lambda: authority.create(site(2, "Paris"), NOW)) is GENERIC_ERROR


def test_a_wrong_password_is_an_authority_that_is_away(server: OpenLdap, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("wrong\n")
    file.chmod(0o600)
    with asked(server, password_file=str(file)) as authority:
        with pytest.raises(AuthorityAway, match=r"the login as .* failed: invalidCredentials"):
            authority.changes("")
        file.write_text("\n")
        with pytest.raises(AuthorityAway, match="there is no password"):
            authority.changes("")
        file.chmod(0o644)
        with pytest.raises(AuthorityAway, match="other users can read"):
            authority.changes("")
        file.unlink()
        with pytest.raises(AuthorityAway, match="cannot be read"):
            authority.changes("")


def test_a_password_never_crosses_a_network_in_clear_text(server: OpenLdap) -> None:
    far = f"ldap://127.0.0.3:{server.port}"
    with (
        asked(server, url=far, start_tls=False) as authority,
        pytest.raises(AuthorityAway, match="clear text"),
    ):
        authority.changes("")
    with asked(server, url=server.url, start_tls=False) as authority:
        assert authority.changes("").whole


def test_the_next_server_is_asked_where_one_is_away(server: OpenLdap) -> None:
    nobody = f"ldap://{HOST}:{free_port()}"
    with asked(server, url=f"{nobody} {server.url}") as authority:
        assert authority.changes("").whole
    with asked(server, url=nobody) as authority, pytest.raises(AuthorityAway, match=nobody):
        authority.changes("")


def test_a_connection_that_was_cut_is_opened_again(tmp_path: Path) -> None:
    with openldap(tmp_path / "server") as own, asked(own, url=own.url) as authority:
        authority.create(site(1, "Berlin"), NOW)
        own.stop()
        with pytest.raises(AuthorityAway):
            authority.changes("")
        with pytest.raises(AuthorityAway):
            authority.create(site(2, "Paris"), NOW)
        own.start()
        assert [one.name for one in listed(authority, Site)] == ["Berlin"]
        own.stop()
        own.start()
        authority.create(site(2, "Paris"), NOW)  # the old connection is dead, and nobody sees it
        assert len(listed(authority, Site)) == 2


def test_what_we_entered_is_not_gone_because_another_server_has_not_heard_of_it(
    server: OpenLdap, tmp_path: Path
) -> None:
    now = 0.0
    with openldap(tmp_path / "server") as first:
        urls = f"{first.socket_url} {server.socket_url}"
        settings = first.settings(url=urls, authentication="external")
        authority = LdapAuthority(LdapConnection(settings), clock=lambda: now)
        authority.create(site(1, "Berlin"), NOW)
        authority.delete(authority.create(site(2, "Paris"), NOW))
        assert not authority.changes("").unusable
        first.stop()
        found = authority.changes("")
        assert (found.whole, found.objects) == (True, [])
        assert found.unusable == {(Site, guid(1))}
        now = float(REPLICATION_S)
        assert authority.changes("").unusable == frozenset()
        authority.close()


def test_a_server_without_the_schema_says_so(server: OpenLdap) -> None:
    with asked(server, base="DC=elsewhere") as authority:
        assert listed(authority) == []
        assert refused(lambda: authority.create(site(1, "x"), NOW)) is NOT_FOUND


# -- DNS


def test_a_domain_names_the_servers(server: OpenLdap) -> None:
    settings = server.settings(url="", domain="example.test")
    at = Server("ldap", "localhost", server.port)
    connection = LdapConnection(settings, lambda domain: [at] if domain else [])
    authority = LdapAuthority(connection)
    assert authority.changes("").whole
    authority.close()
    nobody = LdapAuthority(LdapConnection(settings, lambda domain: []))
    with pytest.raises(AuthorityAway, match="no directory server"):
        nobody.changes("")


# -- what is read


def test_long_listings_come_in_pages(server: OpenLdap) -> None:
    with asked(server, page_size=7) as authority:
        authority.create(machine(1, "ALPHA"), NOW)
        for number in range(100, 130):
            authority.create(queue(number, rf"ALPHA\q{number}"), NOW)
        assert len(listed(authority, Queue)) == 30
    with (
        asked(server, entries_max=20) as authority,
        pytest.raises(AuthorityAway, match="more than 20 entries"),
    ):
        authority.changes("")


def test_a_server_that_lists_only_a_part_is_away(tmp_path: Path) -> None:
    with openldap(tmp_path / "server", size_limit="5") as own:
        with asked(own) as authority:
            for number in range(1, 9):
                authority.create(site(number, f"site {number}"), NOW)
        with (
            asked(own, authentication="anonymous") as authority,
            pytest.raises(AuthorityAway, match="sizeLimitExceeded"),
        ):
            authority.changes("")


class Clock:
    """Each look at it takes a while."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 50
        return self.now


def test_later_listings_tell_what_changed_and_whole_ones_what_went(server: OpenLdap) -> None:
    clock = Clock()
    connection = LdapConnection(server.settings(url=server.socket_url, whole_s=1000))
    reader = LdapAuthority(connection, clock=clock)
    with asked(server) as writer:
        writer.create(machine(1, "ALPHA"), NOW)
        writer.create(queue(2, r"ALPHA\orders"), NOW)
        first = reader.changes("")
        assert (first.whole, len(first.objects)) == (True, 2)
        writer.write(queue(2, r"ALPHA\orders", label="new"), NOW, ["label"])
        host = machine(1, "ALPHA", qualified_computer_name="alpha.example.com")
        writer.write(host, NOW, ["qualified_computer_name"])
        later = reader.changes(first.token)
        assert not later.whole
        [changed] = [one for one in later.objects if isinstance(one, Queue)]
        assert changed.label == "new"
        assert changed.qualified_pathname == r"alpha.example.com\orders"
        writer.delete(queue(2, r"ALPHA\orders"))
        unseen = reader.changes(later.token)
        assert (unseen.whole, unseen.gone) == (False, [])
        clock.now += 1000
        last = reader.changes(unseen.token)
        assert last.whole
        assert [type(one) for one in last.objects] == [QueueManager]
        for strange in ("", "nonsense", "7 another server"):
            assert reader.changes(strange).whole
    reader.close()


def test_accounts_that_lost_their_certificates_are_gone(server: OpenLdap) -> None:
    place = Dn.parse(f"CN=Alice,CN=Users,{ROOT}")
    with asked(server, whole_s=1000) as authority:
        with server.connected(url=server.socket_url) as connection:
            enter_account(connection, place, mSMQSignCertificates=[b"x"])
            first = authority.changes("")
            assert [type(one) for one in first.objects] == [User]
            connection.modify(place, {"mSMQSignCertificates": []})
        later = authority.changes(first.token)
        if not later.whole:
            assert later.gone == [(User, guid(7))]
        assert later.objects == []


def enter_account(connection: LdapConnection, place: Dn, **more: list[bytes]) -> None:
    if connection.get(place.parent, ["cn"]) is None:
        connection.add(place.parent, ["container"], {})
    made = required_of_accounts("user", place.name, Dn.parse(ROOT))
    made |= {"objectGUID": [guid(7)], "objectSid": [ALICE], **more}
    marked = {"adminDescription": [b"of others"]}
    connection.add(place, ["user", "securityPrincipal"], made | marked)


def test_poisoned_entries_are_told_of_and_spoil_no_others(server: OpenLdap) -> None:
    with asked(server) as authority, server.connected(url=server.socket_url) as connection:
        authority.create(machine(1, "ALPHA"), NOW)
        authority.create(site(2, "Berlin"), NOW)
        below = Dn.parse(f"CN=msmq,CN=ALPHA,CN=Computers,{ROOT}")
        connection.add(below.child("short"), ["mSMQQueue"], {"objectGUID": [b"short"]})
        bad = {"objectGUID": [guid(9)], "mSMQQueueQuota": [b"99999999999"]}
        connection.add(below.child("greedy"), ["mSMQQueue"], bad)
        stray = {
            "objectGUID": [guid(8)],
            "mSMQCost": [b"1"],
            "mSMQSite1": [b"CN=nowhere"],
            "mSMQSite2": [b"CN=nowhere"],
        }
        authority.create(link(3, 2, 4), NOW)
        services = Dn.parse(f"CN=MsmqServices,CN=Services,CN=Configuration,{ROOT}")
        connection.add(services.child("stray"), ["mSMQSiteLink"], stray)
        found = authority.changes("")
        names = sorted(type(one).__name__ for one in found.objects)
        assert names == ["QueueManager", "RoutingLink", "Site"]
        assert len(found.faults) == 3
        assert refused(lambda: authority.delete(queue(99, r"ALPHA\x"))) is NOT_FOUND


def test_a_damaged_computer_takes_no_address_from_its_queue_manager(server: OpenLdap) -> None:
    """Without it messages would go wherever the name service says, sealed for nobody."""
    with asked(server) as authority, server.connected(url=server.socket_url) as hand:
        value = msgspec.structs.replace(machine(1, "ALPHA"), addresses=("alpha:1801",))
        authority.create(value, NOW)
        authority.create(machine(2, "BETA"), NOW)
        place = Dn.parse(f"CN=ALPHA,CN=Computers,{ROOT}")
        many = [f"msmq:h{number}:1".encode() for number in range(5000)]
        hand.modify(place, {"networkAddress": many})
        for _ in range(2):
            found = authority.changes("")
            assert [one.identifier for one in found.objects] == [guid(2)]
            assert found.unusable == {(QueueManager, guid(1))}
        assert any("5000 values" in fault for fault in authority.faults)
        hand.modify(place, {"networkAddress": many[:1]})
        assert len(authority.changes("").objects) == 2


def test_one_long_remark_spoils_no_listing(server: OpenLdap) -> None:
    with asked(server) as authority, server.connected(url=server.socket_url) as hand:
        authority.create(machine(1, "ALPHA"), NOW)
        authority.create(site(2, "Berlin"), NOW)
        hand.modify(
            Dn.parse(f"CN=ALPHA,CN=Computers,{ROOT}"), {"adminDescription": [b"x" * 70_000]}
        )
        assert Site in map(type, authority.changes("").objects)


def test_an_entry_that_was_damaged_is_not_gone(server: OpenLdap) -> None:
    """Its queue would be deleted on its machine, and its messages have nowhere to go."""
    connection = LdapConnection(server.settings(url=server.socket_url, whole_s=1000))
    reader = LdapAuthority(connection, clock=Clock())
    place = Dn.parse(f"CN=orders,CN=msmq,CN=ALPHA,CN=Computers,{ROOT}")
    with asked(server) as writer, server.connected(url=server.socket_url) as hand:
        writer.create(machine(1, "ALPHA"), NOW)
        writer.create(queue(2, r"ALPHA\orders"), NOW)
        token = reader.changes("").token
        for damage in ({"mSMQQueueQuota": [b"99999999999"]}, {"objectGUID": [b"short"]}):
            hand.modify(place, damage)
            later = reader.changes(token)
            assert (later.whole, later.gone) == (False, [])
            assert Queue not in map(type, later.objects)
            for _ in range(2):
                assert reader.changes("").unusable == {(Queue, guid(2))}
    reader.close()


# -- what is changed

HOSTILE = ["*)(objectClass=*", "a,CN=b", 'x"+<y>;z', "#start", r"back\slash", "(&)", "é=ß", "*"]


class Deaf(LdapConnection):
    """The connection breaks behind the next change, before its answer is heard."""

    breaks = False

    def _exchange(self, method: str, arguments: Any, options: Any) -> tuple[dict[str, Any], Any]:
        found = super()._exchange(method, arguments, options)
        if method == "add" and self.breaks:
            self.breaks = False
            raise OSError("connection reset by peer")
        return found


def test_what_we_made_and_did_not_hear_of_is_ours(server: OpenLdap) -> None:
    connection = Deaf(server.settings(url=server.socket_url))
    authority = LdapAuthority(connection)
    authority.create(machine(1, "ALPHA"), NOW)
    connection.breaks = True
    stored = authority.create(queue(2, r"ALPHA\orders"), NOW)
    assert stored.identifier == guid(2)
    assert refused(lambda: authority.create(queue(3, r"ALPHA\orders"), NOW)) is EXISTS
    authority.close()


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_names_and_nothing_more(server: OpenLdap, name: str) -> None:
    with asked(server) as authority:
        authority.create(site(1, "Berlin"), NOW)
        authority.create(site(2, name), NOW)
        authority.create(DistributionList(identifier=guid(3), name=name), NOW)
        found = {one.identifier: one.name for one in listed(authority, Site)}
        assert found == {guid(1): "Berlin", guid(2): name}
        assert refused(lambda: authority.create(site(4, name), NOW)) is EXISTS
        authority.write(site(2, f"{name}!"), NOW)
        authority.delete(site(2, name))
        assert [one.name for one in listed(authority, Site)] == ["Berlin"]
        assert authority.places.find_computer(name) is None
        assert authority.places.find_user(name.encode()) is None


def test_queues_with_hostile_names_stay_below_their_machine(server: OpenLdap) -> None:
    with asked(server) as authority:
        authority.create(machine(1, "ALPHA"), NOW)
        for number, name in enumerate(["a*b", "(x)", "q=1", "#", "q" * 100, "<a>"], 10):
            made = authority.create(queue(number, f"ALPHA\\{name}"), NOW)
            assert isinstance(made, Queue)
            assert made.pathname == f"ALPHA\\{name}"
            assert made.queue_manager_identifier == guid(1)
        assert len(listed(authority, Queue)) == 6


def test_computers_of_others_are_found_wherever_they_stand(server: OpenLdap) -> None:
    place = Dn.parse(f"CN=ALPHA,CN=Workshop,{ROOT}")
    with asked(server) as authority, server.connected(url=server.socket_url) as connection:
        connection.add(place.parent, ["container"], {})
        made = required_of_accounts("computer", "ALPHA", Dn.parse(ROOT))
        connection.add(place, ["computer"], {**made, "networkAddress": [b"other"]})
        host = machine(1, "ALPHA", clustered=True, addresses=("alpha:1801",))
        stored = authority.create(host, NOW)
        assert isinstance(stored, QueueManager)
        assert stored.full_path == f"CN=msmq,{place}"
        assert (stored.clustered, stored.addresses) == (True, ("alpha:1801",))
        assert refused(lambda: authority.write(machine(1, "BETA"), NOW)) is GENERIC_ERROR
        authority.delete(host)
        kept = connection.get(place, ["networkAddress"])
        assert kept is not None
        assert b"other" in kept.values("networkAddress")


def test_a_machine_that_is_deleted_leaves_its_queues(server: OpenLdap) -> None:
    with asked(server) as authority:
        authority.create(machine(1, "ALPHA"), NOW)
        authority.create(queue(2, r"ALPHA\orders"), NOW)
        authority.delete(machine(1, "ALPHA"))
        [orphan] = listed(authority)
        assert (orphan.pathname, orphan.queue_manager_identifier) == (r"ALPHA\orders", bytes(16))
        authority.create(machine(3, "ALPHA"), NOW)
        [again] = listed(authority, Queue)
        assert again.queue_manager_identifier == guid(3)
        authority.write(machine(3, "GAMMA"), NOW, ["computer_name"])
        [computer] = authority.places.atlas.computers.values()
        assert computer.name == "GAMMA"
        [renamed] = listed(authority, Queue)
        assert renamed.pathname == r"GAMMA\orders"


def test_sites_know_their_servers(server: OpenLdap) -> None:
    def settings() -> list[str]:
        return [str(dn) for dn in server.places() if dn.name == "MSMQ Settings"]

    with asked(server) as authority:
        authority.create(site(1, "Berlin"), NOW)
        authority.create(site(2, "Paris"), NOW)
        router = machine(3, "ALPHA", routing_server=True, site_identifier_list=(guid(1), guid(9)))
        authority.create(router, NOW)
        place = f"CN=MSMQ Settings,CN=ALPHA,CN=Servers,CN={{}},CN=Sites,CN=Configuration,{ROOT}"
        assert settings() == [place.format("Berlin")]
        moved = machine(3, "ALPHA", routing_server=True, site_identifier_list=(guid(2),))
        authority.write(moved, NOW, ["site_identifier_list"])
        assert settings() == [place.format("Paris")]
        authority.delete(site(1, "Berlin"))
        with server.connected(url=server.socket_url) as connection:  # somebody else, carelessly
            connection.delete(Dn.parse(f"CN=msmq,CN=ALPHA,CN=Computers,{ROOT}"))
        anew = machine(4, "ALPHA", routing_server=True, site_identifier_list=(guid(2),))
        assert authority.create(anew, NOW).identifier == guid(4)
        assert settings() == [place.format("Paris")]
        authority.delete(anew)
        assert settings() == []


def test_lists_hold_queues_names_of_others_and_the_people_in_them(server: OpenLdap) -> None:
    members = (f"PUBLIC={format_guid(guid(2))}", r"DIRECT=OS:far\private$\q")
    person = f"CN=Alice,CN=Users,{ROOT}".encode()
    with asked(server) as authority, server.connected(url=server.socket_url) as connection:
        authority.create(machine(1, "ALPHA"), NOW)
        authority.create(queue(2, r"ALPHA\orders"), NOW)
        made = DistributionList(identifier=guid(5), name="all", members=members)
        assert sorted(getattr(authority.create(made, NOW), "members", ())) == sorted(members)
        place = Dn.parse(f"CN=all,CN=Users,{ROOT}")
        entry = connection.get(place, ["member"])
        assert entry is not None
        enter_account(connection, Dn.parse(person.decode()))
        authority.create(User(security_identifier=ALICE, certificates=b"x"), NOW)  # known to us
        stranger = f"CN=Nobody,CN=Users,{ROOT}".encode()
        connection.modify(place, {"member": [*entry.values("member"), person, stranger]})
        fewer = DistributionList(identifier=guid(5), name="all", members=members[:1])
        assert getattr(authority.write(fewer, NOW), "members", ()) == members[:1]
        entry = connection.get(place, ["member"])
        assert entry is not None
        kept = {value.lower() for value in entry.values("member")}
        assert kept >= {person.lower(), stranger.lower()}
        connection.modify(place, {"adminDescription": []})
        assert refused(lambda: authority.delete(fewer)) is GENERIC_ERROR
        connection.modify(place, {"adminDescription": [MARK.encode()]})
        authority.delete(fewer)


def test_accounts_of_others_only_get_and_lose_certificates(server: OpenLdap) -> None:
    place = Dn.parse(f"CN=Alice,CN=Users,{ROOT}")
    alice = User(security_identifier=ALICE)
    with asked(server) as authority, server.connected(url=server.socket_url) as connection:
        enter_account(connection, place)
        assert refused(lambda: authority.create(alice, NOW)) is GENERIC_ERROR
        certified = User(security_identifier=ALICE, certificates=b"x")
        stored = authority.create(certified, NOW)
        assert (stored.identifier, stored.__class__) == (guid(7), User)
        assert refused(lambda: authority.create(alice, NOW)) is EXISTS
        authority.delete(User(identifier=guid(7), security_identifier=ALICE))
        assert listed(authority) == []
        assert connection.get(place, ["cn"]) is not None


class Crossed(LdapConnection):
    """Somebody else changes the entry between our look at it and our change."""

    meanwhile: Callable[[], object] | None = None

    def _exchange(self, method: str, arguments: Any, options: Any) -> tuple[dict[str, Any], Any]:
        if method == "modify" and self.meanwhile is not None:
            call, self.meanwhile = self.meanwhile, None
            call()
        return super()._exchange(method, arguments, options)


def test_two_who_change_a_list_at_once_are_both_heard(server: OpenLdap) -> None:
    connection = Crossed(server.settings(url=server.socket_url))
    with asked(server) as theirs:
        ours = LdapAuthority(connection)
        names = [rf"DIRECT=OS:h\private$\{letter}" for letter in "abcd"]
        a, b, c, d = names
        base = ours.create(DistributionList(identifier=guid(5), name="List", members=(a, b)), NOW)
        assert theirs.changes("").objects == [base]

        def write(authority: LdapAuthority, *members: str) -> Any:
            wanted = DistributionList(identifier=guid(5), name="List", members=members)
            return authority.write(wanted, NOW, ["members"], base)

        connection.meanwhile = lambda: write(theirs, a, b, c)
        assert set(write(ours, b, d).members) == {b, c, d}
        (found,) = listed(theirs, DistributionList)
        assert set(found.members) == {b, c, d}
        ours.close()


def test_two_who_enter_certificates_at_once_do_not_undo_each_other(server: OpenLdap) -> None:
    connection = Crossed(server.settings(url=server.socket_url))
    first, second = (User(security_identifier=ALICE, certificates=one) for one in (b"1", b"2"))
    with asked(server) as theirs, server.connected(url=server.socket_url) as behind:
        enter_account(behind, Dn.parse(f"CN=Alice,CN=Users,{ROOT}"))
        ours = LdapAuthority(connection)
        connection.meanwhile = lambda: theirs.create(first, NOW)
        assert refused(lambda: ours.create(second, NOW)) is EXISTS
        assert [one.certificates for one in listed(theirs, User)] == [b"1"]
        ours.close()


def test_no_server_holds_connected_networks(server: OpenLdap) -> None:
    network = ConnectedNetwork(identifier=guid(1), name="net")
    with asked(server) as authority:
        assert refused(lambda: authority.create(network, NOW)) is GENERIC_ERROR
        assert refused(lambda: authority.write(network, NOW)) is NOT_FOUND
        assert refused(lambda: authority.delete(network)) is NOT_FOUND


def test_joining_finds_the_object_of_a_computer_or_enters_it(server: OpenLdap) -> None:
    with asked(server) as authority:
        made, created = authority.join(machine(1, "ALPHA"), NOW)
        assert (made.identifier, created) == (guid(1), True)
        found, created = authority.join(machine(2, "alpha"), NOW)
        assert (found.identifier, created) == (guid(1), False)


def test_a_new_queue_manager_joins_the_site_that_is_named_or_the_only_one(
    server: OpenLdap,
) -> None:
    def joined(number: int, name: str = "") -> tuple[bytes, ...]:
        value = msgspec.structs.replace(machine(number, f"M{number}"), site_identifier_list=())
        return authority.join(value, NOW, name)[0].site_identifier_list

    with asked(server) as authority:
        assert joined(1) == ()
        authority.create(site(11, "Berlin"), NOW)
        assert joined(2) == (guid(11),)
        authority.create(site(12, "Paris"), NOW)
        assert joined(3) == ()
        assert joined(4, "paris") == (guid(12),)
        assert joined(5, format_guid(guid(11))) == (guid(11),)
        assert refused(lambda: joined(6, "*")) is NOT_FOUND
