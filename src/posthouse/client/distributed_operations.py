"""Operations of transactions in which databases and other queue managers take part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posthouse.client.core import SessionCore
from posthouse.client.operations import Operation, ask
from posthouse.client.requests import Ask, TransactionHandle
from posthouse.model.guids import NULL_GUID
from posthouse.wire.frames import frames
from posthouse.wire.frames.payloads import (
    Begin,
    Begun,
    Confirm,
    Enlist,
    Enlisted,
    Outcome,
    Outcomes,
)

OUTCOMES_MAX = 10_000  # of one request


def confirm(core: SessionCore, identifier: bytes, branches: list[str]) -> Operation[None]:
    """Databases have committed their branches; said twice it does no harm."""
    yield from ask(core, Ask(lambda: Confirm(identifier, branches), frames.DONE))


def outcomes(core: SessionCore, identifiers: list[bytes], resource: str) -> Operation[Outcome]:
    """What became of transactions, and what a database has still to confirm."""
    found = Outcome([])
    for at in range(0, max(len(identifiers), 1), OUTCOMES_MAX):
        part = identifiers[at : at + OUTCOMES_MAX]
        answer = yield from ask(core, Ask(lambda p=part: Outcomes(p, resource), frames.OUTCOME))  # type: ignore[misc]
        assert isinstance(answer, Outcome)
        found.states += answer.states
        found.unconfirmed = answer.unconfirmed
    return found


def enlist(
    core: SessionCore, transaction: TransactionHandle, peer: bytes | str
) -> Operation[bytes]:
    """Another queue manager takes part, by its identifier or as a peer of that name or host.

    The token begins its part there.
    """
    guid, name = (NULL_GUID, peer) if isinstance(peer, str) else (peer, "")
    request = Ask(
        lambda: Enlist(transaction.number, guid, name),
        frames.ENLISTED,
        transaction=transaction,
        repeatable=False,
    )
    enlisted = yield from ask(core, request)
    assert isinstance(enlisted, Enlisted)
    return enlisted.token


def begin_part(core: SessionCore, token: bytes) -> Operation[TransactionHandle]:
    """The part here of a transaction that another queue manager coordinates."""
    request = Ask(lambda: Begin(token=token), frames.BEGUN, repeatable=False)
    begun = yield from ask(core, request)
    assert isinstance(begun, Begun)
    return TransactionHandle(begun.transaction, begun.identifier, request.generation)


class SessionDecisions:
    """`joining.Decisions` over a session; `run` does operations, or gives what is to be awaited."""

    def __init__(self, core: SessionCore, run: Callable[[Operation[Any]], Any]) -> None:
        self._core = core
        self._run = run

    @property
    def guid(self) -> bytes:
        """The identifier of the queue manager."""
        return self._core.guid

    def outcomes(self, identifiers: list[bytes], resource: str) -> Any:
        """Gives `Outcome`."""
        return self._run(outcomes(self._core, identifiers, resource))

    def confirm(self, identifier: bytes, branches: list[str]) -> Any:
        """These branches are committed."""
        return self._run(confirm(self._core, identifier, branches))
