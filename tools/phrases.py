"""Words and phrases that readers stumble over, counted: `python -m tools.phrases`.

docs/glossary.md has the words to use instead. `conformance/phrases.toml` has the number of each
phrase that is left, and tests/test_phrases.py holds that none grows. `--list PHRASE` shows where a
phrase is, `--lower` writes smaller numbers into the file.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
ALLOWED: Final = ROOT / "conformance" / "phrases.toml"
# Words of a program as of a person, openings and turns of phrase that are not plain English.
PHRASES: Final = {
    "The same, ...": r"\AThe same\b",
    "is no": r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more than\b)\w+",
    "so many": r"\bso many\b(?! that)",
    "so long": r"\bso long\b(?! (?:as|that)\b)",
    "behind": r"\bbehind\b(?! (?:an? |the )?(?:NAT|prox|firewall|web server))",
    "anew": r"\banew\b",
    "any more": r"\bany more\b(?! (?:than|of)\b)",
    "whoever": r"\bwhoever\b",
    "nobody": r"\bnobody\b",
    "he, his, him": r"\b(?:he|his|him|himself)\b",
    "says": r"\bsays?\b",
    "tells": r"\btells?\b",
    "knows": r"\bknows?\b",
    "hears": r"\bhears?\b",
}
PATTERNS: Final = {
    name: re.compile(text, 0 if name == "The same, ..." else re.IGNORECASE)
    for name, text in PHRASES.items()
}
CODE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PLACES: Final = ("pages", "messages", "docstrings", "comments")
# Printed from other files, or quoting the documents of others.
LEFT_OUT: Final = ("conformance.md", "tour.md", "state-machines.md", "glossary.md")
SOURCES: Final = ("src", "tools", "examples", "benchmarks", "fuzz")


class Text(NamedTuple):
    """A piece of English, and where it is."""

    place: str
    file: str
    line: int
    words: str


def texts() -> Iterator[Text]:
    """All English of the project that a user or a developer reads, but for the tests."""
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if page.name not in LEFT_OUT:
            yield from _of_page(page)
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path != Path(__file__).resolve():
                name = path.relative_to(ROOT).as_posix()
                yield from of_source(path.read_text(encoding="utf-8"), name)


def _of_page(path: Path) -> Iterator[Text]:
    text = path.read_text(encoding="utf-8")
    prose = CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
    name = path.relative_to(ROOT).as_posix()
    for number, line in enumerate(prose.splitlines(), 1):
        yield Text("pages", name, number, re.sub(r"`[^`]*`", "", line))


def of_source(source: str, name: str) -> Iterator[Text]:
    """The docstrings, messages and comments of a module."""
    documented = set[int]()  # lines of strings that stand alone: docstrings, also of attributes
    strings: list[ast.Constant] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant):
            strings.append(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documented.add(node.value.lineno)
    for node in strings:
        if isinstance(node.value, str) and " " in node.value:
            place = "docstrings" if node.lineno in documented else "messages"
            yield Text(place, name, node.lineno, re.sub(r"`[^`]*`", "", node.value))
    is_simple = not any("#" in str(node.value) for node in strings)
    for line, text in simple_comments(source) if is_simple else comments(source):
        yield Text("comments", name, line, text.lstrip("#: "))


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def simple_comments(source: str) -> Iterator[tuple[int, str]]:
    """Those of a module that has the mark of a comment in none of its strings: much quicker."""
    for number, line in enumerate(source.splitlines(), 1):
        if at := line.find("#") + 1:
            yield number, line[at - 1 :]


def found() -> Iterator[tuple[str, Text]]:
    """Each phrase that is there, as often as it is there."""
    for text in texts():
        for phrase, pattern in PATTERNS.items():
            for _ in pattern.finditer(text.words):
                yield phrase, text


def counts() -> dict[str, dict[str, int]]:
    """How often each phrase is in each kind of place."""
    counted = Counter((text.place, phrase) for phrase, text in found())
    return {place: {phrase: counted[place, phrase] for phrase in PHRASES} for place in PLACES}


def allowed() -> dict[str, dict[str, int]]:
    """How often each phrase may be there."""
    return tomllib.loads(ALLOWED.read_text(encoding="utf-8"))


def lower() -> None:
    """Write the numbers that have become smaller; none becomes larger."""
    now = counts()
    before = allowed() if ALLOWED.exists() else now
    lines = ["# How often each phrase is left; see tools/phrases.py. The numbers only go down."]
    for place in PLACES:
        lines += ["", f"[{place}]"]
        lines += [f'"{one}" = {min(now[place][one], before[place][one])}' for one in PHRASES]
    ALLOWED.write_text("\n".join([*lines, ""]), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Print the counts, or the places of one phrase."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", metavar="PHRASE", choices=[*PHRASES])
    parser.add_argument("--place", choices=PLACES)
    parser.add_argument("--lower", action="store_true")
    options = parser.parse_args(arguments)
    if options.lower:
        lower()
    elif options.list:
        for phrase, text in found():
            if phrase == options.list and options.place in (None, text.place):
                print(f"{text.file}:{text.line}: {' '.join(text.words.split())[:200]}")
    else:
        table = counts()
        for phrase in PHRASES:
            row = "".join(f"{place} {table[place][phrase]:5}   " for place in PLACES)
            print(f"{phrase:14} {row}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
