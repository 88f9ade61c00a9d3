"""`posthouse directory join`: finds or creates this queue manager in a directory server.

A domain gives identifiers itself, and an earlier installation may have left an object below its
computer. An unused queue manager takes over that object's identifier; one that
has been used keeps its own, for messages and names of others carry it
(routing-and-directory-facts 2, routing-and-directory-facts 4).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from posthouse.directory.authority import AuthorityAway, Refused
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import QueueRole
from posthouse.model.errors import DsError, NoDs, ServiceNotAvailable
from posthouse.model.guids import format_guid
from posthouse.runtime.directory.ldap import LdapAuthority, open_directory_ldap
from posthouse.runtime.embedded import EmbeddedQueueManager
from posthouse.runtime.home import engine_settings
from posthouse.runtime.ports import PortSet
from posthouse.runtime.serve import Options, effective_settings


class Joined(NamedTuple):
    """What became of it."""

    identifier: str
    place: str
    created: bool
    adopted: bool


def join(home: Path) -> Joined:
    """Finds or enters the object of the queue manager of a home that is not running."""
    settings = effective_settings(Options(home))
    if not settings.directory.ldap.source:
        raise ServiceNotAvailable(
            "no directory server is named",
            "Set [directory.ldap] url or domain in posthouse.toml.",
        )
    engine = engine_settings(
        settings, settings.queue_manager.name, PortSet(settings.queue_manager.ports)
    )
    stored = settings.store
    authority = open_directory_ldap(settings.directory.ldap)
    try:
        with EmbeddedQueueManager(home, settings=engine, store_settings=stored) as opened:
            return _joined(opened, authority, settings.directory.site)
    finally:
        authority.close()


def _joined(opened: EmbeddedQueueManager, authority: LdapAuthority, site: str) -> Joined:
    own, used = opened.run(lambda m: (m.directory.own_queue_manager(), used_for(m)))
    try:
        found, created = authority.join(own, int(time.time()), site, used)
    except AuthorityAway as away:
        raise NoDs(
            str(away), "Check [directory.ldap] in posthouse.toml, and the directory server."
        ) from None
    except Refused as refused:
        raise DsError(str(refused)) from None
    adopted = found.identifier != own.identifier
    if adopted:
        is_domain = authority.places.contexts.is_domain
        opened.run(lambda manager: adopt(manager, found.identifier, may_differ=not is_domain))
    return Joined(format_guid(found.identifier), found.full_path, created, adopted)


def adopt(manager: QueueManager, identifier: bytes, *, may_differ: bool = True) -> None:
    """Makes an unused queue manager the one with this identifier, from its next start on.

    `may_differ`: without that object it could be entered with its own.
    """
    if used := used_for(manager):
        raise ServiceNotAvailable(
            f"in the directory, this computer's queue manager is {format_guid(identifier)}, and "
            f"this one, {format_guid(manager.machine.identifier)}, {used}",
            "Delete the object in the directory, or begin with a new home."
            if may_differ
            else "Begin with a new home: a domain gives identifiers itself.",
        )
    manager.machine.adopt(identifier)


def used_for(manager: QueueManager) -> str:
    """What the queue manager has been used for; empty for one that is as new."""
    for queue in manager.queues.all():
        if queue.state.count:
            return "holds messages"
        if queue.definition.role is QueueRole.PLAIN:
            return f"has queues: {queue.definition.pathname}"
    return "has sent messages" if list(manager.queues.outgoing_queues()) else ""
