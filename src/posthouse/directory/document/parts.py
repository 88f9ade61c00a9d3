"""The parts of the directory's document, as they are written in its file and in JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from posthouse.directory.objects import ACTUAL_COST_MAX, ACTUAL_COST_MIN, DEFAULT_TIME_TO_LIVE_S

ENTRIES_MAX: Final = 1_000_000
BLOB_LENGTH_MAX: Final = 4 << 20

Text = Annotated[str, Meta(max_length=4096)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
GuidText = Annotated[str, Meta(max_length=36)]
Names = Annotated[list[Name], Meta(max_length=4096)]
Cost = Annotated[int, Meta(ge=ACTUAL_COST_MIN, le=ACTUAL_COST_MAX)]
U16 = Annotated[int, Meta(ge=0, le=0xFFFF)]
U32 = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
I16 = Annotated[int, Meta(ge=-0x8000, le=0x7FFF)]
Blob = Annotated[str, Meta(max_length=BLOB_LENGTH_MAX)]
"""Bytes in base64: descriptors, key lists, certificates."""
Time = Annotated[datetime, Meta(tz=True)]
Privacy = Literal["none", "optional", "body"]
System = Literal["other", "foreign", "win95", "win_client", "win_server", "win_ent"]
Controller = Literal[
    "standalone",
    "backup site controller",
    "primary site controller",
    "primary enterprise controller",
]


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of the document. What is None there is not spoken of: in an import it stays as it is,
    in a new object it is as usual."""


class EnterprisePart(_Part, frozen=True):
    """What holds for everybody."""

    name: Text = ""
    default_time_to_reach_queue_s: U32 = DEFAULT_TIME_TO_LIVE_S
    guid: GuidText = ""
    weakened_security: bool | None = None
    change_notifications: bool | None = None
    old_directory: bool | None = None
    security: Blob | None = None


class SitePart(_Part, frozen=True):
    """A group of machines that reach each other well."""

    name: Name
    guid: GuidText = ""
    foreign: bool = False
    primary_site_controller: Text | None = None
    intra_site_replication_interval_s: U16 | None = None
    inter_site_replication_interval_s: U16 | None = None
    migrated_from_msmq10: bool | None = None
    signing_keys: Blob | None = None
    security: Blob | None = None


class LinkPart(_Part, frozen=True):
    """A way between two sites, over the gates it names."""

    sites: Annotated[list[Name], Meta(min_length=2, max_length=2)]
    cost: Cost = 1
    gates: Names = []
    description: Text = ""
    guid: GuidText = ""


class MachinePart(_Part, frozen=True):
    """A queue manager: where it listens, where it is, who routes for it."""

    name: Name
    guid: GuidText
    dns_name: Text = ""
    addresses: Names = []
    sites: Names = []
    routing_server: bool = False
    in_routing_servers: Names = []
    out_routing_servers: Names = []
    foreign: bool = False
    networks: Names | None = None
    quota_kib: U32 | None = None
    journal_quota_kib: U32 | None = None
    version: Text | None = None
    system: System | None = None
    system_version: Text | None = None
    directory_server: bool | None = None
    directory_server_type: Controller | None = None
    supporting_server: bool | None = None
    remote_access_server: bool | None = None
    clustered: bool | None = None
    encryption_keys: Blob | None = None
    signing_keys: Blob | None = None
    security: Blob | None = None
    created: Time | None = None
    modified: Time | None = None


class QueuePart(_Part, frozen=True):
    """A public queue; `machine` only where it is not the one that the path names."""

    path: Name
    guid: GuidText
    label: Text = ""
    type: GuidText = ""
    transactional: bool = False
    authenticated: bool = False
    journaling: bool | None = None
    privacy: Privacy | None = None
    quota_kib: U32 | None = None
    journal_quota_kib: U32 | None = None
    base_priority: I16 | None = None
    multicast_address: Text | None = None
    qualified_path: Text | None = None
    machine: Name | None = None
    security: Blob | None = None
    created: Time | None = None
    modified: Time | None = None


class ListPart(_Part, frozen=True):
    """A distribution list. Its members are format names, path names of public queues, or names of
    aliases and other lists."""

    name: Name
    guid: GuidText = ""
    members: Names = []


class AliasPart(_Part, frozen=True):
    """A name that stands for one queue, which is written as a member of a list is."""

    name: Name
    queue: Name
    guid: GuidText = ""
    description: Text = ""


class UserPart(_Part, frozen=True):
    """A user and the certificates they sign with, each in base64."""

    sid: Name
    name: Text = ""
    guid: GuidText = ""
    certificates: Annotated[list[Blob], Meta(max_length=1024)] = []


class NetworkPart(_Part, frozen=True):
    """A network of the oldest queue managers; kept for them, never used."""

    name: Name
    guid: GuidText = ""
    security: Blob | None = None


class Document(_Part, frozen=True):
    """All of it."""

    enterprise: EnterprisePart | None = None
    sites: Annotated[list[SitePart], Meta(max_length=ENTRIES_MAX)] = []
    links: Annotated[list[LinkPart], Meta(max_length=ENTRIES_MAX)] = []
    machines: Annotated[list[MachinePart], Meta(max_length=ENTRIES_MAX)] = []
    queues: Annotated[list[QueuePart], Meta(max_length=ENTRIES_MAX)] = []
    lists: Annotated[list[ListPart], Meta(max_length=ENTRIES_MAX)] = []
    aliases: Annotated[list[AliasPart], Meta(max_length=ENTRIES_MAX)] = []
    users: Annotated[list[UserPart], Meta(max_length=ENTRIES_MAX)] = []
    networks: Annotated[list[NetworkPart], Meta(max_length=ENTRIES_MAX)] = []


NamedPart = SitePart | MachinePart | ListPart | AliasPart | NetworkPart
AnyPart = NamedPart | LinkPart | QueuePart | UserPart
