"""`posthouse completion`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.conftest import Posthouse

PROGRAM = [sys.executable, "-m", "posthouse.cli.main"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(posthouse: Posthouse, shell: str) -> None:
    said = posthouse("completion", shell)
    assert said.code == 0
    assert f"_POSTHOUSE_COMPLETE=complete_{shell}" in said.out
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
def test_words_are_completed(typed: str, offered: str) -> None:
    environment: dict[str, Any] = {
        **os.environ,
        "_POSTHOUSE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    done = subprocess.run(PROGRAM, env=environment, capture_output=True, text=True)
    assert offered in done.stdout.split()
