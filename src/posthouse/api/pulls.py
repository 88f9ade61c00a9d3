"""The types of pulls: messages that are taken over from queues of other machines."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from posthouse.api.types import BASE64, LOOKUP_ID_MAX, U32_MAX, ErrorBody, Guid, Json, Name, Time

JOURNAL_ENDING = ";journal"  # of the name of a source
OFFERS_MAX = 1_000
ENTRIES_MAX = 10_000

PullNumber = Annotated[int, Meta(ge=1, le=U32_MAX)]
PullEpoch = Annotated[int, Meta(ge=0, le=U32_MAX)]
# The size of a packet is bounded by its codec, and that of all of them by the limit of a request.
PacketBytes = Annotated[bytes, Meta(extra_json_schema={"pattern": BASE64})]
SourceLookupId = Annotated[int, Meta(ge=0, le=LOOKUP_ID_MAX)]


class PullBeginBody(Json):
    """The queue elsewhere: the GUID of its queue manager, and its name there; the queue here.

    With `keep` nothing is ended there. A run without it is refused after one with it.
    """

    guid: Guid
    source: Annotated[str, Meta(min_length=1, max_length=512)]
    queue: Name
    host: Annotated[str, Meta(max_length=255)] = ""
    keep: bool = False


class PullParams(Json):
    """A pull by its number."""

    id: PullNumber


class PullJson(Json):
    """A pull: where its messages come from and go to, how many it has taken.

    `copies` of them were left at the source.
    """

    id: int
    guid: str
    source: str
    host: str
    queue: str
    epoch: int
    running: bool
    messages: int
    bytes: int
    begun_time: Time
    last_time: Time | None
    copies: int = 0


class PullListJson(Json):
    """All pulls."""

    pulls: list[PullJson]


class OfferJson(Json):
    """A message of the source: its lookup id, when it arrived, its class, and its packet."""

    lookup_id: SourceLookupId
    packet: PacketBytes
    arrived: Annotated[int, Meta(ge=0, le=U32_MAX)] = 0
    class_code: Annotated[int, Meta(ge=0, le=0xFFFF)] = 0


class OfferBody(Json):
    """Messages of the source, in order; `epoch` is that of the run."""

    epoch: PullEpoch
    messages: Annotated[list[OfferJson], Meta(max_length=OFFERS_MAX)]


class RefusedOfferJson(Json):
    """A message that was not taken, and why; it belongs where it is."""

    lookup_id: int
    error: ErrorBody


class TakenJson(Json):
    """What came of an offer. `known` ones were taken before; `left` came after `stopped`.

    `stay` has the lookup ids of messages in a journal that pulls of its queue received: they are
    not taken, and belong where they are.
    """

    taken: int
    known: int
    refused: list[RefusedOfferJson]
    stopped: ErrorBody | None
    left: int
    stay: list[int]


class PullEndBody(Json):
    """The run that ends."""

    epoch: PullEpoch


class PulledParams(Json):
    """Messages of a pull with greater lookup ids at their source than `after`."""

    id: PullNumber
    after: SourceLookupId = 0
    limit: Annotated[int, Meta(ge=1, le=ENTRIES_MAX)] = ENTRIES_MAX


class PulledJson(Json):
    """A message that was taken: its lookup id at the source, and its digest.

    `copied`: the run that took it left it at the source (`keep`).
    """

    lookup_id: int
    digest: str
    copied: bool = False


class PulledListJson(Json):
    """Messages that were taken; `next` is what to ask for after these."""

    messages: list[PulledJson]
    next: int | None
