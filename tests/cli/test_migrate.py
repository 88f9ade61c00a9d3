"""`posthouse migrate`: from an inventory to the last late message, between two queue managers."""

from __future__ import annotations

import json
import re
import socket
import uuid
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import posthouse as ph_module
from posthouse.cli import main
from posthouse.cli.commands_page import commands
from posthouse.cli.migrate.plan import _key, _of_windows
from posthouse.client.remote.cutover import aliases_check, name_check
from tests.cli.conftest import Posthouse, Result
from tests.cli.page_lines import run_line
from tests.client.read_serving import PASSWORD, ReadServing, read_serving
from tests.client.serving import Serving, serving
from tests.engine.settings import engine_settings

NUMBERS = count()
EXAMPLES = {name: command.help or "" for name, command in commands(main.program(), "posthouse")}
ADMIN = "mover"


@pytest.fixture(scope="module")
def far() -> Iterator[ReadServing]:
    with read_serving() as server:
        with ph_module.connect(server.home) as qm:
            qm.call(
                "POST",
                "/users",
                {
                    "name": ADMIN,
                    "doors": ["rpc"],
                    "administrator": True,
                    "password": PASSWORD,
                },
            )
        yield server


class Moving:
    """Two machines, and the commands between them."""

    def __init__(self, far: ReadServing, here: Serving, run: Posthouse, folder: Path) -> None:
        self.far, self.here, self._run, self._folder = far, here, run, folder
        self.theirs = ph_module.connect(far.home)
        self.ours = ph_module.connect(here.home)
        for queue in self.theirs.queues():
            self.theirs.delete_queue(queue.path)
        self.name = f"orders-{next(NUMBERS)}"
        self.path = rf".\private$\{self.name}"
        self.source = f"127.0.0.1/private$/{self.name}"
        self.inventory = folder / "inventory.json"
        self.password = folder / "password.txt"
        self.password.write_text(PASSWORD + "\n", encoding="utf-8")

    def close(self) -> None:
        self.theirs.close()
        self.ours.close()

    def create(self, *bodies: bytes, **properties: Any) -> None:
        self.theirs.create_queue(self.path, **properties)
        queue = self.theirs.queue(self.path)
        if properties.get("transactional"):
            with self.theirs.transaction() as tx:
                queue.send_many(bodies, tx=tx)
        else:
            queue.send_many(bodies, recoverable=True)
        queue.close()

    def login(self) -> list[str]:
        return [
            "--user", ADMIN, "--password-file", str(self.password), "--rpc-port",
            str(self.far.rpc_port), "--binary-port", str(self.far.binary_port), "--patience", "5s",
        ]  # fmt: skip

    def __call__(self, *words: str | Path, stdin: bytes = b"") -> Result:
        return self._run("migrate", *words, "--home", self.here.home, stdin=stdin)

    def scan(self) -> None:
        place = f"127.0.0.1:{self.far.rpc_port}"
        login = ("--user", ADMIN, "--password-file", self.password)
        done = self._run("scan", place, *login, "--output", self.inventory)
        assert done.code == 0, done.err + done.out

    def bodies(self, path: str = "") -> list[bytes]:
        return [one.body for one in self.ours.queue(path or self.path).browse()]

    def there(self) -> list[bytes]:
        with ph_module.connect(self.far.home) as qm:
            return [one.body for one in qm.queue(self.path).browse()]


@pytest.fixture
def moving(
    far: ReadServing, server: Serving, posthouse: Posthouse, tmp_path: Path
) -> Iterator[Moving]:
    made = Moving(far, server, posthouse, tmp_path)
    yield made
    made.close()


# -- plan


def test_the_same_queues_are_made_here(moving: Moving) -> None:
    moving.create(b"1", transactional=True)
    moving.scan()
    shown = moving("plan", moving.inventory)
    assert shown.code == 0, shown.err
    assert "create" in shown.out
    assert "1 queues would be made; --apply makes them." in shown.out
    assert "label, quota" in shown.out
    made = moving("plan", moving.inventory, "--apply", "--json")
    (line,) = made.lines
    assert (line["path"], line["action"]) == (moving.path, "made")
    assert moving.ours.queue(moving.path).properties().transactional
    again = moving("plan", moving.inventory, "--apply", "--json").value
    assert again["action"] == "exists"
    assert again["unknown"][:2] == ["journal", "label"]


