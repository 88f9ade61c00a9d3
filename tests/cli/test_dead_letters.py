"""`posthouse deadletters`: every dead letter is in a group that states its reason."""

from __future__ import annotations

import pytest

from posthouse.cli.messages import dead_letters
from tests.cli.conftest import Posthouse


def die(ph: Posthouse, name: str, count: int, *options: str) -> None:
    ph("queue", "create", name, *options)
    transactional = ["--transactional"] if "--transactional" in options else []
    words = ("--body", "x", "--count", str(count), "--dead-letter", *transactional)
    assert ph("send", name, *words).code == 0
    ph("queue", "purge", name)
    ph("queue", "delete", name)


def test_dead_letters_are_counted_by_reason_and_destination(
    ph: Posthouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ph("deadletters").out == "There are no dead letters.\n"
    monkeypatch.setattr(dead_letters, "PAGE", 2)
    die(ph, "lost", 5)
    die(ph, "sold", 1)
    die(ph, "paid", 2, "--transactional")
    found = ph("deadletters", "--json").lines
    counted = [(one["messages"], one["destination"].rpartition("\\")[2]) for one in found]
    assert counted == [(5, "lost"), (2, "paid"), (1, "sold")]
    assert {one["reason"] for one in found} == {"nack-queue-purged"}
    assert [one["queue"].rpartition(";")[2] for one in found][:2] == ["deadletter", "deadxact"]
    assert found[0]["first_time"] <= found[0]["last_time"]
    assert len(found[0]["lookup_ids"]) == 3
    shown = ph("deadletters").out
    assert "nack-queue-purged: " in shown
    chosen = ph("deadletters", "--where", 'destination ~ "sold"', "--json").value
    assert chosen["messages"] == 1
    monkeypatch.setattr(dead_letters, "GROUPS_MAX", 1)
    assert "3 messages in more groups not shown" in ph("deadletters").err
