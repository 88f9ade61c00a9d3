"""Commands that install something: they work, and trust no name that is not ours."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

import pytest

from posthouse.model import extras

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "docs", "deploy", "examples")
KINDS = (".py", ".md", ".js", ".toml", ".yml", ".yaml", ".1", ".json", "Dockerfile")
BY_NAME = re.compile(
    r"pip3? (?:install|download)\s(?:[^`\n]*?\s)?['\"]?posthouse(?![-/\w.])|posthouse\[[a-z]"
)
HERE = ROOT / "src" / "posthouse" / "model" / "extras.py"


def texts() -> list[Path]:
    found = [ROOT / "README.md"]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.name.endswith(KINDS)]
    return [path for path in found if path != HERE]


@pytest.mark.parametrize(
    ("line", "by_name"),
    [
        ("pip install 'posthouse[spark]'", True),
        ("pip install posthouse", True),
        ("pip install -U posthouse redis", True),
        ("the extra `posthouse[lake]`", True),
        ("pip install build/dist/posthouse_client-*.whl", False),
        ("/opt/posthouse/bin/pip install -c requirements.lock .", False),
        ("pip install '.[spark]' in a checkout of Posthouse", False),
    ],
)
def test_names_on_the_index_are_found(line: str, by_name: bool) -> None:
    assert bool(BY_NAME.search(line)) is by_name


def test_nothing_tells_to_install_by_a_name_that_others_may_own() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in texts()
        for line in path.read_text(encoding="utf-8").splitlines()
        if BY_NAME.search(line)
    ]
    assert found == []


class Installed(Distribution):
    """An installation that says where it came from."""

    def __init__(self, origin: object) -> None:
        self._origin = origin

    def read_text(self, filename: str) -> str | None:
        return None if self._origin is None else json.dumps(self._origin)

    def locate_file(self, path: object) -> Path:  # type: ignore[override]
        raise NotImplementedError


@pytest.fixture
def hint(monkeypatch: pytest.MonkeyPatch) -> object:
    def of(origin: object) -> str:
        def found(name: str) -> Distribution:
            if origin is PackageNotFoundError:
                raise PackageNotFoundError(name)
            return Installed(origin)

        monkeypatch.setattr("importlib.metadata.distribution", found)
        extras.install.cache_clear()
        command = extras.install("spark")
        extras.install.cache_clear()
        return command

    return of


def test_the_hint_names_where_this_was_installed_from(hint: object, tmp_path: Path) -> None:
    assert callable(hint)
    pip = f"{sys.executable} -m pip install"
    folder = tmp_path / "a checkout"
    folder.mkdir()
    url = folder.as_uri()
    assert hint({"url": url, "dir_info": {}}) == f"{pip} '{folder}[spark]'"
    git = {"url": "https://example.org/p.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    assert hint(git) == f"{pip} 'posthouse[spark] @ git+https://example.org/p.git@abc'"
    checkout = f"{pip} '.[spark]' in a checkout of Posthouse"
    for other in (None, [], {"url": "https://x/p.whl"}):
        assert hint(other) == checkout
    assert hint(PackageNotFoundError) == checkout