def test_a_queue_that_differs_is_told_of_and_left(moving: Moving) -> None:
    moving.create(transactional=True)
    moving.ours.create_queue(moving.path)
    moving.scan()
    done = moving("plan", moving.inventory, "--apply")
    assert done.code == 1
    assert "transactional is False, there True" in done.out
    assert not moving.ours.queue(moving.path).properties().transactional


def test_what_windows_prints_fills_what_is_not_known(moving: Moving, tmp_path: Path) -> None:
    moving.create()
    moving.scan()
    moving.ours.call("POST", "/users", {"name": f"user{moving.name[7:]}"})
    properties = tmp_path / "queues.json"
    listed = {
        "QueueName": f"private$\\{moving.name}",
        "Label": "Orders",
        "UseJournalQueue": True,
        "MaximumQueueSize": 1000,
        "MaximumJournalSize": 4294967295,
        "Authenticate": False,
        "EncryptionRequired": 1,
        "Rights": [
            {"Account": f"CORP\\USER{moving.name[7:]}", "Rights": ["send"]},
            {"Account": "CORP\\gone", "Rights": ["receive"]},
            {"Account": "Everyone", "Rights": ["send", "peek"]},
        ],
    }
    properties.write_text(json.dumps(listed), encoding="utf-16")
    done = moving("plan", moving.inventory, "--properties", properties, "--apply", "--json")
    assert done.code == 0, done.err
    line = done.value
    assert (line["action"], line["unknown"]) == ("made", [])
    assert line["unmapped"] == ["CORP\\gone: receive"]
    found = moving.ours.queue(moving.path).properties()
    assert (found.label, found.journal, found.quota_kib) == ("Orders", True, 1000)
    assert found.journal_quota_kib is None
    access = moving._run("queue", "access", moving.path, "--home", moving.here.home, "--json").out
    assert f"user{moving.name[7:]}" in access
    assert "everyone" in access.lower()


@pytest.mark.parametrize(
    ("data", "cause"),
    [("{", "is not JSON"), ('[{"Label": "x"}]', "without QueueName")],
    ids=["torn", "nameless"],
)
def test_a_file_of_something_else_is_refused(
    moving: Moving, tmp_path: Path, data: str, cause: str
) -> None:
    moving.create()
    moving.scan()
    wrong = tmp_path / "wrong.json"
    wrong.write_text(data)
    done = moving("plan", moving.inventory, "--properties", wrong)
    assert done.code == 1
    assert cause in done.err
    assert moving("plan", wrong).code == 1


def test_a_public_queue_is_planned_as_the_directory_has_it(moving: Moving) -> None:
    guid, name = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b70", f"till-{next(NUMBERS)}"
    queue = {
        "path": f"OLDHOST\\{name}",
        "guid": str(uuid.uuid4()),
        "label": "Till",
        "transactional": True,
        "journaling": True,
    }
    document = {"machines": [{"name": "OLDHOST", "guid": guid}], "queues": [queue]}
    moving.ours.call("POST", "/directory", {"document": document})
    listed = {"path": queue["path"], "format_name": f"PUBLIC={queue['guid']}", "kind": "public"}
    machine = {"host": "oldhost", "time": "", "reached": True, "queues": [listed]}
    inventory = {"format": "posthouse inventory", "version": 1, "made": "", "machines": [machine]}
    moving.inventory.write_text(json.dumps(inventory))
    line = moving("plan", moving.inventory, "--json").value
    assert (line["path"], line["action"]) == (f".\\{name}", "create")
    assert line["properties"] == {
        "label": "Till", "transactional": True, "journal": True, "authenticated": False,
    }  # fmt: skip
    assert line["unknown"] == ["quota", "journal quota", "privacy", "rights"]
    moving("plan", moving.inventory, "--apply")
    assert moving.ours.queue(rf".\{name}").properties().label == "Till"


def test_names_and_sizes_of_windows_are_understood() -> None:
    assert _key("WINHOST\\Private$\\Orders") == _key(r".\private$\orders") == r"private$\orders"
    assert _key(r"winhost\till") == "till"
    given = _of_windows({"MaximumQueueSize": -1, "EncryptionRequired": "Body", "Label": 3})
    assert given == {"quota_kib": None, "privacy": "body"}


# -- pull, verify, list, forget


