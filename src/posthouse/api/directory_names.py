"""The types of the API that concern users, public queues and places of the directory."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from posthouse.api.certificates import File
from posthouse.api.directory import Name
from posthouse.api.types import Json

FOUND_MAX = 100_000
DIGEST = "^[0-9a-fA-F]{32}$"

Guid = Annotated[str, Meta(max_length=38)]
# As text: a number in a query would be taken for seconds.
Time = Annotated[str, Meta(max_length=64, extra_json_schema={"format": "date-time"})]
Digest = Annotated[str, Meta(pattern=DIGEST)]
Label = Annotated[str, Meta(max_length=124)]


class QueueSearchParams(Json):
    """What public queues have to be like; times are compared with their seconds."""

    type: Guid | None = None
    label: Label | None = None
    machine: Name | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    modified_after: Time | None = None
    modified_before: Time | None = None
    limit: Annotated[int, Meta(ge=1, le=FOUND_MAX)] = 1000


class PublicQueueJson(Json):
    """A public queue as the directory has it."""

    path: str
    guid: str
    format_name: str
    machine_guid: str
    label: str
    type: str
    transactional: bool
    authenticated: bool
    journaling: bool
    created_time: str
    modified_time: str


class PublicQueueListJson(Json):
    """Public queues in the order of their paths; `left_off` states how many more there are."""

    queues: list[PublicQueueJson]
    left_off: int


class DirectoryUserBody(Json):
    """A user of the directory: by their SID, or the name of an account here.

    Certificates are added in PEM or DER form; those of the digests in `withdraw` go.
    """

    user: Name
    name: Annotated[str, Meta(max_length=64)] = ""
    certificates: Annotated[list[File], Meta(max_length=64)] = field(default_factory=list)
    withdraw: Annotated[list[Digest], Meta(max_length=1024)] = field(default_factory=list)
    dry_run: bool = False


class PlaceParams(Json):
    """A queue of any machine, by a path name or a format name."""

    queue: Annotated[str, Meta(min_length=1, max_length=1024)]


class QueuePlaceJson(Json):
    """Where a queue is read: by which name, on which machine, at which hosts.

    The path is empty where only that machine has it, as that of a private queue.
    """

    format_name: str
    path: str
    machine: str
    hosts: list[str]
