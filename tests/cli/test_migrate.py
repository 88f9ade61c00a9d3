"""`posthouse migrate`: from an inventory to the last late message, between two queue managers."""

from __future__ import annotations

import json
import re
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import posthouse as ph_module
from posthouse.cli import main
from posthouse.cli.migrate.plan import _key, _of_windows
from posthouse.cli.verbs import commands
from posthouse.client.remote.cutover import aliases_check, name_check
from posthouse.client.remote.pull.queue_pull import Interval
from posthouse.protocols.binary.settings import BinarySettings
from tests.cli.conftest import Posthouse, Result
from tests.cli.moving import ADMIN, NUMBERS, Moving, far_machine
from tests.cli.page_lines import run_line
from tests.client.read_serving import PASSWORD, USER, ReadServing
from tests.client.serving import Serving, serving
from tests.engine.settings import engine_settings

EXAMPLES = {name: command.help or "" for name, command in commands(main.program(), "posthouse")}


@pytest.fixture(scope="module")
def far() -> Iterator[ReadServing]:
    with far_machine() as server:
        yield server


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
    assert "Would create 1 queue. Add --apply to create them." in shown.out
    assert "label, quota" in shown.out
    made = moving("plan", moving.inventory, "--apply", "--json")
    (line,) = made.lines
    assert (line["path"], line["action"]) == (moving.path, "created")
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
    assert (line["action"], line["unknown"]) == ("created", [])
    assert line["unmapped"] == ["CORP\\gone: receive"]
    found = moving.ours.queue(moving.path).properties()
    assert (found.label, found.journal, found.quota_kib) == ("Orders", True, 1000)
    assert found.journal_quota_kib is None
    access = moving.run("queue", "access", moving.path, "--home", moving.here.home, "--json").out
    assert f"user{moving.name[7:]}" in access
    assert "everyone" in access.lower()


@pytest.mark.parametrize("has_rights", [False, True])
def test_what_a_file_of_windows_does_not_have_is_listed_as_unknown(
    moving: Moving, tmp_path: Path, has_rights: bool
) -> None:
    moving.create()
    moving.scan()
    listed: dict[str, Any] = {"QueueName": f"private$\\{moving.name}", "Label": "Orders"}
    if has_rights:  # one entry alone: PowerShell writes it without its list
        listed["Rights"] = {"Account": "Everyone", "Rights": "peek"}
    (tmp_path / "queues.json").write_text(json.dumps(listed))
    words = ("plan", moving.inventory, "--properties", tmp_path / "queues.json")
    line = moving(*words, "--json").value
    missing = ["journal", "quota", "journal quota", "privacy", "authentication"]
    assert line["unknown"] == missing + ["rights"] * (not has_rights)
    assert line["rights"] == ["everyone: peek"] * has_rights
    assert "label=Orders" in moving(*words).out


def test_rights_that_a_queue_here_does_not_give_are_a_difference(
    moving: Moving, tmp_path: Path
) -> None:
    """As after a run that was killed between the queue and its rights."""
    moving.create()
    moving.scan()
    entries = [{"Account": "Everyone", "Rights": ["send", "receive"]}]
    listed = {"QueueName": f"private$\\{moving.name}", "Rights": entries}
    (tmp_path / "queues.json").write_text(json.dumps(listed))
    words = ("plan", moving.inventory, "--properties", tmp_path / "queues.json", "--apply")
    moving.ours.create_queue(moving.path)
    differs = moving(*words)
    assert differs.code == 1
    assert "everyone lacks rights of send,receive" in differs.out
    grant = ("queue", "grant", moving.path, "everyone", "full", "--home", moving.here.home)
    assert moving.run(*grant).code == 0
    assert moving(*words, "--json").value["action"] == "exists"


def test_a_mistyped_right_is_refused_before_a_queue_is_made(moving: Moving, tmp_path: Path) -> None:
    moving.create()
    moving.scan()
    entries = [{"Account": "Everyone", "Rights": ["send", "recieve"]}]
    listed = {"QueueName": f"private$\\{moving.name}", "Rights": entries}
    (tmp_path / "queues.json").write_text(json.dumps(listed))
    done = moving("plan", moving.inventory, "--properties", tmp_path / "queues.json", "--apply")
    assert done.code == 2
    assert "'recieve' is not a right. Did you mean receive?" in done.err
    assert moving.path not in {queue.path for queue in moving.ours.queues()}


