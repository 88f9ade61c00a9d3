"""The directory: the whole of it as a document, changes, and routes between machines."""

from __future__ import annotations

from typing import Literal

from posthouse.api.directory import (
    ChangedFieldJson,
    ChangedObjectJson,
    DirectoryChangeJson,
    DirectoryImportBody,
    DirectoryRemoveBody,
    ObjectKind,
    RouteJson,
    RouteParams,
    RouteStepJson,
)
from posthouse.api.types import DirectoryStatusJson, Nothing
from posthouse.directory import objects
from posthouse.directory.document.document import Difference, Document, Holdings, Names, title_of
from posthouse.directory.document.text import field_changes
from posthouse.directory.references import who_names
from posthouse.engine.manager import QueueManager
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.machine import directory_status
from posthouse.protocols.handlers.request_steps import Steps, looked_at

NAMED_BY_MAX = 100

_KINDS: dict[type[objects.DirectoryObject], ObjectKind | Literal["enterprise"]] = {
    objects.QueueManager: "machine",
    objects.Site: "site",
    objects.RoutingLink: "link",
    objects.Queue: "queue",
    objects.DistributionList: "list",
    objects.QueueAlias: "alias",
    objects.User: "user",
    objects.ConnectedNetwork: "network",
    objects.Enterprise: "enterprise",
}


def show_directory(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> Document:
    """Shows the directory as one document: sites, links, machines, public queues, lists."""
    context.require_administrator()
    return manager.directory.document()


def import_directory(
    manager: QueueManager, context: Context, params: Nothing, body: DirectoryImportBody
) -> DirectoryChangeJson:
    """Changes the directory to match a document, all of it or nothing."""
    context.require_administrator()
    found = manager.directory.take_in(
        body.document, prune=body.prune, only=body.only, dry_run=body.dry_run
    )
    return told(manager, context, found, dry_run=body.dry_run)


def told(
    manager: QueueManager, context: Context, found: Difference, *, dry_run: bool
) -> DirectoryChangeJson:
    """What a change of the directory did, for the caller and for the operator's log."""
    held = manager.directory.holdings()
    names = Names(Holdings.of([*found.deleted, *found.created, *held.objects()]))
    before = {one.identifier: one for one in found.before}
    changes = [
        *(_changed(value, "deleted", names.sites) for value in found.deleted),
        *(_written(value, before.get(value.identifier), names) for value in found.changed),
        *(_changed(value, "created", names.sites) for value in found.created),
    ]
    if changes and not dry_run:
        context.tell(manager, "directory_changed", objects=len(changes))
    return DirectoryChangeJson(changes=changes)


def _written(
    value: objects.DirectoryObject, before: objects.DirectoryObject | None, names: Names
) -> ChangedObjectJson:
    told_of = _changed(value, "changed", names.sites)
    if before is not None:
        told_of.fields = [
            ChangedFieldJson(**one._asdict()) for one in field_changes(before, value, names)
        ]
    return told_of


def remove_from_directory(
    manager: QueueManager, context: Context, params: Nothing, body: DirectoryRemoveBody
) -> DirectoryChangeJson:
    """Takes one object out of the directory."""
    context.require_administrator()
    sites = {site.identifier: site.name for site in manager.directory.sites()}
    value = manager.directory.remove(body.kind, body.name, dry_run=body.dry_run)
    if not body.dry_run:
        context.tell(manager, "directory_changed", objects=1)
    done = _changed(value, "deleted", sites)
    left = who_names(value, manager.directory.holdings().objects())
    done.named_by = [f"{_KINDS[type(one)]} {title_of(one, sites)}" for one in left[:NAMED_BY_MAX]]
    done.left_off = len(left) - len(done.named_by)
    return DirectoryChangeJson(changes=[done])


def _changed(
    value: objects.DirectoryObject,
    change: Literal["created", "changed", "deleted"],
    sites: dict[bytes, str],
) -> ChangedObjectJson:
    return ChangedObjectJson(kind=_KINDS[type(value)], name=title_of(value, sites), change=change)


def refresh_directory(
    context: Context, params: Nothing, body: Nothing
) -> Steps[DirectoryStatusJson]:
    """Asks the authority of the directory for changes, and shows how the directory stands."""
    yield from looked_at(lambda manager: context.require_administrator())
    yield from looked_at(lambda manager: manager.directory.begin_again())
    if context.services.refresh is not None:
        yield context.services.refresh("")
    return (yield from looked_at(directory_status))


def show_route(
    manager: QueueManager, context: Context, params: RouteParams, body: Nothing
) -> RouteJson:
    """Shows the way that messages take from one machine to another, and why."""
    context.require_administrator()
    steps = manager.directory.route(params.source, params.target)
    return RouteJson(steps=[RouteStepJson(**step._asdict()) for step in steps])
