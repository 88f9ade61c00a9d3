"""A home: private, and one process's at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from posthouse.model.errors import InvalidParameter, ServiceNotAvailable
from posthouse.runtime.home import Home


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_home_is_private(tmp_path: Path) -> None:
    home = Home(tmp_path / "a" / "home")
    assert mode(home.path) == 0o700
    assert not home.narrowed
    home.close()


def test_a_home_that_others_could_enter_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o755)
    home = Home(tmp_path / "home")
    assert mode(home.path) == 0o700
    assert home.narrowed
    home.close()


def test_a_home_is_one_process_at_a_time(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with pytest.raises(ServiceNotAvailable, match="in use by another queue manager"):
        Home(tmp_path)
    home.close()
    home.close()
    Home(tmp_path).close()


def test_a_home_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ServiceNotAvailable, match="another user"):
        Home(tmp_path)
    monkeypatch.undo()
    Home(tmp_path).close()  # it was not kept


def test_a_folder_of_something_else_is_not_closed_to_others(tmp_path: Path) -> None:
    """`serve --home /tmp`, or from `/` with a variable that is not set, took it from all others."""
    folder = tmp_path / "shared"
    (folder / "keys").mkdir(parents=True)
    folder.chmod(0o755)
    Home(folder).close()
    folder.chmod(0o755)
    (folder / "report.txt").touch()
    with pytest.raises(InvalidParameter, match=r"it holds 'report.txt'.*Name a new folder\.$"):
        Home(folder)
    assert folder.stat().st_mode & 0o7777 == 0o755
    (folder / "posthouse.toml").touch()
    Home(folder).close()
    assert mode(folder) == 0o700


@pytest.mark.parametrize("held", ["report.txt", "posthouse.toml", "store", None])
def test_a_folder_that_all_share_is_never_closed_to_them(tmp_path: Path, held: str | None) -> None:
    """Whatever somebody has put into `/tmp`, and nothing tells to close it by hand."""
    if held is not None:
        (tmp_path / held).touch()
    tmp_path.chmod(0o1777)
    with pytest.raises(InvalidParameter, match=r"all users share.*Name a new folder\.$") as refused:
        Home(tmp_path)
    assert "chmod" not in str(refused.value)
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777


def test_a_folder_that_is_closed_to_others_may_become_a_home(tmp_path: Path) -> None:
    """`chmod 700` leaves the bit that a folder has of its parent."""
    (tmp_path / "password").touch()
    tmp_path.chmod(0o2700)
    Home(tmp_path).close()
    assert mode(tmp_path) == 0o700