def test_queues_of_one_name_on_two_machines_are_shown_as_one(moving: Moving) -> None:
    """The dry run says what --apply would find: one queue, and a kind that is another one."""
    moving.create(transactional=True)
    moving.theirs.create_queue(moving.path + "-2")
    moving.scan()
    inventory = json.loads(moving.inventory.read_text())
    (machine,) = inventory["machines"]
    others = [
        one | ({"transactional": False} if one["transactional"] else {})
        for one in machine["queues"]
    ]
    inventory["machines"].append(machine | {"host": "other", "queues": others})
    moving.inventory.write_text(json.dumps(inventory))
    dry = {}
    for line in moving("plan", moving.inventory, "--json").lines:
        dry[line["host"], line["path"]] = line
    first, second = dry["127.0.0.1", moving.path], dry["other", moving.path]
    assert (first["action"], first["reason"], second["action"]) == ("create", "", "differs")
    assert second["differs"] == ["transactional is False there, True on 127.0.0.1"]
    assert second["reason"] == "also on 127.0.0.1"
    third = dry["other", moving.path + "-2"]
    assert third["action"] == "also"
    assert third["reason"] == "also on 127.0.0.1; one queue here takes both"
    shown = moving("plan", moving.inventory)
    assert shown.code == 1
    assert "Would create 2 queues." in shown.out
    assert f"{moving.path}: also on 127.0.0.1" in shown.out
    rows = [line.split()[:3] for line in shown.out.splitlines()]
    assert rows[0] == ["queue", "machine", "action"]
    assert [moving.path, "other", "differs"] in rows
    assert [moving.path + "-2", "other", "also"] in rows
    made = moving("plan", moving.inventory, "--apply", "--json")
    assert made.code == 1
    actions = {(line["host"], line["path"]): line["action"] for line in made.lines}
    assert actions == {
        ("127.0.0.1", moving.path): "created",
        ("127.0.0.1", moving.path + "-2"): "created",
        ("other", moving.path): "differs",
        ("other", moving.path + "-2"): "also",
    }


def test_what_a_scan_did_not_see_is_no_success(moving: Moving) -> None:
    moving.create(b"one")
    moving.scan()
    moving.ours.create_queue(moving.path)
    whole = json.loads(moving.inventory.read_text())
    problem = {"kind": "rights", "what": "DIRECT=OS:x", "cause": "denied"}
    cause = problem | {"kind": "firewall", "what": "the machine"}
    away = {"host": "away", "time": "", "problems": [cause]}
    words = ("--inventory", moving.inventory, *moving.login())
    for gap, code, line in (
        (whole["machines"][0] | {"problems": [problem]}, 1, "not asked (rights): DIRECT=OS:x"),
        (whole["machines"][0] | {"left_out": 7}, 1, "7 more queues are not in the inventory"),
    ):
        moving.inventory.write_text(json.dumps(whole | {"machines": [gap]}))
        planned = moving("plan", moving.inventory)
        assert planned.code == 1
        assert line in planned.out
        for verb in ("pull", "verify"):
            done = moving(verb, *words)
            assert (done.code, line in done.err) == (code, True), done.err
        switched = moving("switch", "127.0.0.1", *words)
        assert (switched.code, line in switched.err) == (1, True), switched.err
    moving.inventory.write_text(json.dumps(whole | {"machines": [away, *whole["machines"]]}))
    assert moving("plan", moving.inventory).code == 1
    for verb in ("pull", "verify"):
        done = moving(verb, *words)
        assert done.code == 3
        assert "away: none of its queues is in the inventory" in done.err
    moving.inventory.write_text(json.dumps(whole))
    assert [moving(verb, *words).code for verb in ("pull", "verify")] == [0, 0]


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        ("{", "is not JSON"),
        ('[{"Label": "x"}]', "without QueueName"),
        ('[{"QueueName": "x", "Rights": ["send"]}]', "without Account or Rights"),
        ('[{"QueueName": "x", "Rights": [{"Account": "a", "Rights": 4}]}]', "without Account or"),
    ],
    ids=["torn", "nameless", "no account", "a number"],
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
    assert f"moved 100 messages to {moving.path}." in done.out
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
    assert "Not pulled: 1, lookup ids" in missing.out


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
    moving.theirs.create_queue(moving.path + "-2")
    moving.scan()
    inventory = json.loads(moving.inventory.read_text())
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    away = inventory["machines"][0] | {"host": "127.0.0.2", "port": port}
    inventory["machines"].insert(0, away)
    moving.inventory.write_text(json.dumps(inventory))
    for path in (moving.path, moving.path + "-2"):
        moving.ours.create_queue(path)
    words = ["--inventory", str(moving.inventory), *moving.login(), "--patience", "0.2s"]
    done = moving("pull", *words)
    assert done.code == 3
    assert done.err.startswith("127.0.0.2: ")
    assert done.err.count("\n") == 1  # for two queues
    assert f"moved 1 message to {moving.path}." in done.out
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
    other = moving("pull", *words, "--machine", "127.0.0.1")
    assert other.code == 1
    assert f"is {moving.theirs.status().guid}, and not {words[3]}" in other.err
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = str(closed.getsockname()[1])
    unseen = moving("pull", *words, "--machine", "127.0.0.1", "--binary-port", port)
    assert unseen.code == 0, unseen.err
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
    assert "1 message refused here and left there. The first refusal:" in done.err
    assert "posthouse migrate plan shows where they differ" in done.err
    assert "leave out --transactional" not in done.err
    assert moving.there() == [b"one"]


