"""One run of a pull: hands messages to the queue manager here, which records them.

Every request may be asked again: what was taken before is known there. So where the queue manager
is away for a while it is asked until it answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from posthouse.api.pulls import (
    OfferBody,
    OfferJson,
    PullBeginBody,
    PulledListJson,
    PullEndBody,
    PullJson,
    PullListJson,
    TakenJson,
)
from posthouse.api.types import LOOKUP_ID_MAX, ErrorBody
from posthouse.client.errors import ClientConnectionError, refused
from posthouse.client.manager import QueueManagerClient
from posthouse.client.message import Message
from posthouse.model.errors import QueueError, RemoteProtocolError, SharingViolation
from posthouse.model.guids import format_guid

PAUSE_S: Final = 0.1
ENDING_S: Final = 3.0
"""How long the end of a run that has just been killed is waited for."""
T = TypeVar("T", bound=msgspec.Struct)


class PullSource(NamedTuple):
    """A queue elsewhere: the GUID of its queue manager, its name there, and the host."""

    guid: bytes
    name: str
    host: str


def refusal_of(error: ErrorBody) -> QueueError:
    """The exception that a refusal in an answer stands for."""
    return refused(error.code, error.cause, error.remedy)


class PullRun:
    """One run: begun, offered messages, ended."""

    def __init__(
        self,
        manager: QueueManagerClient,
        source: PullSource,
        target: str,
        patience_s: float,
        *,
        keep: bool = False,
    ) -> None:
        self.source = source
        self.target = target
        self._manager = manager
        self._patience_s = patience_s
        self._keep = keep  # at the source
        self._pull: PullJson | None = None

    @property
    def pull(self) -> PullJson:
        """What was known of the pull when this run began."""
        assert self._pull is not None, "the run has not begun"
        return self._pull

    def begin(self) -> PullJson:
        """Begins; raises `SharingViolation` where another run goes on."""
        guid, name, host = self.source
        body = PullBeginBody(
            guid=format_guid(guid), source=name, host=host, queue=self.target, keep=self._keep
        )
        until = time.monotonic() + ENDING_S
        while True:
            try:
                self._pull = self._ask(PullJson, "POST", "/pulls", body)
                return self._pull
            except SharingViolation:
                if time.monotonic() > until:
                    raise
                time.sleep(PAUSE_S)

    def offer(self, messages: Sequence[Message]) -> TakenJson:
        """Messages of the source; when this returns those that were taken are durable."""
        body = OfferBody(epoch=self.pull.epoch, messages=[_offered(one) for one in messages])
        return self._ask(TakenJson, "POST", f"/pulls/{self.pull.id}/messages", body)

    def end(self) -> None:
        """Lets another run begin."""
        pull, self._pull = self._pull, None
        if pull is not None:
            self._manager.call("POST", f"/pulls/{pull.id}/end", PullEndBody(epoch=pull.epoch))

    def known(self) -> Iterator[tuple[int, int]]:
        """Lookup identifier and digest of each message that was taken."""
        return ((one.lookup_id, one.digest) for one in self._pulled())

    def _pulled(self) -> Iterator[PulledMessage]:
        return pulled_messages(self._manager, self.pull.id)

    def _ask(
        self, result: type[T], method: str, path: str, body: msgspec.Struct | None = None
    ) -> T:
        return patiently(lambda: ask(self._manager, result, method, path, body), self._patience_s)


def patiently(call: Callable[[], T], patience_s: float) -> T:
    """Asks until there is an answer, or none came for this long."""
    until = None
    while True:
        try:
            return call()
        except ClientConnectionError:
            until = until or time.monotonic() + patience_s
            if time.monotonic() > until:
                raise
            time.sleep(PAUSE_S)


def ask(
    manager: QueueManagerClient,
    result: type[T],
    method: str,
    path: str,
    body: msgspec.Struct | None = None,
) -> T:
    """One request of the API."""
    return msgspec.convert(manager.call(method, path, body), result)


def list_pulls(manager: QueueManagerClient) -> list[PullJson]:
    """Every pull that the queue manager keeps."""
    return ask(manager, PullListJson, "GET", "/pulls").pulls


class PulledMessage(NamedTuple):
    """A message that a pull has taken, as it is known at the source."""

    lookup_id: int
    digest: int
    copied: bool  # and left at the source


def pulled_messages(manager: QueueManagerClient, number: int) -> Iterator[PulledMessage]:
    """Each message that a pull has taken."""
    after: int | None = 0
    while after is not None:
        page = ask(manager, PulledListJson, "GET", f"/pulls/{number}/messages?after={after}")
        for one in page.messages:
            yield PulledMessage(one.lookup_id, int(one.digest, 16), one.copied)
        after = page.next


def _offered(message: Message) -> OfferJson:
    if not 0 < message.lookup_id <= LOOKUP_ID_MAX:
        raise RemoteProtocolError(f"the source gives a message the lookup id {message.lookup_id}")
    return OfferJson(
        lookup_id=message.lookup_id,
        packet=message.packet,
        arrived=int(message.arrived_time.timestamp()),
        class_code=message.message_class,
    )
