"""What commands have in common."""

from __future__ import annotations

import inspect
from typing import Annotated

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from posthouse.cli.command import COMMON_NAMES, confirm, guid, talking, words
from posthouse.cli.connection import Remote
from tests.cli.conftest import Posthouse


def test_a_talking_command_gets_the_common_options() -> None:
    seen: list[tuple[Remote, str, int]] = []

    @talking
    def command(
        remote: Remote, name: str, count: Annotated[int, typer.Option("--count")] = 1
    ) -> None:
        """What it does."""
        seen.append((remote, name, count))

    parameters = inspect.signature(command).parameters
    assert tuple(parameters) == ("name", "count", *COMMON_NAMES)
    assert command.__doc__ == "What it does."
    nothing = dict.fromkeys(name for name in COMMON_NAMES if name != "json")
    command(**nothing, json=True, name="x", count=2)
    ((remote, name, count),) = seen
    assert (remote.json, name, count) == (True, "x", 2)


@given(st.text(max_size=20))
def test_any_text_gives_known_words_or_wrong_usage(text: str) -> None:
    allowed = ("send", "peek")
    try:
        found = words(text, allowed, "right")
    except typer.BadParameter:
        return
    assert set(found) <= set(allowed)


@given(st.text(max_size=50))
def test_any_text_is_a_guid_or_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        guid(f"x{text}")


def test_guids_are_written_in_one_way() -> None:
    upper = "{00112233-4455-6677-8899-AABBCCDDEEFF}"
    assert guid(upper) == "00112233-4455-6677-8899-aabbccddeeff"


@pytest.mark.parametrize(("yes", "terminal"), [(True, True), (False, False), (True, False)])
def test_nobody_is_asked_who_answered_or_cannot(
    posthouse: Posthouse, yes: bool, terminal: bool
) -> None:
    def question() -> str:
        raise AssertionError("asked")

    assert posthouse("--version", terminal=terminal).code == 0  # standard input is set
    confirm(question, yes)


def test_an_end_of_input_is_no_yes(ph: Posthouse) -> None:
    ph("queue", "create", "./private$/kept")
    refused = ph("queue", "delete", "./private$/kept", terminal=True, stdin=b"")
    assert refused.code == 1
    assert ph("queue", "show", "./private$/kept").code == 0


def test_a_question_cannot_steer_the_terminal(ph: Posthouse) -> None:
    ph("queue", "create", "./private$/a\x7f\x9bb")
    refused = ph("queue", "purge", "./private$/a\x7f\x9bb", terminal=True, stdin=b"n\n")
    assert refused.code == 1
    assert not {"\x7f", "\x9b"} & set(refused.err)
