"""A real OpenLDAP server in a real Kerberos realm: queue managers log in with tickets there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from posthouse.directory.authority import AuthorityAway
from posthouse.directory.ldap.names import Dn
from posthouse.directory.objects import Site
from posthouse.runtime.directory.ldap import LdapAuthority
from posthouse.runtime.ldap.connection import LdapConnection, LdapRefusal
from tests.directory.world import NOW, site
from tests.process.hostile_ldap import BIND, Request, civil, done, hostile_ldap
from tests.process.nginx import make_certificate
from tests.process.openldap import ROOT, OpenLdap, openldap
from tests.rpc.kdc import REALM, Kdc, need_gssapi

pytestmark = pytest.mark.peer("openldap", "kerberos")

GSSAPI: Final = {"authentication": "gssapi", "user": "", "password_file": ""}
SEALED_ONLY = "sasl-secprops noanonymous,minssf=56"
UNSEALED_ONLY = "sasl-secprops noanonymous,maxssf=0"


class House(NamedTuple):
    """The realm, and a server in it that lets `manager` write."""

    kdc: Kdc
    server: OpenLdap
    keytab: Path


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    need_gssapi()
    kdc = Kdc(tmp_path_factory.mktemp("kdc"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        patch.setenv("KRB5_KTNAME", str(kdc.keytab_of("ldap/localhost")))
        keytab = kdc.keytab_of("manager")
        with openldap(tmp_path_factory.mktemp("slapd") / "server") as server:
            yield House(kdc, server, keytab)
    kdc.stop()


def enter(server: OpenLdap, name: str, **settings: Any) -> None:
    """Enters a site, as somebody who has logged in with a ticket; it goes again."""
    authority = LdapAuthority(LdapConnection(server.settings(**(GSSAPI | settings))))
    try:
        authority.create(site(1, name), NOW)
        found = [one.name for one in authority.changes("").objects if isinstance(one, Site)]
        assert found == [name]
        authority.delete(site(1, name))
    finally:
        authority.close()


@pytest.mark.parametrize("user", ["", f"manager@{REALM}"])
def test_a_key_table_is_enough_to_log_in(house: House, user: str) -> None:
    for url in (house.server.url, house.server.tls_url):
        enter(house.server, "Berlin", url=url, user=user, keytab=str(house.keytab))


def test_who_nobody_vouches_for_is_told_so(house: House, tmp_path: Path) -> None:
    with pytest.raises(AuthorityAway, match="Kerberos: "):
        enter(house.server, "Berlin")  # no ticket, no key table
    other = house.kdc.keytab_of("stranger")
    with pytest.raises(AuthorityAway, match="Kerberos: "):
        enter(house.server, "Berlin", user=f"manager@{REALM}", keytab=str(other))
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(AuthorityAway, match="Kerberos: "):
        enter(house.server, "Berlin", keytab=str(empty))


def test_a_ticket_of_the_account_will_do(house: House) -> None:
    house.kdc.log_in("alice")  # who may read
    with house.server.connected(**GSSAPI) as connection:
        assert connection.get(ROOT, ["objectClass"]) is not None
        with pytest.raises(LdapRefusal, match="insufficientAccessRights"):
            connection.add(Dn.parse(f"CN=x,{ROOT}"), ["person"], {"sn": [b"x"]})
    with pytest.raises(AuthorityAway, match="Kerberos: "):
        enter(house.server, "Berlin", user=f"manager@{REALM}")  # the ticket is another's


@pytest.mark.parametrize(
    ("line", "reason"), [(UNSEALED_ONLY, ""), (SEALED_ONLY, "insists on sealing by Kerberos")]
)
def test_sealing_is_left_to_tls(house: House, tmp_path: Path, line: str, reason: str) -> None:
    server = OpenLdap(tmp_path / "server")
    file = server.folder / "slapd.conf"
    file.write_text(file.read_text().replace("sasl-secprops noanonymous", line))
    # Its signature names no digest that the login could be tied to it by.
    make_certificate(server.certificate, server.key, Ed25519PrivateKey.generate())
    server.start()
    try:
        # Without TLS: its strength would count as that of sealing.
        with pytest.raises(AuthorityAway, match=reason) if reason else nullcontext():
            enter(server, "Berlin", url=server.url, start_tls=False, keytab=str(house.keytab))
        enter(server, "Paris", url=server.tls_url, keytab=str(house.keytab))
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("code", "reason"), [(0, "has not proved by Kerberos who it is"), (49, "invalidCredentials")]
)
def test_a_server_that_asks_for_no_proof_is_not_the_one_we_mean(
    house: House, code: int, reason: str
) -> None:
    def answer(request: Request) -> bytes:
        return done(request, code) if request.operation == BIND else civil(request)

    with hostile_ldap(answer) as server, pytest.raises(AuthorityAway, match=reason):
        enter(house.server, "Berlin", url=server.url, start_tls=False, keytab=str(house.keytab))