def test_a_queue_is_moved_and_verified(moving: Moving) -> None:
    sent = [b"%d" % at for at in range(100)]
    moving.create(*sent, transactional=True)
    moving.ours.create_queue(moving.path, transactional=True)
    done = moving("pull", moving.source, *moving.login())
    assert done.code == 0, done.err
    assert f"100 messages moved to {moving.path}." in done.out
    assert (moving.bodies(), moving.there()) == (sent, [])
    same = moving("verify", moving.source, *moving.login())
    assert same.code == 0, same.err
    assert "no difference. 0 at the source, 100 pulled; 100 of them in" in same.out
    listed = moving("list", "--json").lines
    (one,) = [one for one in listed if one["source"] == rf"private$\{moving.name}"]
    assert (one["messages"], one["running"], one["host"]) == (100, False, "127.0.0.1")
    assert moving.name in moving("list").out
    assert moving("forget", str(one["id"])).code == 0
    assert moving.name not in moving("list").out


def test_copies_are_verified_and_differences_found(moving: Moving) -> None:
    moving.create(b"one", b"two", b"three")
    moving.ours.create_queue(moving.path)
    line = moving("pull", moving.source, "--keep", "--json", *moving.login()).lines[-1]
    assert (line["state"], line["taken"], line["ended"]) == ("done", 3, 0)
    (pull,) = [one for one in moving("list", "--json").lines if moving.name in one["source"]]
    assert (pull["messages"], pull["copies"]) == (3, 3)
    same = moving("verify", moving.source, "--json", *moving.login()).value
    assert same["equal"]
    assert (same["at_source"], same["pulled"], same["here"]) == (3, 3, 3)
    moving.ours.queue(moving.path).receive(0)
    received = moving("verify", moving.source, "--json", *moving.login()).value
    assert (received["equal"], received["received_here"]) == (True, 1)
    with ph_module.connect(moving.far.home) as qm:
        qm.queue(moving.path).send(b"late", recoverable=True)
    missing = moving("verify", moving.source, *moving.login())
    assert missing.code == 1
    assert "DIFFERENT" in missing.out
    assert "1 were not pulled" in missing.out


def test_one_that_is_here_twice_is_found(moving: Moving) -> None:
    moving.create(b"one")
    moving.ours.create_queue(moving.path)
    moving("pull", moving.source, "--keep", *moving.login())
    number = next(p["id"] for p in moving("list", "--json").lines if moving.name in p["source"])
    moving("forget", str(number))
    moving("pull", moving.source, "--keep", *moving.login())
    found = moving("verify", moving.source, "--json", *moving.login())
    assert found.code == 1
    assert (found.value["twice_count"], len(found.value["twice"])) == (1, 1)


def test_a_whole_machine_is_pulled_with_journals_and_dead_letters(moving: Moving) -> None:
    moving.create(b"read", b"stays", journal=True)
    with ph_module.connect(moving.far.home) as qm:
        qm.queue(moving.path).receive(0)
        other = moving.path + "-other"
        qm.create_queue(other)
        qm.queue(other).send(b"late", recoverable=True, time_to_be_received=0, dead_letter=True)
    moving.scan()
    assert moving("plan", moving.inventory, "--apply").code == 0
    words = ("--inventory", moving.inventory, "--journals", "--dead-letters")
    done = moving("pull", *words, *moving.login())
    assert done.code == 0, done.err
    assert moving.bodies() == [b"stays"]
    assert moving.bodies(moving.path + ";journal") == [b"read"]
    assert b"late" in moving.bodies(r".\system$;deadletter")
    again = moving("pull", *words, *moving.login(), "--json")
    assert sum(line["taken"] for line in again.lines) == 0
    assert moving("verify", *words, *moving.login()).code == 0


