"""The directories that tests of any directory run on: our own, and one that a server keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from posthouse.directory.embedded import EmbeddedDirectory
from posthouse.directory.mirror import MirroredDirectory, Order, Stored, carry_out
from posthouse.directory.objects import ConnectedNetwork
from posthouse.runtime.directory.ldap import LdapAuthority
from posthouse.runtime.ldap.connection import LdapConnection
from tests.process.openldap import OpenLdap, openldap

from .world import Backing, Guids, Records, World

KINDS = ("embedded", pytest.param("openldap", marks=pytest.mark.peer("openldap")))


class LdapBacking(Backing):
    """An OpenLDAP server, empty for each world; what is read is a mirror of it."""

    keeps_silence = False  # attributes that an entry lacks are as usual
    unknown_kinds = (ConnectedNetwork,)

    def __init__(self, server: OpenLdap) -> None:
        self._server = server
        self._connection = LdapConnection(server.settings(url=server.socket_url))

    def made(self, records: Records, guids: Guids) -> EmbeddedDirectory:
        self._server.wipe(self._connection)
        return self._mirror(MirroredDirectory(records.define, guids), guids)

    def restarted(self, records: Records, guids: Guids) -> EmbeddedDirectory:
        again = MirroredDirectory.load(records.items(), records.define, guids)
        assert isinstance(again, MirroredDirectory)
        return self._mirror(again, guids)

    def _mirror(self, directory: MirroredDirectory, guids: Guids) -> MirroredDirectory:
        authority = LdapAuthority(self._connection, guids)
        news = directory.take(authority.changes(""))
        assert (news.changed, news.gone, news.faults, authority.faults) == ([], [], [], [])

        def ask(orders: object) -> Stored:
            assert isinstance(orders, list)
            return carry_out(authority, [order for order in orders if isinstance(order, Order)])

        directory.ask = ask
        return directory

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="session")
def ldap_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenLdap]:
    """One server for all tests of a worker."""
    with openldap(tmp_path_factory.mktemp("slapd") / "server") as server:
        yield server


@pytest.fixture(scope="session")
def ldap_backing(ldap_server: OpenLdap) -> Iterator[LdapBacking]:
    """Worlds on that server."""
    backing = LdapBacking(ldap_server)
    yield backing
    backing.close()


@pytest.fixture
def on_openldap(ldap_backing: LdapBacking) -> Iterator[None]:
    """Worlds are kept by a server."""
    usual, World.backing = World.backing, ldap_backing
    yield
    World.backing = usual


@pytest.fixture(params=KINDS)
def any_directory(request: pytest.FixtureRequest) -> None:
    """Runs a test on each kind of directory."""
    if request.param == "openldap":
        request.getfixturevalue("on_openldap")
