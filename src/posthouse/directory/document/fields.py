"""Converts attributes of directory objects to fields of the document and back."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from posthouse.directory.objects import (
    ConnectedNetwork,
    DirectoryObject,
    DistributionList,
    Enterprise,
    Queue,
    QueueAlias,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.guids import NULL_GUID, format_guid, parse_guid
from posthouse.model.properties import (
    DirectoryServerType,
    OperatingSystemType,
    QueuePrivacyLevel,
)
from posthouse.security.keys import (
    UserCertificate,
    certificate_digest,
    pack_user_certificates,
    unpack_user_certificates,
)
from posthouse.security.sids import format_sid, parse_sid

TIME_MAX_S: Final = 0xFFFF_FFFF


def _same(value: Any) -> Any:
    return value


class Field(NamedTuple):
    """A field of a part and the attribute after it."""

    part: str
    attribute: str
    written: Callable[[Any], Any] = _same
    read: Callable[[Any], Any] = _same


def base64_of(data: bytes) -> str:
    """Bytes as the document has them."""
    return b64encode(data).decode()


def bytes_of(text: str) -> bytes:
    """The bytes again; raises IllegalPropertyValue for anything else."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise IllegalPropertyValue("the value is not base64") from None


def time_of(seconds: int) -> datetime:
    """A time of the directory, in UTC."""
    return datetime.fromtimestamp(min(seconds, TIME_MAX_S), UTC)


def seconds_of(time: datetime) -> int:
    """A time as the directory counts it."""
    seconds = int(time.timestamp())
    if not 0 <= seconds <= TIME_MAX_S:
        raise IllegalPropertyValue(f"{time.isoformat()} is not a time of a directory object")
    return seconds


def _guid_or_none(guid: bytes) -> str:
    return "" if guid == NULL_GUID else format_guid(guid)


def _parsed_or_null(text: str) -> bytes:
    return parse_guid(text) if text else NULL_GUID


def certificates_written(blob: bytes) -> list[str]:
    """Each certificate in base64; in front of it its registration, where that is not its digest."""
    return [
        base64_of(one.certificate)
        if one.identifier == one.digest
        else f"{format_guid(one.identifier)} {base64_of(one.certificate)}"
        for one in unpack_user_certificates(blob)
    ]


def certificates_read(texts: Iterable[str]) -> tuple[UserCertificate, ...]:
    """The entries of a user's certificates."""
    found = []
    for text in texts:
        registration, _, encoded = text.rpartition(" ")
        certificate = bytes_of(encoded)
        if not certificate:
            raise IllegalPropertyValue("a certificate is empty")
        identifier = parse_guid(registration) if registration else certificate_digest(certificate)
        found.append(UserCertificate.of(certificate, identifier))
    return tuple(found)


def user_certificates(texts: Iterable[str]) -> dict[str, Any]:
    """The attributes of a user that hold the certificates."""
    entries = certificates_read(texts)
    return {
        "certificates": pack_user_certificates(entries) if entries else b"",
        "certificate_digest_list": tuple(one.digest for one in entries),
    }


_BLOB = (base64_of, bytes_of)
_SECURITY: Final = Field("security", "security", *_BLOB)
_TIMES: Final = (
    Field("created", "create_time", time_of, seconds_of),
    Field("modified", "modify_time", time_of, seconds_of),
)