def test_pulls_of_a_machine_are_forgotten_together(moving: Moving) -> None:
    moving("forget", "--all")
    moving.create(b"one")
    moving.theirs.create_queue(moving.path + "-2")
    moving.scan()
    moving("plan", moving.inventory, "--apply")
    words = ("--inventory", moving.inventory, *moving.login())
    assert moving("pull", *words).code == 0
    assert len(moving("list", "--json").lines) == 2
    assert [moving("forget", *some).code for some in ((), ("1", "--all"))] == [2, 2]
    other = moving("forget", "--machine", "other")
    assert (other.code, "nothing was pulled from other" in other.err) == (1, True)
    assert len(moving("forget", "--machine", "127.0.0.1").out.splitlines()) == 2
    assert moving("list", "--json").lines == []
    assert moving("forget", "--all").code == 0
    assert moving("forget", "--all").out == "There are no pulls.\n"
    assert moving("pull", *words).code == 0
    moving("forget", "--all")
    assert moving("list", "--json").lines == []


def test_a_right_that_is_missing_there_is_asked_for_there(moving: Moving) -> None:
    moving.create(b"one")
    moving.ours.create_queue(moving.path)
    words = ["--user", USER, *moving.login()[2:]]
    done = moving("pull", moving.source, *words)
    assert (done.code, "queue access" in done.err) == (1, False)
    assert "Ask an administrator of that machine for the right" in done.err


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
        done = run_line(moving.run, line, names, *ports)
        assert done.code == code, done.err + done.out


# -- switch


def test_what_is_left_of_a_change_over_is_listed(moving: Moving) -> None:
    moving.create(b"one")
    moving.scan()
    done = moving("switch", "127.0.0.1", "--inventory", moving.inventory, *moving.login(), "--json")
    assert done.code == 1
    states = {line["check"]: line["state"] for line in done.lines}
    assert states == {
        "queues": "todo",
        "aliases": "unknown",
        "DNS": "ok",
        "messages there": "todo",
        "outgoing there": "ok",
    }
    moving("plan", moving.inventory, "--apply")
    moving("pull", "--inventory", moving.inventory, *moving.login())
    rest = moving("switch", "127.0.0.1", "--inventory", moving.inventory, *moving.login())
    assert "queues: ok. 1 queue of the inventory, all here." in rest.out
    assert "messages there: ok. its queues are empty." in rest.out


