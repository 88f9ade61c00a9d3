"""Slows down guesses of tokens, by the address that they come from; no sockets.

A token is looked up and compared in constant time whatever was shown before, so a right one is
served at once, also from an address that guesses. A wrong one is answered after a pause that grows
with the number of wrong ones of that address; where many wait already the connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from posthouse.engine.accounts.logins import Told, network_of
from posthouse.model.bounded_tables import Bounded
from posthouse.protocols.handlers.refusals import TooManyTokens

FREE: Final = 10  # wrong tokens of an address that are answered at once
SPACING_MS: Final = 200  # between the answers to further ones
WAIT_MAX_MS: Final = 5_000
FORGOTTEN_MS: Final = 60_000  # without a wrong token
NETWORKS_MAX: Final = 10_000
CAUSE: Final = "wrong token"


class _Guesses(NamedTuple):
    """The wrong tokens of one address: how many, and when the next answer is due."""

    wrong: int = 0
    next_ms: int = 0


class WrongTokens:
    """How long the answers to wrong tokens wait."""

    def __init__(self, told: Told, now_ms: Callable[[], int]) -> None:
        self._told = told  # each refusal, for the log
        self._now_ms = now_ms
        self._guesses: Bounded[str, _Guesses] = Bounded(NETWORKS_MAX)

    def pause_ms(self, address: str) -> int:
        """One more wrong token: how long its answer waits; `TooManyTokens` to close instead."""
        network, now = network_of(address), self._now_ms()
        before = self._guesses.pop(network, _Guesses())
        if now - before.next_ms >= FORGOTTEN_MS:
            before = _Guesses()
        count = before.wrong + 1
        due = now if count <= FREE else max(now, before.next_ms) + SPACING_MS
        full = due - now > WAIT_MAX_MS
        self._guesses[network] = _Guesses(count, before.next_ms if full else due)
        if full:
            raise TooManyTokens("too many wrong tokens came from this address", WAIT_MAX_MS)
        self._told("", address, CAUSE)
        return due - now
