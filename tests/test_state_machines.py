"""The tables of states against the documents' state machines, and the page printed from them.

The rows here are an independent statement: they were written from the figures and texts of the
documents and from our rulings on them, not from the tables in the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

from posthouse.engine.jobs.job_states import JOB_STATES
from posthouse.engine.messages.cursor import CURSOR_STATES
from posthouse.model.transitions import ImpossibleTransition, Row, StateMachine
from posthouse.protocols.binary.link_states import LINK_STATES as BINARY_LINK_STATES
from posthouse.protocols.binary.session_states import SESSION_STATES
from posthouse.protocols.srmp.link_states import LINK_STATES as SRMP_LINK_STATES
from posthouse.rpc.connection_states import CONNECTION_STATES
from tests.support.source import source_tree
from tools import state_machines

# [MS-MQQB] figures 3 and 4, sections 3.1.5.2 to 3.1.5.5, 3.1.5.8, 3.1.5.9. An event that is not
# here closes the session; closing is possible in every state but CLOSED.
SESSION = """
WAITING_EC_MSG   | we connected         | WAITING_ECR_MSG
WAITING_EC_MSG   | EstablishConnection  | WAITING_CP_MSG
WAITING_ECR_MSG  | EstablishConnection  | WAITING_CPR_MSG
WAITING_CP_MSG   | ConnectionParameters | OPEN
WAITING_CPR_MSG  | ConnectionParameters | OPEN
OPEN             | SessionAck           | OPEN
OPEN             | UserMessage          | OPEN
WAITING_EC_MSG   | close                | CLOSED
WAITING_ECR_MSG  | close                | CLOSED
WAITING_CP_MSG   | close                | CLOSED
WAITING_CPR_MSG  | close                | CLOSED
OPEN             | close                | CLOSED
"""

# [MS-MQQB] figure 3, the part outside a session: 3.1.5.2.1 resolve, 3.1.5.2.2 ping, 3.1.5.2.3
# connect, 3.1.5.9 close, 3.1.6.1 retry. Our ruling: a failed resolve or ping waits to reconnect.
BINARY_LINK = """
idle                 | begin        | resolving
waiting to reconnect | begin        | resolving
resolving            | ping         | pinging
resolving            | connect      | connecting
pinging              | connect      | connecting
connecting           | connected    | opening
opening              | session open | open
idle                 | wait         | waiting to reconnect
resolving            | wait         | waiting to reconnect
pinging              | wait         | waiting to reconnect
connecting           | wait         | waiting to reconnect
opening              | wait         | waiting to reconnect
open                 | wait         | waiting to reconnect
waiting to reconnect | wait         | waiting to reconnect
idle                 | end          | idle
resolving            | end          | idle
pinging              | end          | idle
connecting           | end          | idle
opening              | end          | idle
open                 | end          | idle
waiting to reconnect | end          | idle
"""

# [MC-MQSRM] figure 3 and 3.1.7.9: connect, post, wait for the response, wait to retransmit; our
# ruling: a failed queue is Disconnected, never Inactive, and connects again.
SRMP_LINK = """
idle                  | begin     | resolving
waiting to retransmit | begin     | resolving
resolving             | connect   | connecting
connecting            | connect   | connecting
connecting            | connected | open
open                  | closed    | idle
resolving             | fail      | waiting to retransmit
connecting            | fail      | waiting to retransmit
open                  | fail      | waiting to retransmit
idle                  | rest      | idle
resolving             | rest      | idle
connecting            | rest      | idle
open                  | rest      | idle
waiting to retransmit | rest      | idle
"""

# C706 12.6.4 and 9.3.2: nothing but a bind before the bind, one bind for each connection.
CONNECTION = """
unbound | bind          | bound
bound   | request       | bound
bound   | alter_context | bound
bound   | auth3         | bound
bound   | co_cancel     | bound
bound   | orphaned      | bound
bound   | shutdown      | bound
unbound | end           | ended
bound   | end           | ended
ended   | end           | ended
"""

# [MS-MQDMPR] figure 3 and 3.2.7.
CURSOR = """
unread       | peeked            | read
unread       | peek_waits        | wait_peek
unread       | dequeued          | unread
unread       | dequeue_waits     | wait_receive
read         | peeked            | read
read         | next_peeked       | read
read         | next_peek_waits   | wait_peek
read         | dequeued          | unread
wait_peek    | message_available | read
wait_peek    | wait_time_expired | unread
wait_receive | message_available | unread
wait_receive | wait_time_expired | unread
"""

# NetWare QMS, Tables 26 and 27.
JOB = """
open       | start     | waiting
waiting    | service   | in service
in service | give back | waiting
open       | change    | open
waiting    | change    | waiting
in service | change    | in service
in service | finished  | ended
in service | failed    | ended
open       | removed   | ended
waiting    | removed   | ended
in service | removed   | ended
open       | abandoned | ended
open       | destroyed | ended
waiting    | destroyed | ended
in service | destroyed | ended
"""

MACHINES = {
    "session": (SESSION_STATES, SESSION),
    "binary link": (BINARY_LINK_STATES, BINARY_LINK),
    "SRMP link": (SRMP_LINK_STATES, SRMP_LINK),
    "connection": (CONNECTION_STATES, CONNECTION),
    "cursor": (CURSOR_STATES, CURSOR),
    "job": (JOB_STATES, JOB),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_table_is_what_the_document_draws(name: str) -> None:
    machine, text = MACHINES[name]
    expected = [
        tuple(cell.strip() for cell in line.split("|")) for line in text.split("\n") if line
    ]
    found = [(a.value, event.value, b.value) for (a, event), b in machine.transitions().items()]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("name", MACHINES)
def test_every_state_of_a_table_can_be_reached(name: str) -> None:
    machine: StateMachine[Any, Any] = MACHINES[name][0]
    table = machine.transitions()
    reached, more = set[Any](), {machine.first}
    while more:
        reached |= more
        more = {after for (state, _), after in table.items() if state in reached} - reached
    assert {state for state, _ in table} <= reached


def test_the_page_is_what_the_tables_say() -> None:
    """Made by: python -m tools.state_machines"""
    assert state_machines.PAGE.read_text(encoding="utf-8") == state_machines.page()


# Where things with a table live; nothing else there has a `state`.
OWNERS = ("protocols/binary/", "protocols/srmp/", "rpc/", "engine/jobs/")


def states_set(tree: ast.AST) -> Iterator[tuple[int, ast.expr]]:
    """What is assigned to an attribute `state`, and in which line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Attribute) and target.attr == "state":
                    yield node.lineno, node.value


