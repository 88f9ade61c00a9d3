"""The documentation and the program say the same."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from posthouse.cli import main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
TARGET = re.compile(r"^([a-z]+):.*##", re.MULTILINE)


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command below this one that does something, by the words a user types."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for word in sorted(inner):
        yield from commands(inner[word], f"{name} {word}")


COMMANDS = dict(commands(typer.main.get_command(main.app), "posthouse"))


def shown_names(parameter: Any) -> list[str]:
    """How a user knows a parameter: its long options, or the word that stands for an argument."""
    if parameter.param_type_name == "argument":
        return [parameter.metavar or parameter.name.upper()]
    return [option for option in parameter.opts if option.startswith("--")]


def section(command: str) -> str:
    """What docs/cli.md says about a command."""
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    _, found, rest = text.partition(f"## {command}\n")
    assert found, f"docs/cli.md has no section '## {command}'"
    return rest.partition("\n## ")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented(name: str) -> None:
    words = section(name)
    for parameter in COMMANDS[name].params:
        for shown in shown_names(parameter):
            assert f"`{shown}`" in words, f"docs/cli.md, {name}: {shown} is missing"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*name.split()[1:], "--help"]) == main.DONE
    assert f"Example: {name}" in capsys.readouterr().out


def test_every_documented_command_exists() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (posthouse .+)$", text, re.MULTILINE) == sorted(COMMANDS)


def test_every_make_target_is_documented() -> None:
    words = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for target in TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")):
        assert target in ("help", "clean") or f"make {target}" in words, target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        assert "://" in link or (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page.name


def test_the_conformance_page_is_true() -> None:
    """Every mark names a rule, no rule is both proved and excused, the page is fresh."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.conformance", "--check", "--complete"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


RULING = re.compile(r'^(?:ruling|open) = "(.+)"$', re.MULTILINE)


def test_every_open_point_of_a_rule_is_settled() -> None:
    """Open points that a rule names are explained in docs/deviations.md."""
    words = (DOCS / "deviations.md").read_text(encoding="utf-8")
    for path in (ROOT / "conformance").glob("ms-*.toml"):
        for mark in RULING.findall(path.read_text(encoding="utf-8")):
            if re.fullmatch(r"O\d+", mark):
                assert f"| {mark} |" in words, mark


def test_the_first_conversation_of_the_readme_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "order 1 b'<order/>'" in said
    assert "accepted=1, waiting=0, locked=0, received=1" in said
