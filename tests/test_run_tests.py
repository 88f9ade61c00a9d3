"""What `make test` makes of tests that fail beside others and pass alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.run_tests import main

ROOT = Path(__file__).resolve().parents[1]
PYTEST = ("--", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "tests")
# Fails in the runs that are named, counted from 1; each test counts by itself.
TEST = """
import pathlib

def test_it():
    runs = pathlib.Path(__file__ + ".runs")
    runs.write_text((runs.read_text() if runs.exists() else "") + "x")
    assert len(runs.read_text()) not in {failing}
"""


@pytest.fixture
def tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of tests of another project, with the plugin of this one."""
    folder = tmp_path / "tests" / "tiny"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they are not used, and slow to load
    return folder


def write(tests: Path, name: str, *failing: int) -> None:
    (tests / f"test_{name}.py").write_text(TEST.replace("{failing}", repr(failing)))


def runs(tests: Path, name: str) -> int:
    return len((tests / f"test_{name}.py.runs").read_text())


def test_a_test_that_passes_alone_is_listed(tests: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(tests, "good")
    write(tests, "moody", 1)
    assert main(PYTEST) == 0
    assert "UNSTABLE" in (printed := capfd.readouterr().out)
    assert printed.splitlines()[-1] == "tests/tiny/test_moody.py::test_it"
    assert (runs(tests, "good"), runs(tests, "moody")) == (1, 4)


@pytest.mark.parametrize("failing", [(1, 2), (1, 4)], ids=str)
def test_a_test_that_fails_once_more_fails_the_run(tests: Path, failing: tuple[int, ...]) -> None:
    write(tests, "broken", *failing)
    assert main(PYTEST) == 1


def test_where_many_fail_none_runs_again(tests: Path) -> None:
    for name in "abcd":
        write(tests, name, 1)
    assert main(PYTEST) == 1
    assert runs(tests, "a") == 1


def test_none_may_run_again_where_that_is_asked_for(tests: Path) -> None:
    write(tests, "moody", 1)
    assert main(("--unstable", "0", *PYTEST)) == 1
    assert runs(tests, "moody") == 1


def test_tests_that_cannot_be_collected_fail_the_run(tests: Path) -> None:
    (tests / "test_syntax.py").write_text("def")
    assert main(PYTEST) == 2


def test_a_test_that_cannot_be_set_up_runs_again(tests: Path) -> None:
    write(tests, "moody")
    (tests / "conftest.py").write_text(
        "import pathlib, pytest\n\n"
        "@pytest.fixture(autouse=True)\n"
        "def first_time_wrong():\n"
        "    seen = pathlib.Path(__file__ + '.seen')\n"
        "    wrong = not seen.exists()\n"
        "    seen.touch()\n"
        "    assert not wrong\n"
    )
    assert main(PYTEST) == 0
    assert runs(tests, "moody") == 3


def test_programs_that_tests_start_ignore_no_signal(tests: Path) -> None:
    """As `nohup make test &` starts them: a program that ignores SIGHUP cannot be tested for it."""
    (tests / "test_child.py").write_text(
        "import subprocess\n\n"
        "def test_it():\n"
        "    said = subprocess.run(['grep', 'SigIgn', '/proc/self/status'], capture_output=True)\n"
        "    assert int(said.stdout.split()[1], 16) & 0b100_0000_0000_0111 == 0\n"
    )
    ignoring = "import os, signal, sys\n" + "".join(
        f"signal.signal(signal.{name}, signal.SIG_IGN)\n"
        for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM")
    )
    command = [sys.executable, "-m", "pytest", *PYTEST[1:]]
    started = f"{ignoring}os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", started, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
