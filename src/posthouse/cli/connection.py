"""How commands reach a queue manager: one client session, which also carries its JSON API."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import quote, urlencode

import msgspec
import typer

from posthouse import __version__
from posthouse.client.connect import connect
from posthouse.client.management import PREFIX
from posthouse.client.manager import Queue, QueueManagerClient
from posthouse.model.errors import InvalidParameter, QueueError, RemoteProtocolError

CONNECT_S: Final = 10.0
RECONNECT_S: Final = 10.0
T = TypeVar("T")

Query = Mapping[str, str | int | bool | None]


def path_of(*parts: str) -> str:
    """A path of the API; names in it may hold anything, but something."""
    if not all(parts):
        raise InvalidParameter(
            "a queue name is empty", "Give the name of a queue: `posthouse queue list` shows them."
        )
    return "/".join([PREFIX, *(quote(part, safe="") for part in parts)])


class Remote:
    """The queue manager that a command is about. It is connected when first asked for something.

    `json` shows whether machines read what the command prints.
    """

    def __init__(
        self, home: Path | None, url: str | None, token_file: Path | None, *, json: bool
    ) -> None:
        if home is not None and url is not None:
            raise typer.BadParameter("give --home or --url, not both")
        if token_file is not None and url is None:
            raise typer.BadParameter("--token-file goes with --url; the control socket needs none")
        self.json = json
        self._place = (home, url, token_file)
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
    def is_named(self) -> bool:
        """Whether the command line states which queue manager it is about."""
        return any(one is not None for one in self._place)

    @property
    def home(self) -> Path | None:
        """The home on the command line."""
        return self._place[0]

    @property
    def url(self) -> str | None:
        """The address on the command line."""
        return self._place[1]

    @property
    def token_file(self) -> Path | None:
        """The token file on the command line."""
        return self._place[2]

    @property
    def client(self) -> QueueManagerClient:
        """The session."""
        if self._client is None:
            self._client = self._connected()
        return self._client

    def _connected(self) -> QueueManagerClient:
        home, url, token_file = self._place
        try:
            return connect(
                home,
                url=url,
                token_file=token_file,
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

    def ask(
        self,
        result: type[T],
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: msgspec.Struct | None = None,
    ) -> T:
        """One request of the API; raises the queue manager's refusal."""
        answer = self.client.call(method, _target(path, query), body)
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
