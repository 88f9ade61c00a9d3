"""Other words for a verb, bare names of queues, durations."""

from __future__ import annotations

import pytest
import typer

from posthouse.cli import main
from posthouse.cli.durations import duration, seconds, shown, whole_seconds
from posthouse.cli.name_hints import full_name
from posthouse.cli.verbs import meant
from tests.cli.conftest import Posthouse


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("queue ls", "queue list"),
        ("queue rm", "queue delete"),
        ("queue add", "queue create"),
        ("queue info", "queue show"),
        ("user add", "user create"),
        ("peer remove", "peer delete"),
        ("token revoke", "token delete"),
        ("cert make", "cert create"),
        ("job change", "job set"),
        ("job remove", "job delete"),
        ("job create", "job submit"),
        ("directory machine add", "directory machine create"),
        ("bindery set rm", "bindery set remove"),
    ],
)
def test_other_words_for_a_verb(
    words: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([*words.split(), "--help"]) == main.DONE
    by_alias = capsys.readouterr().out
    assert main.run([*command.split(), "--help"]) == main.DONE
    assert by_alias.splitlines()[2:] == capsys.readouterr().out.splitlines()[2:]


def test_a_verb_of_its_own_goes_before_other_words_for_it() -> None:
    assert meant("revoke", ["grant", "revoke", "delete"]) == "revoke"
    assert meant("revoke", ["create", "delete"]) == "delete"
    assert meant("polish", ["create", "delete"]) == "polish"


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("orders", ".\\private$\\orders"),
        ("orders;journal", ".\\private$\\orders;journal"),
        ("orders-2026_a", ".\\private$\\orders-2026_a"),
        ("./private$/orders", "./private$/orders"),
        (".\\orders", ".\\orders"),
        ("DIRECT=OS:a\\private$\\b", "DIRECT=OS:a\\private$\\b"),
        ("private$orders", "private$orders"),
        (".;deadletter", ".;deadletter"),
        ("", ""),
    ],
)
def test_a_bare_name_is_a_private_queue(typed: str, name: str) -> None:
    assert full_name(typed) == name


def test_bare_names_work_from_end_to_end(ph: Posthouse) -> None:
    assert ph("queue", "create", "parcels").code == 0
    assert ph("send", "parcels", "--body", "one").code == 0
    assert "one" in ph("peek", "parcels").out
    assert "parcels" in ph("queue", "ls").out
    assert ph("message", "delete", "parcels", "--where", "priority < 8", "--yes").code == 0
    assert ph("queue", "rm", "parcels", "--yes").code == 0
    assert ph("peek", "parcels").code == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5s", 5),
        ("250ms", 0.25),
        ("10m", 600),
        ("12h", 43_200),
        ("30d", 2_592_000),
        ("2w", 1_209_600),
        ("1.5", 1.5),
        ("0", 0),
        ("0.5h", 1800),
    ],
)
def test_durations_have_units(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "s", "5 s", "-5s", "5y", "1e9", "5s\x1b[2J", "1" * 13, "٣s"])
def test_what_is_not_a_duration_is_told_how_to_write_one(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"Write 500ms, 5s, 10m, 12h, 30d or 2w\.") as told:
        seconds(text)
    assert "\x1b" not in str(told.value)


def test_durations_have_limits() -> None:
    with pytest.raises(typer.BadParameter, match=r"10ms is not between 0\.1s and 1h"):
        duration(0.1, 3600)("10ms")
    assert whole_seconds(100)("1500ms") == 2
    assert [shown(value) for value in (0, 5, 90, 3600, 86_400)] == ["0s", "5s", "90s", "1h", "1d"]


def test_a_message_lives_as_long_as_its_duration_says(ph: Posthouse) -> None:
    ph("queue", "create", "brief")
    assert ph("send", "brief", "--body", "x", "--time-to-be-received", "2h").code == 0
    assert '"time_to_be_received":7200' in ph("peek", "brief", "--json").out.replace(" ", "")
    assert ph("send", "brief", "--body", "x", "--time-to-be-received", "soon").code == 2
