"""`posthouse.aio.connect`: opens a session of the asyncio client."""

from __future__ import annotations

import os
import ssl
from collections.abc import Generator
from types import TracebackType
from typing import Any

from posthouse.client.address import Address, resolve
from posthouse.client.aio import AioChannel
from posthouse.client.aio_manager import QueueManagerClient
from posthouse.client.connect import CONNECT_TIMEOUT_S, RECONNECT_S
from posthouse.model.durations import Seconds, finite_seconds


def connect(
    home: str | os.PathLike[str] | None = None,
    *,
    url: str | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    user: str | None = None,
    password: str | None = None,
    timeout: Seconds = CONNECT_TIMEOUT_S,
    reconnect: Seconds = RECONNECT_S,
    name: str | None = None,
    tls: ssl.SSLContext | None = None,
) -> Connecting:
    """A session, as `posthouse.connect` makes it: for `async with`, or to be awaited."""
    address = resolve(home, url, token, token_file, user=user, password=password)
    waits = finite_seconds(timeout), finite_seconds(reconnect, "reconnect")
    return Connecting(address, name or "", *waits, tls)


class Connecting:
    """A session that is still to begin: `async with connect() as qm`, `qm = await connect()`."""

    def __init__(
        self,
        address: Address,
        client: str,
        timeout: float,
        reconnect: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._address = address
        self._client = client
        self._timeout = timeout
        self._reconnect = reconnect
        self._tls = tls
        self._manager: QueueManagerClient | None = None

    def __await__(self) -> Generator[Any, None, QueueManagerClient]:
        return self._begin().__await__()

    async def _begin(self) -> QueueManagerClient:
        session = os.urandom(16)
        channel = AioChannel(
            self._address, session, self._client, self._timeout, self._reconnect, self._tls
        )
        await channel.connect()
        return QueueManagerClient(channel)

    async def __aenter__(self) -> QueueManagerClient:
        self._manager = await self._begin()
        return self._manager

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._manager is not None:
            await self._manager.close()
