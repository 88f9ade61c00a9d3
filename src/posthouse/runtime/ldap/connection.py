"""A connection to a directory server: server selection, encryption, login.

Needs the extra `ldap`. Calls block, with a limit of time each; one thread makes them.
"""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import dns.exception
import dns.resolver
import ldap3
from ldap3.core.exceptions import LDAPExceptionError

from posthouse.directory.authority import AuthorityAway
from posthouse.directory.ldap.names import BadEntry, Dn
from posthouse.directory.ldap.settings import LdapSettings, Server
from posthouse.directory.ldap.values import VALUES_MAX, LdapEntry, Values
from posthouse.runtime.ldap.kerberos import KerberosConnection
from posthouse.runtime.ldap.socket import ANSWER_SIZE_MAX, TimedSocket

_NAMES: Final = ("_ldap._tcp.dc._msdcs.{}", "_ldap._tcp.{}")
_TIME_LIMIT_S: Final = 10.0


def looked_up(domain: str, resolver: dns.resolver.Resolver | None = None) -> list[Server]:
    """The LDAP servers of a domain in the order in which to try them; empty if none is found.

    The certificate of a server proves its name, and DNS proves nothing: a forged answer could name
    an attacker's server. So the name has to be one of the domain.
    """
    if not domain:
        return []
    asked = resolver or dns.resolver.Resolver()
    for name in _NAMES:
        try:
            answer = asked.resolve(name.format(domain), "SRV", lifetime=_TIME_LIMIT_S)
        except dns.exception.DNSException:
            continue
        found = [_server(record) for record in sorted(answer, key=_turn)]
        return [server for server in found if _is_within(server.host, domain)]
    return []


def _is_within(host: str, domain: str) -> bool:
    wanted = domain.strip(".").lower()
    return host == wanted or host.endswith(f".{wanted}")


def _turn(record: Any) -> tuple[int, float]:
    """Lower priorities first; among equals by chance, heavier ones more often early."""
    return record.priority, random.random() ** (1 / (record.weight or 0.01)) * -1


def _server(record: Any) -> Server:
    return Server("ldap", record.target.to_text(omit_final_dot=True).lower(), record.port)


SUCCESS: Final = 0
NO_SUCH_ATTRIBUTE: Final = 16
NO_SUCH_OBJECT: Final = 32
ALREADY_EXISTS: Final = 68
CONFLICTS: Final = frozenset({NO_SUCH_ATTRIBUTE, 20, 122})  # value exists, assertion failed
VERSION: Final = "entryCSN"
"""What OpenLDAP gives every version of an entry."""
_COMPARED: Final = frozenset({"member", "mSMQDigests", "mSMQSignCertificates"})
_AWAY: Final = frozenset({51, 52, 80})  # busy, unavailable, other
_PASSWORD_SIZE_MAX: Final = 4096
_EMPTY_PAGES_MAX: Final = 1000
_FAREWELL_S: Final = 1.0
_ENTRY_SIZE: Final = 512 << 10
"""This many bytes an entry may have where all of a page are as large."""
_ANY: Final = "(objectClass=*)"
_RANGE: Final = ";range="
BASE: Final = ldap3.BASE
SUBTREE: Final = ldap3.SUBTREE


class LdapRefusal(Exception):
    """The server answered that it did not do as asked."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Tls(ldap3.Tls):  # type: ignore[misc]
    """TLS as Python checks it: chain and host name, before a byte is said."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        super().__init__(validate=ssl.CERT_REQUIRED)
        self._context = context
        self._host = host

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        """Replaces the socket by an encrypted one."""
        plain = getattr(connection.socket, "plain", connection.socket)
        connection.socket = TimedSocket(
            self._context.wrap_socket(
                plain, server_hostname=self._host, do_handshake_on_connect=True
            )
        )


