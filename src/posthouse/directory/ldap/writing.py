"""LDAP entries made of objects of the directory ([MS-MQDSSM] 2.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from typing import Final

from posthouse.directory.ldap.fields import (
    ADDRESS_PREFIX,
    CLUSTER_SERVICE,
    COMPUTER_FIELDS,
    FIELDS,
    service_type,
)
from posthouse.directory.ldap.names import Dn, QueueCn
from posthouse.directory.ldap.reading import Atlas
from posthouse.directory.ldap.values import (
    Values,
    of_flag,
    of_number,
    of_octets,
    of_text,
)
from posthouse.directory.objects import (
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
from posthouse.model.names import DistributionListName, PathName, PublicName, parse_format_name
from posthouse.security.descriptors import SecurityDescriptor
from posthouse.security.sids import format_sid

Attributes = dict[str, Values]
"""Attributes with the values that an entry shall have."""

OBJECT_CLASSES: Final[dict[type[DirectoryObject], str]] = {
    Queue: "mSMQQueue",
    QueueManager: "mSMQConfiguration",
    Site: "site",
    RoutingLink: "mSMQSiteLink",
    Enterprise: "mSMQEnterpriseSettings",
    User: "user",
    DistributionList: "group",
    QueueAlias: "msMQ-Custom-Recipient",
}
QUEUE_MANAGER_CN: Final = "msmq"
SETTINGS_CN: Final = "MSMQ Settings"
UNIVERSAL_DISTRIBUTION_GROUP: Final = 8  # groupType: for no rights, with members from anywhere
_SERVICE_ATTRIBUTES = frozenset(
    {"routing_server", "directory_server", "directory_server_type", "remote_access_server"}
)
_ROUTING_LISTS = {
    "in_routing_server_identifier_list": "mSMQInRoutingServers",
    "out_routing_server_identifier_list": "mSMQOutRoutingServers",
}


def entry_attributes(value: DirectoryObject, atlas: Atlas, names: Collection[str]) -> Attributes:
    """The entry values for the attributes named; members of lists come apart."""
    fields = FIELDS[type(value)]
    made = {
        field.attribute: field.write(getattr(value, name))
        for name, field in fields.items()
        if name in names
    }
    if isinstance(value, QueueManager):
        made |= _machine(value, atlas, names)
    elif isinstance(value, RoutingLink) and "site_gate_identifier_list" in names:
        made["mSMQSiteGates"] = _references(QueueManager, value.site_gate_identifier_list, atlas)
    elif isinstance(value, User) and "name" in names:
        made["displayName"] = of_text(value.name)
    return made


def _machine(value: QueueManager, atlas: Atlas, names: Collection[str]) -> Attributes:
    made: Attributes = {}
    for name, attribute in _ROUTING_LISTS.items():
        if name in names:
            made[attribute] = _references(QueueManager, getattr(value, name), atlas)
    if not _SERVICE_ATTRIBUTES.isdisjoint(names):
        made["mSMQServiceType"] = of_number(service_type(value))
    return made


def _references(
    kind: type[DirectoryObject], identifiers: Iterable[bytes], atlas: Atlas
) -> list[bytes]:
    return [str(atlas.reference(kind, one)).encode() for one in identifiers]


def fixed_attributes(value: DirectoryObject, atlas: Atlas) -> Attributes:
    """The values that an entry has from its creation on."""
    if isinstance(value, Queue):
        extension = QueueCn.of(PathName.parse(value.pathname).queue).extension
        return {"mSMQQueueNameExt": of_text(extension)}
    if isinstance(value, RoutingLink):
        return {
            "mSMQSite1": _references(Site, [value.site1_identifier], atlas),
            "mSMQSite2": _references(Site, [value.site2_identifier], atlas),
        }
    if isinstance(value, DistributionList):
        return {"groupType": of_number(UNIVERSAL_DISTRIBUTION_GROUP)}
    return {}


def required_of_accounts(kind: str, name: str, root: Dn) -> Attributes:
    """What msuser.schema asks of users, computers and groups, and a domain gives them itself."""
    made: Attributes = {
        "instanceType": of_number(4),
        "objectCategory": of_text(str(root.below(kind, "Schema", "Configuration"))),
        "nTSecurityDescriptor": of_octets(SecurityDescriptor().pack()),
    }
    return made if kind == "group" else made | {"sn": of_text(name)}


def computer_attributes(
    value: QueueManager,
    names: Collection[str],
    services: Iterable[str] = (),
    addresses: Iterable[str] = (),
) -> Attributes:
    """The values of the computer's entry; services and addresses of others there stay."""
    made = {
        field.attribute: field.write(getattr(value, name))
        for name, field in COMPUTER_FIELDS.items()
        if name in names
    }
    if "clustered" in names:
        kept = [one for one in services if CLUSTER_SERVICE.lower() not in one.lower()]
        ours = [f"{CLUSTER_SERVICE}/{value.computer_name}"] if value.clustered else []
        made["servicePrincipalName"] = [one.encode() for one in kept + ours]
    if "addresses" in names:
        kept = [one for one in addresses if not one.lower().startswith(ADDRESS_PREFIX)]
        ours = [ADDRESS_PREFIX + one for one in value.addresses]
        made["networkAddress"] = [one.encode() for one in kept + ours]
    return made


