"""Definitions: what is exported and imported is there, and nothing else is touched."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.api.access import AccessEntryJson, AccessJson
from posthouse.api.jobs import JobQueueJson
from posthouse.api.types import QueueJson
from posthouse.cli import definitions
from posthouse.cli.definitions import Definitions, differences, read_file
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving, serving

ORDERS = ".\\private$\\orders"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("home") / "other") as running:
        yield running


@pytest.fixture
def full(ph: Posthouse, tmp_path: Path) -> Iterator[Path]:
    """A file of definitions of a queue manager that has some of everything."""
    commands: tuple[tuple[str, ...], ...] = (
        ("user", "create", "alice", "--doors", "http"),
        ("queue", "create", "orders", "--transactional", "--label", "New", "--quota", "100"),
        ("queue", "create", "bills", "--journal", "--base-priority", "3"),
        ("queue", "grant", "orders", "alice", "peek,receive"),
        ("queue", "deny", "orders", "anonymous", "send"),
        ("user", "set", "alice", "--role", "look"),
        ("job", "queue", "create", "REPORTS"),
        ("send", "bills", "--body", "kept"),
    )
    for words in commands:
        assert ph(*words, stdin=b"secret words\n").code == 0, words
    file = tmp_path / "definitions.json"
    assert ph("definitions", "export", "--output", file).code == 0
    yield file
    for name in ("orders", "bills"):
        ph("queue", "delete", name)
    ph("job", "queue", "delete", "REPORTS", "--yes")
    ph("user", "delete", "alice", "--yes")


def change(file: Path, edit: Any) -> None:
    value = json.loads(file.read_text())
    edit(value)
    file.write_text(json.dumps(value))


def test_what_is_exported_is_imported_elsewhere(
    ph: Posthouse, full: Path, other: Serving, tmp_path: Path
) -> None:
    at = ("--home", other.home)
    assert "secret" not in full.read_text()
    assert ph("definitions", "diff", full).code == 0
    before = ph("definitions", "diff", full, *at)
    assert before.code == 1
    assert f"+ queue {ORDERS}  transactional: True" in before.out
    assert ph("definitions", "import", full, "--dry-run", *at).code == 0
    assert ph("definitions", "diff", full, *at).out == before.out
    assert ph("definitions", "import", full, *at).code == 0
    assert ph("definitions", "diff", full, *at).code == 0
    again = tmp_path / "again.json"
    ph("definitions", "export", "--output", again, *at)
    found, wanted = json.loads(again.read_text()), json.loads(full.read_text())
    for part in ("users", "queues", "job_queues"):
        assert found[part] == wanted[part]
    rights = ph("queue", "access", "orders", "--json", *at).value["entries"]
    assert {one["who"]: one["denied"] for one in rights}["anonymous"] is True


def test_an_export_steers_no_terminal_and_keeps_every_value(ph: Posthouse, full: Path) -> None:
    label = "\x9b2J\u202e\x7f è 😀 \U000e0001"
    ph("queue", "set", "orders", "--label", label)
    ph("definitions", "export", "--output", full)
    for text in (ph("definitions", "export").out, full.read_text()):
        assert not {"\x9b", "\u202e", "\x7f", "\U000e0001"} & set(text)
        labels = [one["label"] for one in json.loads(text)["queues"]]
        assert label in labels
    assert ph("definitions", "diff", full).code == 0
    ph("queue", "set", "orders", "--label", "")


def test_an_import_changes_what_differs_and_keeps_messages(ph: Posthouse, full: Path) -> None:
    ph("queue", "set", "orders", "--label", "Old", "--quota", "none")
    ph("queue", "revoke", "orders", "alice")
    ph("user", "set", "alice", "--disabled")
    shown = [line[:2] for line in ph("definitions", "diff", full).out.splitlines()]
    assert shown == ["~ "] * 3
    ph("definitions", "import", full)
    assert ph("definitions", "diff", full).code == 0
    assert ph("queue", "show", "orders", "--json").value["label"] == "New"
    assert ph("queue", "show", "bills", "--json").value["messages"] == 1


def test_what_is_not_in_the_file_stays(ph: Posthouse, full: Path) -> None:
    change(full, lambda value: value.update(queues=[], users=[]))
    shown = ph("definitions", "diff", full)
    assert shown.code == 0
    assert f"  queue {ORDERS}" in shown.out
    assert ph("definitions", "import", full).out == "Everything is there; nothing was changed.\n"
    assert ph("queue", "show", "orders").code == 0


def test_a_conflict_changes_nothing_at_all(ph: Posthouse, full: Path) -> None:
    def edit(value: Any) -> None:
        value["queues"][0].update(transactional=False, label="Other")
        value["queues"].append({"path": ".\\private$\\more"})

    change(full, edit)
    refused = ph("definitions", "import", full)
    assert refused.code == 1
    assert "! queue" in refused.out
    assert ph("queue", "show", "orders", "--json").value["label"] == "New"
    assert ph("queue", "show", "more").code == 1


@pytest.mark.parametrize(
    ("edit", "cause"),
    [
        (lambda value: value.update(version=2), "of version 2"),
        (lambda value: value.update(more=1), "unknown field"),
        (lambda value: value["queues"].append({"path": "./PRIVATE$/orders"}), "twice"),
        (lambda value: value["queues"][0].update(base_priority=10**9), "not a file of definitions"),
        (lambda value: value["users"].append({"name": "x", "doors": ["y"]}), "not allowed"),
        (lambda value: value["queues"][0].update(access=[{"who": "x", "rights": ["fly"]}]), "fly"),
    ],
)
def test_a_file_with_a_mistake_changes_nothing(
    ph: Posthouse, full: Path, edit: Any, cause: str
) -> None:
    change(full, edit)
    refused = ph("definitions", "import", full)
    assert (refused.code, cause in refused.err) == (2, True), refused.err


@given(st.binary(max_size=200))
def test_any_file_is_definitions_or_wrong_usage(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    import typer

    file = tmp_path_factory.getbasetemp() / "any-definitions.json"
    file.write_bytes(data)
    with pytest.raises(typer.BadParameter):
        read_file(file)


def test_nothing_differs_from_itself(full: Path) -> None:
    assert list(differences(read_file(full), read_file(full))) == []
    assert list(differences(Definitions(), Definitions())) == []


def test_denials_before_grants_stay(ph: Posthouse, full: Path) -> None:
    entries = [
        {"who": "alice", "rights": ["send"], "denied": True},
        {"who": "alice", "rights": ["full"]},
    ]
    change(full, lambda value: value["queues"][0].update(access=entries))
    assert ph("definitions", "import", full).code == 0
    assert ph("definitions", "diff", full).code == 0
    found = ph("queue", "access", "orders", "--json").value["entries"]
    assert [(one["who"], one["denied"]) for one in found] == [("alice", True), ("alice", False)]


def test_queues_may_name_later_ones_as_poison_queues(
    ph: Posthouse, full: Path, other: Serving
) -> None:
    late = [
        {"path": ".\\private$\\early", "transactional": True, "max_aborts": 2,
         "poison_queue": ".\\private$\\late"},
        {"path": ".\\private$\\late", "transactional": True},
    ]  # fmt: skip
    change(full, lambda value: value.update(queues=late, users=[], job_queues=[]))
    at = ("--home", other.home)
    assert ph("definitions", "import", full, *at).code == 0
    assert ph("definitions", "diff", full, *at).code == 0


def test_what_a_file_does_not_give_stays(ph: Posthouse, full: Path) -> None:
    """A user with a name alone keeps doors and role, a queue with a path alone all of it."""
    before = [ph(*words, "--json").out for words in SHOWN]
    sparse = {
        "users": [{"name": "alice"}],
        "queues": [{"path": ORDERS}, {"path": ".\\private$\\bills"}],
        "job_queues": [{"name": "REPORTS", "users": None}],
    }
    full.write_text(json.dumps(sparse))
    assert ph("definitions", "diff", full).code == 0
    assert ph("definitions", "import", full).out == "Everything is there; nothing was changed.\n"
    assert [ph(*words, "--json").out for words in SHOWN] == before
    change(full, lambda value: value["users"][0].update(role=None))
    assert ph("definitions", "import", full).code == 0
    alice = user(ph, "alice")
    assert (alice["role"], alice["doors"]) == (None, ["http"])


def user(ph: Posthouse, name: str) -> Any:
    return next(one for one in ph("user", "list", "--json").lines if one["name"] == name)


SHOWN = (
    ("user", "list"),
    ("queue", "show", "orders"),
    ("queue", "access", "orders"),
    ("queue", "show", "bills"),
)


def test_new_things_with_a_name_alone_have_the_usual_properties(
    ph: Posthouse, full: Path, tmp_path: Path
) -> None:
    change(full, lambda value: value["users"].append({"name": "carol"}))
    change(full, lambda value: value["queues"].append({"path": ".\\private$\\plain"}))
    assert ph("definitions", "import", full).code == 0
    assert user(ph, "carol")["doors"] == ["http"]
    assert ph("queue", "show", "plain", "--json").value["privacy"] == "optional"
    assert ph("definitions", "diff", full).code == 0
    ph("queue", "delete", "plain")
    ph("user", "delete", "carol", "--yes")


def test_every_name_that_leads_nowhere_is_listed_before_anything_changes(
    ph: Posthouse, full: Path
) -> None:
    def edit(value: Any) -> None:
        value["users"].append({"name": "dora"})
        bills, orders = value["queues"] = [
            next(one for one in value["queues"] if one["path"].endswith(name))
            for name in ("bills", "orders")
        ]
        entries = ["nobody", "nowhere", "S-1-x", "dora", "EVERYONE", "S-1-5-21-1-2-3-1001"]
        orders["access"] = [{"who": who, "rights": ["send"]} for who in entries]
        bills.update(label="changed", poison_queue=".\\private$\\none")

    change(full, edit)
    refused = ph("definitions", "import", full)
    assert refused.code == 1
    conflicts = [line for line in refused.out.splitlines() if line.startswith("!")]
    assert conflicts == [
        "! queue .\\private$\\bills  poison_queue: there is no .\\private$\\none",
        f"! access {ORDERS}  nobody: there is no such user, nowhere: there is no such user, "
        "S-1-x: there is no such user",
    ]
    assert "dora" not in ph("user", "list").out
    assert ph("queue", "show", "bills", "--json").value["label"] == ""


ALONE = {"name": "R", "type": "job_queue", "submit_from": "", "response_queue": ""}


def test_members_that_cannot_be_seen_are_null() -> None:
    values = dict.fromkeys(JobQueueJson.__struct_fields__)
    shown = JobQueueJson(**values | ALONE)  # type: ignore[arg-type]
    exported = json.loads(msgspec.json.encode(definitions._job_queue(shown)))
    assert [exported[name] for name in ("users", "operators", "servers")] == [None] * 3
    seen = JobQueueJson(**values | ALONE | {"users": []})  # type: ignore[arg-type]
    assert definitions._job_queue(seen).users == []


class Answers:
    """A queue manager whose queue has an entry that gives nothing, as Windows can write one."""

    def ask(self, kind: type[AccessJson], method: str, path: str) -> AccessJson:
        empty = AccessEntryJson(who="everyone", sid="S-1-1-0", denied=False, rights=[])
        some = AccessEntryJson(who="alice", sid="S-1-5-2", denied=False, rights=["send", "peek"])
        return AccessJson(owner="alice", entries=[empty, some])


def test_an_entry_without_rights_is_not_exported(ph: Posthouse, full: Path) -> None:
    shown = msgspec.convert(ph("queue", "show", "orders", "--json").value, QueueJson)
    exported = definitions._queue(Answers(), shown)  # type: ignore[arg-type]
    assert exported.access == [definitions.Access("alice", ["peek", "send"])]


class Full(io.FileIO):
    """A file on a disk that is full."""

    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_export_that_fails_leaves_the_earlier_one(
    ph: Posthouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "definitions.json"
    assert ph("definitions", "export", "--output", file).code == 0
    before = file.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", Full)
        said = ph("definitions", "export", "--output", file)
    assert (said.code, file.read_bytes()) == (1, before)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert said.err == f"{file}: No space left on device\n"
    assert ph("definitions", "export", "--output", "/dev/null").code == 0


def test_an_export_is_as_private_as_the_file_that_it_replaces(
    ph: Posthouse, tmp_path: Path
) -> None:
    for words in (["definitions", "export", "--output"], ["directory", "export"]):
        file = tmp_path / words[0]
        file.touch(0o600)
        assert ph(*words, file).code == 0
        assert file.stat().st_size > 0
        assert file.stat().st_mode & 0o777 == 0o600


def test_an_export_writes_a_file_whose_folder_takes_no_other(
    ph: Posthouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a file of the user's in a folder of root's; root itself may write to any."""
    file = tmp_path / "definitions.json"
    file.touch()
    before = file.stat().st_ino
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    assert ph("definitions", "export", "--output", file).code == 0
    assert file.stat().st_size > 0
    assert file.stat().st_ino == before
