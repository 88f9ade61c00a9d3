"""`man posthouse`: the page says what the help says, and man has nothing to complain about."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from posthouse.cli import main, man_page
from posthouse.cli.verbs import commands

PAGE = Path(man_page.__file__).with_name("posthouse.1")


def shown(source: str) -> str:
    """What a terminal shows of roff, without bold and line breaks."""
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tascii", "-P-cbou", "-rLL=9999n"],
        input=source,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_the_page_says_what_the_program_says() -> None:
    """Made by: python -m posthouse.cli.man_page > src/posthouse/cli/posthouse.1"""
    assert PAGE.read_text(encoding="utf-8") == man_page.man_page()


@pytest.mark.peer("groff")
def test_man_shows_every_command_and_option() -> None:
    page = shown(PAGE.read_text(encoding="utf-8"))
    for name, command in commands(main.program(), "posthouse"):
        section = page.partition(f"\n   {name}\n")[2].partition("\n   posthouse ")[0]
        assert section, name
        for option in command.params:
            for word in option.opts if option.param_type_name == "option" else ():
                assert (
                    word in section
                    or word in page.partition("\nCOMMANDS\n")[0]
                    or (option.name == "help")
                ), (name, word)
        assert f"\n       {name} " in section or f"\n       {name}\n" in section, "its example"


@pytest.mark.peer("groff")
def test_no_text_is_taken_for_a_request_or_an_escape() -> None:
    texts = [".TH X", "'so /etc/passwd", r"a\fBb\e\n(xx", "--out=`x`", '"q" ^~', r"\&.x", "a.\\"]
    source = "".join(f".PP\n{man_page.roff(text)}\n" for text in texts)
    found = [line.strip() for line in shown(f".TH X 1\n.SH X\n{source}").splitlines()]
    assert [text for text in texts if text not in found] == []
