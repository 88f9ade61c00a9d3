"""The section `[directory.ldap]`."""

from __future__ import annotations

from pathlib import Path

import pytest

from posthouse.directory.ldap.settings import LdapSettings, Server, parse_server
from posthouse.directory.settings import DirectorySettings
from posthouse.runtime.settings.file import faults


def ldap_faults(section: LdapSettings) -> list[str]:
    return list(faults("directory.ldap", section))


def test_servers_are_named_by_urls() -> None:
    section = LdapSettings(url="ldaps://one ldap://[::1]:3389/ ldapi://%2Frun%2Fldapi")
    assert section.servers == [
        Server("ldaps", "one"),
        Server("ldap", "::1", 3389),
        Server("ldapi", "/run/ldapi"),
    ]
    assert list(map(str, section.servers[:2])) == ["ldaps://one", "ldap://[::1]:3389"]
    assert [server.is_local for server in section.servers] == [False, True, True]
    assert ldap_faults(section) == []


@pytest.mark.parametrize(
    "url",
    ["http://x", "ldap://", "ldap://a:b@host", "ldap://host/dc=x", "ldap://host:99999", "host"],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_server(url)
    assert ldap_faults(LdapSettings(url=url))[0].startswith("[directory.ldap] url: ")


def test_an_authority_has_a_name_that_stays() -> None:
    assert LdapSettings().source == ""
    assert LdapSettings(url="ldaps://one").source == "ldap ldaps://one"
    assert LdapSettings(domain="example.com").source == "ldap of example.com"
    named = DirectorySettings(ldap=LdapSettings(url="ldaps://one"))
    assert named.source == "ldap ldaps://one"
    assert list(faults("directory", named)) == []


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        (LdapSettings(url="ldaps://x", base="nonsense"), "base: "),
        (LdapSettings(url="ldaps://x", configuration="CN=x\\"), "configuration: "),
        (LdapSettings(url="ldaps://x", authentication="simple", user="CN=me"), "authentication: "),
        (LdapSettings(url="ldaps://x", ca_file="/nowhere/at/all"), "ca_file: there is no file"),
    ],
)
def test_what_is_wrong_is_said(section: LdapSettings, fault: str) -> None:
    [said] = ldap_faults(section)
    assert said.startswith(f"[directory.ldap] {fault}")


def test_a_password_in_clear_text_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("x")
    login = {"authentication": "simple", "user": "CN=me", "password_file": str(file)}
    open_text = LdapSettings(url="ldap://far", start_tls=False, **login)  # type: ignore[arg-type]
    [said] = ldap_faults(open_text)
    assert "clear text" in said
    near = LdapSettings(url="ldap://localhost", start_tls=False, **login)  # type: ignore[arg-type]
    assert ldap_faults(near) == []


def test_there_is_one_authority() -> None:
    server = LdapSettings(url="ldaps://x")
    [said] = faults("directory", DirectorySettings(file="d.toml", ldap=server))
    assert "there is one authority" in said
    [said] = faults("directory", DirectorySettings(integrated=False, ldap=server))
    assert "workgroup" in said