def settings_attributes(value: QueueManager) -> Attributes:
    """MSMQSettings of a server, one below each of its sites."""
    return {
        "mSMQQMID": of_octets(value.identifier),
        "mSMQServices": of_number(service_type(value)),
        "mSMQRoutingService": of_flag(value.routing_server),
        "mSMQDsService": of_flag(value.directory_server),
        "mSMQDependentClientService": of_flag(value.supporting_server),
    }


def is_server(value: QueueManager) -> bool:
    """Whether the sites of a machine have it as a server."""
    return value.routing_server or value.directory_server or value.supporting_server


# -- places


def services_place(configuration: Dn) -> Dn:
    """Where the enterprise stands, and the links below it."""
    return configuration.below("MsmqServices", "Services")


def place_of(value: DirectoryObject, root: Dn, configuration: Dn) -> Dn:
    """Where a new object is entered. Those of a computer: in the usual container of computers."""
    if isinstance(value, Queue):
        path = PathName.parse(value.pathname)
        return computer_place(path.computer, root).below(QueueCn.of(path.queue).cn, "msmq")
    if isinstance(value, QueueManager):
        return computer_place(value.computer_name, root).child(QUEUE_MANAGER_CN)
    if isinstance(value, Site):
        return configuration.below(value.name, "Sites")
    if isinstance(value, RoutingLink):
        return services_place(configuration).child(link_name(value))
    if isinstance(value, Enterprise):
        return services_place(configuration)
    if isinstance(value, User):
        return root.below(value.name or format_sid(value.security_identifier), "Users")
    assert isinstance(value, DistributionList | QueueAlias)
    return root.below(value.name, "Users")


def computer_place(computer_name: str, root: Dn) -> Dn:
    """Where a computer is entered that is not entered yet."""
    return root.below(computer_name, "Computers")


def settings_place(computer_name: str, site: Dn) -> Dn:
    """Where the settings of a server stand below its site."""
    return site.below(SETTINGS_CN, computer_name, "Servers")


def link_name(value: RoutingLink, *, turned: bool = False) -> str:
    """The common name of a link: the identifiers of its sites."""
    one, other = value.site1_identifier.hex(), value.site2_identifier.hex()
    return other + one if turned else one + other


# -- members of lists


def member_place(member: str, atlas: Atlas) -> Dn | None:
    """The entry that a member of a list is; None: it needs a recipient of its own."""
    name = parse_format_name(member)
    if isinstance(name, PublicName) and not name.suffix:
        return atlas.place(Queue, name.guid)
    if isinstance(name, DistributionListName) and not name.domain:
        return atlas.place(DistributionList, name.guid) or atlas.place(QueueAlias, name.guid)
    return None


def recipient_place(member: str, root: Dn) -> Dn:
    """Where the recipient stands that carries the format name of a member."""
    digest = hashlib.sha256(member.encode()).hexdigest()[:32]
    return root.below(f"msmq-{digest}", "Users")
