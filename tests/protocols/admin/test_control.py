"""The home that is meant where none is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from posthouse.net.control_socket import default_home


def test_the_home_comes_from_the_environment_or_the_users_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert default_home({"POSTHOUSE_HOME": "there"}) == Path("there")
    monkeypatch.setenv("HOME", "/someone")
    assert default_home({}) == Path("/someone/.local/share/posthouse")
