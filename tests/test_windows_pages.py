"""The pages about Windows: their settings exist, with the defaults that are printed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from posthouse.client.remote import local_checks, peer_check
from posthouse.runtime.settings.file import read_settings
from posthouse.runtime.settings.settings import Settings

DOCS = Path(__file__).parent.parent / "docs"
DIFFERS, PEERS = DOCS / "differs-from-windows.md", DOCS / "windows-peers.md"
SETTING = re.compile(r"`(\[[a-z_.]+\]) ([a-z_0-9]+ = [^`]+)`")


def rows() -> list[list[str]]:
    """The rows of the table of settings."""
    text = DIFFERS.read_text(encoding="utf-8").split("## With a setting")[1].split("\n## ")[0]
    table = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in table[1:]]


def named(cell: str) -> list[str]:
    return [f"{section}\n{setting}\n" for section, setting in SETTING.findall(cell)]


DEFAULTS = [one for row in rows() for one in named(row[2])]
AS_WINDOWS = [one for row in rows() for one in named(row[3])]
ELSEWHERE = [one for page in (PEERS, DIFFERS) for one in named(page.read_text(encoding="utf-8"))]


def test_the_table_was_found() -> None:
    assert len(DEFAULTS) >= 10
    assert len(AS_WINDOWS) >= 10


@pytest.mark.parametrize("text", sorted(set(DEFAULTS)))
def test_a_default_is_what_the_page_says(text: str) -> None:
    ((section, values),) = tomllib.loads(text).items()
    found = msgspec.json.decode(msgspec.json.encode(getattr(Settings(), section)))
    for key, value in values.items():
        assert found[key] == value


@pytest.mark.parametrize("text", sorted({*AS_WINDOWS, *ELSEWHERE}))
def test_a_setting_on_the_pages_is_accepted(text: str, tmp_path: Path) -> None:
    path = tmp_path / "posthouse.toml"
    path.write_text(text)
    read_settings(path, must_exist=True)


def test_there_are_twenty_checks_and_doctor_has_those_that_it_prints() -> None:
    text = PEERS.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(line.split("|")[1]) for line in lines] == list(range(1, 21))
    program = "".join(
        Path(str(module.__file__)).read_text(encoding="utf-8")
        for module in (peer_check, local_checks)
    )
    for line in lines:
        named = re.findall("`([^`]+)`", line.split("|")[4])
        assert named, line
        for file, _, test in (one.partition("::") for one in named):
            source = (Path(__file__).parent / file).read_text(encoding="utf-8")
            assert f"def {test or 'test_'}" in source, (file, test)
        told = re.search(r"doctor: (.*?)(?: \(| \|)", line)
        for check in re.findall("`([^`]+)`", told[1] if told else ""):
            words = check.split()
            stem = f'"{check}' if words[0] != "name" else '"name {whose}"'
            assert stem in program or f'f"{check}' in program, check
