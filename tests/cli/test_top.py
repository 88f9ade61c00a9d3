"""`posthouse top` and `--watch`: what changes while somebody looks."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from posthouse.cli.error_output import CommandFailed
from posthouse.cli.watch_option import again_and_again
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving


def test_top_shows_the_fullest_queue_first(ph: Posthouse) -> None:
    for name, count in (("few", "1"), ("many", "5")):
        ph("queue", "create", name)
        ph("send", name, "--body", "x", "--count", count)
    shown = ph("top", "--rounds", "1").out
    assert shown.startswith("ALPHA  ready")
    assert shown.index("private$\\many") < shown.index("private$\\few")
    found = ph("top", "--rounds", "2", "--every", "0.2s", "--json", "--sort", "queue").lines
    assert [look["totals"]["messages"] for look in found] == [6, 6]
    assert [queue["messages"] for queue in found[0]["queues"]] == [1, 5]
    for name in ("few", "many"):
        ph("queue", "delete", name)


def test_an_order_that_is_none_is_wrong_usage(ph: Posthouse) -> None:
    refused = ph("top", "--sort", "mesages")
    assert (refused.code, "Did you mean messages?" in refused.err) == (2, True)


def on_a_terminal(home: Path, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    """A command line with a terminal of its own."""
    keyboard, screen = pty.openpty()
    command = subprocess.Popen(
        [sys.executable, "-m", "posthouse.cli.main", *words],
        stdin=screen, stdout=screen, stderr=screen,
        env=os.environ | {"POSTHOUSE_HOME": str(home), "COLUMNS": "80"},
    )  # fmt: skip
    os.close(screen)
    return command, keyboard


def read_until(keyboard: int, wanted: bytes) -> bytes:
    """What the screen gets, up to these bytes."""
    seen = b""
    while wanted not in seen:
        seen += os.read(keyboard, 1 << 16)
    return seen


def test_a_key_ends_top_and_another_one_changes_the_order(server: Serving) -> None:
    command, keyboard = on_a_terminal(server.home, "top", "--every", "1h")
    try:
        assert b"ALPHA  ready" in read_until(keyboard, b"q quit")
        os.write(keyboard, b"n")
        read_until(keyboard, b"q quit")
        os.write(keyboard, b"q")
        assert command.wait(60) == 0
    finally:
        command.kill()
        command.wait()
        os.close(keyboard)


def test_a_list_is_watched_until_ctrl_c(server: Serving) -> None:
    command, keyboard = on_a_terminal(server.home, "queue", "list", "--system", "--watch", "0.2s")
    try:
        for _ in range(3):
            read_until(keyboard, b"Ctrl-C ends it")
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == 0
    finally:
        command.kill()
        command.wait()
        os.close(keyboard)


def watched(command: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a command ran that is watched, until Ctrl-C in the pause after the third time."""
    runs = 0

    def once() -> None:
        nonlocal runs
        runs += 1
        command(runs)

    def pause(seconds: float) -> None:
        if runs >= 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("posthouse.cli.watch_option.time.sleep", pause)
    again_and_again(once, 1.0, json=False)
    return runs


def fail(*runs: int) -> Callable[[int], None]:
    """A command that fails in some of its runs."""

    def command(run: int) -> None:
        if run in runs:
            raise CommandFailed(f"run {run} failed")

    return command


def test_an_error_ends_a_watch_only_at_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert watched(fail(2), monkeypatch) == 3
    assert capsys.readouterr().err == "run 2 failed.\n"
    with pytest.raises(CommandFailed):
        watched(fail(1), monkeypatch)


def test_an_exit_code_does_not_end_a_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(run: int) -> None:
        raise typer.Exit(1)

    assert watched(command, monkeypatch) == 3
