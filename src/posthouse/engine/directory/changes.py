"""Changes and queries of operators on the directory: documents in and out, routes in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple

import msgspec

from posthouse.directory.authority import AuthorityAway, Refused
from posthouse.directory.base import Kind
from posthouse.directory.document.document import (
    Difference,
    Document,
    Holdings,
    described,
    difference,
)
from posthouse.directory.mirror import Action, Interrupted, MirroredDirectory, Order
from posthouse.directory.objects import (
    KINDS,
    DirectoryObject,
    Enterprise,
    Queue,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.directory.routing import NoRoute, route
from posthouse.directory.service import Outcome
from posthouse.engine.directory.change_notices import Notices, notices_of
from posthouse.engine.directory.public_queues import DirectoryOfQueues, refusal
from posthouse.engine.ledger.records import Change
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.queues.collection import Queues
from posthouse.model.errors import DsError, MachineNotFound, NoDs, QueueError, StatusNotFound
from posthouse.model.guids import format_guid
from posthouse.model.names import DirectName, parse_format_name
from posthouse.model.properties import DirectoryOperationResult
from posthouse.security.sids import format_sid


class NamedStep(NamedTuple):
    """One hop of a route, by names."""

    source: str
    target: str
    rule: str


class DirectoryChanges:
    """Changes that an administrator makes to the directory, and its documents."""

    def __init__(
        self,
        queues: DirectoryOfQueues,
        notices: Notices,
        registry: Queues,
        transfer: MachineTransfer,
    ) -> None:
        self._queues = queues
        self._notices = notices
        self._core = queues.core
        self._registry = registry
        self._transfer = transfer
        self.follow: Callable[[Sequence[DirectoryObject]], None] = lambda values: None

    def sites(self) -> list[Site]:
        """All sites, for their names."""
        return self._all(Site)

    def document(self) -> Document:
        """The whole directory as a document."""
        return described(self.holdings())

    def holdings(self) -> Holdings:
        """All objects of the directory."""
        return Holdings.of(value for kind in KINDS.values() for value in self._all(kind))

    def _all(self, kind: type[Kind]) -> list[Kind]:
        """All of a kind; as they were known last while the authority is away.

        So a file that is gone can be written again, and routes can be explained.
        """
        service = self._queues.service
        found = service.read_all(kind, self._core.now_ms)
        if found is None and not service.integrated:
            raise NoDs("there is no directory in a workgroup")
        return self._queues.directory.all_known(kind) if found is None else found

    def take_in(
        self,
        document: Document,
        *,
        prune: bool,
        dry_run: bool,
        only: Collection[str] | None = None,
    ) -> Difference:
        """Changes the directory to match the document, in one step of the log."""
        core, held = self._core, self.holdings()
        found = difference(document, held, core.new_guid, core.guid, prune=prune, only=only)
        found = self._with_our_word(found, asked=only is not None)
        if not dry_run:
            self._apply(found)
        return found

    def _with_our_word(self, found: Difference, *, asked: bool) -> Difference:
        """What only this queue manager can set of itself stays, whatever a document has."""
        changed, before = [], []
        for value, was in zip(found.changed, found.before, strict=True):
            if isinstance(value, QueueManager) and value.identifier == self._core.guid:
                ours = self._queues.own_words(value)
                spoken_of = [name for name in ours if getattr(value, name) != getattr(was, name)]
                if spoken_of and asked:
                    raise DsError(
                        f"this queue manager sets {', '.join(spoken_of)} itself",
                        "Change it in its posthouse.toml: [queue_manager], [directory] addresses.",
                    )
                value = msgspec.structs.replace(value, **ours)
            if value != was:
                changed.append(value)
                before.append(was)
        return found._replace(changed=changed, before=tuple(before))

    def remove(self, kind: str, name: str, *, dry_run: bool) -> DirectoryObject:
        """Takes an object out of the directory; a link is named by its sites, a comma between."""
        value = self._named(kind, name)
        if value.identifier == self._core.guid:
            raise DsError("this is the queue manager itself", "It stays in its own directory.")
        if isinstance(value, Queue) and value.queue_manager_identifier == self._core.guid:
            raise DsError("this is a queue of this queue manager", "Delete the queue itself.")
        if not dry_run:
            self._apply(Difference([], [], [value]))
        return value

    def enter(
        self, value: DirectoryObject, before: DirectoryObject | None, *, dry_run: bool
    ) -> Difference:
        """Enters one object, or changes the one that was there before."""
        found = Difference([value], [], [])
        if before is not None:
            found = Difference([], [value], [], (before,))
        if not dry_run:
            self._apply(found)
        return found

    def user(self, name: str) -> User:
        """A user of the directory by their name or their SID; there may be two of one name."""
        found = self._named("user", name)
        assert isinstance(found, User)
        return found

    def _named(self, kind: str, name: str) -> DirectoryObject:
        holdings = self.holdings()
        kinds: dict[str, Sequence[DirectoryObject]] = {
            "machine": holdings.machines,
            "site": holdings.sites,
            "link": holdings.links,
            "queue": holdings.queues,
            "list": holdings.lists,
            "alias": holdings.aliases,
            "user": holdings.users,
            "network": holdings.networks,
        }
        wanted = name.replace("/", "\\").casefold() if kind == "queue" else name.casefold()
        sites = {site.identifier: site.unique_name for site in holdings.sites}
        found = [
            value
            for value in kinds[kind]
            if value.unique_name == wanted
            or (isinstance(value, User) and _is_called(value, name))
            or (isinstance(value, RoutingLink) and _joins(value, wanted, sites))
        ]
        if len(found) > 1:
            raise DsError(f"{name} is ambiguous: {len(found)} objects match", _EXACT[kind])
        if found:
            return found[0]
        raise StatusNotFound(
            f"the directory has no {kind} {name}", "`posthouse directory export` shows all."
        )

    def _apply(self, found: Difference) -> None:
        """Deletions first: a name may go from one object to another."""
        queues, core, change = self._queues, self._core, Change()
        orders = [
            *(Order(Action.DELETE, value, core.utc) for value in found.deleted),
            *starmap(self._order, zip(found.changed, found.before, strict=True)),
            *(self._creation(value) for value in found.created),
        ]
        failure: QueueError | None = None
        with core.one_step():
            with queues.changing(change):
                if queues.mirror is not None and orders:
                    failure = self._have_made(queues.mirror, orders)
                else:
                    self._make_all(orders)
            core.commit(change)
        self._look_again()
        if failure is not None:  # what was done before it is known here all the same
            raise failure

    def _creation(self, value: DirectoryObject) -> Order:
        """A new object keeps the times that a document has for it, unless they are yet to come."""
        utc_s = self._core.utc
        created, modified = (getattr(value, f"{name}_time", 0) for name in ("create", "modify"))
        if not created:
            return Order(Action.CREATE, value, utc_s)
        dated: Any = msgspec.structs.replace(value, modify_time=min(modified, utc_s))
        return Order(Action.CREATE, dated, min(created, utc_s))

    def _order(self, value: DirectoryObject, before: DirectoryObject) -> Order:
        """What differs is written, for others may have changed the rest since we looked.

        The enterprise is made when it is changed for the first time.
        """
        if isinstance(value, Enterprise) and not self._all(Enterprise):
            return Order(Action.CREATE, value, self._core.utc)
        known = value.directory_attributes()
        names = {name for name in known if getattr(value, name) != getattr(before, name)}
        return Order(Action.WRITE, value, self._core.utc, frozenset(names), before)

    def _have_made(self, mirror: MirroredDirectory, orders: Sequence[Order]) -> QueueError | None:
        """All orders in one; what the authority made of them comes into the mirror.

        Gives the reason why it has not made all of them.
        """
        if not mirror.connected:
            raise NoDs(f"the directory cannot be reached: {mirror.reason}")
        failure = None
        try:
            made = self._queues.asking.made(orders)
        except Interrupted as broken:
            made, failure = broken.made, _interrupted(broken, len(orders))
        except (Refused, AuthorityAway) as cause:
            raise _failure(cause, orders) from None
        for order, value in made:
            if order.action is Action.DELETE:
                mirror.drop(value)
            else:
                mirror.put(value)
        stored = [value for order, value in made if order.action is not Action.DELETE]
        self._queues.service.refreshed([value for _, value in made], self._core.now_ms)
        self._notices.send(notices_of(made))
        self.follow(stored)
        return failure

    def _make_all(self, orders: Sequence[Order]) -> None:
        for order in orders:
            outcome = self._make(order)
            assert outcome.status is DirectoryOperationResult.SUCCESS, (outcome, order)
        self.follow([order.value for order in orders if order.action is not Action.DELETE])

    def _make(self, order: Order) -> Outcome:
        service, core = self._queues.service, self._core
        if order.action is Action.DELETE:
            return service.delete_directory_object(order.value, core.now_ms)
        if order.action is Action.WRITE:
            return service.write_directory(order.value, core.now_ms, order.utc_s, order.attributes)
        return service.create_directory_object(order.value, core.now_ms, order.utc_s)

    def _look_again(self) -> None:
        """What waits for a way may have one now."""
        for queue in self._registry.outgoing_queues():
            name = parse_format_name(queue.definition.format_name)
            if not isinstance(name, DirectName) and queue.state.count:
                self._transfer.retry(queue)

    def route(self, source: str, target: str) -> list[NamedStep]:
        """The way from one machine to another, both by their computer names."""
        service, now_ms = self._queues.service, self._core.now_ms
        machines = {one.identifier: one for one in self.holdings().machines}
        by_name = {one.unique_name: one.identifier for one in machines.values()}
        ends = []
        for name in (source, target):
            if name.casefold() not in by_name:
                raise MachineNotFound(f"the directory has no machine {name}")
            ends.append(by_name[name.casefold()])
        try:
            steps = route(service.topology(now_ms), machines, *ends)
        except NoRoute as fault:
            raise DsError(
                f"there is no way from {source} to {target}: {fault}",
                "`posthouse directory export` shows sites, links, gates and routing servers.",
            ) from None
        return [
            NamedStep(
                machines[step.source].computer_name, machines[step.target].computer_name, step.rule
            )
            for step in steps
        ]


_EXACT = {
    "user": "Name them by their SID, as `posthouse directory user list` shows it.",
    "link": "Name its sites by their GUIDs, as `posthouse directory site list` shows them.",
}


def _joins(link: RoutingLink, text: str, sites: Mapping[bytes, str]) -> bool:
    """Whether a link joins two sites, by their names or identifiers and a comma between.

    There may be commas in names, and a site that is gone has none.
    """
    ends = link.site1_identifier, link.site2_identifier
    one, other = ({format_guid(end), sites.get(end, "")} - {""} for end in ends)
    meant = {text, ",".join(part.strip() for part in text.split(","))}
    both = {f"{this},{that}" for this in one for that in other}
    return not meant.isdisjoint(both | {f"{that},{this}" for this in one for that in other})


def _is_called(user: User, name: str) -> bool:
    """Users go by their SIDs, or by their names where they have some."""
    return name.casefold() in (
        user.name.casefold(),
        format_sid(user.security_identifier).casefold(),
    )


def _failure(cause: Refused | AuthorityAway, orders: Sequence[Order]) -> QueueError:
    if isinstance(cause, AuthorityAway):
        return NoDs(f"the directory cannot be reached: {cause}")
    exists = cause.status is DirectoryOperationResult.OBJECT_ALREADY_EXISTS
    if exists and not any(isinstance(order.value, Queue) for order in orders):
        return DsError(
            f"the directory has such an object: {cause}",
            "`posthouse directory refresh` brings it here; then it can be changed.",
        )
    return refusal(cause.status, "make the change", str(cause))


def _interrupted(broken: Interrupted, count: int) -> QueueError:
    """Which part of several changes was made; a directory server makes them one by one."""
    cause = f"{len(broken.made)} of {count} changes were made, then: {broken}"
    if isinstance(broken.cause, AuthorityAway):
        return NoDs(cause, "`posthouse directory refresh` when it is back, then do it again.")
    return DsError(
        cause, "Correct that and repeat the command. Changes that were made are not made twice."
    )
