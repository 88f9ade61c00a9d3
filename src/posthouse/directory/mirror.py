"""A copy of a directory whose authority is elsewhere: reads are local, changes go to the authority.

Whatever is to change is asked of the authority first; what it stored comes into the mirror. The
engine asks outside its turns (`AuthorityNeeded`), so `ask` may raise to be called again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, Self, runtime_checkable

from posthouse.directory.authority import (
    Authority,
    AuthorityAway,
    Changes,
    Refused,
    TakesOneByOne,
    failure_of,
)
from posthouse.directory.base import Created, DirectoryOperationResult
from posthouse.directory.embedded import Define, EmbeddedDirectory, name_of
from posthouse.directory.objects import KINDS, DirectoryObject, Entry
from posthouse.model.errors import IllegalPropertyValue, QueueError, RemoteProtocolError
from posthouse.model.guids import NULL_GUID, format_guid

_SUCCESS = DirectoryOperationResult.SUCCESS
_NOT_CONNECTED = DirectoryOperationResult.DIRECTORY_NOT_CONNECTED
_NOT_FOUND = DirectoryOperationResult.OBJECT_NOT_FOUND


class Action(Enum):
    """What an authority is asked to do with an object."""

    CREATE = "create"
    WRITE = "write"
    DELETE = "delete"


class Order(NamedTuple):
    """One change that an authority is asked for; without attributes all of them are meant.

    `base` is the object as it was when somebody decided to change it.
    """

    action: Action
    value: DirectoryObject
    utc_s: int
    attributes: Collection[str] | None = None
    base: DirectoryObject | None = None


Stored = list[DirectoryObject]
"""The objects of orders as the authority has them now; of deleted ones as they were."""

Ask = Callable[[Sequence[Order]], Stored]
"""Has orders carried out; raises `Refused`, `AuthorityAway`, or `Interrupted`."""


class Interrupted(Exception):
    """Some orders were carried out, the next one was not: `made` is what was, `cause` the reason.

    Of an authority that went away meanwhile, the next one may have been carried out as well.
    """

    def __init__(
        self,
        orders: Sequence[Order],
        made: Sequence[DirectoryObject],
        cause: Refused | AuthorityAway,
    ) -> None:
        super().__init__(str(cause))
        self.made = list(zip(orders, made, strict=False))
        self.cause = cause


@runtime_checkable
class TakesTogether(Protocol):
    """An authority that does several things in one step."""

    def together(self, orders: Sequence[Order]) -> Stored:
        """All of them or none."""
        ...


def carry_out(authority: Authority, orders: Sequence[Order]) -> Stored:
    """Asks an authority for changes, in one step where it can, else one after the other."""
    if isinstance(authority, TakesTogether):
        return authority.together(orders)
    assert isinstance(authority, TakesOneByOne)
    made: Stored = []
    for order in orders:
        try:
            made.append(_carry_out(authority, order))
        except Exception as error:  # a mistake of ours hides nothing of what was done before
            cause = failure_of(error)
            if not made:
                raise cause from None
            raise Interrupted(orders, made, cause) from None
    return made


def _carry_out(authority: TakesOneByOne, order: Order) -> DirectoryObject:
    action, value, utc_s, attributes, base = order
    if action is Action.CREATE:
        return authority.create(value, utc_s, attributes)
    if action is Action.WRITE:
        return authority.write(value, utc_s, attributes, base)
    authority.delete(value)
    return value


class News(NamedTuple):
    """What the authority's word changed: objects as they are now, and those that went as they were.

    `faults` lists objects that could not be used; what was known of them stays.
    """

    changed: list[DirectoryObject]
    gone: list[DirectoryObject]
    faults: list[str]


class MirroredDirectory(EmbeddedDirectory):
    """What an authority said last, with changes that go there first.

    `connected` shows whether it answered when it was asked last.
    """

    def __init__(
        self,
        define: Define,
        new_guid: Callable[[], bytes],
        root: str = "DC=posthouse",
        ask: Ask | None = None,
    ) -> None:
        super().__init__(define, new_guid, root)
        self.ask = ask
        self.reason = ""  # why it is not connected
        self.refusal = ""  # why the authority did not do what it was asked last
        self._has_doubles = False
        self._names_are_stale = False  # since objects came or went while there are doubles

    @classmethod
    def load(
        cls,
        items: Iterable[tuple[bytes, bytes]],
        define: Define,
        new_guid: Callable[[], bytes],
        root: str = "DC=posthouse",
    ) -> Self:
        """What was known last; names mean what they meant, whatever is read first."""
        mirror = super().load(items, define, new_guid, root)
        mirror._settle_names()
        return mirror

    # -- changes from the authority

    def take(self, changes: Changes) -> News:
        """Applies the changes that an authority sent."""
        gone = [self._known(*key) for key in dict.fromkeys(changes.gone)]
        if changes.whole:
            listed = {(type(one), one.identifier) for one in changes.objects}
            listed.update(changes.unusable)
            gone = [one for one in self._all() if (type(one), one.identifier) not in listed]
        news = News([], [one for one in gone if one is not None], [])
        for value in news.gone:
            self._drop(value)
        for value in changes.objects:
            self._take(value, news)
        self._settle_names()
        return news

    def take_ahead(self, values: Iterable[DirectoryObject]) -> News:
        """Takes in a part of what an authority said; `take` with the rest of it follows."""
        news = News([], [], [])
        for value in values:
            self._take(value, news)
        return news

    def _take(self, value: DirectoryObject, news: News) -> None:
        before = self._known(type(value), value.identifier)
        if value == before:
            return
        try:
            value.validate()
            if value.identifier == NULL_GUID:  # that of all queues which are not public
                raise IllegalPropertyValue("its identifier is zero")
        except (QueueError, RemoteProtocolError) as error:
            title = f"{type(value).__name__} {format_guid(value.identifier)}"
            news.faults.append(f"{title}: {getattr(error, 'cause', error)}")
            return
        self.put(value)
        news.changed.append(value)

    def put(self, value: DirectoryObject) -> None:
        """An object as the authority has it."""
        before = self._known(type(value), value.identifier)
        if before is not None:
            self._free_name(before)
        self._store(Entry(value, value.directory_attributes()))  # type: ignore[arg-type]

    def drop(self, value: DirectoryObject) -> None:
        """An object that the authority no longer has."""
        if (before := self._known(type(value), value.identifier)) is not None:
            self._drop(before)

    def _keep(self, entry: Entry) -> None:
        name = name_of(entry.value)
        holder = self._names.get(name, entry.value.identifier)
        super()._keep(entry)
        if holder != entry.value.identifier:
            self._names[name], self._has_doubles = holder, True
        self._names_are_stale |= self._has_doubles

    def _free_name(self, value: DirectoryObject) -> None:
        super()._free_name(value)
        self._names_are_stale |= self._has_doubles

    def _settle_names(self) -> None:
        """Where two bear one name the lower identifier has it, for all managers the same."""
        if not self._names_are_stale:
            return
        self._has_doubles = self._names_are_stale = False
        self._names.clear()
        for value in sorted(self._all(), key=lambda one: one.identifier):
            if self._names.setdefault(name_of(value), value.identifier) != value.identifier:
                self._has_doubles = True

    def _known(self, kind: type[DirectoryObject], identifier: bytes) -> DirectoryObject | None:
        entry = self._objects[kind].get(identifier)
        return None if entry is None else entry.value

    def _all(self) -> Iterable[DirectoryObject]:
        for kind in KINDS.values():
            for entry in list(self._objects[kind].values()):
                yield entry.value

    # -- what the authority is asked

    def _create(
        self, value: DirectoryObject, utc_s: int, attributes: Collection[str] | None
    ) -> Created:
        """The authority gives identifier, times and paths."""
        status, stored = self._asked(Order(Action.CREATE, value, utc_s, attributes))
        if stored is None:
            return Created(status)
        self.put(stored)
        return Created(_SUCCESS, stored.identifier)

    def _delete(self, value: DirectoryObject) -> DirectoryOperationResult:
        status, _ = self._asked(Order(Action.DELETE, value, 0))
        if status in (_SUCCESS, _NOT_FOUND):
            self._drop(value)
        return status

    def _write(
        self,
        after: Entry,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None,
    ) -> DirectoryOperationResult:
        status, stored = self._asked(Order(Action.WRITE, value, utc_s, attributes))
        if stored is not None:
            self.put(stored)
        return status

    def _asked(self, order: Order) -> tuple[DirectoryOperationResult, DirectoryObject | None]:
        assert self.ask is not None, "a mirror without an authority cannot change anything"
        try:
            (stored,) = self.ask([order])
        except Refused as refused:
            self.refusal = str(refused)
            return refused.status, None
        except AuthorityAway as away:
            self.connected, self.reason = False, str(away)
            return _NOT_CONNECTED, None
        return _SUCCESS, stored
