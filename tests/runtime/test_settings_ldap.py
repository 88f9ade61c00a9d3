"""The section `[directory.ldap]`."""

from __future__ import annotations

from pathlib import Path

import pytest

from posthouse.runtime.settings_directory import (
    DirectorySection,
    directory_faults,
    directory_source,
)
from posthouse.runtime.settings_ldap import (
    LdapSection,
    Server,
    ldap_faults,
    ldap_source,
    parse_server,
    servers_of,
)


def test_servers_are_named_by_urls() -> None:
    section = LdapSection(url="ldaps://one ldap://[::1]:3389/ ldapi://%2Frun%2Fldapi")
    assert servers_of(section) == [
        Server("ldaps", "one"),
        Server("ldap", "::1", 3389),
        Server("ldapi", "/run/ldapi"),
    ]
    assert list(map(str, servers_of(section)[:2])) == ["ldaps://one", "ldap://[::1]:3389"]
    assert [server.is_local for server in servers_of(section)] == [False, True, True]
    assert list(ldap_faults(section)) == []


@pytest.mark.parametrize(
    "url",
    ["http://x", "ldap://", "ldap://a:b@host", "ldap://host/dc=x", "ldap://host:99999", "host"],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_server(url)
    assert next(iter(ldap_faults(LdapSection(url=url)))).startswith("[directory.ldap] url: ")


def test_an_authority_has_a_name_that_stays() -> None:
    assert ldap_source(LdapSection()) == ""
    assert ldap_source(LdapSection(url="ldaps://one")) == "ldap ldaps://one"
    assert ldap_source(LdapSection(domain="example.com")) == "ldap of example.com"
    named = DirectorySection(ldap=LdapSection(url="ldaps://one"))
    assert directory_source(named) == "ldap ldaps://one"
    assert list(directory_faults(named)) == []


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        (LdapSection(url="ldaps://x", base="nonsense"), "base: "),
        (LdapSection(url="ldaps://x", configuration="CN=x\\"), "configuration: "),
        (LdapSection(url="ldaps://x", authentication="simple", user="CN=me"), "authentication: "),
        (LdapSection(url="ldaps://x", ca_file="/nowhere/at/all"), "ca_file: there is no file"),
    ],
)
def test_what_is_wrong_is_said(section: LdapSection, fault: str) -> None:
    [said] = ldap_faults(section)
    assert said.startswith(f"[directory.ldap] {fault}")


def test_a_password_in_clear_text_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("x")
    login = {"authentication": "simple", "user": "CN=me", "password_file": str(file)}
    open_text = LdapSection(url="ldap://far", start_tls=False, **login)  # type: ignore[arg-type]
    [said] = ldap_faults(open_text)
    assert "clear text" in said
    near = LdapSection(url="ldap://localhost", start_tls=False, **login)  # type: ignore[arg-type]
    assert list(ldap_faults(near)) == []


def test_there_is_one_authority() -> None:
    server = LdapSection(url="ldaps://x")
    [said] = directory_faults(DirectorySection(file="d.toml", ldap=server))
    assert "there is one authority" in said
    [said] = directory_faults(DirectorySection(integrated=False, ldap=server))
    assert "workgroup" in said
