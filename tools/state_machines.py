"""docs/state-machines.md from the tables in the source: `python -m tools.state_machines`.

`--check` only compares, and ends with 1 where the page differs from the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from posthouse.engine.jobs.job_states import JOB_STATES
from posthouse.engine.messages.cursor import CURSOR_STATES
from posthouse.model.transitions import StateMachine
from posthouse.protocols.binary.link_states import LINK_STATES as BINARY_LINK_STATES
from posthouse.protocols.binary.session_states import SESSION_STATES
from posthouse.protocols.srmp.link_states import LINK_STATES as SRMP_LINK_STATES
from posthouse.rpc.connection_states import CONNECTION_STATES

PAGE: Final = Path(__file__).parent.parent / "docs" / "state-machines.md"

HEAD: Final = """\
# State machines

What has a state changes it by the events of a table and in no other way
(`posthouse.model.transitions`). This page is printed from those tables by
`python -m tools.state_machines`; change the table, not the page. Numbers are sections of the
document that each part names. Conversations that go through these states are in
[tests/transcripts](../tests/transcripts/README.md).
"""


class Part(NamedTuple):
    """One section of the page."""

    title: str
    text: str
    module: str
    machine: StateMachine[Any, Any]


PARTS: Final = (
    Part(
        "Binary session",
        "One session with another queue manager, in either role ([MS-MQQB]). A packet that the "
        "table does not have for a state closes the session.",
        "protocols/binary/session_states.py",
        SESSION_STATES,
    ),
    Part(
        "Binary link",
        "One destination of outgoing queues ([MS-MQQB]): at most one session, and the time of the "
        "next attempt.",
        "protocols/binary/link_states.py",
        BINARY_LINK_STATES,
    ),
    Part(
        "SRMP link",
        "One outgoing queue over HTTP ([MC-MQSRM]).",
        "protocols/srmp/link_states.py",
        SRMP_LINK_STATES,
    ),
    Part(
        "RPC connection",
        "A client's connection to the remote read server ([MS-RPCE], C706).",
        "rpc/connection_states.py",
        CONNECTION_STATES,
    ),
    Part(
        "Cursor",
        "A reader's place in a queue ([MS-MQDMPR]). What the table does not have is "
        "MQ_ERROR_ILLEGAL_CURSOR_ACTION.",
        "engine/messages/cursor.py",
        CURSOR_STATES,
    ),
    Part(
        "Job",
        "A job of a job queue (NetWare QMS).",
        "engine/jobs/job_states.py",
        JOB_STATES,
    ),
)


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *("\n".join(_section(part)) for part in PARTS)])


def _section(part: Part) -> Iterator[str]:
    yield f"## {part.title}\n"
    yield f"{_wrapped(part.text)}\n"
    yield f"Table: `src/posthouse/{part.module}`.\n"
    yield "```mermaid"
    yield from _diagram(part.machine)
    yield "```\n"
    yield "| State | Event | Next | When, what |"
    yield "|---|---|---|---|"
    for row in part.machine.rows:
        states = ", ".join(state.value for state in row.states)
        yield f"| {states} | {row.event.value} | {row.next.value} | {row.text} |"
    yield ""


def _diagram(machine: StateMachine[Any, Any]) -> Iterator[str]:
    """Loops are left out: the table has them."""
    yield "stateDiagram-v2"
    ends = map(_ends, machine.transitions().items())
    used = {machine.first, *(state for pair in ends for state in pair)}
    for state in (each for each in type(machine.first) if each in used):
        yield f"    {_word(state)}: {state.value}"
    yield f"    [*] --> {_word(machine.first)}"
    for (state, event), after in machine.transitions().items():
        if state is not after:
            yield f"    {_word(state)} --> {_word(after)}: {event.value}"


def _ends(transition: tuple[tuple[Enum, Enum], Enum]) -> tuple[Enum, Enum]:
    (state, _), after = transition
    return state, after


def _word(state: Enum) -> str:
    return state.name.lower()


def _wrapped(text: str, width: int = 100) -> str:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def main(words: list[str]) -> int:
    """Writes the page, or compares it."""
    if words == ["--check"]:
        if PAGE.read_text(encoding="utf-8") != page():
            print(f"{PAGE.name} differs from the tables: run python -m tools.state_machines")
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
