"""Distinguished names of directory objects ([MS-MQDSSM] 2.2, RFC 4514)."""

import re

from posthouse.directory.objects import (
    DirectoryObject,
    DistributionList,
    Queue,
    QueueAlias,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.model.names import PathName
from posthouse.security.sids import format_sid

_SPECIAL = re.compile(r'[,+"\\<>;=\x00-\x1f]|^[ #]| $')
_SERVICES = "CN=MsmqServices,CN=Services,CN=Configuration"


def escaped(text: str) -> str:
    """A value of a distinguished name, with what has a meaning there escaped."""
    return _SPECIAL.sub(
        lambda found: f"\\{ord(found[0]):02X}" if found[0] < " " else "\\" + found[0], text
    )


def distinguished_name(value: DirectoryObject, root: str) -> str:
    """Where the object stands below the root; empty for kinds that have no place."""
    place = _place(value)
    return f"{place},{root}" if place else ""


def _place(value: DirectoryObject) -> str:
    if isinstance(value, QueueManager):
        return _machine(value.computer_name)
    if isinstance(value, Queue):
        path = PathName.parse(value.pathname)
        return f"CN={escaped(path.queue)},{_machine(path.computer)}"
    if isinstance(value, Site):
        return f"CN={escaped(value.name)},CN=Sites,CN=Configuration"
    if isinstance(value, RoutingLink):
        return f"CN={value.site1_identifier.hex()}{value.site2_identifier.hex()},{_SERVICES}"
    if isinstance(value, User):
        return f"CN={format_sid(value.security_identifier)},CN=Users"
    if isinstance(value, DistributionList | QueueAlias):
        return f"CN={escaped(value.name)},CN=Users"
    return ""


def _machine(computer_name: str) -> str:
    return f"CN=msmq,CN={escaped(computer_name)},CN=Computers"
