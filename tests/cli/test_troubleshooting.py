"""docs/troubleshooting.md: every command of every symptom, with a queue manager that has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

import posthouse as client
from tests.cli.conftest import Posthouse
from tests.cli.page_lines import lines_of, run_line
from tests.client.serving import Serving, serving

SECTIONS = lines_of("troubleshooting.md")
FAR = "DIRECT=OS:winhost\\private$\\orders"
GROUP = f"/queues/{quote('./private$/orders', safe='')}/groups/archive/lease"
Words = dict[str, str]


@pytest.fixture(autouse=True)
def begin(ph: Posthouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("orders", "payments"):
        ph("queue", "delete", name, "--yes")
    ph("queue", "create", "orders")
    ph("queue", "create", "payments", "--transactional")
    ph("user", "create", "alice", stdin=b"correct horse 7\n")


def a_new_user(ph: Posthouse) -> Words:
    ph("user", "delete", "alice")
    Path("password.txt").write_text("correct horse 7\n")
    return {}


def stopped_home(ph: Posthouse) -> Words:
    with serving(Path("stopped").absolute()):
        return {}


def outgoing(ph: Posthouse) -> Words:
    assert ph("send", FAR, "--body", "x", "--recoverable").code == 0
    return {}


def sent(ph: Posthouse) -> Words:
    return {"ID": ph("send", "orders", "--body", "x", "--label", "order 1").out.strip()}


def dead(ph: Posthouse) -> Words:
    ph("send", "orders", "--body", "x", "--dead-letter", "--time-to-be-received", "60")
    ph("queue", "purge", "orders", "--yes")
    assert ph("peek", "./system$;deadletter").code == 0
    return {}


def claimed(ph: Posthouse) -> Words:
    ph("send", "orders", "--body", "x")
    with client.connect() as qm:
        body = {"mode": "observe", "owner": "somebody", "end": False}
        qm.call("POST", GROUP, body)
    return {}


def aborted(ph: Posthouse) -> Words:
    ph("send", "payments", "--body", "x", "--transactional")
    with client.connect() as qm:
        for _ in range(4):
            with qm.transaction() as tx:
                qm.queue(r".\private$\payments").receive(timeout=0, tx=tx)
                tx.abort()
    return {}


def in_a_code_page(ph: Posthouse) -> Words:
    ph("send", "orders", "--body", "x", "--body-type", "30")
    return {"LOOKUPID": str(ph("peek", "orders", "--json").value["lookup_id"])}


def job(ph: Posthouse) -> Words:
    Path("query.sql").write_text("SELECT 1")
    ph("job", "queue", "create", "REPORTS")
    assert ph("job", "submit", "REPORTS", "query.sql", "--hold").code == 0
    return {}


def nothing(ph: Posthouse) -> Words:
    return {}


BEGUN: dict[str, Callable[[Posthouse], Words]] = {
    "": nothing,
    "A command ends with exit code 3: not reachable": a_new_user,
    "The queue manager does not start": stopped_home,
    "A message did not arrive on another machine": outgoing,
    "A message is lost or cannot be found": sent,
    "There are dead letters": dead,
    "Receive gets nothing, and the queue has messages": claimed,
    "A queue refuses messages": sent,
    "Access is denied": nothing,
    "One message fails again and again, and the others wait": aborted,
    "The body of a message cannot be read": in_a_code_page,
    "Transactional messages of one sender stop coming": nothing,
    "Records are damaged": nothing,
    "Public queues are not found": nothing,
    "A job waits and no server takes it": job,
    "It is slow": nothing,
}


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_commands_work_as_printed(heading: str, ph: Posthouse, server: Serving) -> None:
    words = BEGUN[heading](ph)
    words |= {"http://127.0.0.1:8816": server.url, "GUID": "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11"}
    for line in SECTIONS[heading]:
        done = run_line(ph, line, words)
        assert done.code == 0, (line, done)
        assert done.out, line
