"""`posthouse bench` hands over to the benchmarks of the checkout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from posthouse.cli import bench, main

BENCHMARKS = """
import sys
open("said", "w").write(repr(sys.argv[1:]))
sys.exit(5)
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bench, "CHECKOUT", tmp_path)
    return tmp_path


def test_without_a_checkout_it_says_where_they_are(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["bench"]) == main.WRONG_USAGE
    assert "make bench" in capsys.readouterr().err


def test_options_and_exit_code_are_handed_through(checkout: Path) -> None:
    (checkout / "benchmarks").mkdir()
    (checkout / "benchmarks" / "__main__.py").write_text(BENCHMARKS)
    arguments = ["bench", "--quick", "--json", "--directory", str(checkout), "store"]
    assert main.run(arguments) == 5
    assert (checkout / "said").read_text() == repr(
        ["--quick", "--json", "--directory", str(checkout), "store"]
    )


def test_a_run_that_is_killed_is_told(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the kernel, for example, where memory is short."""
    (checkout / "benchmarks").mkdir()
    (checkout / "benchmarks" / "__main__.py").write_text("import os; os.kill(os.getpid(), 9)")
    assert main.run(["bench"]) == 128 + signal.SIGKILL
    assert "The run broke off: SIGKILL ended it." in capsys.readouterr().err


@pytest.mark.parametrize("ending", bench.ENDINGS)
def test_a_run_that_is_asked_to_end_removes_what_it_wrote(
    ending: signal.Signals, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "posthouse.cli.main", "bench", "store", "--json"]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [*command, "--directory", str(tmp_path)], stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        assert process.stdout is not None
        assert b"machine" in process.stdout.readline()
        os.kill(process.pid, ending)
        process.stdout.read()
        assert process.wait() == 130
        errors.seek(0)
        assert errors.read() == "Interrupted; everything written was removed.\n"
    assert list(tmp_path.iterdir()) == []


SLOW = """
import sys
from pathlib import Path
from posthouse.cli import bench, main
bench.CHECKOUT = Path(sys.argv[1])
sys.exit(main.run(["bench"]))
"""


@pytest.mark.parametrize("ending", bench.ENDINGS)
def test_a_run_that_is_asked_to_end_before_it_has_begun_has_no_traceback(
    ending: signal.Signals, checkout: Path
) -> None:
    """Its modules take a second or two to load."""
    (checkout / "benchmarks").mkdir()
    slow = "import time; print('loading', flush=True); time.sleep(60)"
    (checkout / "benchmarks" / "__main__.py").write_text(slow)
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, checkout],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        os.kill(process.pid, ending)
        assert process.communicate(timeout=30)[1] == "Interrupted; nothing was written.\n"
        assert process.returncode == 130
