"""A directory server as the authority over the directory: Active Directory or OpenLDAP.

The first listing is a whole one. Later ones ask for what has changed since; what was deleted is
found by whole ones, which are made as often as they are cheap. Needs the extra `ldap`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from posthouse.directory.authority import AuthorityAway, Changes, Refused
from posthouse.directory.base import DirectoryOperationResult
from posthouse.directory.ldap.names import BadEntry, all_of, any_of, equal
from posthouse.directory.ldap.reading import (
    CLASSES,
    COMPUTER,
    Atlas,
    Reading,
    read_all,
    without_idle_groups,
)
from posthouse.directory.ldap.settings import LdapSettings
from posthouse.directory.ldap.values import LdapEntry, of_time, parse_time
from posthouse.directory.ldap.writing import QUEUE_MANAGER_CN
from posthouse.directory.objects import (
    DirectoryObject,
    DistributionList,
    Enterprise,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.text import excerpt
from posthouse.runtime.ldap.changes import Changer
from posthouse.runtime.ldap.connection import LdapConnection
from posthouse.runtime.ldap.entries import Places, refusals

FAULTS_MAX: Final = 100
_SHARE_OF_TIME: Final = 100
"""A whole listing may be made again after this many times its own duration."""
REPLICATION_S: Final = 4 * 3600
"""The time that other servers may take to get what we wrote: sites of a domain replicate every
three hours, unless configured otherwise.
"""
_OVERLAP_S: Final = 60
"""Changes of this long before are asked for again: servers stamp them before they can be seen."""

_Key = tuple[type[DirectoryObject], bytes]

_CONFIGURATION_KINDS: Final = (Site, RoutingLink, Enterprise)
_WITH_CERTIFICATES: Final = "(|(mSMQDigests=*)(mSMQSignCertificates=*)(adminDescription=*))"


class Token(NamedTuple):
    """How far a listing went: on which server, and the last stamp it saw."""

    host: str
    stamp: str

    @classmethod
    def parse(cls, text: str) -> Token | None:
        """A token that was given out; None for anything else."""
        stamp, separator, host = text.partition(" ")
        return cls(host, stamp) if separator and stamp.isdecimal() else None

    def __str__(self) -> str:
        return f"{self.stamp} {self.host}"


def open_directory_ldap(settings: LdapSettings) -> LdapAuthority:
    """The authority that `[directory.ldap]` names; it connects when it is asked."""
    return LdapAuthority(LdapConnection(settings))


class LdapAuthority:
    """The `Authority` over a directory that a server keeps."""

    def __init__(
        self,
        connection: LdapConnection,
        new_guid: Callable[[], bytes] = lambda: uuid.uuid4().bytes_le,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.faults: list[str] = []
        """Entries of the last listing that could not be used, and why."""
        self._connection = connection
        self._places = Places(connection)
        self._changer = Changer(self._places, new_guid)
        self._clock = clock
        self._given: set[_Key] | None = None
        self._made: dict[_Key, tuple[str, float]] = {}  # by us: on which server, and when
        self._whole_at = 0.0
        self._whole_took = 0.0

    @property
    def places(self) -> Places:
        """What is known of the server."""
        return self._places

    def close(self) -> None:
        """Lets the connection go."""
        self._connection.close()

    # -- what is there

    def changes(self, token: str) -> Changes:
        """All that changed since a token; everything where that is not known, or cheap."""
        try:
            return self._changes(token)
        except Refused as refused:  # half a listing is none
            raise AuthorityAway(str(refused)) from None

    def _changes(self, token: str) -> Changes:
        with self._asking():
            # Another server may answer than the last time; and a domain states how far it has come.
            contexts = self._places.look()
            since = Token.parse(token)
            known = since is not None and since.host == contexts.host and self._given is not None
            if since is None or not known or self._whole_is_due():
                return self._whole()
            return self._since(since)

    def _whole_is_due(self) -> bool:
        passed = self._clock() - self._whole_at
        return passed >= min(self._connection.settings.whole_s, self._whole_took * _SHARE_OF_TIME)

    def _whole(self) -> Changes:
        started = self._clock()
        token = Token(self._places.contexts.host, self._stamp_now())
        entries = self._listed("")
        earlier, self._places.atlas = self._atlas, Atlas(self._places.contexts.root)
        reading = read_all(entries, self._atlas, earlier)
        self._note(reading)
        found = {(type(one), one.identifier) for one in reading.objects}
        unusable = reading.unusable | (self._unheard_of() - found)
        self._given = found | unusable
        self._whole_at, self._whole_took = self._clock(), self._clock() - started
        latest = str(_latest(token, entries, self._is_domain))
        return Changes(reading.objects, [], True, latest, unusable, tuple(self.faults))

    def _unheard_of(self) -> frozenset[_Key]:
        """Objects that we wrote lately on other servers: if this one lacks them, they are not
        deleted.
        """
        here, now = self._places.contexts.host, self._clock()
        self._made = {
            key: (host, at) for key, (host, at) in self._made.items() if now - at < REPLICATION_S
        }
        return frozenset(key for key, (host, _) in self._made.items() if host != here)

    def _since(self, since: Token) -> Changes:
        assert self._given is not None
        token = Token(since.host, max(since.stamp, self._stamp_now(), key=int))
        entries = self._listed(self._newer(since))
        computers = [entry for entry in entries if COMPUTER in entry.classes]
        for computer in computers:  # entries below a computer contain its values
            place = computer.dn.child(QUEUE_MANAGER_CN)
            entries += self._search(place, any_of(*map(_class, ("mSMQConfiguration", "mSMQQueue"))))
        lists = {key for kind, key in self._given if kind is DistributionList}
        reading = read_all(list({entry.dn.key: entry for entry in entries}.values()), self._atlas)
        self._note(reading)
        objects = without_idle_groups(reading.objects, lists)
        found = {(type(one), one.identifier) for one in objects}
        gone = {one for one in map(self._atlas_object, entries) if one and one not in found}
        gone = (gone - reading.unusable) & self._given
        self._given = (self._given | found).difference(gone)
        latest = str(_latest(token, entries, self._is_domain))
        return Changes(objects, list(gone), False, latest, faults=tuple(self.faults))

    def _atlas_object(self, entry: LdapEntry) -> _Key | None:
        return self._atlas.known(entry.dn)

    @property
    def _atlas(self) -> Atlas:
        return self._places.atlas

    @property
    def _is_domain(self) -> bool:
        return self._places.contexts.is_domain

    def _note(self, reading: Reading) -> None:
        self.faults[:] = reading.faults[:FAULTS_MAX]

    def _stamp_now(self) -> str:
        """Where the server's own count stands; times are taken from entries only."""
        return str(self._places.contexts.highest_usn) if self._is_domain else "0"

    def _newer(self, since: Token) -> str:
        if self._is_domain:
            return f"(uSNChanged>={int(since.stamp) + 1})"
        moment = of_time(max(0, int(since.stamp) - _OVERLAP_S))[0].decode()
        return f"(modifyTimestamp>={moment.replace('.0Z', 'Z')})"

    def _listed(self, newer: str) -> list[LdapEntry]:
        """Every entry that may be an object of ours, or shows of one."""
        in_root = any_of(
            *(
                _class(name)
                for name, kind in CLASSES.items()
                if kind not in (*_CONFIGURATION_KINDS, User)
            ),
            _class(COMPUTER),
            all_of(_class("user"), f"(!{_class(COMPUTER)})", _WITH_CERTIFICATES),
        )
        in_configuration = any_of(
            *(_class(name) for name, kind in CLASSES.items() if kind in _CONFIGURATION_KINDS)
        )
        root, configuration, *_ = self._places.contexts
        found: list[LdapEntry] = []
        for base, wanted in ((configuration, in_configuration), (root, in_root)):
            found += self._search(base, all_of(wanted, newer) if newer else wanted)
        return found

    def _search(self, base: object, wanted: str) -> list[LdapEntry]:
        most = self._connection.settings.entries_max
        found: list[LdapEntry] = []
        for entry in self._connection.search(str(base), wanted, self._places.wanted):
            found.append(entry)
            if len(found) > most:
                self._connection.close()
                raise AuthorityAway(
                    f"{base} has more than {most} entries; set [directory.ldap] entries_max, or a "
                    "base with fewer"
                )
        return found

    # -- what is to be done

    def create(
        self, value: DirectoryObject, utc_s: int, attributes: Collection[str] | None = None
    ) -> DirectoryObject:
        """Enters a new object."""
        with self._asking():
            self._ready()
            stored = self._changer.create(value, utc_s, attributes)
            self._remember(stored)
            return stored

    def write(
        self,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None = None,
        base: DirectoryObject | None = None,
    ) -> DirectoryObject:
        """Changes all attributes of an object, or those named."""
        with self._asking():
            self._ready()
            return self._changer.write(value, utc_s, attributes, base)

    def delete(self, value: DirectoryObject) -> None:
        """Removes an object."""
        with self._asking():
            self._ready()
            self._changer.delete(value)
            self._made.pop((type(value), value.identifier), None)
            if self._given is not None:
                self._given.discard((type(value), value.identifier))

    def join(
        self, value: QueueManager, utc_s: int, site: str = "", used: str = ""
    ) -> tuple[QueueManager, bool]:
        """The object of a queue manager below its computer, entered if it is not there yet.

        A new one is in the site of that name, or in the only one that there is. `used`: what the
        queue manager was used for, so that it keeps its identifier; a domain gives it another.
        """
        with self._asking():
            self._ready()
            computer = self._places.find_computer(value.computer_name)
            if computer is not None:
                place = computer.dn.child(QUEUE_MANAGER_CN)
                entry = self._places.get(place)
                if entry is not None and entry.has("objectGUID"):
                    reading = read_all([entry], self._atlas)
                    for one in reading.objects:
                        assert isinstance(one, QueueManager)
                        return one, False
                    raise Refused(DirectoryOperationResult.GENERIC_ERROR, reading.faults[0])
            if used and self._is_domain:
                raise Refused(
                    DirectoryOperationResult.GENERIC_ERROR,
                    f"a domain gives identifiers itself, and this queue manager {used}: begin with "
                    "a new home",
                )
            sites = self._places.sites(site)
            if site and not sites:
                raise Refused(
                    DirectoryOperationResult.OBJECT_NOT_FOUND,
                    f"the directory has no site {excerpt(site)}: look at [directory] site",
                )
            if len(sites) == 1:
                value = msgspec.structs.replace(value, site_identifier_list=tuple(sites))
            stored = self._changer.create(value, utc_s, None)
            assert isinstance(stored, QueueManager)
            self._remember(stored)
            return stored, True

    def _remember(self, stored: DirectoryObject) -> None:
        key = type(stored), stored.identifier
        self._made[key] = self._places.contexts.host, self._clock()
        if self._given is not None:
            self._given.add(key)

    def _ready(self) -> None:
        """References need the places of what they lead to: they are learnt once."""
        self._places.ready()
        if self._given is None:
            self._whole()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Every error of a server is one of two: refused, or away."""
        try:
            with refusals():
                yield
        except BadEntry as bad:
            raise AuthorityAway(f"{self._connection.server}: {bad}") from None
        except QueueError as error:  # a name that is none
            raise Refused(DirectoryOperationResult.GENERIC_ERROR, error.cause) from None
        except RemoteProtocolError as error:
            raise Refused(DirectoryOperationResult.GENERIC_ERROR, str(error)) from None


def _class(name: str) -> str:
    return equal("objectClass", name)


def _latest(token: Token, entries: Collection[LdapEntry], is_domain: bool) -> Token:
    """The token after the last stamp of these entries."""
    if is_domain:
        return token
    stamps = [parse_time(entry.text("modifyTimestamp")) for entry in entries if _stamped(entry)]
    return token._replace(stamp=str(max([int(token.stamp), *stamps])))


def _stamped(entry: LdapEntry) -> bool:
    return entry.has("modifyTimestamp")
