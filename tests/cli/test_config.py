"""`posthouse config`: a file is judged as at a start, and what is shown is a file again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.cli.config import _lines
from posthouse.model.settings_kinds import MIB
from posthouse.runtime.settings.file import parse_settings
from posthouse.runtime.settings.settings import Settings
from tests.cli.conftest import Posthouse

FILE = """
[queue_manager]
name = "ALPHA"
aliases = ["A", "B"]
default_access = { everyone = "send", users = "receive" }
[store]
express_memory = "64MiB"
[directory.ldap]
url = "ldap://x"
"""


def test_a_file_is_checked(posthouse: Posthouse, tmp_path: Path) -> None:
    file = tmp_path / "posthouse.toml"
    assert "every setting has its default" in posthouse("config", "check", "--home", tmp_path).out
    file.write_text(FILE)
    assert "differ from their defaults: 5." in posthouse("config", "check", "--home", tmp_path).out
    assert posthouse("config", "check", "--config", file, "--json").value["changed"] == 5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[admin]\nprot = 1", "[admin] prot: there is no such setting"),
        ("[nothing]", "[nothing]: there is no such section"),
        ("[store]\nexpress_memory = 'much'", "is not a size"),
        ("x", "not TOML"),
        ('name = "X"', ": name: this belongs to a section: write it below [queue_manager]"),
        ("[queue_manager]\nname = X", "column 8)'; a text stands in quotes: name = "),
        ("[admin]\nport = 'x'", "[admin] port: expected int, got str; allowed: "),
    ],
)
def test_a_mistake_is_named(posthouse: Posthouse, tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "posthouse.toml").write_text(text)
    for verb in ("check", "show"):
        refused = posthouse("config", verb, "--home", tmp_path)
        assert (refused.code, problem in refused.err) == (2, True)
        assert posthouse("config", verb, "--home", tmp_path, "--json").err.startswith('{"error"')


def test_a_file_that_is_named_has_to_be_there(posthouse: Posthouse, tmp_path: Path) -> None:
    refused = posthouse("config", "check", "--config", tmp_path / "none.toml")
    assert (refused.code, "there is no such file" in refused.err) == (2, True)


def test_a_home_that_is_a_file_is_called_one(posthouse: Posthouse, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for words in (("serve",), ("config", "check")):
        refused = posthouse(*words, "--home", tmp_path / "file")
        assert refused.code == 2
        assert refused.err == f"{tmp_path}/file: this is a file, and a home is a folder.\n"


def test_what_is_shown_is_a_file_of_settings(posthouse: Posthouse, tmp_path: Path) -> None:
    (tmp_path / "posthouse.toml").write_text(FILE)
    wanted = parse_settings(FILE.encode())
    for options in ([], ["--changed"]):
        shown = posthouse("config", "show", "--home", tmp_path, *options).out
        assert parse_settings(shown.encode()) == wanted
    assert len(posthouse("config", "show", "--home", tmp_path, "--changed").out.splitlines()) == 10
    ldap = posthouse("config", "show", "directory.ldap", "--home", tmp_path, "--json").value
    assert ldap["directory.ldap"]["url"] == "ldap://x"
    assert posthouse("config", "show", "directory", "--home", tmp_path, "--json").value.keys() == {
        "directory", "directory.ldap",
    }  # fmt: skip
    store = posthouse("config", "show", "store", "--changed", "--home", tmp_path, "--json").value
    assert store == {"store": {"express_memory": 64 * MIB}}


def test_a_section_that_is_none_gets_the_nearest(posthouse: Posthouse, tmp_path: Path) -> None:
    refused = posthouse("config", "show", "amdin", "--home", tmp_path)
    assert (refused.code, "the nearest is [admin]" in refused.err) == (2, True)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_any_text_survives_the_file(domain: str) -> None:
    usual = Settings().queue_manager
    changed = type(usual)(dns_domain=domain)
    text = "\n".join(_lines("queue_manager", changed, usual, True))
    assert parse_settings(text.encode()).queue_manager == changed
