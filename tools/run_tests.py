"""Runs the tests, and those few that failed beside others three times more, alone.

Many tests start real processes and wait for real clocks: on a busy machine one of twenty thousand
may fail for that reason alone. Such a test has to be mended, but it does not show that the change
is wrong. So up to `--unstable` tests that failed run again, in a process of their own, three times.
If one of these runs fails, or more tests had failed, the whole run has failed. Tests that passed
alone are listed at the end as unstable: look for the cause of each.

`python -m tools.run_tests --unstable 3 -- -q -n 3`: what follows `--` goes to pytest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

FAILURES_FILE = "POSTHOUSE_FAILURES_FILE"  # tests/conftest.py writes the failed tests there
TESTS_FAILED = 1  # pytest's exit code for this alone; others mean that it could not run
ROUNDS = 3


def main(arguments: Sequence[str]) -> int:
    """The exit code of the whole run."""
    parser = argparse.ArgumentParser(prog="python -m tools.run_tests")
    parser.add_argument("--unstable", type=int, default=3, help="how many tests may run again")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    chosen = parser.parse_args(arguments)
    code, failed = run(chosen.pytest)
    if code != TESTS_FAILED or not 0 < len(failed) <= chosen.unstable:
        return code
    print(f"\n{len(failed)} failed beside others; they run {ROUNDS} times alone", flush=True)
    for _ in range(ROUNDS):
        code, _ = run(["-q", *failed])
        if code:
            return code
    print(f"UNSTABLE, failed beside others and passed {ROUNDS} times alone:")
    print("\n".join(failed), flush=True)
    return 0


def run(arguments: Sequence[str]) -> tuple[int, list[str]]:
    """Exit code of pytest, and the tests that failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "failed"
        command = [sys.executable, "-m", "pytest", *arguments]
        code = subprocess.run(command, env={**os.environ, FAILURES_FILE: str(file)}).returncode
        return code, file.read_text("utf-8").splitlines() if file.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