FIELDS: Final[dict[type[DirectoryObject], tuple[Field, ...]]] = {
    Enterprise: (
        Field("name", "name"),
        Field("default_time_to_reach_queue_s", "default_time_to_live"),
        Field("weakened_security", "weakened_security"),
        Field("change_notifications", "non_ldap_capable_queue_manager_notification"),
        Field("old_directory", "old_directory"),
        _SECURITY,
    ),
    Site: (
        Field("name", "name"),
        Field("foreign", "foreign_site"),
        Field("primary_site_controller", "primary_site_controller"),
        Field("intra_site_replication_interval_s", "intra_site_replication_interval"),
        Field("inter_site_replication_interval_s", "inter_site_replication_interval"),
        Field("migrated_from_msmq10", "migrated_from_msmq10"),
        Field("signing_keys", "public_signing_key_list", *_BLOB),
        _SECURITY,
    ),
    RoutingLink: (Field("cost", "actual_cost"), Field("description", "description")),
    QueueManager: (
        Field("name", "computer_name"),
        Field("dns_name", "qualified_computer_name"),
        Field("addresses", "addresses", list, tuple),
        Field("routing_server", "routing_server"),
        Field("foreign", "foreign_system"),
        Field("quota_kib", "queue_manager_quota"),
        Field("journal_quota_kib", "journal_quota"),
        Field("version", "queue_manager_version"),
        Field(
            "system",
            "operating_system_type",
            lambda value: value.name.lower(),
            lambda text: OperatingSystemType[text.upper()],
        ),
        Field("system_version", "operating_system_version"),
        Field("directory_server", "directory_server"),
        Field(
            "directory_server_type",
            "directory_server_type",
            lambda value: value.value,
            DirectoryServerType,
        ),
        Field("supporting_server", "supporting_server"),
        Field("remote_access_server", "remote_access_server"),
        Field("clustered", "clustered"),
        Field("encryption_keys", "public_encryption_key_list", *_BLOB),
        Field("signing_keys", "public_signing_key_list", *_BLOB),
        _SECURITY,
        *_TIMES,
    ),
    Queue: (
        Field("path", "pathname"),
        Field("label", "label"),
        Field("type", "type", _guid_or_none, _parsed_or_null),
        Field("transactional", "transactional"),
        Field("authenticated", "authentication"),
        Field("journaling", "journaling"),
        Field(
            "privacy",
            "privacy_level",
            lambda value: value.name.lower(),
            lambda text: QueuePrivacyLevel[text.upper()],
        ),
        Field("quota_kib", "quota"),
        Field("journal_quota_kib", "journal_quota"),
        Field("base_priority", "base_priority"),
        Field("multicast_address", "multicast_address"),
        _SECURITY,
        *_TIMES,
    ),
    DistributionList: (Field("name", "name"),),
    QueueAlias: (Field("name", "name"), Field("description", "description")),
    User: (Field("name", "name"), Field("sid", "security_identifier", format_sid, parse_sid)),
    ConnectedNetwork: (Field("name", "name"), _SECURITY),
}
"""What is written as it is; `writing.py` and `reading.py` have what names other objects."""

REFERENCES: Final[dict[type[DirectoryObject], dict[str, str]]] = {
    RoutingLink: {"gates": "site_gate_identifier_list"},
    QueueManager: {
        "sites": "site_identifier_list",
        "in_routing_servers": "in_routing_server_identifier_list",
        "out_routing_servers": "out_routing_server_identifier_list",
        "networks": "connected_network_identifier_list",
    },
    Queue: {"qualified_path": "qualified_pathname", "machine": "queue_manager_identifier"},
    DistributionList: {"members": "members"},
    QueueAlias: {"queue": "format_name"},
}
"""Fields that name other objects, and the attributes after them."""

SET_BY_DIRECTORY: Final = frozenset({"create_time", "modify_time"})


def _defaults(kind: type[DirectoryObject]) -> dict[str, Any]:
    return {
        field.name: field.default for field in msgspec.structs.fields(kind) if not field.required
    }


_DEFAULTS: Final = {kind: _defaults(kind) for kind in FIELDS}


def plain_fields(value: DirectoryObject) -> dict[str, Any]:
    """The fields of an object's part that are not as usual."""
    usual = _DEFAULTS[type(value)]
    found = {}
    for field in FIELDS[type(value)]:
        attribute = getattr(value, field.attribute)
        if field.attribute not in usual or attribute != usual[field.attribute]:
            found[field.part] = field.written(attribute)
    return found


def attributes_of(kind: type[DirectoryObject], fields: Collection[str]) -> set[str]:
    """The attributes that fields of a part mean."""
    plain = {field.attribute for field in FIELDS[kind] if field.part in fields}
    references = REFERENCES.get(kind, {})
    return plain | {references[name] for name in fields if name in references}


def plain_attributes(kind: type[DirectoryObject], part: msgspec.Struct) -> dict[str, Any]:
    """The attributes that a part speaks of."""
    return {
        field.attribute: field.read(text)
        for field in FIELDS[kind]
        if (text := getattr(part, field.part)) is not None
    }
