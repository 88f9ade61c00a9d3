"""HTTP answers: refusals, those of the API, and those of health, metrics and the plain page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from posthouse.api.encoding import encode_json
from posthouse.api.route import PREFIX
from posthouse.engine.machine.health import obstacles
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import AccessDenied, QueueError
from posthouse.model.properties import QueueManagerState
from posthouse.model.roles import Role
from posthouse.model.text import excerpt
from posthouse.protocols.handlers import openapi
from posthouse.protocols.handlers.dispatch import match, media_of
from posthouse.protocols.handlers.refusals import (
    MethodNotAllowed,
    NotJson,
    TooManyLogins,
    TooManyTokens,
    Unauthorized,
    error_json,
    status_of,
)
from posthouse.protocols.http import page as plain_page
from posthouse.protocols.http.authentication import ApiIdentity, Headers
from posthouse.protocols.metrics import exposition as metrics

JSON: Final = "application/json"
OPENAPI: Final = f"{PREFIX}/openapi.json"
HEALTH: Final = "/healthz"
READINESS: Final = "/readyz"
METRICS: Final = "/metrics"
PAGE: Final = "/"
_BROWSED: Final = frozenset({PAGE, METRICS, OPENAPI})


class HttpAnswer(NamedTuple):
    """An answer, ready to be written."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = MappingProxyType({})
    last: bool = False  # the connection is closed after it


def refusal(error: QueueError, *, browsed: bool = False) -> HttpAnswer:
    """The answer to a refused request."""
    status, headers = status_of(error), dict[str, str]()
    if isinstance(error, Unauthorized):
        scheme = "Basic" if browsed else "Bearer"
        headers["WWW-Authenticate"] = f'{scheme} realm="posthouse"'
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(error.allowed)
    if isinstance(error, TooManyLogins):
        headers["Retry-After"] = str(error.wait_s)
    last = isinstance(error, TooManyTokens)
    return HttpAnswer(status, encode_json(error_json(error)), JSON, headers, last)


def api_answer(
    status: int, body: bytes, method: str, path: str, more: Mapping[str, str]
) -> HttpAnswer:
    """What the API answered, with the headers that go with it."""
    headers = dict(more) if status < 300 else {}
    if status == MethodNotAllowed.http_status:
        try:
            match(method, path)
        except MethodNotAllowed as error:
            headers["Allow"] = ", ".join(error.allowed)
    kind = media_of(method, path)[1] if status < 300 else JSON
    return HttpAnswer(status, body, kind, headers)


def check_content(headers: Headers, wanted: str) -> None:
    """Bodies are what a path takes, in plain bytes: nothing that unfolds to more than was sent."""
    kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != wanted:
        needed = "JSON" if wanted == JSON else wanted
        raise NotJson(
            f"the body is {excerpt(kind) if kind else 'of no type'}, and {needed} is needed",
            f"Send the header Content-Type: {wanted}.",
        )
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise NotJson("the body is compressed", "Send it as it is.")


class Pages:
    """What is there beside the API: health, metrics, the document, the plain page."""

    def __init__(
        self,
        manager: QueueManager,
        shown: metrics.Metrics,
        version: str,
        healthy: Callable[[], bool] = lambda: True,
    ) -> None:
        self._manager = manager
        self._metrics = shown
        self._version = version
        self._healthy = healthy
        self._document = openapi.encoded(version)

    def is_browsed(self, path: str) -> bool:
        """Whether it is one of the paths that a browser opens."""
        return path in _BROWSED

    def health(self, method: str) -> HttpAnswer:
        """Whether the queue manager works; for anybody."""
        _check_method(HEALTH, method)
        ready = self._manager.machine.state is QueueManagerState.READY and self._healthy()
        return HttpAnswer(200 if ready else 503, b"ok\n" if ready else b"not ready\n", "text/plain")

    def readiness(self, method: str, *, told: bool) -> HttpAnswer:
        """Whether messages are taken; for anybody, the reasons only for who has shown a token."""
        _check_method(READINESS, method)
        why = obstacles(self._manager)
        if not self._healthy():
            why = ["the store cannot be written"]
        if not why:
            return HttpAnswer(200, b"ready\n", "text/plain")
        words = f"not ready: {'; '.join(why)}\n" if told else "not ready\n"
        return HttpAnswer(503, words.encode(), "text/plain")

    @property
    def healthy(self) -> bool:
        """Whether the engine can still be asked."""
        return self._healthy()

    def show(self, path: str, method: str, identity: ApiIdentity) -> HttpAnswer:
        """One of the paths that a browser opens."""
        _check_method(path, method)
        if not identity.role.includes(Role.LOOK):
            raise AccessDenied(
                f"the role {identity.role.value} gets {METRICS} only",
                "Use a token of role look, or of a role that includes it.",
            )
        if path == OPENAPI:
            return HttpAnswer(200, self._document)
        text = plain_page.page(self._manager, identity.caller, self._version)
        return HttpAnswer(200, text.encode(), "text/html; charset=utf-8", plain_page.HEADERS)

    def scrape(self, method: str, identity: ApiIdentity) -> Iterator[bytes]:
        """The metrics, piece by piece."""
        _check_method(METRICS, method)
        if not identity.caller.is_administrator or identity.caller.scopes is not None:
            raise AccessDenied("the metrics show all queues, so only administrators may read them")
        return self._metrics.pieces()


def _check_method(path: str, method: str) -> None:
    if method not in ("GET", "HEAD"):
        raise MethodNotAllowed(f"{path} does not take {excerpt(method)}", ("GET", "HEAD"))


def plain_response(answer: HttpAnswer, reason: str) -> bytes:
    """An answer as bytes, after which the connection closes."""
    head = [
        f"HTTP/1.1 {answer.status} {reason}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in answer.headers.items()),
    ]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + answer.body