class LdapConnection:
    """One connection at a time, to the first server that answers; opened when it is needed."""

    def __init__(
        self,
        settings: LdapSettings,
        look_up: Callable[[str], list[Server]] = looked_up,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.server: Server | None = None
        self.openings = 0
        """How often a connection was opened; nothing is known of a new one yet."""
        self._look_up = look_up
        self._clock = clock
        self._servers: list[Server] = []
        self._open: Any = None

    def close(self) -> None:
        """Lets the connection go; the next call opens another."""
        connection, self._open = self._open, None
        if connection is not None:
            _let_go(connection)

    def opened(self) -> Server:
        """Makes sure that there is a connection, and returns its server."""
        if self._open is None or self._open.closed:
            self._reopen()
        assert self.server is not None
        return self.server

    # -- calls

    def search(
        self,
        base: Dn | str,
        filter_text: str,
        attributes: Sequence[str],
        scope: str = SUBTREE,
        controls: Sequence[Any] = (),
    ) -> Iterator[LdapEntry]:
        """Entries in pages; none where the base itself is not there.

        A listing that takes longer than until the next one is none, nor are pages without end.
        """
        cookie: Any = None
        until, empty, size = self._clock() + self._listing_s, 0, 0
        while True:
            result, response = self._call(
                "search",
                str(base),
                filter_text,
                search_scope=scope,
                dereference_aliases=ldap3.DEREF_NEVER,
                attributes=list(attributes),
                time_limit=self.settings.time_limit_s,
                paged_size=None if scope == BASE else self.settings.page_size,
                paged_cookie=cookie,
                controls=list(controls) or None,
            )
            if result["result"] == NO_SUCH_OBJECT and cookie is None:
                return  # later on it would be half a listing
            self._check(result)
            size += self._open.socket.taken
            if size > self.settings.listing_max:
                raise self._endless(f"has more than {self.settings.listing_max >> 20} MiB")
            for found in filter(None, map(_entry, response or ())):
                yield self._completed(found, until)
            pages = (result.get("controls") or {}).get("1.2.840.113556.1.4.319", {})
            cookie = pages.get("value", {}).get("cookie")
            if not cookie:
                return
            empty = 0 if response else empty + 1
            if self._clock() > until or empty > _EMPTY_PAGES_MAX:
                raise self._endless(f"did not end within {self._listing_s} seconds")

    @property
    def _listing_s(self) -> int:
        return max(self.settings.whole_s, self.settings.time_limit_s)

    def _endless(self, words: str) -> AuthorityAway:
        self.close()
        return AuthorityAway(f"{self.server}: a listing {words}")

    def _completed(self, entry: LdapEntry, until: float) -> LdapEntry:
        """The entry with all values of attributes that a domain sends in ranges, [MS-ADTS]
        3.1.1.3.1.3.3.
        """
        values = {name: list(given) for name, given in entry.attributes.items()}
        for name in [name for name in values if _RANGE in name]:
            attribute, _, span = name.partition(_RANGE)
            whole = values.setdefault(attribute, [])
            portion: Sequence[bytes] = values.pop(name)
            while portion and len(whole) <= VALUES_MAX:
                whole += portion
                if self._clock() > until:
                    raise self._endless(f"did not end within {self._listing_s} seconds")
                span, portion = self._portion(entry.dn, attribute, span.rpartition("-")[2])
        return entry._replace(attributes=values)

    def _portion(self, dn: Dn, attribute: str, last: str) -> tuple[str, Sequence[bytes]]:
        """The values of an attribute after the last one that is known."""
        if not last.isdecimal():
            return "", ()
        wanted = f"{attribute}{_RANGE}{int(last) + 1}-*"
        result, response = self._call("search", str(dn), _ANY, BASE, attributes=[wanted])
        self._check(result)
        for entry in filter(None, map(_entry, response or ())):
            for name, values in entry.attributes.items():
                if name.startswith(f"{attribute}{_RANGE}"):
                    return name, values
        raise AuthorityAway(f"{self.server}: {attribute} of {dn} breaks off after value {last}")

    def get(self, dn: Dn | str, attributes: Sequence[str]) -> LdapEntry | None:
        """One entry by its place."""
        return next(self.search(dn, _ANY, attributes, BASE), None)

    def add(self, dn: Dn, classes: Sequence[str], attributes: Mapping[str, Values]) -> None:
        """A new entry."""
        given = {name: values for name, values in attributes.items() if values}
        self._check(self._call("add", str(dn), list(classes), given)[0])

    def modify(
        self, dn: Dn, attributes: Mapping[str, Values], before: LdapEntry | None = None
    ) -> None:
        """Replaces the values of attributes; an attribute without values is removed.

        Refused as one of `CONFLICTS` if the entry has changed since `before`.
        """
        changes = {
            name: [(ldap3.MODIFY_REPLACE, list(values))] for name, values in attributes.items()
        }
        controls = None
        if before is not None and before.has(VERSION):
            controls = [_unchanged(before.octets(VERSION))]
        elif before is not None:
            for name in _COMPARED.intersection(attributes):
                changes[name] = _swapped(before.values(name), attributes[name]) or changes[name]
        if changes:
            self._check(self._call("modify", str(dn), changes, controls=controls)[0])

    def delete(self, dn: Dn) -> None:
        """Removes an entry that has none below it; one that is gone already is just as well."""
        result = self._call("delete", str(dn))[0]
        if result["result"] != NO_SUCH_OBJECT:
            self._check(result)

    def rename(self, dn: Dn, name: str) -> Dn:
        """Gives an entry another common name; gives its new place."""
        renamed = dn.parent.child(name)
        first = str(Dn(renamed.parts[:1]))
        self._check(self._call("modify_dn", str(dn), first)[0])
        return renamed

    # -- how

    def _call(self, method: str, *arguments: Any, **options: Any) -> tuple[dict[str, Any], Any]:
        """One exchange; a connection that turns out to be dead is opened once more."""
        is_last = self._open is None or self._open.closed or bool(options.get("paged_cookie"))
        while True:
            self.opened()
            timed = self._open.socket
            timed.begin(self._answer_s, self._answer_size_max)
            try:
                return self._exchange(method, arguments, options)
            except Exception as error:  # the library raises anything on malformed answers
                self.close()
                if is_last or timed.expired:
                    raise AuthorityAway(f"{self.server}: {_reason(error)}") from None
            is_last = True

    def _exchange(self, method: str, arguments: Any, options: Any) -> tuple[dict[str, Any], Any]:
        _, result, response, _ = getattr(self._open, method)(*arguments, **options)
        return result, response

    @property
    def _answer_s(self) -> int:
        return self.settings.time_limit_s + self.settings.connect_s

    @property
    def _answer_size_max(self) -> int:
        return max(ANSWER_SIZE_MAX, self.settings.page_size * _ENTRY_SIZE)

    def _check(self, result: Mapping[str, Any]) -> None:
        code = result["result"]
        if code == SUCCESS:
            return
        text = f"{self.server}: {result['description']} {result.get('message') or ''}".strip()
        if code in _AWAY:
            raise AuthorityAway(text)
        raise LdapRefusal(code, text)

    def _reopen(self) -> None:
        reasons = []
        for server in self._candidates():
            try:
                self._open = self._connected(server)
            except Exception as error:  # of the library, of Kerberos: the next one may do
                reasons.append(f"{server}: {_reason(error)}")
            else:
                self.server = server
                self.openings += 1
                return
        raise AuthorityAway("; ".join(reasons) or "there is no directory server to ask")

    def _candidates(self) -> list[Server]:
        """The one that answered last first: servers learn of changes at different times."""
        if self.settings.url:
            self._servers = self.settings.servers
        else:
            found = self._look_up(self.settings.domain)
            self._servers = found or self._servers
        return sorted(self._servers, key=lambda server: server != self.server)

    def _connected(self, server: Server) -> Any:
        settings = self.settings
        target = ldap3.Server(
            _address(server),
            use_ssl=server.scheme == "ldaps",
            tls=None if server.scheme == "ldapi" else _Tls(self._context(), server.host),
            get_info=ldap3.NONE,
            connect_timeout=settings.connect_s,
        )
        connection = self._connection(
            target,
            **self._login(server),
            client_strategy=ldap3.SAFE_SYNC,
            auto_referrals=False,
            auto_range=False,
            check_names=False,
            auto_escape=False,
            auto_encode=False,
            return_empty_attributes=False,
            receive_timeout=self._answer_s,
        )
        try:
            connection.open(read_server_info=False)
            if server.scheme != "ldaps":
                connection.socket = TimedSocket(connection.socket)
            if server.scheme == "ldap" and settings.start_tls:
                connection.socket.begin(self._answer_s)
                connection.start_tls(read_server_info=False)
                if not connection.tls_started:
                    raise AuthorityAway("TLS was not begun")
            self._bind(connection)
        except BaseException:
            _let_go(connection)
            raise
        return connection

    def _connection(self, target: ldap3.Server, **options: Any) -> Any:
        if self.settings.authentication == "gssapi":
            return KerberosConnection(target, self.settings, **options)
        return ldap3.Connection(target, **options)

    def _bind(self, connection: Any) -> None:
        connection.socket.begin(self._answer_s)
        _, result, _, _ = connection.bind(read_server_info=False)
        if result["result"] != SUCCESS:
            said = f"{result['description']} {result.get('message') or ''}".strip()
            raise AuthorityAway(f"the login as {self.settings.user or 'anonymous'} failed: {said}")

    def _login(self, server: Server) -> dict[str, Any]:
        settings, kind = self.settings, self.settings.authentication
        if kind == "anonymous":
            return {"authentication": ldap3.ANONYMOUS}
        encrypted = server.scheme != "ldap" or settings.start_tls
        if kind in ("simple", "plain") and not (encrypted or server.is_local):
            raise AuthorityAway("a password is not sent in clear text; set start_tls")
        if kind == "simple":
            return {
                "authentication": ldap3.SIMPLE,
                "user": settings.user,
                "password": read_password(settings.password_file),
            }
        sasl: dict[str, tuple[str, Callable[[], Any]]] = {
            "plain": ("PLAIN", lambda: (None, settings.user, self._password())),
            "digest": (
                ldap3.DIGEST_MD5,
                lambda: (None, settings.user, self._password(), None),
            ),
            "external": (ldap3.EXTERNAL, lambda: ""),
            "gssapi": (ldap3.GSSAPI, lambda: None),
        }
        mechanism, credentials = sasl[kind]
        return {
            "authentication": ldap3.SASL,
            "sasl_mechanism": mechanism,
            "sasl_credentials": credentials(),
        }

    def _password(self) -> str:
        return read_password(self.settings.password_file)

    def _context(self) -> ssl.SSLContext:
        settings = self.settings
        context = ssl.create_default_context(cafile=settings.ca_file or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if settings.certificate_file:
            # Without a password for it an encrypted key would be asked for at the terminal.
            context.load_cert_chain(
                settings.certificate_file, settings.key_file or None, password=""
            )
        return context


def _unchanged(version: bytes) -> tuple[str, bool, bytes]:
    """The control of RFC 4528: the change is made to this version of the entry only."""
    name = VERSION.encode()
    equality = bytes((4, len(name))) + name + bytes((4, len(version))) + version
    return "1.3.6.1.1.12", True, bytes((0xA3, len(equality))) + equality


def _swapped(before: Sequence[bytes], after: Sequence[bytes]) -> list[tuple[str, list[bytes]]]:
    """A change that deletes the old values, for domains, which lack the control of RFC 4528."""
    gone = [value for value in before if value not in after]
    new = [value for value in after if value not in before]
    deleted = [(ldap3.MODIFY_DELETE, gone)] if gone else []
    return deleted + ([(ldap3.MODIFY_ADD, new)] if new else [])


def _let_go(connection: Any) -> None:
    """Ends a connection, whatever state it is in."""
    with suppress(Exception):
        connection.socket.begin(_FAREWELL_S)
        connection.unbind()
    with suppress(Exception):
        connection.strategy.close()


def read_password(path: str) -> str:
    """The first line of a file that no other user may read."""
    file = Path(path)
    try:
        if file.stat().st_mode & 0o077:
            raise AuthorityAway(f"other users can read {path}; run: chmod 600 {path}")
        text = file.read_bytes()[:_PASSWORD_SIZE_MAX].decode()
    except (OSError, UnicodeDecodeError) as error:
        raise AuthorityAway(f"the password cannot be read: {error}") from None
    password = (text.splitlines() or [""])[0]
    if not password:  # an empty one would succeed as an anonymous login
        raise AuthorityAway(f"there is no password in {path}")
    return password


def _address(server: Server) -> str:
    if server.scheme == "ldapi":
        return f"ldapi://{server.host}"
    return str(server)


def _entry(item: Mapping[str, Any]) -> LdapEntry | None:
    """An entry of an answer; references to other servers are none, nor are damaged names."""
    if item.get("type") != "searchResEntry":
        return None
    try:
        dn = Dn.parse(item["dn"])
    except BadEntry:
        return None
    return LdapEntry(dn, {name.lower(): values for name, values in item["raw_attributes"].items()})


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())[:500] or type(error).__name__
    if isinstance(error, AuthorityAway | OSError | LDAPExceptionError):
        return text
    return f"its answer is not LDAP ({type(error).__name__}: {text})"