def test_what_pulls_put_into_a_journal_there_is_not_missing(moving: Moving) -> None:
    """The order is the user's: moved, more came, copied with journals."""
    moving.create(b"read", b"one", b"two", journal=True)
    moving.ours.create_queue(moving.path, journal=True)
    with ph_module.connect(moving.far.home) as qm:
        qm.queue(moving.path).receive(0)
    assert moving("pull", moving.source, *moving.login()).code == 0
    first = moving("verify", moving.source, "--journals", *moving.login(), "--json")
    assert first.code == 1  # the journal was not pulled
    journal, queue = first.lines
    assert (journal["missing_count"], journal["left_out"], queue["equal"]) == (1, 2, True)
    moving.theirs.queue(moving.path).send(b"three", recoverable=True)
    keep = ("pull", moving.source, "--keep", "--journals", *moving.login())
    assert moving(*keep).code == 0
    assert moving.bodies(moving.path + ";journal") == [b"read"]
    shown = moving("verify", moving.source, "--journals", *moving.login())
    assert shown.code == 0, shown.out
    assert "2 are in that journal because pulls received them." in shown.out
    assert moving(*keep).code == 0
    assert moving.bodies(moving.path + ";journal") == [b"read"]


def test_a_machine_that_is_away_keeps_none_of_the_others_waiting(moving: Moving) -> None:
    moving.create(b"one")
    moving.scan()
    inventory = json.loads(moving.inventory.read_text())
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    away = inventory["machines"][0] | {"host": "127.0.0.2", "port": port}
    inventory["machines"].insert(0, away)
    moving.inventory.write_text(json.dumps(inventory))
    moving.ours.create_queue(moving.path)
    words = ["--inventory", str(moving.inventory), *moving.login()]
    done = moving("pull", *words)
    assert done.code == 3
    assert f"127.0.0.2: DIRECT=OS:{moving.theirs.name}" in done.err.replace("\n", " ")
    assert f"1 messages moved to {moving.path}." in done.out
    assert (moving.bodies(), moving.there()) == ([b"one"], [])
    same = moving("verify", *words)
    assert same.code == 3
    assert "no difference. 0 at the source, 1 pulled; 1 of them in" in same.out


def test_a_guid_is_that_of_one_machine(moving: Moving) -> None:
    moving.create(b"one")
    moving.scan()
    inventory = json.loads(moving.inventory.read_text())
    inventory["machines"].append(inventory["machines"][0] | {"host": "127.0.0.2"})
    moving.inventory.write_text(json.dumps(inventory))
    words = ("--inventory", moving.inventory, "--guid", str(uuid.uuid4()), *moving.login())
    for verb in ("pull", "verify"):
        refused = moving(verb, *words)
        assert refused.code == 2
        assert "127.0.0.1, 127.0.0.2" in refused.err
        assert "--machine HOST" in refused.err
    assert moving.name not in moving("list").out
    moving.ours.create_queue(moving.path)
    assert moving("pull", *words, "--machine", "127.0.0.1").code == 0
    (pull,) = [one for one in moving("list", "--json").lines if moving.name in one["source"]]
    assert pull["guid"] == words[3]


def test_a_password_comes_from_standard_input(moving: Moving) -> None:
    moving.create(b"one")
    moving.ours.create_queue(moving.path)
    words = moving.login()
    words[2:4] = []  # --password-file
    done = moving("pull", moving.source, *words, stdin=f"{PASSWORD}\n".encode())
    assert done.code == 0, done.err
    wrong = moving("pull", moving.source, *words, stdin=b"wrong\n")
    assert wrong.code in (1, 3)
    assert wrong.err


def test_messages_that_are_refused_stay_and_are_told_of(moving: Moving) -> None:
    moving.create(b"one")
    moving.ours.create_queue(moving.path, transactional=True)
    done = moving("pull", moving.source, *moving.login())
    assert done.code == 1
    assert "1 messages were refused here and stay there. The first:" in done.err
    assert moving.there() == [b"one"]


def test_a_missing_queue_here_is_told_with_a_remedy(moving: Moving) -> None:
    moving.create(b"one")
    done = moving("pull", moving.source, *moving.login())
    assert done.code == 1
    assert "there is no queue" in done.err
    assert "posthouse migrate plan" in done.err


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("a/private$/b", "--inventory", "f"),
        ("a/private$/b", "--machine", "a"),
        ("./private$/b",),
        ("--inventory", "f", "--keep", "--follow"),
    ],
    ids=["nothing", "both", "machine", "local", "keep and follow"],
)
def test_what_contradicts_itself_is_refused(moving: Moving, words: tuple[str, ...]) -> None:
    assert moving("pull", *words).code == 2


def test_a_machine_that_the_inventory_has_not_is_refused(moving: Moving) -> None:
    moving.create()
    moving.scan()
    done = moving("pull", "--inventory", moving.inventory, "--machine", "other")
    assert done.code == 1
    assert "has no machine other" in done.err


