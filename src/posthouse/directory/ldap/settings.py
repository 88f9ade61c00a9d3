"""`[directory.ldap]`: settings of a directory server that is the authority."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from msgspec import Meta, Struct

from posthouse.directory.ldap.names import BadEntry, Dn
from posthouse.model.settings_kinds import (
    MIB,
    SIZE_MAX,
    ExistingFile,
    Fault,
    Section,
    meaning,
    size,
    within,
)
from posthouse.model.text import excerpt

SCHEMES = ("ldap", "ldaps", "ldapi")
Text = Annotated[str, Meta(max_length=4096)]
Authentication = Literal["anonymous", "simple", "plain", "digest", "external", "gssapi"]


class LdapSettings(Section, frozen=True):
    """A directory server for machines, sites and public queues: Active Directory or OpenLDAP."""

    url: Annotated[
        Text,
        meaning(
            "`ldaps://host`, `ldap://host` or `ldapi://` and a socket. Several URLs, "
            "separated by spaces, are tried in turn. Needs the extra `ldap`."
        ),
    ] = ""
    domain: Annotated[
        Text, meaning("DNS domain whose directory servers are looked up if `url` is empty.")
    ] = ""
    start_tls: Annotated[
        bool, meaning("Encrypts connections to `ldap://` servers before anything else is sent.")
    ] = True
    ca_file: Annotated[
        ExistingFile,
        meaning(
            "Certificates of authorities that the server's certificate is checked against. "
            "Empty: those of the system."
        ),
    ] = ""
    certificate_file: Annotated[
        ExistingFile, meaning("Client certificate, for `external` over TLS.")
    ] = ""
    key_file: Annotated[ExistingFile, meaning("Key of the client certificate.")] = ""
    authentication: Annotated[
        Authentication,
        meaning(
            "Method of login: `simple` with the distinguished name `user`, SASL `plain` or "
            "`digest` with the name `user`, `external` by certificate or socket, `gssapi` "
            "with the Kerberos ticket of this account or with `keytab`."
        ),
    ] = "anonymous"
    user: Annotated[Text, meaning("Name for the login.")] = ""
    password_file: Annotated[
        ExistingFile,
        meaning(
            "File with the password on its first line. Only this account should be able to read it."
        ),
    ] = ""
    keytab: Annotated[
        ExistingFile,
        meaning(
            "Kerberos key table for `gssapi`. Tickets are requested for the principal `user`,"
            " or for the first one in the table. Needs the extra `kerberos`."
        ),
    ] = ""
    base: Annotated[
        Text,
        meaning(
            "Entry under which computers are found, for example `DC=example,DC=com`. Empty: "
            "the default of the server."
        ),
    ] = ""
    configuration: Annotated[
        Text,
        meaning(
            "Entry under which sites are found. Empty: the default of the server, or "
            "`CN=Configuration`."
        ),
    ] = ""
    connect_s: Annotated[int, within(1, 300, "Time allowed to connect to a server.")] = 5
    time_limit_s: Annotated[int, within(1, 3600, "Time allowed for one answer.")] = 120
    page_size: Annotated[int, within(1, 100_000, "Number of entries in one page of a listing.")] = (
        500
    )
    entries_max: Annotated[
        int,
        within(1, 10_000_000, "Largest number of entries in a listing. A longer one is refused."),
    ] = 1_000_000
    listing_max: Annotated[int, size(MIB, SIZE_MAX, "Largest size of one listing.")] = 256 * MIB
    whole_s: Annotated[
        int,
        within(
            1,
            604_800,
            "Longest time between two complete listings, which find deleted entries. Small "
            "directories are listed completely at every refresh.",
        ),
    ] = 3600

    @property
    def servers(self) -> list[Server]:
        """The servers named by their URLs."""
        return [parse_server(url) for url in self.url.split()]

    @property
    def source(self) -> str:
        """The name of the authority, the same while its data are the same; empty: there is none."""
        named = self.url or (f"of {self.domain}" if self.domain else "")
        return f"ldap {named}" if named else ""

    def faults(self) -> Iterator[Fault]:
        """Names that are none, logins without a password, and passwords in clear text."""
        try:
            servers = self.servers
        except ValueError as error:
            yield "url", str(error)
            servers = []
        for key in ("base", "configuration"):
            try:
                Dn.parse(getattr(self, key))
            except BadEntry as bad:
                yield key, str(bad)
        with_password = self.authentication in ("simple", "plain", "digest")
        if with_password and not (self.user and self.password_file):
            yield "authentication", f"{self.authentication} needs user and password_file"
        shown = self.authentication in ("simple", "plain") and not self.start_tls
        if shown and any(server.scheme == "ldap" and not server.is_local for server in servers):
            yield "start_tls", "without it the password would cross the network in clear text"


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
    """A server by its URL; ValueError states what is wrong with it."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"{excerpt(url)} is not of the form ldaps://host")
    if parts.scheme == "ldapi":
        return Server("ldapi", unquote(parts.netloc) or parts.path)
    port = parts.port
    if not parts.hostname or parts.path not in ("", "/") or parts.username is not None:
        raise ValueError(f"{excerpt(url)} is not of the form {parts.scheme}://host:port")
    return Server(parts.scheme, parts.hostname, port)
