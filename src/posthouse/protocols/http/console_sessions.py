"""Sessions of the web console: who has signed in, for how long; no sockets and no clock.

A session has two keys. The cookie is the browser's: scripts cannot read it. The page key is in the
answer to the sign-in and nowhere else: the console keeps it in the storage of its own origin, and
sends it as a header. A request needs both. Browsers send cookies to every port of a host, and
cookies of requests that other pages make; neither gives away the page key. The server keeps digests
of both.

A session is never more than its sign-in: each request asks again what the token or the user may do
now.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from posthouse.engine.accounts.tokens import Tokens
from posthouse.model.errors import AccessDenied
from posthouse.protocols.handlers.refusals import Unauthorized
from posthouse.protocols.http.authentication import ApiIdentity, Headers
from posthouse.protocols.http.passwords import PasswordLogins
from posthouse.security.accounts import ScryptVerifier

COOKIE: Final = "posthouse"
PAGE_KEY: Final = "X-Posthouse-Page-Key"
POLLED: Final = "X-Posthouse-Polled"  # a request of the page's own, not of its user
SESSIONS_MAX: Final = 1_000
SESSIONS_PER_USER: Final = 20
LONGEST_MS: Final = 12 * 3_600_000
KEY_SIZE: Final = 32  # bytes
_KEY: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_PORT: Final = re.compile(r":([0-9]{1,5})$", re.ASCII)
SIGN_IN: Final = "Sign in at /console/."


class _Session:
    """One sign-in; `verifier` is that of the password, where it was one."""

    def __init__(
        self, page: bytes, user: str, token_id: str, verifier: ScryptVerifier | None, now_ms: int
    ) -> None:
        self.page = page
        self.user = user
        self.token_id = token_id
        self.verifier = verifier
        self.opened_ms = now_ms
        self.used_ms = now_ms


class SignedIn(NamedTuple):
    """The two keys of a new session."""

    cookie: str
    page_key: str


class ConsoleSessions:
    """Who has signed in at the console."""

    def __init__(
        self,
        tokens: Tokens,
        passwords: PasswordLogins,
        idle_s: int,
        now_ms: Callable[[], int],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._tokens = tokens
        self._passwords = passwords
        self.idle_s = idle_s
        self._now_ms = now_ms
        self._random_bytes = random_bytes
        self._sessions: dict[bytes, _Session] = {}  # by the digest of the cookie, oldest first

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, identity: ApiIdentity, user: str) -> SignedIn:
        """A session under new keys, whatever the browser had before."""
        self._drop_ended()
        same = [key for key, one in self._sessions.items() if one.token_id == identity.token_id]
        if len(same) >= SESSIONS_PER_USER:
            del self._sessions[same[0]]
        elif len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        keys = SignedIn(self._new_key(), self._new_key())
        is_token = self._tokens.find(identity.token_id) is not None
        self._sessions[_digest(keys.cookie)] = _Session(
            _digest(keys.page_key),
            user,
            identity.token_id,
            None if is_token else self._passwords.verifier(user),
            self._now_ms(),
        )
        return keys

    def identify(self, headers: Headers, *, secure: bool, now_s: int) -> tuple[ApiIdentity, str]:
        """Who sends a request with both keys, and the name they signed in with."""
        key = self._key_of(headers, secure=secure)
        session = self._sessions.get(key)
        if session is None or self._is_over(session):
            self._sessions.pop(key, None)
            raise Unauthorized("this session has ended", SIGN_IN)
        shown = headers.getall(PAGE_KEY, [])
        if len(shown) != 1 or not hmac.compare_digest(_digest(shown[0]), session.page):
            raise Unauthorized("this is not a request of the console", SIGN_IN)
        identity = self._identity(session, now_s)
        if identity is None:
            del self._sessions[key]
            raise Unauthorized("the rights of this session have ended", SIGN_IN)
        if POLLED not in headers:
            session.used_ms = self._now_ms()
        return identity._replace(in_console=True), session.user

    def end(self, headers: Headers, *, secure: bool) -> None:
        """Signs out whose cookie it is, if there is such a session."""
        try:
            self._sessions.pop(self._key_of(headers, secure=secure), None)
        except Unauthorized:
            return

    def end_of(self, token_ids: Iterable[str]) -> None:
        """Tokens were revoked, or their user has changed: their sessions end."""
        ended = set(token_ids)
        for key in [key for key, one in self._sessions.items() if one.token_id in ended]:
            del self._sessions[key]

    def _identity(self, session: _Session, now_s: int) -> ApiIdentity | None:
        """What the token or the user may do now."""
        if session.verifier is not None:
            return self._passwords.still(session.user, session.verifier)
        token = self._tokens.find(session.token_id)
        if token is None or token.expired(now_s):
            return None
        try:
            granted = self._tokens.granted(token)
        except AccessDenied:
            return None
        return ApiIdentity(granted.caller, granted.role, token.id, token.expires_s)

    def _is_over(self, session: _Session) -> bool:
        now = self._now_ms()
        return now - session.used_ms >= self.idle_s * 1000 or now - session.opened_ms >= LONGEST_MS

    def _drop_ended(self) -> None:
        for key in [key for key, one in self._sessions.items() if self._is_over(one)]:
            del self._sessions[key]

    def _new_key(self) -> str:
        return urlsafe_b64encode(self._random_bytes(KEY_SIZE)).rstrip(b"=").decode()

    def _key_of(self, headers: Headers, *, secure: bool) -> bytes:
        """The digest of the session cookie: one, of the form that we give.

        A proxy that ends TLS leaves no sign of it in requests that only look, so there the cookie
        with the prefix counts where it is, and the other one where it is not.
        """
        found = _values(headers, cookie_name(headers, secure=True))
        if not found and not secure:
            found = _values(headers, cookie_name(headers, secure=False))
        if len(found) != 1 or not _KEY.fullmatch(found[0]):
            raise Unauthorized("this needs a token or a session of the console", SIGN_IN)
        return _digest(found[0])


def _values(headers: Headers, name: str) -> list[str]:
    parts = [part.strip() for line in headers.getall("Cookie", []) for part in line.split(";")]
    return [value for given, _, value in (part.partition("=") for part in parts) if given == name]


def cookie_name(headers: Headers, *, secure: bool) -> str:
    """The cookie of this endpoint: browsers share cookies between the ports of a host.

    Over TLS it has the prefix that no page of plain HTTP can set (RFC 6265bis).
    """
    port = _PORT.search(headers.get("Host", ""))
    name = f"{COOKIE}-{port[1]}" if port else COOKIE
    return f"__Host-{name}" if secure else name


def set_cookie(name: str, value: str, *, secure: bool) -> str:
    """The header that gives a browser its cookie; without a value it takes the cookie away."""
    parts = [f"{name}={value}", "Path=/", "HttpOnly", "SameSite=Strict"]
    if secure:
        parts.append("Secure")
    if not value:
        parts.append("Max-Age=0")
    return "; ".join(parts)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