# -- the examples of the help


@pytest.mark.parametrize(
    ("verb", "code"), [("pull", 0), ("verify", 1), ("switch", 1)], ids=["pull", "verify", "switch"]
)
def test_the_examples_in_the_help_work(
    moving: Moving, verb: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the pull something is missing, and left to do."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTHOUSE_HOME", str(moving.here.home))
    moving.create(b"one")
    moving.ours.create_queue(moving.path)
    moving.scan()
    lines = re.findall(r"Example: (.*)", EXAMPLES[f"posthouse migrate {verb}"])
    assert lines
    queue = f"private$/{moving.name}"
    names = {"winhost": "127.0.0.1", "CORP\\me": ADMIN, "private$/orders": queue}
    for line in lines:
        ports = moving.login()[4 if "--user" in line else 0 :]
        done = run_line(moving._run, line, names, *ports)
        assert done.code == code, done.err + done.out


# -- switch


def test_what_is_left_of_a_change_over_is_listed(moving: Moving) -> None:
    moving.create(b"one")
    moving.scan()
    done = moving("switch", "127.0.0.1", "--inventory", moving.inventory, *moving.login(), "--json")
    assert done.code == 1
    states = {line["check"]: line["state"] for line in done.lines}
    assert states == {
        "queues": "left",
        "aliases": "unknown",
        "DNS": "ok",
        "messages there": "left",
        "outgoing there": "ok",
    }
    moving("plan", moving.inventory, "--apply")
    moving("pull", "--inventory", moving.inventory, *moving.login())
    rest = moving("switch", "127.0.0.1", "--inventory", moving.inventory, *moving.login())
    assert "queues: ok. all 1 queues are here." in rest.out
    assert "messages there: ok. its queues are empty." in rest.out


def test_an_alias_is_seen_by_asking_for_a_queue_under_it(tmp_path: Path) -> None:
    engine = engine_settings("ALPHA", aliases=("OLDHOST",))
    with serving(tmp_path / "home", engine=engine) as server, ph_module.connect(server.home) as qm:
        qm.create_queue(r".\private$\orders")
        states = [
            aliases_check(qm, host, "ALPHA", r".\private$\orders").state
            for host in ("oldhost", "OLDHOST", "other")
        ]
        assert states == ["ok", "ok", "left"]
        assert aliases_check(qm, "oldhost", "ALPHA", None).state == "unknown"


def test_a_name_that_leads_elsewhere_is_left_to_do() -> None:
    found = name_check("host.invalid")
    assert (found.state, "has no address" in found.found) == ("left", True)
    assert name_check("192.0.2.1").state == "left"
    assert name_check("localhost").state == "ok"


# -- a few messages


def test_some_messages_are_copied_and_moved_here(moving: Moving) -> None:
    moving.create(b"one", b"two", b"three")
    moving.ours.create_queue(moving.path)
    far = rf"DIRECT=TCP:127.0.0.1:{moving.far.binary_port}\private$\{moving.name}"
    login = ("--user", ADMIN, "--rpc-port", str(moving.far.rpc_port))

    def message(*words: str) -> Result:
        return moving._run(
            "message", *words, *login, "--home", moving.here.home, stdin=f"{PASSWORD}\n".encode()
        )

    dry = message("copy", far, moving.path, "--dry-run")
    assert dry.out == "copy: 3 messages match; nothing was changed.\n"
    copied = message("copy", far, moving.path, "--where", 'body_text = "two"')
    assert (copied.code, copied.out) == (0, "copy: 1 messages done.\n"), copied.err
    assert (moving.bodies(), moving.there()) == ([b"two"], [b"one", b"two", b"three"])
    refused = message("move", far, moving.path)
    assert refused.code == 1
    found = re.search(r"posthouse migrate forget (\d+)", refused.err)
    assert found is not None, refused.err
    moving.ours.queue(moving.path).purge()
    moving.ours.call("DELETE", f"/pulls/{found[1]}")
    moved = message("move", far, moving.path)
    assert (moved.code, moved.out) == (0, "move: 3 messages done.\n"), moved.err
    assert (moving.bodies(), moving.there()) == ([b"one", b"two", b"three"], [])
    gone = message("move", far, moving.path, "--lookup-id", "999")
    assert gone.code == 1
    assert "1 were gone already" in gone.out
