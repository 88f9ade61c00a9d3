"""The types for the life of a message: where it is, how it left, reports of other managers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from posthouse.api.refused import RefusedMessageJson
from posthouse.api.types import DepartureJson, Json, MessageIdParams, PlaceJson, SkippedJson


class ExplainParams(MessageIdParams):
    """A message by its identifier; with `peers` other queue managers are asked as well."""

    peers: bool = False


class PeerAnswerJson(Json):
    """What another queue manager states of the message; `error`: why it states nothing."""

    name: Annotated[str, Meta(max_length=256)]
    answer: str = ""
    places: list[PlaceJson] = msgspec.field(default_factory=list)
    departures: list[DepartureJson] = msgspec.field(default_factory=list)
    refusals: list[RefusedMessageJson] = msgspec.field(default_factory=list)
    error: str = ""


class LifeJson(Json):
    """What is known of a message here and, where they were asked, at other queue managers."""

    id: str
    places: list[PlaceJson]
    answer: str
    departures: list[DepartureJson] = msgspec.field(default_factory=list)
    peers: list[PeerAnswerJson] = msgspec.field(default_factory=list)
    refusals: list[RefusedMessageJson] = msgspec.field(default_factory=list)
    skipped: list[SkippedJson] = msgspec.field(default_factory=list)
