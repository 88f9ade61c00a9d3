"""Calls between queue managers that share transactions (docs/ways.md).

The engine states what to ask whom, and when to ask again; here the calls are made, over HTTP, and
what comes back is handed to the engine. Nothing runs while nothing is asked. A call that fails is
only not answered: the engine asks again.
"""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from typing import Final

import aiohttp

from posthouse.engine.ledger.effects import PeerRequest
from posthouse.protocols.handlers.peers import PEER_CALL
from posthouse.runtime.logs import Log
from posthouse.runtime.loop import Loop
from posthouse.security.peer_calls import Verb

CALL_TIMEOUT_S: Final = 10.0
CALLS_MAX: Final = 256  # under way at a time
CALLS_OF_A_PEER_MAX: Final = 32
REPLY_SIZE_MAX: Final = 1024

_Key = tuple[bytes, Verb, bytes]


class Coordination:
    """Calls other queue managers for the engine: votes, decisions and outcomes of transactions.

    Certificates of peers are checked against the authorities of the system, until `use_tls`.
    """

    def __init__(
        self,
        desk: Loop,
        log: Log,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        self._desk = desk
        self._log = log
        self._timeout_s = timeout_s
        self._tls = ssl.create_default_context()
        self._calls: dict[_Key, asyncio.Task[None]] = {}
        self._of_peer: dict[bytes, int] = {}
        self._silent: set[bytes] = set()  # peers that did not answer last time
        self._http: aiohttp.ClientSession | None = None
        self._stopped = False

    def start(self) -> None:
        """Takes what the engine asks from now on."""
        self._desk.driver.on_asks = self.take

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Use this TLS for calls that are made from now on."""
        self._tls = tls

    def take(self, asks: list[PeerRequest]) -> None:
        """Makes these calls; what is too much, or under way already, is asked again later."""
        for ask in asks:
            key = (ask.peer, ask.verb, ask.transaction)
            busy = self._of_peer.get(ask.peer, 0)
            if self._stopped or key in self._calls:
                continue
            if len(self._calls) >= CALLS_MAX or busy >= CALLS_OF_A_PEER_MAX:
                continue
            self._of_peer[ask.peer] = busy + 1
            call = asyncio.get_running_loop().create_task(self._call(ask))
            self._calls[key] = call
            call.add_done_callback(partial(self._ended, key))

    def _ended(self, key: _Key, call: asyncio.Task[None]) -> None:
        del self._calls[key]
        self._of_peer[key[0]] -= 1
        if not self._of_peer[key[0]]:
            del self._of_peer[key[0]]

    async def _call(self, ask: PeerRequest) -> None:
        text = await self._asked(ask)
        if not self._desk.stopped and self._desk.failure is None:
            self._desk.decide(
                lambda manager: manager.transactions.answered(ask, text), lambda answer: None
            )

    async def _asked(self, ask: PeerRequest) -> str | None:
        """The text of the answer; None where none came that could be one."""
        try:
            return self._heard(ask, await self._post(ask))
        except TimeoutError:
            self._not_heard(ask, "it did not answer in time")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._not_heard(ask, str(error) or type(error).__name__)
        return None

    async def _post(self, ask: PeerRequest) -> str:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._timeout_s),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        headers = {"Authorization": f"Bearer {ask.text}", "Accept-Encoding": "identity"}
        async with self._http.post(
            ask.url + PEER_CALL, headers=headers, ssl=self._tls, allow_redirects=False
        ) as response:
            body = await response.content.read(REPLY_SIZE_MAX)
            if response.status != 200:
                raise ValueError(f"it answered with status {response.status}")
            return body.decode("ascii")

    def _heard(self, ask: PeerRequest, text: str) -> str:
        if ask.peer in self._silent:
            self._silent.discard(ask.peer)
            self._log.info("peer_answers", peer=ask.url)
        return text

    def _not_heard(self, ask: PeerRequest, cause: str) -> None:
        """One line when a peer falls silent, not one for each time."""
        if ask.peer not in self._silent:
            self._silent.add(ask.peer)
            self._log.warning("peer_does_not_answer", peer=ask.url, cause=cause)

    async def stop(self) -> None:
        """Breaks off what is under way; after the next start it is asked again."""
        self._stopped = True
        calls = list(self._calls.values())
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.sleep(0)  # they are counted off
        if self._http is not None:
            await self._http.close()
            self._http = None
