"""The result of a scan as a page for a browser: one file, no scripts, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from posthouse.cli.output import safe
from posthouse.client.remote.inventory import MachineInventory

_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; margin: .6rem 0 1.2rem }
th, td { border-bottom: 1px solid #bbb; padding: .25rem .8rem .25rem 0; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums }
.problem { color: #a30000 }
@media (prefers-color-scheme: dark) {
  body { background: #16181c; color: #ddd }
  th, td { border-color: #444 }
  .problem { color: #ff8a80 }
}
"""


def page(machines: Sequence[MachineInventory]) -> str:
    """The page."""
    made = machines[0].time if machines else ""
    body = "\n".join([_machine(machine) for machine in machines])
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>MSMQ machines</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>MSMQ machines</h1><p>Asked at {_text(made)}.</p>\n{body}\n</body></html>\n"
    )


def _machine(machine: MachineInventory) -> str:
    parts = [f"<h2>{_text(machine.host)}</h2>"]
    if machine.reached:
        state = "online" if machine.connected else "offline"
        size = "" if machine.bytes is None else f", {machine.bytes:,} bytes in all queues"
        parts.append(f"<p>{_text(machine.version)}, {state}{size}.</p>")
    else:
        parts.append(f'<p class="problem">{"Refused" if machine.answers else "Not reached"}.</p>')
    queues = [*machine.queues, *machine.dead_letters]
    words = {None: "unknown", True: "yes", False: "no"}
    if queues:
        parts.append(
            _table(
                ("Queue", "Kind", "Transactional", "Messages", "Bytes", "Journal", "State"),
                [
                    (
                        queue.path,
                        queue.kind,
                        words[queue.transactional] if queue.active else "",
                        queue.messages,
                        queue.bytes,
                        queue.journal_messages,
                        "" if queue.active else "not active",
                    )
                    for queue in queues
                ],
            )
        )
    if machine.outgoing:
        parts.append(
            _table(
                ("Outgoing queue", "State", "Messages", "Bytes", "Next hops"),
                [
                    (one.format_name, one.state, one.messages, one.bytes, ", ".join(one.next_hops))
                    for one in machine.outgoing
                ],
            )
        )
    for problem in machine.problems:
        words_of = f"{problem.what}: {problem.cause}. {problem.remedy}"
        parts.append(f'<p class="problem">Not asked ({problem.kind}): {_text(words_of)}</p>')
    if machine.left_out:
        parts.append(f"<p>{machine.left_out:,} more are not shown.</p>")
    return "\n".join(parts)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str | int]]) -> str:
    head = "".join([f"<th>{_text(column)}</th>" for column in columns])
    lines = ["".join([_cell(cell) for cell in row]) for row in rows]
    return f"<table><tr>{head}</tr>" + "".join([f"<tr>{line}</tr>" for line in lines]) + "</table>"


def _cell(cell: str | int) -> str:
    if isinstance(cell, int):
        return f'<td class="number">{cell:,}</td>'
    return f"<td>{_text(cell)}</td>"


def _text(text: str) -> str:
    return escape(safe(text))
