"""The one plain page under `/`: which queue manager this is, and its queues."""

from __future__ import annotations

from html import escape

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.protocols.handlers.health import summarize_health
from posthouse.security.access import Caller
from posthouse.security.rights import GET_QUEUE_PROPERTIES

QUEUES_SHOWN = 500
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .5rem;"
    "border-bottom:1px solid #ccc;word-break:break-all}.n{text-align:right}"
)


def page(manager: QueueManager, caller: Caller, version: str) -> str:
    """The page as HTML; whatever users named is escaped."""
    name = escape(manager.machine.settings.computer_name)
    queues = [queue for queue in manager.queues.all() if _shown(manager, caller, queue)]
    rows = "".join(_row(queue) for queue in queues[:QUEUES_SHOWN])
    more = len(queues) - QUEUES_SHOWN
    note = f"<p>{more} more queues are not shown.</p>" if more > 0 else ""
    whole = caller.is_administrator and caller.scopes is None
    look = summarize_health(manager, manager.queues.all() if whole else queues, whole)
    wrong = "".join(f"<li>{escape(line)}</li>" for line in look.problems())
    problems = f"<ul>{wrong}</ul>" if wrong else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{name}</h1>"
        f"<p>Posthouse {escape(version)}. "
        '<a href="/api/v1/openapi.json">API</a>, <a href="/metrics">metrics</a>, '
        '<a href="/healthz">health</a>, <a href="/readyz">readiness</a>.</p>'
        f"{problems}"
        "<table><thead><tr><th>Queue</th><th>Label</th>"
        '<th class="n">Messages</th><th class="n">Bytes</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>{note}</body></html>\n"
    )


def _shown(manager: QueueManager, caller: Caller, queue: Queue) -> bool:
    if queue.definition.role not in (QueueRole.PLAIN, QueueRole.SUBQUEUE):
        return False
    return manager.queues.guard(queue).allows(caller, GET_QUEUE_PROPERTIES)


def _row(queue: Queue) -> str:
    return (
        f"<tr><td>{escape(queue.name)}</td><td>{escape(queue.definition.label)}</td>"
        f'<td class="n">{queue.state.count}</td><td class="n">{queue.state.bytes}</td></tr>'
    )
