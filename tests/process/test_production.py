"""docs/production.md: its commands, its alerts, and its steps with the files of deploy/."""

from __future__ import annotations

import re
import shlex
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import posthouse as posthouse_package
from tests.cli.conftest import Posthouse, posthouse  # noqa: F401
from tests.cli.page_lines import DOCS, blocks_of, lines_of, run_line
from tests.process.serving import Serving

PAGE = "production.md"
ON_A_MACHINE = ("Install as a service", "Container")  # need root or docker
SECTIONS = {name: lines for name, lines in lines_of(PAGE).items() if name not in ON_A_MACHINE}
ROOT = DOCS.parent


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("serving"), "--name", "ALPHA") as running:
        running.ready()
        yield running


@pytest.fixture
def ph(server: Serving, posthouse: Posthouse, monkeypatch: pytest.MonkeyPatch) -> Posthouse:  # noqa: F811
    """Command lines for it."""
    monkeypatch.setenv("POSTHOUSE_HOME", str(server.home))
    return posthouse


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_commands_work_as_printed(
    heading: str, ph: Posthouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    posthouse_package.open(tmp_path / "stopped", name="ALPHA").close()
    for line in SECTIONS[heading]:
        done = run_line(ph, line, {})
        assert done.code == 0, (line, done)


def test_every_alert_asks_for_a_metric_that_the_token_of_the_page_can_read(
    ph: Posthouse, server: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = SECTIONS["Monitoring"]
    run_line(ph, line, {})
    token = Path("metrics.token").read_text().strip()
    request = urllib.request.Request(f"http://{server.ready()['endpoints']['admin']}/metrics")
    request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request) as answer:
        shown = answer.read().decode()
    alerts = (ROOT / "deploy" / "alerts.yml").read_text(encoding="utf-8")
    asked = set(re.findall(r"posthouse_\w+", alerts))
    assert len(asked) >= 7
    assert {name for name in asked if name not in shown} == set()


def test_the_files_of_a_service_are_installed_as_printed(tmp_path: Path) -> None:
    """The lines of `install`, in a folder in place of the root of the machine."""
    lines = lines_of(PAGE)["Install as a service"]
    installed = [shlex.split(line) for line in lines if line.startswith("install ")]
    for words in installed:
        target = tmp_path / words[-1].lstrip("/")
        subprocess.run([*words[:-1], str(target)], check=True, cwd=ROOT)
        assert target.read_bytes() == (ROOT / words[-2]).read_bytes()
    page = (DOCS / PAGE).read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[`\S+`\]\(\.\./(\S+)\) \| `(\S+)`", page, re.M)
    assert sorted(listed) == sorted((words[-2], words[-1]) for words in installed)
    assert (tmp_path / "etc" / "posthouse" / "posthouse.toml").stat().st_mode & 0o777 == 0o640


def test_the_image_is_built_from_the_file_that_is_there() -> None:
    (block,) = (one for one in blocks_of(PAGE, "sh") if one.startswith("docker"))
    (built,) = re.findall(r"docker build -f (\S+) ", block)
    assert (ROOT / built).is_file()
