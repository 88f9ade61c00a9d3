"""The English of the project: phrases that readers stumble over do not come back."""

from __future__ import annotations

import ast
import re
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


@pytest.mark.parametrize("more", ["", "y = '# in a string'\n", "z = b'#'\n", "f'{1:#x}'\n"])
def test_comments_are_found_beside_strings(more: str) -> None:
    source = f"# one\n{more}x = 1  # two\n"
    found = [(text.line, text.words) for text in phrases.of_source(source, "x.py")]
    assert (1, "one") in found
    assert (3 if more else 2, "two") in found
    assert (2, "in a string'") not in found


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


@pytest.fixture(scope="module")
def texts() -> list[messages.Message]:
    return list(messages.messages())


def test_the_command_prints_one_kind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("raise ValueError('no queue here')\nX = 'some other text'\n")
    monkeypatch.setattr(messages, "SOURCE", tmp_path)
    assert messages.main(["--kind", "errors"]) == 0
    assert capsys.readouterr().out == "errors\ta.py:1\tno queue here\n"


def test_the_list_has_texts_of_every_kind(texts: list[messages.Message]) -> None:
    assert {one.kind for one in texts} == set(messages.KINDS)


# -- the glossary

GLOSSARY = phrases.ROOT / "docs" / "glossary.md"


def glossary() -> tuple[list[str], list[str]]:
    """The terms of the tables, and the words that are not used."""
    *tables, last = GLOSSARY.read_text(encoding="utf-8").split("## ")
    rows = re.findall(r"^\| ([^|]+) \|", "".join(tables), re.MULTILINE)
    unused = re.findall(r"^\| ([^|]+) \|", last, re.MULTILINE)
    terms = [word for row in rows if row != "Term" for word in row.split(", ")]
    return terms, [word for row in unused if row != "Not" for word in row.split(", ")]


@pytest.fixture(scope="module")
def said() -> str:
    """All pages and the help of all commands, which is a page too."""
    pages = [*sorted((phrases.ROOT / "docs").glob("*.md")), phrases.ROOT / "README.md"]
    left_out = ("glossary.md", "conformance.md", "decisions.md")
    words = [one.read_text(encoding="utf-8") for one in pages if one.name not in left_out]
    return " ".join(" ".join(words).lower().split())


def test_every_term_of_the_glossary_is_used(said: str) -> None:
    terms, _ = glossary()
    assert len(terms) > 80
    assert [term for term in terms if term.lower() not in said] == []


def test_words_that_the_glossary_replaces_are_not_used(
    said: str, texts: list[messages.Message]
) -> None:
    _, unused = glossary()
    assert len(unused) > 5
    found = [word for word in unused if re.search(rf"\b{word}\b", said)]
    messages_too = " ".join(" ".join(one.text.lower().split()) for one in texts)
    assert found == []
    assert [word for word in unused if re.search(rf"\b{word}\b", messages_too)] == []
