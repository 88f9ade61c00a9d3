"""The section `[directory.ldap]` of `posthouse.toml`: a directory server that speaks for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from msgspec import Meta, Struct

from posthouse.directory.ldap.names import BadEntry, Dn
from posthouse.model.settings_kinds import SIZE, SIZE_MAX, Section
from posthouse.model.text import excerpt
from posthouse.store.settings import MIB

SCHEMES = ("ldap", "ldaps", "ldapi")
Text = Annotated[str, Meta(max_length=4096)]
Authentication = Literal["anonymous", "simple", "plain", "digest", "external", "gssapi"]


class LdapSection(Section, frozen=True, kw_only=True):
    """A directory server for machines, sites and public queues: Active Directory or OpenLDAP."""

    url: Annotated[
        Text,
        Meta(
            description="`ldaps://host`, `ldap://host` or `ldapi://` and a socket; several with "
            "blanks between them are tried in turn. Needs `posthouse[ldap]`."
        ),
    ] = ""
    domain: Annotated[
        Text, Meta(description="Without `url`: the DNS domain whose servers are looked up.")
    ] = ""
    start_tls: Annotated[
        bool, Meta(description="Connections of `ldap://` are encrypted before anything is said.")
    ] = True
    ca_file: Annotated[
        Text, Meta(description="Certificates that vouch for the server; empty: the system's.")
    ] = ""
    certificate_file: Annotated[
        Text, Meta(description="Our certificate, for `external` over TLS.")
    ] = ""
    key_file: Annotated[Text, Meta(description="The key of our certificate.")] = ""
    authentication: Annotated[
        Authentication,
        Meta(
            description="How we log in: `simple` with the distinguished name `user`, SASL `plain` "
            "or `digest` with the name `user`, `external` by certificate or socket, `gssapi` by "
            "the Kerberos ticket of this account, or with `keytab`."
        ),
    ] = "anonymous"
    user: Annotated[Text, Meta(description="Who we are there.")] = ""
    password_file: Annotated[
        Text, Meta(description="A file, for our eyes only, with the password on its first line.")
    ] = ""
    keytab: Annotated[
        Text,
        Meta(
            description="For `gssapi`: a Kerberos key table; tickets for the principal `user`, or "
            "the first one in it, are got with that. Needs `posthouse[kerberos]`."
        ),
    ] = ""
    base: Annotated[
        Text,
        Meta(description="Where computers stand, like `DC=example,DC=com`; empty: the server's."),
    ] = ""
    configuration: Annotated[
        Text, Meta(description="Where sites stand; empty: the server's, or `CN=Configuration`.")
    ] = ""
    connect_s: Annotated[
        int, Meta(ge=1, le=300, description="How long a server may take to be reached.")
    ] = 5
    time_limit_s: Annotated[
        int, Meta(ge=1, le=3600, description="How long it may take for one answer.")
    ] = 120
    page_size: Annotated[
        int, Meta(ge=1, le=100_000, description="Entries that are asked for at once.")
    ] = 500
    entries_max: Annotated[
        int,
        Meta(ge=1, le=10_000_000, description="A listing with more entries is not taken in."),
    ] = 1_000_000
    listing_max: Annotated[
        int,
        Meta(
            ge=MIB,
            le=SIZE_MAX,
            extra={"unit": SIZE},
            description="Bytes that a server may send for one listing.",
        ),
    ] = 256 * MIB
    whole_s: Annotated[
        int,
        Meta(
            ge=1,
            le=604_800,
            description="At least so often everything is listed, which finds what was deleted; "
            "small directories are listed at every refresh.",
        ),
    ] = 3600


class Server(Struct, frozen=True):
    """Where a directory server listens."""

    scheme: str
    host: str
    port: int | None = None

    @property
    def is_local(self) -> bool:
        """Whether what is said to it stays on this machine."""
        return self.scheme == "ldapi" or self.host in ("localhost", "127.0.0.1", "::1")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port is None else f":{self.port}")


def parse_server(url: str) -> Server:
    """A server by its URL; ValueError says what is wrong with it."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"{excerpt(url)} is not of the form ldaps://host")
    if parts.scheme == "ldapi":
        return Server("ldapi", unquote(parts.netloc) or parts.path)
    port = parts.port
    if not parts.hostname or parts.path not in ("", "/") or parts.username is not None:
        raise ValueError(f"{excerpt(url)} is not of the form {parts.scheme}://host:port")
    return Server(parts.scheme, parts.hostname, port)


def servers_of(section: LdapSection) -> list[Server]:
    """The servers named by their URLs."""
    return [parse_server(url) for url in section.url.split()]


def ldap_source(section: LdapSection) -> str:
    """The name of the authority, the same while its data are the same; empty where it is none."""
    named = section.url or (f"of {section.domain}" if section.domain else "")
    return f"ldap {named}" if named else ""


def ldap_faults(section: LdapSection) -> Iterator[str]:
    """What is wrong in the section."""
    where = "[directory.ldap]"
    try:
        servers = servers_of(section)
    except ValueError as error:
        yield f"{where} url: {error}"
        servers = []
    for key in ("base", "configuration"):
        try:
            Dn.parse(getattr(section, key))
        except BadEntry as bad:
            yield f"{where} {key}: {bad}"
    with_password = section.authentication in ("simple", "plain", "digest")
    if with_password and not (section.user and section.password_file):
        yield f"{where} authentication: {section.authentication} needs user and password_file"
    shown = section.authentication in ("simple", "plain") and not section.start_tls
    if shown and any(server.scheme == "ldap" and not server.is_local for server in servers):
        yield f"{where} start_tls: without it the password would cross the network in clear text"
    for key in ("ca_file", "certificate_file", "key_file", "password_file", "keytab"):
        path = getattr(section, key)
        if path and not Path(path).is_file():
            yield f"{where} {key}: there is no file {excerpt(path)}"
