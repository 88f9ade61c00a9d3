"""`posthouse completion`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from posthouse.cli import complete
from posthouse.cli.completion_table import completion_table
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving

PROGRAM = [sys.executable, "-m", "posthouse.cli.main"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(posthouse: Posthouse, shell: str) -> None:
    said = posthouse("completion", shell)
    assert said.code == 0
    assert f"_POSTHOUSE_COMPLETE={shell}" in said.out
    if shell == "bash":
        done = subprocess.run(["bash", "-n"], input=said.out, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_other_shells_are_wrong_usage(posthouse: Posthouse) -> None:
    assert posthouse("completion", "command.com").code == 2
    assert posthouse("--install-completion").code == 2


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("posthouse mess", "message"),
        ("posthouse queue pu", "purge"),
        ("posthouse send --bod", "--body"),
    ],
)
def test_scripts_of_version_0_1_are_answered(typed: str, offered: str) -> None:
    environment: dict[str, Any] = {
        **os.environ,
        "_POSTHOUSE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    done = subprocess.run(PROGRAM, env=environment, capture_output=True, text=True)
    assert offered in done.stdout.split()


def test_the_table_is_what_the_commands_say() -> None:
    """Made by: python -m posthouse.cli.completion_table"""
    assert complete.TABLE.read_text(encoding="utf-8") == completion_table()


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["mess"], ["message"]),
        (["queue", "pu"], ["purge"]),
        (["send", "--bod"], ["--body", "--body-file", "--body-type"]),
        (["token", "create", "--role", ""], ["administer", "look", "metrics", "operate", "read"]),
        (["token", "create", "--user", ""], []),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["no-such-noun", ""], []),
        (["--version", "x"], []),
        ([], complete.offered([], "")),
    ],
)
def test_words_are_offered(
    typed: list[str], found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete.complete(typed) == 0
    assert capsys.readouterr().out.split() == sorted(found)


def test_names_of_queues_are_offered(
    ph: Posthouse, server: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    ph("queue", "create", "orders")
    ph("queue", "create", "./public")
    capsys.readouterr()
    home = ["--home", str(server.home)]
    complete.complete(["send", *home, ""])
    assert capsys.readouterr().out.split() == ["./public", "orders"]
    complete.complete(["peek", *home, "or"])
    assert capsys.readouterr().out.split() == ["orders"]


def test_no_queue_is_offered_where_nobody_answers(tmp_path: Path) -> None:
    assert complete.queue_names(tmp_path) == []
    (tmp_path / "control").write_text(f"{tmp_path}/deaf.sock\n")
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(f"{tmp_path}/deaf.sock")
        deaf.listen(1)
        assert complete.queue_names(tmp_path) == []


def test_bash_completes_with_the_script(posthouse: Posthouse) -> None:
    """The real shell: sources the script, asks for the words after `posthouse queue pu`."""
    script = posthouse("completion", "bash").out
    program = f"{sys.executable} -m posthouse.cli.main"
    asked = f"""{script}
posthouse() {{ {program} "$@"; }}
COMP_WORDS=(posthouse queue pu); COMP_CWORD=2
_posthouse_completion posthouse
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("purge\n", "")
