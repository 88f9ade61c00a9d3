"""How commands reach a queue manager: one client session, which also carries its JSON API."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import quote, urlencode

import msgspec
import typer

from posthouse import __version__
from posthouse.api.types import QueueJson
from posthouse.cli.contexts import Target, chosen
from posthouse.client.connect import connect
from posthouse.client.management import PREFIX
from posthouse.client.manager import Queue, QueueManagerClient
from posthouse.model.errors import InvalidParameter, QueueError, RemoteProtocolError

CONNECT_S: Final = 10.0
RECONNECT_S: Final = 10.0
T = TypeVar("T")

Query = Mapping[str, str | int | bool | None]


def trusting(ca_file: Path | None) -> ssl.SSLContext | None:
    """TLS that trusts the certificates of a file; None: those of the system."""
    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise typer.BadParameter(
            f"{ca_file} has no certificate in PEM form; it begins with -----BEGIN CERTIFICATE-----"
        ) from None


def path_of(*parts: str) -> str:
    """A path of the API; names in it may hold anything, but something."""
    if not all(parts):
        raise InvalidParameter(
            "a queue name is empty", "Give the name of a queue: `posthouse queue list` shows them."
        )
    return "/".join([PREFIX, *(quote(part, safe="") for part in parts)])


class Remote:
    """The queue manager that a command is about. It is connected when first asked for something.

    `json` shows whether machines read what the command prints, `is_named` whether the command line
    states which queue manager it is about.
    """

    def __init__(self, given: Target, context: str | None = None, *, json: bool) -> None:
        self.json = json
        self.is_named = context is not None or any(one is not None for one in given)
        self.target = chosen(given, context)
        self._client: QueueManagerClient | None = None
        self._code_pages: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            self._client.close()

    @property
    def is_connected(self) -> bool:
        """Whether the queue manager has been asked for something."""
        return self._client is not None

    @property
    def home(self) -> Path | None:
        """The home that is meant; None: the default one, or the queue manager of a URL."""
        return self.target.home

    @property
    def url(self) -> str | None:
        """The admin endpoint that is meant; None: the queue manager of a home."""
        return self.target.url

    @property
    def token_file(self) -> Path | None:
        """The token file that goes with the URL."""
        return self.target.token_file

    @property
    def client(self) -> QueueManagerClient:
        """The session."""
        if self._client is None:
            self._client = self._connected()
        return self._client

    def _connected(self) -> QueueManagerClient:
        target = self.target
        try:
            return connect(
                target.home,
                url=target.url,
                token_file=target.token_file,
                tls=trusting(target.ca_file),
                timeout=CONNECT_S,
                reconnect=RECONNECT_S,
                name=f"posthouse {__version__} command line",
            )
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    def queue(self, name: str) -> Queue:
        """A queue to send to or read from."""
        return self.client.queue(name)

    def code_page(self, name: str) -> str:
        """The code page of a queue; empty where it has none, or may not be looked at."""
        if name not in self._code_pages:
            self._code_pages[name] = ""
            with suppress(QueueError):
                self._code_pages[name] = self.queue(name).properties().code_page
        return self._code_pages[name]

    def needs_transactions(self, name: str) -> bool | None:
        """Whether a queue here takes only transactions; None: it is not here, or hidden."""
        try:
            queue = self.ask(QueueJson, "GET", path_of("queues", name))
        except QueueError:
            return None
        return None if queue.state else queue.transactional

    def ask(
        self,
        result: type[T],
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: msgspec.Struct | None = None,
        repeatable: bool = False,
    ) -> T:
        """One request of the API; raises the queue manager's refusal.

        `repeatable` is for one that the queue manager does once however often it is asked.
        """
        answer = self.client.call(method, _target(path, query), body, repeatable=repeatable)
        try:
            return msgspec.convert(answer, result)
        except msgspec.ValidationError as error:
            raise RemoteProtocolError(f"the answer is not what it should be: {error}") from None

    def octets(
        self, method: str, path: str, octets: bytes = b"", *, query: Query | None = None
    ) -> bytes:
        """One call of a path that takes or gives bytes as they are."""
        return self.client.call_octets(method, _target(path.removeprefix(PREFIX), query), octets)


def _target(path: str, query: Query | None) -> str:
    given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(given, quote_via=quote)}" if given else path


def _text(value: str | int | bool | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
