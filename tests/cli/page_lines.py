"""The command lines of a page of docs/, run as they are printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from tests.cli.conftest import Posthouse, Result

DOCS = Path(__file__).parents[2] / "docs"


def blocks_of(page: str, language: str) -> list[str]:
    """The code of a page in one language."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def lines_of(page: str) -> dict[str, list[str]]:
    """The command lines of each section of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    first, *sections = re.split(r"^## ", text, flags=re.M)
    found = {"": first} | {one.partition("\n")[0]: one for one in sections}
    lines = {
        heading: [
            line
            for block in re.findall(r"^```sh\n(.*?)^```$", part, re.M | re.S)
            for line in block.splitlines()
        ]
        for heading, part in found.items()
    }
    return {heading: each for heading, each in lines.items() if each}


def run_line(run: Posthouse, line: str, replaced: Mapping[str, str], *more: str) -> Result:
    """One line, with `<` and `>`, and with these words in place of those of the page."""
    for word, value in replaced.items():
        line = line.replace(word, value)
    words, stdin, taken = list[str](), b"", ""
    rest = iter(shlex.split(line, comments=True))
    for word in rest:
        if word == "<":
            stdin = Path(next(rest)).read_bytes()
        elif word == ">":
            taken = next(rest)
        else:
            words.append(word)
    assert words[0] == "posthouse"
    done = run(*words[1:], *more, stdin=stdin)
    if taken:
        Path(taken).write_text(done.out)
    return done
