"""The English of the project: phrases that readers stumble over do not come back."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import messages, phrases

SOURCE = Path(__file__).parent.parent / "src" / "posthouse"


@pytest.fixture(scope="module")
def counts() -> dict[str, dict[str, int]]:
    return phrases.counts()


@pytest.mark.parametrize("place", phrases.PLACES)
def test_no_phrase_is_there_more_often_than_before(
    place: str, counts: dict[str, dict[str, int]]
) -> None:
    """See where with: python -m tools.phrases --list PHRASE. The numbers only go down."""
    allowed = phrases.allowed()[place]
    grown = {phrase: number for phrase, number in counts[place].items() if number > allowed[phrase]}
    assert grown == {}, f"allowed are {allowed}"


def test_the_numbers_are_those_of_every_phrase_and_place() -> None:
    allowed = phrases.allowed()
    assert list(allowed) == list(phrases.PLACES)
    assert {tuple(numbers) for numbers in allowed.values()} == {tuple(phrases.PHRASES)}


@pytest.mark.parametrize(
    ("phrase", "text", "other"),
    [
        ("The same, ...", "The same, for a run.", "It is the same."),
        ("is no", "A folder is no backup.", "There is no backup."),
        ("so many", "At most so many.", "So many that they do not fit."),
        ("so long", "It waits so long.", "So long as it waits."),
        ("behind", "The bytes behind it.", "A server behind a proxy."),
        ("anew", "It begins anew.", "It begins again."),
        ("any more", "It is not there any more.", "Any more than that."),
        ("whoever", "Whoever asks.", "The caller."),
        ("nobody", "Nobody reads it.", "It is not read."),
        ("he, his, him", "He gets his answer.", "They get an answer."),
        ("says", "The setting says so.", "The setting is so."),
        ("tells", "It tells the caller.", "It informs the caller."),
        ("knows", "The queue manager knows it.", "The queue manager has it."),
        ("hears", "The sender hears of it.", "The sender is informed."),
    ],
)
def test_each_phrase_is_found(phrase: str, text: str, other: str) -> None:
    assert phrases.PATTERNS[phrase].search(text)
    assert not phrases.PATTERNS[phrase].search(other)


def test_texts_are_found_where_people_read_them() -> None:
    source = '"""Module."""\n\ncount = 3  # a comment\n"""Of an attribute."""\nprint("a message")\n'
    found = {(text.place, text.words) for text in phrases.of_source(source, "x.py")}
    assert found == {
        ("docstrings", "Of an attribute."),
        ("comments", "a comment"),
        ("messages", "a message"),
    }


def test_every_public_class_has_a_docstring_that_says_what_it_is() -> None:
    """A sentence of its own: more than the words of its name."""
    empty = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                words = (ast.get_docstring(node) or "").split()
                if len(words) < 2 or (not words[0][0].isupper() and words[0][0].isalpha()):
                    empty.append(f"{path.relative_to(SOURCE)}: {node.name}: {' '.join(words)}")
    assert empty == []


# -- the list of messages


@pytest.mark.parametrize(
    ("source", "kind", "text"),
    [
        ("raise ValueError(f'no queue {name} here')", "errors", "no queue {name} here"),
        ("typer.Option('--a', help='Name of the queue.')", "help", "Name of the queue."),
        ("log.warning('the disk is full')", "log", "the disk is full"),
        ("X = 'a text of two words'", "other", "a text of two words"),
    ],
)
def test_every_text_is_listed_by_its_kind(source: str, kind: str, text: str) -> None:
    (found,) = messages.of_source(source, "cli/a.py")
    assert (found.kind, found.text) == (kind, text)


def test_what_users_never_see_is_not_listed() -> None:
    source = '"""A module of ours."""\nX = "word"\n"""What X is for."""\n'
    assert list(messages.of_source(source, "engine/a.py")) == []


def test_the_list_has_texts_of_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert messages.main([]) == 0
    kinds = {line.split("\t")[0] for line in capsys.readouterr().out.splitlines()}
    assert kinds == set(messages.KINDS)
