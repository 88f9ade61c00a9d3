"""A home that was moved or copied: noticed, told, and refused where that is wanted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from posthouse.engine.ledger.effects import Event
from posthouse.engine.machine.identity import HostIdentity, host_change
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import InvalidParameter
from posthouse.protocols.handlers.health import summarize_health
from posthouse.runtime import home as homes
from posthouse.runtime.home import STORE, Home, host_identity, start_manager
from posthouse.store.settings import StoreSettings
from tests.engine.settings import engine_settings

HERE = HostIdentity("a" * 16, "7").text()


@pytest.fixture
def computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that tells one computer from another."""
    machine_id = tmp_path / "machine-id"
    machine_id.write_text("0123456789abcdef0123456789abcdef\n")
    monkeypatch.setattr(homes, "MACHINE_ID", machine_id)
    return machine_id


def start(path: Path, settings: EngineSettings | None = None) -> tuple[list[Event], list[str]]:
    """One run of a queue manager: what it logged of its host, what its status shows."""
    home, events = Home(path), list[Event]()
    try:
        started = start_manager(
            home, settings or EngineSettings("ALPHA"), StoreSettings(), events.append
        )
        started.driver.release()
        problems = summarize_health(started.manager, [], whole=True).problems()
        started.store.close()
    finally:
        home.close()
    return [event for event in events if event.name == "host_changed"], problems


def test_the_same_home_on_the_same_computer_is_not_worth_a_word(
    tmp_path: Path, computer: Path
) -> None:
    for _ in range(3):
        assert start(tmp_path / "home") == ([], [])


def test_a_home_that_was_renamed_or_mounted_elsewhere_is_the_same(
    tmp_path: Path, computer: Path
) -> None:
    start(tmp_path / "home")
    (tmp_path / "home").rename(tmp_path / "volume")
    assert start(tmp_path / "volume") == ([], [])


def test_a_copied_home_is_noticed_once(tmp_path: Path, computer: Path) -> None:
    start(tmp_path / "home")
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    (event,), (problem,) = start(tmp_path / "copy")
    assert "copied" in str(event.details["cause"])
    assert "one GUID" in problem
    assert start(tmp_path / "copy") == ([], [])
    assert start(tmp_path / "home") == ([], [])


def test_a_home_on_another_computer_is_noticed(tmp_path: Path, computer: Path) -> None:
    start(tmp_path / "home")
    computer.write_text("ffffffffffffffffffffffffffffffff\n")
    (event,), _ = start(tmp_path / "home")
    assert "another computer" in str(event.details["cause"])


def test_a_volume_goes_on_in_a_new_container(tmp_path: Path, computer: Path) -> None:
    """Images of containers have no machine id, or an empty one."""
    start(tmp_path / "home")
    computer.write_text("")
    assert start(tmp_path / "home") == ([], [])
    computer.unlink()
    assert start(tmp_path / "home") == ([], [])


def test_a_copy_is_refused_where_the_setting_says_so(tmp_path: Path, computer: Path) -> None:
    strict = engine_settings("ALPHA", host_changed="refuse")
    start(tmp_path / "home", strict)
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    for _ in range(2):
        with pytest.raises(InvalidParameter, match="host_changed") as refusal:
            start(tmp_path / "copy", strict)
        assert "`warn`" in refusal.value.remedy
    start(tmp_path / "copy")
    assert start(tmp_path / "copy", strict) == ([], [])


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ("", HERE, ""),
        (HERE, "", ""),
        (HERE, HERE, ""),
        (HERE, HostIdentity("", "7").text(), ""),
        (HERE, HostIdentity("", "8").text(), "another folder"),
        (HERE, HostIdentity("b" * 16, "7").text(), "another computer"),
        (HERE, HostIdentity("b" * 16, "8").text(), "another computer"),
        ("strange", HERE, "another computer"),
        ("/", HERE, ""),
    ],
)
def test_what_has_changed(before: str, now: str, words: str) -> None:
    change = host_change(before, now)
    assert bool(change) == bool(words)
    assert words in change


def test_the_identity_does_not_show_the_machine_id(tmp_path: Path) -> None:
    (tmp_path / STORE).mkdir()
    (tmp_path / "id").write_text("0123456789abcdef\n")
    found = host_identity(tmp_path / STORE, tmp_path / "id")
    assert "0123456789abcdef" not in found
    assert found.endswith(f"/{(tmp_path / STORE).stat().st_ino}")
    assert host_identity(tmp_path / STORE, tmp_path / "none").startswith("/")
