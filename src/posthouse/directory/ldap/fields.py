"""Which attribute of LDAP holds which attribute of an object ([MS-MQDSSM] 2.2).

Only what one value of one entry means by itself (routing-and-directory-facts 2); names, places and
references to other entries are the business of `ldap/reading.py` and `ldap/writing.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from posthouse.directory.ldap.names import BadEntry
from posthouse.directory.ldap.values import (
    LdapEntry,
    Values,
    of_flag,
    of_number,
    of_octets,
    of_text,
    of_u32,
)
from posthouse.directory.objects import (
    DEFAULT_TIME_TO_LIVE_S,
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
from posthouse.model.guids import NULL_GUID
from posthouse.model.properties import (
    MACHINE_JOURNAL_QUOTA_DEFAULT_KIB,
    MACHINE_QUOTA_DEFAULT_KIB,
    UNLIMITED,
    DirectoryServerType,
    OperatingSystemType,
    QueuePrivacyLevel,
)

OLD_VERSION: Final = 3
NEW_VERSION: Final = 200
# mSMQServiceType; bit 1 means the same as mSMQRoutingServices.
ROUTING_SERVER_BIT: Final = 0x01
REMOTE_ACCESS_BIT: Final = 0x10


class Field(NamedTuple):
    """An attribute of LDAP: how its value is read from an entry, and written."""

    attribute: str
    read: Callable[[LdapEntry], Any]
    write: Callable[[Any], Values]


def _text(attribute: str) -> Field:
    return Field(attribute, lambda entry: entry.text(attribute), of_text)


def _octets(attribute: str) -> Field:
    return Field(attribute, lambda entry: entry.octets(attribute), of_octets)


def _u32(attribute: str, absent: int) -> Field:
    return Field(attribute, lambda entry: entry.u32(attribute, absent), of_u32)


def _number(attribute: str, absent: int) -> Field:
    return Field(attribute, lambda entry: entry.number(attribute, absent), of_number)


def _flag(attribute: str) -> Field:
    return Field(attribute, lambda entry: entry.flag(attribute), of_flag)


def _guid(attribute: str) -> Field:
    return Field(attribute, lambda entry: entry.guid(attribute, NULL_GUID), of_octets)


def _privacy(entry: LdapEntry) -> QueuePrivacyLevel:
    value = entry.number("mSMQPrivacyLevel", QueuePrivacyLevel.OPTIONAL)
    try:
        return QueuePrivacyLevel(value)
    except ValueError:
        raise BadEntry(f"mSMQPrivacyLevel is {value}") from None


def _system(entry: LdapEntry) -> OperatingSystemType:
    number = entry.number("mSMQOSType", 0)
    known = number in frozenset(OperatingSystemType)
    return OperatingSystemType(number) if known else OperatingSystemType.OTHER


def _notification(entry: LdapEntry) -> bool:
    return entry.text("mSMQCSPName", "Y").upper() != "N"


def _weakened(entry: LdapEntry) -> bool:
    """TRUE and FALSE in the schema, 0, 1 and 2 in the document; 2 is the default, FALSE."""
    return entry.text("mSMQNameStyle").upper() in ("TRUE", "1")


def _migrated(entry: LdapEntry) -> bool:
    return entry.number("mSMQNt4Stub", 0) == 1


def _old(entry: LdapEntry) -> bool:
    return entry.number("mSMQVersion", OLD_VERSION) != NEW_VERSION


def _digests(entry: LdapEntry) -> tuple[bytes, ...]:
    return tuple(bytes(value) for value in entry.values("mSMQDigests"))


FIELDS: Final[dict[type[DirectoryObject], dict[str, Field]]] = {
    Queue: {
        "label": _text("mSMQLabelEx"),
        "type": _guid("mSMQQueueType"),
        "journaling": _flag("mSMQJournal"),
        "quota": _u32("mSMQQueueQuota", UNLIMITED),
        "journal_quota": _u32("mSMQQueueJournalQuota", UNLIMITED),
        "authentication": _flag("mSMQAuthenticate"),
        "privacy_level": Field("mSMQPrivacyLevel", _privacy, of_number),
        "transactional": _flag("mSMQTransactional"),
        "multicast_address": _text("MSMQ-MulticastAddress"),
        "base_priority": _number("mSMQBasePriority", 0),
        "security": _octets("nTSecurityDescriptor"),
    },
    QueueManager: {
        "queue_manager_version": _text("mSMQComputerTypeEx"),
        "operating_system_type": Field("mSMQOSType", _system, of_number),
        "queue_manager_quota": _u32("mSMQQuota", MACHINE_QUOTA_DEFAULT_KIB),
        "journal_quota": _u32("mSMQJournalQuota", MACHINE_JOURNAL_QUOTA_DEFAULT_KIB),
        "foreign_system": _flag("mSMQForeign"),
        "site_identifier_list": Field("mSMQSites", lambda entry: entry.guids("mSMQSites"), list),
        "routing_server": _flag("mSMQRoutingServices"),
        "directory_server": _flag("mSMQDsServices"),
        "supporting_server": _flag("mSMQDependentClientServices"),
        "public_encryption_key_list": _octets("mSMQEncryptKey"),
        "security": _octets("nTSecurityDescriptor"),
    },
    Site: {
        "intra_site_replication_interval": _number("mSMQInterval1", 2),
        "inter_site_replication_interval": _number("mSMQInterval2", 10),
        "foreign_site": _flag("mSMQSiteForeign"),
        "migrated_from_msmq10": Field("mSMQNt4Stub", _migrated, of_number),
        "security": _octets("nTSecurityDescriptor"),
    },
    RoutingLink: {
        "actual_cost": _number("mSMQCost", 0),
        "description": _text("description"),
    },
    Enterprise: {
        "name": _text("description"),
        "weakened_security": Field("mSMQNameStyle", _weakened, of_flag),
        "non_ldap_capable_queue_manager_notification": Field(
            "mSMQCSPName", _notification, lambda value: of_text("Y" if value else "N")
        ),
        "default_time_to_live": _u32("mSMQLongLived", DEFAULT_TIME_TO_LIVE_S),
        "old_directory": Field(
            "mSMQVersion", _old, lambda value: of_number(OLD_VERSION if value else NEW_VERSION)
        ),
        "security": _octets("nTSecurityDescriptor"),
    },
    User: {
        "security_identifier": _octets("objectSid"),
        "certificate_digest_list": Field("mSMQDigests", _digests, list),
        "certificates": _octets("mSMQSignCertificates"),
    },
    DistributionList: {},
    QueueAlias: {
        "format_name": _text("msMQ-Recipient-FormatName"),
        "description": _text("description"),
    },
}
"""For each kind, the attributes that one value of its entry gives."""

COMPUTER_FIELDS: Final[dict[str, Field]] = {
    "qualified_computer_name": _text("dNSHostName"),
    "operating_system_version": _text("operatingSystemVersion"),
    "public_signing_key_list": _octets("mSMQSignCertificates"),
}
"""The values in the entry of the computer for its queue manager."""

CLUSTER_SERVICE: Final = "MSClusterVirtualServer"
ADDRESS_PREFIX: Final = "msmq:"
"""Our addresses among those that others keep in networkAddress of a computer."""

_SERVER_BITS: Final = (
    (DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER, 8),
    (DirectoryServerType.PRIMARY_SITE_CONTROLLER, 4),
    (DirectoryServerType.BACKUP_SITE_CONTROLLER, 2),
)


def directory_server_type(service_type: int) -> DirectoryServerType:
    """The directory role in mSMQServiceType; the highest role counts."""
    for kind, bit in _SERVER_BITS:
        if service_type & bit:
            return kind
    return DirectoryServerType.STANDALONE


def service_type(value: QueueManager) -> int:
    """MSMQServiceType of a queue manager: routing, directory and remote access in one number."""
    offered = value.offered_directory
    bits = dict(_SERVER_BITS).get(offered, 0) if offered else 0
    bits |= ROUTING_SERVER_BIT if value.routing_server else 0
    return bits | (REMOTE_ACCESS_BIT if value.remote_access_server else 0)
