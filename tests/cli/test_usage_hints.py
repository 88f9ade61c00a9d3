"""Command lines in the words of other programs: the answer names what was meant."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from posthouse.cli import error_output, main, usage_hints
from posthouse.cli.verbs import commands


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("create queue orders", "Did you mean 'posthouse queue create'?"),
        ("rm queue orders", "Did you mean 'posthouse queue delete'?"),
        ("list queues", "Did you mean 'posthouse queue list'?"),
        ("get orders", "Did you mean 'posthouse receive'?"),
        ("publish orders", "Did you mean 'posthouse send'?"),
        ("sql select", "Did you mean 'posthouse pipeline sql'?"),
        ("list", "Commands of that name: posthouse queue list, "),
        ("ls", "Commands of that name: posthouse queue list, "),
        ("message list orders", "Did you mean 'posthouse peek QUEUE --count 100' or"),
        ("queue receive orders", "Did you mean 'posthouse receive QUEUE'?"),
        ("stop", "systemctl stop posthouse"),
        ("send orders hello", "--body hello"),
        ("send orders --ttl 5s", "Did you mean --time-to-be-received?"),
        ("send orders --message hello", "Did you mean --body?"),
        ("send orders --prioritiy 3", "Did you mean --priority?"),
        ("receive orders --wait 5s", "Did you mean --timeout?"),
        ("send orders --body x --priority 9", "the largest value is 7"),
        ("send orders --body x --count 0", "the smallest value is 1"),
        ("send orders --body x --count x", "for '--count': this is not a whole number"),
        ("-V", "Did you mean --version?"),
        ("send orders --body", "Option '--body' requires an argument."),
    ],
)
def test_what_was_meant(line: str, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(line.split()) == main.WRONG_USAGE
    assert answer in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    "line", ["frobnicate", "create", "send orders --qqq", "queue set orders extra"]
)
def test_nothing_is_guessed_where_nothing_is_near(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(line.split()) == main.WRONG_USAGE
    assert "Did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["queue"], ["directory", "link"]])
def test_a_line_without_a_command_ends_after_the_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == main.WRONG_USAGE
    said = capsys.readouterr()
    assert said.err == "A command is missing. The list above has them.\n"
    assert f"Usage: {' '.join(['posthouse', *words])}" in said.out


def test_hints_are_in_the_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["get", "orders", "--json"]) == main.WRONG_USAGE
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["hints"] == ["Did you mean 'posthouse receive'?", "See: posthouse --help"]


def test_suggested_commands_and_options_exist() -> None:
    known = dict(commands(main.program(), "posthouse"))
    assert [one for one in usage_hints.COMMANDS if f"posthouse {one}" not in known] == []
    inner = " ".join(usage_hints.INNER.values())
    for command in re.findall(r"'posthouse ([a-z ]+?)(?= [A-Z])", inner):
        assert f"posthouse {command}" in known
    for noun, verb in usage_hints.INNER:
        assert f"posthouse {noun} {verb}" not in known
    options = {option for one in known.values() for param in one.params for option in param.opts}
    assert [one for one in usage_hints.OPTIONS if one not in options | {"--version"}] == []


def test_a_command_beside_a_service_is_led_to_its_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service, none = tmp_path / "service", tmp_path / "none"
    service.mkdir()
    monkeypatch.setattr(error_output, "SERVICE_HOME", service)
    monkeypatch.setenv("POSTHOUSE_HOME", str(none))
    assert main.run(["status"]) == main.NOT_REACHABLE
    assert f"add --home {service}" in capsys.readouterr().err
    assert main.run(["status", "--home", str(none)]) == main.NOT_REACHABLE
    assert "add --home" not in capsys.readouterr().err
    service.rmdir()
    assert main.run(["status"]) == main.NOT_REACHABLE
    assert "add --home" not in capsys.readouterr().err
