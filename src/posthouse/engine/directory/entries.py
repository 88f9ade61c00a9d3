"""Directory entries of users with certificates, searches for public queues, and their locations.

[MS-MQDMPR] 3.1.1.15, 3.1.7.1.21 to 3.1.7.1.23, 3.1.7.1.26.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from posthouse.directory.addresses import Address
from posthouse.directory.base import DirectoryOperationResult, Filter, SortOrder, equals
from posthouse.directory.certificates import with_certificate, without_certificate
from posthouse.directory.document.document import Difference
from posthouse.directory.objects import Queue, QueueManager, User
from posthouse.engine.directory.changes import DirectoryChanges
from posthouse.engine.directory.public_queues import DirectoryOfQueues, refusal
from posthouse.engine.queues.collection import Queues
from posthouse.model.errors import (
    MachineNotFound,
    QueueNotFound,
    StatusNotFound,
    UnsupportedFormatNameOperation,
)
from posthouse.model.guids import format_guid
from posthouse.model.names import (
    DirectName,
    FormatName,
    MachineName,
    PathName,
    PrivateName,
    PublicName,
    parse_name,
)
from posthouse.security.access import Caller
from posthouse.security.keys import certificate_digest
from posthouse.security.registrations import UserRegistration

_RESULT = DirectoryOperationResult


class FoundQueues(NamedTuple):
    """Public queues that fit, in the order of their paths, and how many more there are."""

    queues: list[Queue]
    left_off: int


class QueuePlace(NamedTuple):
    """Where a queue is: the name to open there, and where its machine can be reached."""

    format_name: str
    machine: str
    hosts: tuple[str, ...]


class DirectoryEntries:
    """Lookups in the directory, and entries that users make about themselves."""

    def __init__(
        self, queues: DirectoryOfQueues, changes: DirectoryChanges, registry: Queues
    ) -> None:
        self._queues = queues
        self._changes = changes
        self._core = queues.core
        self._registry = registry

    # -- public queues

    def find_queues(self, filters: Sequence[Filter], caller: Caller, limit: int) -> FoundQueues:
        """Public queues that fit and that the caller may see."""
        service, now_ms = self._queues.service, self._core.now_ms
        order = (SortOrder("pathname", 1),)
        begun = service.read_directory_begin(Queue, filters, now_ms, sort=order, caller=caller)
        if begun.status is not _RESULT.SUCCESS:
            raise refusal(begun.status, "look for public queues")
        queues: list[Queue] = []
        left_off = 0
        while (found := service.read_directory_next(begun.handle, now_ms)).value is not None:
            if len(queues) < limit:
                queues.append(found.value)
            else:
                left_off += 1
        service.read_directory_end(begun.handle)
        return FoundQueues(queues, left_off)

    # -- users

    def user(self, sid: bytes) -> User | None:
        """The object of a user."""
        found = self._queues.service.read_directory(
            User, equals("security_identifier", sid), self._core.now_ms
        )
        if found.status is _RESULT.DIRECTORY_NOT_CONNECTED:
            raise refusal(found.status, "look for a user")
        return found.value

    def register(
        self,
        sid: bytes,
        name: str,
        certificates: Iterable[bytes],
        withdrawn: Iterable[bytes],
        *,
        dry_run: bool,
    ) -> Difference:
        """Enters a user, certificates that prove them, and takes out others by their digests.

        The registration of a certificate is its digest, so that every manager has the same.
        """
        certificates = list(certificates)
        before = self.user(sid)
        user = before or User(identifier=self._core.new_guid(), security_identifier=sid, name=name)
        if name and user.name != name:
            user = msgspec.structs.replace(user, name=name)
        for certificate in certificates:
            digest = certificate_digest(certificate)
            UserRegistration(
                sid=sid, certificate=certificate, identifier=digest, created_s=0
            ).checked()
            user = with_certificate(user, certificate, digest)
        for digest in withdrawn:
            if digest not in user.certificate_digest_list:
                raise StatusNotFound(
                    f"the user has no certificate {digest.hex()} in the directory",
                    "`posthouse directory user list` shows the digests.",
                )
            user = without_certificate(user, digest)
        if before is not None and self._queues.mirror is not None:
            # Ours may be an old version: what is to be added is asked for in any case.
            for certificate in certificates:
                before = without_certificate(before, certificate_digest(certificate))
        if user == before:
            return Difference([], [], [])
        return self._changes.enter(user, before, dry_run=dry_run)

    # -- where queues are

    def place(self, text: str) -> QueuePlace:
        """Where a queue of any name is read: by which name, and at which hosts."""
        name = parse_name(text)
        if isinstance(name, PathName):
            name = self._registry.format_name(name)
        if isinstance(name, DirectName):
            return QueuePlace(str(name), name.host, (name.host,))
        machine = self._machine_of(name)
        own = machine.qualified_computer_name or machine.computer_name
        hosts = dict.fromkeys(Address.parse(text).host for text in machine.addresses)
        return QueuePlace(str(name), machine.computer_name, tuple(hosts) or (own,))

    def _machine_of(self, name: FormatName) -> QueueManager:
        if isinstance(name, PrivateName | MachineName):
            return self._machine(name.guid)
        if not isinstance(name, PublicName):
            raise UnsupportedFormatNameOperation(f"{name} is not one queue of one machine")
        found = self._queues.service.known(
            Queue, equals("identifier", name.guid), self._core.now_ms
        )
        if found.status is _RESULT.DIRECTORY_NOT_CONNECTED:
            raise refusal(found.status, f"look up {name}")
        if found.value is None:
            raise QueueNotFound(
                f"the directory has no queue {name}",
                "`posthouse directory queue list` shows which there are.",
            )
        return self._machine(found.value.queue_manager_identifier)

    def _machine(self, guid: bytes) -> QueueManager:
        found = self._queues.service.known(
            QueueManager, equals("identifier", guid), self._core.now_ms
        )
        if found.status is _RESULT.DIRECTORY_NOT_CONNECTED:
            raise refusal(found.status, f"look up queue manager {format_guid(guid)}")
        if found.value is None:
            raise MachineNotFound(
                f"the directory has no queue manager {format_guid(guid)}",
                "Enter it: posthouse directory machine create.",
            )
        return found.value
