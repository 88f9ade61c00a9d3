"""The paths of the web console: its files, sign-in, session and sign-out (docs/console.md)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from posthouse.api.console import SessionJson, SignInBody
from posthouse.api.encoding import encode_json
from posthouse.model.errors import AccessDenied
from posthouse.model.roles import Role
from posthouse.protocols.handlers.refusals import BadRequest, MethodNotAllowed
from posthouse.protocols.http.answers import JSON, HttpAnswer
from posthouse.protocols.http.authentication import ApiIdentity, Headers
from posthouse.protocols.http.console_assets import CONSOLE, ConsoleAssets
from posthouse.protocols.http.console_assets import HEADERS as ASSET_HEADERS
from posthouse.protocols.http.console_sessions import ConsoleSessions, cookie_name, set_cookie
from posthouse.protocols.http.passwords import PasswordLogins

SESSION: Final = CONSOLE + "session"
SIGN_IN_MAX: Final = 4_096  # bytes of a sign-in
METHODS: Final = ("DELETE", "GET", "POST")
_DECODER: Final = msgspec.json.Decoder(SignInBody)
_HTML: Final = re.compile(r"(^|[ ,])text/html([ ,;]|$)")


class Console:
    """What the admin endpoint serves below `/console/`."""

    def __init__(
        self, sessions: ConsoleSessions, passwords: PasswordLogins, name: str, version: str
    ) -> None:
        self.sessions = sessions
        self.passwords = passwords
        self._assets = ConsoleAssets()
        self._name = name
        self._version = version

    def is_path(self, path: str) -> bool:
        """Whether it is one of the paths of the console."""
        return path.startswith(CONSOLE) or path == CONSOLE[:-1]

    def leads(self, path: str, headers: Headers) -> bool:
        """Whether a browser that opens this address is to come here."""
        browsed = _HTML.search(headers.get("Accept", "")) is not None
        return path == "/" and browsed and "Authorization" not in headers

    def show(self, path: str, method: str) -> HttpAnswer:
        """A file of the console."""
        if not path.startswith(CONSOLE):
            return led_there()
        return self._assets.answer(path, method)

    def check(self, headers: Headers, method: str) -> None:
        """Refuses what pages of other origins send, those on other ports of the host included."""
        if method not in METHODS:
            raise MethodNotAllowed("a session does not take this method", METHODS)
        check_origin(headers, method)

    def read(self, body: bytes) -> SignInBody:
        """The body of a sign-in: a token, or a user and a password."""
        try:
            given = _DECODER.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise BadRequest("a sign-in has a token, or user and password") from None
        if bool(given.token) == bool(given.user or given.password):
            raise BadRequest("a sign-in has a token, or user and password")
        return given

    def signed_in(self, identity: ApiIdentity, headers: Headers, *, secure: bool) -> HttpAnswer:
        """The answer to a sign-in: the page key in it, the cookie beside it."""
        if not identity.role.includes(Role.LOOK):
            raise AccessDenied(
                f"the role {identity.role.value} has no pages here",
                "Make a token of role look or above: `posthouse token create --role look > FILE`.",
            )
        self.sessions.end(headers, secure=secure)
        user = identity.caller.name
        keys = self.sessions.open(identity, user)
        cookie = set_cookie(cookie_name(headers, secure=secure), keys.cookie, secure=secure)
        return self._answer(identity, user, keys.page_key, {"Set-Cookie": cookie})

    def session(self, headers: Headers, now_s: int, *, secure: bool) -> HttpAnswer:
        """Shows the session of a request."""
        identity, user = self.sessions.identify(headers, secure=secure, now_s=now_s)
        return self._answer(identity, user)

    def signed_out(self, headers: Headers, now_s: int, *, secure: bool) -> HttpAnswer:
        """Ends the session of a request, and takes its cookie away."""
        self.sessions.identify(headers, secure=secure, now_s=now_s)
        self.sessions.end(headers, secure=secure)
        cookie = set_cookie(cookie_name(headers, secure=secure), "", secure=secure)
        headers_ = {**ASSET_HEADERS, "Set-Cookie": cookie, "Clear-Site-Data": '"cache"'}
        return HttpAnswer(200, encode_json({"done": True}), JSON, headers_)

    def _answer(
        self,
        identity: ApiIdentity,
        user: str,
        page_key: str = "",
        headers: dict[str, str] | None = None,
    ) -> HttpAnswer:
        shown = SessionJson(
            name=self._name,
            version=self._version,
            user=user,
            role=identity.role.value,
            administrator=identity.caller.is_administrator and identity.caller.scopes is None,
            idle_s=self.sessions.idle_s,
            page_key=page_key,
        )
        return HttpAnswer(200, encode_json(shown), JSON, {**ASSET_HEADERS, **(headers or {})})


def led_there() -> HttpAnswer:
    """The answer that leads a browser to the console."""
    return HttpAnswer(303, b"", "text/plain", {**ASSET_HEADERS, "Location": CONSOLE})


def check_origin(headers: Headers, method: str) -> None:
    """Requests with a cookie come from the console's own pages; the gate has looked at Host.

    A browser states where a request comes from: in Sec-Fetch-Site, and, where it changes something,
    in Origin, which the gate has compared with Host.
    """
    for site in headers.getall("Sec-Fetch-Site", []):
        if site != "same-origin":
            raise AccessDenied("pages of other origins may not use the console's session")
    if method not in ("GET", "HEAD") and "Origin" not in headers:
        raise AccessDenied(
            "a request of the console needs an Origin header", "Use a token in programs."
        )
