"""The queue manager as a whole: status, books, offline and online, backup."""

from __future__ import annotations

from dataclasses import asdict

from posthouse.api.history import HistoryJson, HistoryParams
from posthouse.api.types import (
    BackupBody,
    BackupJson,
    BooksJson,
    BooksListJson,
    BooksParams,
    CountedJson,
    DirectoryStatusJson,
    Nothing,
    OnlineJson,
    StatusJson,
)
from posthouse.engine.ledger.books import books_of
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import InvalidParameter
from posthouse.model.guids import format_guid
from posthouse.model.message_json import time_text
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.health import summarize_health
from posthouse.protocols.handlers.history_samples import Sample
from posthouse.protocols.handlers.queue_pages import paged
from posthouse.protocols.handlers.refusals import Unavailable
from posthouse.protocols.handlers.request_steps import Steps, looked_at
from posthouse.security.rights import GET_QUEUE_PROPERTIES


def show_status(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> StatusJson:
    """Shows the queue manager: who it is, how much it holds, what it refused."""
    machine, queues = manager.machine, manager.queues.all()
    whole = context.caller.is_administrator and context.caller.scopes is None
    if not whole:
        queues = [queue for queue in queues if _visible(manager, context, queue)]
    refusals = sorted(machine.refusals.items()) if whole else []
    look = summarize_health(manager, queues, whole)
    return StatusJson(
        name=machine.name,
        guid=format_guid(machine.identifier),
        version=context.services.version,
        state=machine.state.value,
        online=manager.transfer.connection_active,
        queues=len(queues),
        messages=manager.messages.count if whole else sum(q.state.count for q in queues),
        bytes=manager.messages.bytes if whole else sum(q.state.bytes for q in queues),
        transactions=len(manager.transactions.all_open()) if whole else None,
        in_doubt=len(manager.transactions.in_doubt()) if whole else None,
        throttled=sorted(machine.throttled),
        refusals=[CountedJson(name=name, count=count) for name, count in refusals],
        url=manager.transactions.url,
        directory=directory_status(manager),
        time=time_text(machine.utc),
        ready=not look.not_ready,
        not_ready=look.not_ready,
        dead_letters=look.dead_letters,
        unreachable=look.unreachable,
        claims=look.claims,
        clocks=look.clocks,
        damaged=look.damaged,
        problems=look.problems() + (context.services.problems() if whole else []),
        host_change=look.host_change,
        domain_trouble=look.domain_trouble,
        takes_any_name=machine.settings.queue_manager.accept_any_name if whole else False,
        own_hosts=sorted(manager.queues.own_hosts()) if whole else [],
        refused_names=manager.queues.refused_names() if whole else [],
    )


def directory_status(manager: QueueManager) -> DirectoryStatusJson:
    """How the directory stands."""
    state = manager.directory.state()
    return DirectoryStatusJson(
        source=state.source,
        shared=bool(manager.directory.source),
        routing_server=manager.machine.settings.queue_manager.routing_server,
        online=state.online,
        since=time_text(state.since) if state.since else "",
        refreshed=time_text(state.refreshed) if state.refreshed else "",
        reason=state.reason,
        unusable=list(state.faults),
    )


def show_books(context: Context, params: BooksParams, body: Nothing) -> Steps[BooksListJson]:
    """Shows the books: every accepted message is accounted for once.

    In the order in which the queues were made, `balanced` for those of the page.
    """
    page = yield from paged(
        params.after,
        params.limit,
        lambda manager, queue: _visible(manager, context, queue),
        lambda manager, queue: _books_json(queue),
    )
    return BooksListJson(
        books=page.shown, balanced=all(line.balanced for line in page.shown), next=page.next
    )


def _visible(manager: QueueManager, context: Context, queue: Queue) -> bool:
    if queue.outgoing is not None:
        return context.caller.is_administrator and context.caller.scopes is None
    return manager.queues.guard(queue).allows(context.caller, GET_QUEUE_PROPERTIES)


def _books_json(queue: Queue) -> BooksJson:
    books = books_of(queue)
    return BooksJson(queue=queue.name, balanced=books.balanced, **asdict(books))


# -- operations


def take_offline(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> OnlineJson:
    """Stops talking to other queue managers; queues here stay usable."""
    context.require_administrator()
    manager.transfer.take_offline()
    context.tell(manager, "taken_offline")
    return OnlineJson(online=False)


def bring_online(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> OnlineJson:
    """Talks to other queue managers again."""
    context.require_administrator()
    manager.transfer.bring_online()
    context.tell(manager, "brought_online")
    return OnlineJson(online=True)


def make_backup(context: Context, params: Nothing, body: BackupBody) -> Steps[BackupJson]:
    """Copies the home while the queue manager runs, into a new directory of its machine."""
    yield from looked_at(lambda manager: context.require_administrator())
    if not body.directory.startswith("/") or "\0" in body.directory:
        raise InvalidParameter(
            "the path of the folder has to be absolute", "Begin the path with a slash."
        )
    if context.services.backup is None:
        raise Unavailable("this queue manager has no home that could be copied")
    try:
        yield context.services.backup(body.directory)
    except OSError as error:
        raise InvalidParameter(
            f"the copy cannot be written: {error.strerror or error}",
            "Name a directory that is not there yet, on a disk with room.",
        ) from None
    return BackupJson(directory=body.directory)


def show_history(
    manager: QueueManager, context: Context, params: HistoryParams, body: Nothing
) -> HistoryJson:
    """Shows the figures of the last hour or the last day, for charts."""
    context.require_administrator()
    history = context.services.history
    ring = history.hour if params.span == "hour" else history.day
    samples = list(ring.samples)
    fields = [name for name in Sample._fields if name != "utc"]
    return HistoryJson(
        span=params.span,
        interval_s=ring.interval_s,
        times=[time_text(sample.utc) for sample in samples],
        **{name: [getattr(sample, name) for sample in samples] for name in fields},
    )
