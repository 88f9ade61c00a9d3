"""Progress is for people at a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from posthouse.cli.progress import bar, spinner


class Screen(io.StringIO):
    """Standard error, perhaps of a person."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def shown(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, quiet: bool = False) -> str:
    screen = Screen(terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with bar("sending", 10, quiet=quiet) as advance:
        advance(5, 10)
        advance(12, 10)  # more came meanwhile
    with spinner("copying", quiet=quiet):
        pass
    return screen.getvalue()


def test_a_person_sees_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(monkeypatch, terminal=True)
    assert "sending" in said
    assert "12/12" in said
    assert "copying" in said


def test_nobody_else_sees_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, terminal=False) == ""
    assert shown(monkeypatch, terminal=True, quiet=True) == ""
