"""Asks other queue managers about a message over their API, with a token for each.

Only those that `[admin] explain_peers` names are asked, all at once, within a time and a size. A
redirect is not followed, and a peer that does not answer is named with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import aiohttp
import msgspec

from posthouse.api.explain import LifeJson, PeerAnswerJson
from posthouse.api.route import PREFIX
from posthouse.model.errors import InvalidParameter
from posthouse.model.text import excerpt

PEERS_MAX: Final = 16
TIMEOUT_S: Final = 5.0
ANSWER_MAX: Final = 1 << 20
TOKEN_MAX: Final = 4096


class ExplainPeer(NamedTuple):
    """A queue manager that is asked: its name here, its URL, the file with a token for it."""

    name: str
    url: str
    token_file: str


def parse_peers(texts: Iterable[str]) -> tuple[ExplainPeer, ...]:
    """The peers of `[admin] explain_peers`; InvalidParameter for what is not one."""
    peers = []
    for text in texts:
        words = text.split()
        if len(words) != 3 or not words[1].startswith(("http://", "https://")):
            raise InvalidParameter(
                f"{excerpt(text)} is not a peer",
                "Write: WAREHOUSE https://warehouse:8816 warehouse.token",
            )
        peers.append(ExplainPeer(words[0], words[1].rstrip("/"), words[2]))
    if len(peers) > PEERS_MAX:
        raise InvalidParameter(f"there are at most {PEERS_MAX} peers")
    return tuple(peers)


class PeerQuestions:
    """Asks peers where a message is."""

    def __init__(self, home: Path, peers: tuple[ExplainPeer, ...]) -> None:
        self._home = home
        self._peers = peers

    async def ask(self, identifier: str) -> list[PeerAnswerJson]:
        """What each peer states of a message."""
        path = f"{PREFIX}/messages/{quote(identifier, safe='')}/explain"
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(
            timeout=timeout, auto_decompress=False, cookie_jar=jar
        ) as http:
            asked = (self._ask(http, peer, path) for peer in self._peers)
            return list(await asyncio.gather(*asked))

    async def _ask(
        self, http: aiohttp.ClientSession, peer: ExplainPeer, path: str
    ) -> PeerAnswerJson:
        try:
            found = await self._answer(http, peer, path)
        except TimeoutError:
            return PeerAnswerJson(peer.name, error="it did not answer in time")
        except (aiohttp.ClientError, OSError, ValueError, msgspec.MsgspecError) as error:
            return PeerAnswerJson(peer.name, error=excerpt(str(error) or type(error).__name__))
        return PeerAnswerJson(
            peer.name, found.answer, found.places, found.departures, found.refusals
        )

    async def _answer(self, http: aiohttp.ClientSession, peer: ExplainPeer, path: str) -> LifeJson:
        with (self._home / peer.token_file).open(encoding="ascii") as file:
            token = file.read(TOKEN_MAX).strip()
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
        async with http.get(peer.url + path, headers=headers, allow_redirects=False) as response:
            body = await response.content.read(ANSWER_MAX)
            while not response.content.at_eof() and len(body) < ANSWER_MAX:
                body += await response.content.read(ANSWER_MAX - len(body))
            if response.status != 200:
                raise ValueError(f"it answered with status {response.status}")
            return msgspec.json.decode(body, type=LifeJson)