def is_of_a_table(value: ast.expr) -> bool:
    """`X_STATES.first`, `X_STATES.after(...)`, or of a job its state with another place."""
    words = ast.unparse(value)
    return (
        words.endswith("_STATES.first")
        or "_STATES.after(" in words
        or words.startswith("job.state._replace(place=")
    )


def test_states_change_by_their_tables_alone() -> None:
    """The phase of a job is in its flags: `advance` asks the table and then calls `set_state`."""
    found = [
        (module.name, ast.unparse(value))
        for module in source_tree().modules
        if module.name.startswith(OWNERS)
        for _, value in states_set(module.tree)
        if not is_of_a_table(value)
    ]
    known = [("engine/jobs/job.py", "state"), *[("engine/jobs/shared.py", "state")] * 2]
    assert found == known
    cursor = source_tree().classes("engine/queues/queue.py")["Cursor"]
    assert [line for line, value in states_set(cursor) if not is_of_a_table(value)] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("self.state = LINK_STATES.first; self.state = LINK_STATES.after(self.state, event)", 0),
        ("link.state = LinkState.OPEN", 1),
        ("self.state: LinkState = LinkState.OPEN", 1),
        ("job.state = job.state._replace(place=place)", 0),
        ("job.state = job.state._replace(flags=0)", 1),
    ],
)
def test_a_state_that_is_set_beside_its_table_is_noticed(text: str, count: int) -> None:
    wrong = [value for _, value in states_set(ast.parse(text)) if not is_of_a_table(value)]
    assert len(wrong) == count


def test_no_other_page_has_a_diagram() -> None:
    """It would be drawn by hand, and no longer be true one day."""
    pages = sorted(state_machines.PAGE.parent.glob("*.md"))
    assert [page.name for page in pages if "```mermaid" in page.read_text("utf-8")] == [
        state_machines.PAGE.name
    ]


class Lamp(Enum):
    OFF = "off"
    ON = "on"


class Switch(Enum):
    UP = "up"
    DOWN = "down"


def lamp() -> StateMachine[Lamp, Switch]:
    rows = [Row((Lamp.OFF,), Switch.UP, Lamp.ON, ""), Row((Lamp.ON,), Switch.DOWN, Lamp.OFF, "")]
    return StateMachine("lamp", Lamp.OFF, rows)


def test_what_a_table_does_not_have_does_not_happen() -> None:
    machine = lamp()
    assert machine.after(Lamp.OFF, Switch.UP) is Lamp.ON
    assert not machine.allows(Lamp.OFF, Switch.DOWN)
    with pytest.raises(ImpossibleTransition, match="lamp: down in off"):
        machine.after(Lamp.OFF, Switch.DOWN)


def test_an_event_of_a_state_stands_in_a_table_once() -> None:
    rows = [Row((Lamp.OFF,), Switch.UP, Lamp.ON, ""), Row((Lamp.OFF,), Switch.UP, Lamp.OFF, "")]
    with pytest.raises(AssertionError, match="lamp"):
        StateMachine("lamp", Lamp.OFF, rows)
