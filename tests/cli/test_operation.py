"""`posthouse operation` and `posthouse audit`."""

from __future__ import annotations

import json

import pytest
import typer

from posthouse.cli.audit import moment
from tests.cli.conftest import Posthouse


def test_an_operation_from_start_to_end(ph: Posthouse) -> None:
    for name in ("work", "rest"):
        assert ph("queue", "create", name).code == 0
    assert ph("send", "work", "--body", "x", "--count", "5").code == 0
    dry = ph("operation", "start", "move", "work", "--to", "rest", "--dry-run", "--wait")
    assert dry.code == 0
    assert "5 matched, 0 done" in dry.out
    assert "lookup ids" in dry.out
    done = ph(
        *("operation", "start", "move", "work", "--to", "rest", "--where", "priority = 3"),
        *("--yes", "--wait", "--json"),
    )
    shown = json.loads(done.out)
    assert (shown["state"], shown["done"], shown["act"]) == ("done", 5, "move")
    listed = ph("operation", "list")
    assert "move (dry)" in listed.out
    assert ph("operation", "show", "2").out.startswith("Operation 2: move ")
    for words in (("stop", "2"), ("resume", "2"), ("show", "99")):
        assert ph("operation", *words).code == 1, words
    assert ph("operation", "start", "move", "work", "--yes").code == 1
    assert ph("operation", "start", "eat", "work", "--yes").code == 2
    assert ph("operation", "delete", "2", "--yes").code == 0
    assert ph("operation", "show", "2").code == 1


def test_audit_takes_times_and_refuses_others(ph: Posthouse) -> None:
    assert ph("audit", "--since", "2h", "--user", "alice", "--json").code == 0
    assert moment("2026-01-31") == "2026-01-31T00:00:00Z"
    assert moment("1h") < moment("1m")
    with pytest.raises(typer.BadParameter):
        moment("yesterday")
    assert ph("audit", "--since", "yesterday").code == 2


def test_a_start_that_is_repeated_with_its_key_shows_what_it_began(ph: Posthouse) -> None:
    assert ph("queue", "create", "keyed").code == 0
    words = ("operation", "start", "delete", "keyed", "--yes", "--wait", "--json", "--key")
    begun = json.loads(ph(*words, "cleanup-1").out)["id"]
    assert json.loads(ph(*words, "cleanup-1").out)["id"] == begun
    assert json.loads(ph(*words, "cleanup-2").out)["id"] != begun
    assert json.loads(ph(*words[:-1]).out)["id"] != begun  # each has a key of its own
    refused = ph(*words, "cleanup-1", "--where", "priority = 1")
    assert refused.code == 1
    assert "was begun under this key by another request" in refused.err
    assert ph(*words, "a b").code == 2
