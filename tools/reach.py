"""What no user can reach: by the names in the source, and by the lines that run.

`python -m tools.reach --names` reads all of src and prints what nothing but tests can call, in
seconds (`reach_names.py`). The rest is about lines: which of the directory's no test over real
processes or the simulation reaches.

`python -m tools.reach` runs those tests with every process of theirs traced, also those that are
killed, and prints a table with the lines and branches that none of them took. Other tests do not
count: what only they reach may be code that no user can reach. It ends with 1 if a line is left.
`python -m tools.reach --keep FOLDER [TEST ...]` adds the given tests to what earlier ones reached;
unknown options go to pytest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from coverage import Coverage, CoverageData

from tools import reach_names, reach_trace

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "posthouse"
FILES = (
    "cli/directory/*.py",
    "connector/*.py",
    "directory/*.py",
    "directory/*/*.py",
    "engine/accounts/certificates.py",
    "engine/directory/*.py",
    "engine/transfer/connect_targets.py",
    "protocols/binary/peer_addresses.py",
    "protocols/binary/next_hop_lookup.py",
    "protocols/handlers/directory*.py",
    "runtime/directory/*.py",
    "runtime/ldap/*.py",
    "wire/binary/change_notification.py",
)
TESTS = (
    "tests/process/test_active_directory.py",
    "tests/process/test_commands.py",
    "tests/process/test_connector_queues.py",
    "tests/process/test_demo.py",
    "tests/process/test_directory_*.py",
    "tests/process/test_openldap*.py",
    "tests/process/test_redis_bridge.py",
    "tests/process/test_routed_kills.py",
    "tests/process/test_schemathesis.py",
    "tests/process/test_shared_directory*.py",
    "tests/process/test_strangers.py",
    "tests/protocols/binary/test_*simulation.py",
    "tests/protocols/srmp/test_simulation.py",
)
PYTEST = ("-q", "--timeout", "1800", "-p", "tools.reach_trace")
MORE_TESTS = (
    ("tests/directory", "-k", "openldap"),  # the suite of any directory, on a real server
    ("tests/connector", "-k", "served"),  # that of connectors, at a queue manager of its own
)


def expanded(root: Path, patterns: tuple[str, ...]) -> list[str]:
    """The files that some patterns name."""
    return [str(path) for pattern in patterns for path in sorted(root.glob(pattern))]


def run_traced(folder: Path, files: list[str], command: list[str]) -> int:
    """Runs a command and whatever it starts; what they reach is added to the folder."""
    (folder / reach_trace.FILES).write_text("\n".join(files))
    (folder / "sitecustomize.py").write_text("import tools.reach_trace\n")
    before = os.environ.get("PYTHONPATH")
    path = [str(folder), str(ROOT), str(ROOT / "src"), *([before] if before else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    return subprocess.run(command, env=environment | {reach_trace.FOLDER: str(folder)}).returncode


def report(folder: Path) -> int:
    """Prints the table; returns how many lines were not reached."""
    files = (folder / reach_trace.FILES).read_text().splitlines()
    steps: dict[str, list[tuple[int, int]]] = defaultdict(list)
    with (folder / reach_trace.STEPS).open() as lines:
        for line in lines:
            number, before, after = map(int, line.split())
            steps[files[number]].append((before, after))
    (folder / "coverage").unlink(missing_ok=True)
    data = CoverageData(str(folder / "coverage"))
    data.add_arcs(steps)
    data.touch_files(files)
    data.write()
    found = Coverage(data_file=str(folder / "coverage"), config_file=False, branch=True)
    found.load()
    found.report(show_missing=True, skip_covered=True)
    return sum(len(found.analysis2(file)[3]) for file in files)


def main() -> int:
    """Runs the tests and prints what they left out."""
    parser = argparse.ArgumentParser(description="Lines that no test over processes reaches.")
    parser.add_argument("tests", nargs="*", help="test files; by default those of the directory")
    parser.add_argument("--keep", metavar="FOLDER", help="adds to what was reached before")
    parser.add_argument("--names", action="store_true", help="reads all of src, and runs nothing")
    given, options = parser.parse_known_args()
    if given.names:
        found = reach_names.found()
        print("\n".join([*found, f"{len(found)} definitions are called by tests alone."]))
        return 1 if found else 0
    runs = [given.tests] if given.tests else [expanded(ROOT, TESTS), *map(list, MORE_TESTS)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.keep or temporary).absolute()
        folder.mkdir(exist_ok=True)
        files, pytest = expanded(PACKAGE, FILES), [sys.executable, "-m", "pytest", *PYTEST]
        failed = [run_traced(folder, files, [*pytest, *options, *tests]) for tests in runs]
        return 1 if report(folder) or any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
