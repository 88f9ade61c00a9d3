"""Checks Host, Origin and token of a request; no sockets and no clock.

Callers over TCP show a token, for everything but `/healthz` and `/readyz`. Host and Origin are
checked, so that no web page can have a browser speak to a queue manager in its name.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from ipaddress import ip_address
from typing import Final, NamedTuple

from multidict import CIMultiDict, MultiMapping

from posthouse.api.route import PREFIX
from posthouse.engine.accounts.tokens import Tokens
from posthouse.model.errors import AccessDenied, QueueError
from posthouse.model.roles import Role
from posthouse.model.text import excerpt
from posthouse.protocols.handlers.refusals import BadRequest, Unauthorized, WrongToken
from posthouse.security.access import Caller
from posthouse.security.accounts import split_token

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z._-]+))(?::[0-9]{1,5})?", re.ASCII)
_ALWAYS_OURS: Final = frozenset({"localhost", "localhost.localdomain"})
Headers = MultiMapping[str]


class ApiIdentity(NamedTuple):
    """Who asks: the caller, how far they reach, and the token that they showed.

    `in_console`: with a session of the console, so whatever they change is an operator's act.
    """

    caller: Caller
    role: Role
    token_id: str = ""
    expires_s: int | None = None
    in_console: bool = False


class PasswordLogin(NamedTuple):
    """A user name and a password, not checked yet."""

    user: str
    password: str


class Gate:
    """Who may come in. Over the control socket that is the administrator, proved by their uid."""

    def __init__(self, tokens: Tokens, hosts: frozenset[str], local: ApiIdentity | None = None):
        self._tokens = tokens
        self._hosts = frozenset(map(str.lower, hosts)) | _ALWAYS_OURS
        self._local = local

    @property
    def is_local(self) -> bool:
        """Whether it is the gate of the control socket."""
        return self._local is not None

    def check(self, headers: Headers) -> None:
        """Refuses requests for another host, and those that a foreign web page sends."""
        if self._local is not None:
            return
        hosts = headers.getall("Host", [])
        if len(hosts) != 1:
            raise BadRequest("a request has one Host header")
        if not self._is_ours(hosts[0]):
            raise AccessDenied(
                f"this server is not {excerpt(hosts[0])}",
                "Add the name to [admin] hosts, if it is one of this server's.",
            )
        for origin in headers.getall("Origin", []):
            if origin.partition("://")[2].lower() != hosts[0].lower():
                raise AccessDenied(
                    f"pages of {excerpt(origin)} may not use this server",
                    "Call it from a program, or from its own pages.",
                )

    def _is_ours(self, host: str) -> bool:
        """An address cannot be taken over by somebody's name server, so any will do."""
        name = host_name(host)
        try:
            ip_address(name)
        except ValueError:
            return name in self._hosts
        return True

    def login_of(self, headers: Headers) -> PasswordLogin | None:
        """The user name and password of a request that has some; a token is none."""
        values = headers.getall("Authorization", [])
        if self._local is not None or len(values) != 1:
            return None
        scheme, _, credentials = values[0].strip().partition(" ")
        user, colon, password = _decoded(credentials).partition(":")
        if scheme.lower() != "basic" or not colon or split_token(password) is not None:
            return None
        return PasswordLogin(user, password)

    def identify(self, headers: Headers, now_s: int, *, browsed: bool = False) -> ApiIdentity:
        """Who shows their token. Browsers may send it as a password, for what they only look at."""
        if self._local is not None:
            return self._local
        values = headers.getall("Authorization", [])
        if len(values) != 1:
            raise Unauthorized("this needs a token")
        scheme, _, credentials = values[0].strip().partition(" ")
        if scheme.lower() == "bearer":
            text = credentials.strip()
        elif scheme.lower() == "basic" and browsed:
            text = _decoded(credentials).partition(":")[2]
        else:
            raise Unauthorized("this needs a token, as Bearer, or a user's password, as Basic")
        try:
            granted = self._tokens.authenticate(text, now_s)
        except AccessDenied as error:
            raise WrongToken(error.cause, error.remedy) from None
        token = granted.token
        return ApiIdentity(granted.caller, granted.role, token.id, token.expires_s)


def host_name(host: str) -> str:
    """The name in a Host header, without port and brackets; empty where it has another form."""
    found = _HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).rstrip(".").lower()


def _decoded(credentials: str) -> str:
    try:
        return b64decode(credentials.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


# -- the upgrade to a client session


SESSION_LINE: Final = f"GET {PREFIX}/session ".encode()
PROTOCOL: Final = "posthouse/1"
_BREAKS: Final = re.compile(r"[\0\r\n]")
SWITCHING: Final = (
    f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n"
).encode()


class NoUpgrade(QueueError):
    """A session was asked for without asking to change to its protocol."""

    http_status: Final = 426
    default_remedy = f"Send Connection: Upgrade and Upgrade: {PROTOCOL}; client libraries do."


class HeaderTooLarge(QueueError):
    """The header of a request does not fit."""

    http_status: Final = 431
    default_remedy = "Send fewer and shorter headers."


def upgrade_headers(head: bytes) -> CIMultiDict[str]:
    """The headers of a request for a session; `head` ends in front of the empty line."""
    first, *lines = head.decode("latin-1").split("\r\n")
    if first.split(" ")[2:] != ["HTTP/1.1"]:
        raise BadRequest("a session is asked for with HTTP/1.1")
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or _BREAKS.search(value):
            raise BadRequest("a header of the request is malformed")
        headers.add(name, value.strip())
    options = {word.strip().lower() for word in headers.get("Connection", "").split(",")}
    if "upgrade" not in options or headers.get("Upgrade", "").lower() != PROTOCOL:
        raise NoUpgrade("this path changes to the protocol of client sessions")
    return headers