def test_an_error_that_lasts_is_told_once_while_late_messages_are_followed(
    moving: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here: copies that a move would end at the source."""
    moving.create(b"one")
    moving.ours.create_queue(moving.path)
    assert moving("pull", moving.source, "--keep", *moving.login()).code == 0
    turns = []

    def wait(self: Interval) -> None:
        turns.append(self)
        if len(turns) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Interval, "wait", wait)
    done = moving("pull", moving.source, "--follow", *moving.login())
    assert (done.code, len(turns)) == (0, 3)
    assert done.err.count("were copied here before") == 1


@pytest.fixture
def moving_to_listener(far: ReadServing, posthouse: Posthouse, tmp_path: Path) -> Iterator[Moving]:
    """The machine here takes messages of other machines as well."""
    with serving(tmp_path / "here", binary=BinarySettings()) as here:
        made = Moving(far, here, posthouse, tmp_path)
        yield made
        made.close()


def test_a_machine_whose_name_leads_here_is_asked_at_its_address(
    moving_to_listener: Moving,
) -> None:
    """As after the change-over: the name in the inventory is this machine's by now."""
    moving = moving_to_listener
    moving.create(b"one")
    moving.scan()
    moving("plan", moving.inventory, "--apply")
    inventory = json.loads(moving.inventory.read_text())
    inventory["machines"][0] |= {"host": "localhost", "port": None}
    moving.inventory.write_text(json.dumps(inventory))
    words = ["switch", "localhost", "--inventory", str(moving.inventory)]
    login = ["--user", ADMIN, "--password-file", str(moving.password), "--patience", "5s"]
    own = str(moving.here.binary_port)
    seen = moving(*words, *login, "--binary-port", own, "--json")
    assert seen.code == 1
    last = seen.lines[-1]
    assert (last["check"], last["state"]) == ("old machine", "unknown")
    assert last["found"] == "localhost leads to this machine, so the old one was not asked"
    assert "--address" in last["remedy"]
    followed = moving(*words, *login, "--binary-port", own, "--follow")
    assert followed.code == 1
    assert "localhost is this machine by now" in followed.err
    for verb in ("pull", "verify"):
        refused = moving(verb, rf"localhost\private$\{moving.name}", *login, "--binary-port", own)
        assert (refused.code, moving.there()) == (1, [b"one"])
        assert "localhost is this queue manager itself" in refused.err
    inventory["machines"][0] |= {"host": "old.invalid"}
    moving.inventory.write_text(json.dumps(inventory))
    words[1] = "old.invalid"
    reached = moving(*words, *moving.login(), "--address", "127.0.0.1", "--json")
    assert reached.lines[-2]["found"].startswith("1 message in 1 queue:")
    pulled = moving(
        "pull", "--inventory", str(moving.inventory), *moving.login(), "--address", "127.0.0.1"
    )
    assert pulled.code == 0, pulled.err
    assert (moving.bodies(), moving.there()) == ([b"one"], [])
    (pull,) = moving("list", "--json").lines  # by its name: another GUID at this name is refused
    assert (pull["host"], pull["messages"]) == ("old.invalid", 1)
    inventory["machines"].append(inventory["machines"][0] | {"host": "other"})
    moving.inventory.write_text(json.dumps(inventory))
    several = moving("pull", "--inventory", str(moving.inventory), "--address", "127.0.0.1")
    assert several.code == 2
    assert "--address is of one machine" in several.err


def test_an_alias_is_seen_by_asking_for_a_queue_under_it(tmp_path: Path) -> None:
    engine = engine_settings("ALPHA", aliases=("OLDHOST",))
    with serving(tmp_path / "home", engine=engine) as server, ph_module.connect(server.home) as qm:
        qm.create_queue(r".\private$\orders")
        states = [
            aliases_check(qm, host, "ALPHA", r".\private$\orders").state
            for host in ("oldhost", "OLDHOST", "other")
        ]
        assert states == ["ok", "ok", "todo"]
        assert aliases_check(qm, "oldhost", "ALPHA", None).state == "unknown"


def test_a_name_that_leads_elsewhere_is_left_to_do() -> None:
    found = name_check("host.invalid")
    assert (found.state, "has no address" in found.found) == ("todo", True)
    assert name_check("192.0.2.1").state == "todo"
    assert name_check("localhost").state == "ok"


# -- a few messages


def test_some_messages_are_copied_and_moved_here(moving: Moving) -> None:
    moving.create(b"one", b"two", b"three")
    moving.ours.create_queue(moving.path)
    far = rf"DIRECT=TCP:127.0.0.1:{moving.far.binary_port}\private$\{moving.name}"
    login = ("--user", ADMIN, "--rpc-port", str(moving.far.rpc_port))

    def message(*words: str) -> Result:
        return moving.run(
            "message", *words, *login, "--home", moving.here.home, stdin=f"{PASSWORD}\n".encode()
        )

    dry = message("copy", far, moving.path, "--dry-run")
    assert dry.out == "Would copy 3 messages. Nothing was changed.\n"
    copied = message("copy", far, moving.path, "--where", 'body_text = "two"')
    assert (copied.code, copied.out) == (0, "Copied 1 message.\n"), copied.err
    assert (moving.bodies(), moving.there()) == ([b"two"], [b"one", b"two", b"three"])
    refused = message("move", far, moving.path)
    assert refused.code == 1
    found = re.search(r"posthouse migrate forget (\d+)", refused.err)
    assert found is not None, refused.err
    moving.ours.queue(moving.path).purge()
    moving.ours.call("DELETE", f"/pulls/{found[1]}")
    moved = message("move", far, moving.path)
    assert (moved.code, moved.out) == (0, "Moved 3 messages.\n"), moved.err
    assert (moving.bodies(), moving.there()) == ([b"one", b"two", b"three"], [])
    gone = message("move", far, moving.path, "--lookup-id", "999")
    assert gone.code == 4
    assert "1 had left the queue before" in gone.out
