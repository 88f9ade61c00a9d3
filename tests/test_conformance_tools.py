"""What counts as proof of a rule, and the audit, on a small made-up project."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import conformance, conformance_audit, conformance_digests, conformance_results

SOURCE = {
    "__init__.py": "",
    "command.py": """
import sys

from tiny import adding


def main(arguments):
    total = adding.prepare(abs) * adding.add(int(arguments[0]), int(arguments[1]))
    print(total)
    return total


if __name__ == "__main__":
    main(sys.argv[1:])
""",
    "adding.py": """
import os
import signal


def add(one, other):
    if other < 0:
        return less(one, other)
    if other == 99:
        stop()
    return one + other


def less(one, other):
    return one - abs(other)


def stop():
    os.kill(os.getpid(), signal.SIGKILL)


def prepare(handler, times=lambda: 1):
    return handler(times())
""",
    "client.py": """
from tiny import adding


def connect(one):
    return adding.add(one, _secret())


def _secret():
    return 5
""",
    "dispatch.py": """
def next_one(rows):
    return min(rows)


def after(one):
    return one + 1
""",
}
RULES = {
    "live": "a test of what a command reaches",
    "dead": "a test of what only tests call, beside live code",
    "handed": "a test that hands dead code to live code",
    "skipped": "a test that is skipped",
    "partly": "a test with a parameter that is skipped",
    "rare": "a test of a branch that only tests take, in live code",
    "client": "a test that is a user's program",
    "private": "a test of what a client keeps to itself",
    "killed": "a test of a process that is killed",
    "nothing": "a test that runs nothing",
    "blind": "a test that cannot fail",
    "dosed": "a test that repeats itself",
}
DOOR_TESTS = """
import subprocess
import sys

import pytest
from tiny import client, command


def test_the_command_adds():
    assert command.main(["1", "2"]) == 3


@pytest.mark.spec("TINY 1/client")
def test_a_program_connects():
    assert client.connect(1) == 6


@pytest.mark.spec("TINY 1/killed")
def test_a_killed_process():
    done = subprocess.run([sys.executable, "-m", "tiny.command", "1", "99"])
    assert done.returncode == -9
"""
UNIT_TESTS = """
import pytest
from tiny import adding, client, dispatch


@pytest.mark.spec("TINY 1/live")
def test_live():
    assert adding.add(2, 0) == 2
    assert adding.add(3, 4) == 7


@pytest.mark.spec("TINY 1/dead")
def test_dead():
    assert dispatch.next_one([adding.add(1, 1), 1]) == 1


@pytest.mark.spec("TINY 1/handed")
def test_handed():
    assert adding.prepare(dispatch.after) == 2


@pytest.mark.spec("TINY 1/skipped")
def test_skipped():
    pytest.skip("a peer is missing")
    assert adding.add(1, 1) == 2


@pytest.mark.spec("TINY 1/partly")
@pytest.mark.parametrize("value", [1, pytest.param(2, marks=pytest.mark.skip("missing"))])
def test_partly(value):
    assert adding.add(value, 1) == value + 1


@pytest.mark.spec("TINY 1/rare")
def test_rare():
    assert adding.add(3, -1) == 2


@pytest.mark.spec("TINY 1/private")
def test_private():
    assert client._secret() == 5


@pytest.mark.spec("TINY 1/nothing")
def test_nothing():
    assert True


@pytest.mark.spec("TINY 1/blind")
def test_blind():
    adding.less(1, 1)


@pytest.fixture
def dose():
    return lambda usual, soak: usual


@pytest.mark.spec("TINY 1/dosed")
@pytest.mark.parametrize("part", range(3))
def test_dosed(part, dose):
    assert adding.add(part, dose(1, 9)) == part + 1
"""
DOORS = """
commands = ["src/tiny/command.py:main"]
clients = ["tiny.client"]
tests = ["tests/door", "tests/slow"]
left_out = ["tests/slow"]
drivers = []
"""


def tool(name: str, project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A tool, run as a developer runs it, but without plugins of pytest that it does not use."""
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    return subprocess.run(
        [sys.executable, "-m", f"tools.{name}", "--root", str(project), *arguments],
        cwd=conformance.ROOT,
        env=os.environ | plugins,
        capture_output=True,
        text=True,
    )


def build(project: Path) -> None:
    for name in ("conformance", "docs", "src/tiny", "tests/door", "tests/slow", "tests/unit"):
        (project / name).mkdir(parents=True)
    for name, text in SOURCE.items():
        (project / "src" / "tiny" / name).write_text(text)
    rules = [f'[[rule]]\nid = "TINY 1/{name}"\ntext = "{text}"\n' for name, text in RULES.items()]
    (project / "conformance" / "tiny.toml").write_text("\n".join(rules))
    (project / "conformance" / "status.toml").write_text("")
    (project / "conformance" / "doors.toml").write_text(DOORS)
    (project / "tests" / "door" / "test_door.py").write_text(DOOR_TESTS)
    (project / "tests" / "slow" / "test_slow.py").write_text("def test(): assert False\n")
    (project / "tests" / "unit" / "test_unit.py").write_text(UNIT_TESTS)
    (project / "pytest.ini").write_text(
        "[pytest]\npythonpath = src\naddopts = -p no:cacheprovider\n"
        "markers = spec(*rules, clause=): rules\n"
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project after a collection."""
    project = tmp_path_factory.mktemp("measured") / "project"
    build(project)
    done = tool("conformance_evidence", project)
    assert "13 tests name rules or enter through doors; 13 run now" in done.stdout, done
    return project


@pytest.fixture
def project(measured: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(measured, tmp_path / "project"))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


class TestEvidence:
    @pytest.mark.parametrize("rule", ["live", "partly", "rare", "client", "killed", "dosed"])
    def test_what_a_door_a_client_or_a_command_reaches_counts(
        self, measured: Path, rule: str
    ) -> None:
        assert rows(measured)[rule].startswith("done: ")

    @pytest.mark.parametrize(
        ("rule", "reason"),
        [
            ("dead", "runs what nothing reaches: src/tiny/dispatch.py:next_one"),
            ("handed", "runs what nothing reaches: src/tiny/dispatch.py:after)"),
            ("skipped", "skipped"),
            ("nothing", "runs no function of src"),
        ],
    )
    def test_what_does_not_count_says_why(self, measured: Path, rule: str, reason: str) -> None:
        assert rows(measured)[rule].startswith(
            f"open; no test counts: unit/test_unit.py::test_{rule} ({reason}"
        )

    def test_of_a_test_that_repeats_itself_one_part_runs(self, measured: Path) -> None:
        (seen,) = (measured / ".conformance" / "1").glob("tests-*")
        assert seen.read_text().count("::test_partly[") == 2
        assert seen.read_text().count("::test_dosed[") == 1

    def test_the_result_is_kept_with_digests(self, measured: Path) -> None:
        assert "Not measured yet" not in (measured / "docs" / "conformance.md").read_text()
        results = conformance_results.read(measured)
        assert results is not None
        assert results.counts("unit/test_unit.py::test_live")
        assert re.fullmatch(r"[0-9a-f]{12}", results.counted["unit/test_unit.py::test_live"])
        assert "src/tiny/adding.py:add" in results.functions
        assert "src/tiny/dispatch.py:next_one" not in results.functions

    def test_only_what_a_change_touches_runs_again(self, project: Path) -> None:
        before = (project / conformance_results.FILE).read_bytes()
        dispatch = project / "src" / "tiny" / "dispatch.py"
        edit(dispatch, "def next", "# a comment\ndef next")
        assert "; 0 run now" in tool("conformance_evidence", project).stdout
        assert (project / conformance_results.FILE).read_bytes() == before
        edit(dispatch, "min(rows)", "min(rows, default=0)")
        edit(project / "tests" / "door" / "test_door.py", "import sys\n", "import sys\nVALUE = 1\n")
        assert "; 4 run now" in tool("conformance_evidence", project).stdout

    def test_quick_runs_what_is_new_or_changed_whatever_changed_in_src(self, project: Path) -> None:
        edit(project / "src" / "tiny" / "adding.py", "one + other", "other + one")
        edit(project / "src" / "tiny" / "client.py", "return 5", "return _five()")
        (project / "src" / "tiny" / "client.py").open("a").write("\n\ndef _five():\n    return 5\n")
        door = project / "tests" / "door" / "test_door.py"
        edit(
            door,
            "def test_the_command",
            "def test_new():\n    client.connect(1)\n\n\ndef test_the_command",
        )
        edit(project / "tests" / "unit" / "test_unit.py", "_secret() == 5", "_five() == 5")
        assert "; 2 run now" in tool("conformance_evidence", project, "--quick").stdout
        assert rows(project)["private"].startswith("done: ")
        assert "; 0 run now" in tool("conformance_evidence", project, "--quick").stdout
        shutil.rmtree(project / ".conformance")
        assert "; 0 run now" in tool("conformance_evidence", project, "--quick").stdout
        edit(door, "connect(1)\n\n\ndef", "connect(2)\n\n\ndef")
        assert "; 1 run now" in tool("conformance_evidence", project, "--quick").stdout
        assert "; 0 run now" in tool("conformance_evidence", project, "--quick").stdout
        assert "evidence.json is stale" not in tool("conformance", project, "--check").stderr

    def test_what_is_mended_counts_and_what_fails_is_named(self, project: Path) -> None:
        edit(
            project / "src" / "tiny" / "command.py",
            "    print(total)",
            "    from tiny import dispatch\n\n    total = dispatch.next_one([total])",
        )
        edit(project / "tests" / "unit" / "test_unit.py", "== 7", "== 8")
        done = tool("conformance_evidence", project)
        assert done.returncode == 1
        assert "unit/test_unit.py::test_live: failed" in done.stderr
        assert rows(project)["dead"].startswith("done: ")

    def test_another_machine_believes_the_committed_result(self, project: Path) -> None:
        shutil.rmtree(project / ".conformance")
        before = (project / conformance_results.FILE).read_bytes()
        assert "; 0 run now" in tool("conformance_evidence", project).stdout
        assert (project / conformance_results.FILE).read_bytes() == before
        tests = project / "tests" / "unit" / "test_unit.py"
        edit(tests, "== 7", "== 3 + 4")
        edit(tests, "next_one([adding.add(1, 1), 1]) == 1", "next_one([adding.add(1, 1)]) == 2")
        assert "; 2 run now" in tool("conformance_evidence", project).stdout
        assert rows(project)["live"].startswith("done: ")
        assert rows(project)["dead"].startswith("open; no test counts: ")


class TestStale:
    def test_what_was_just_collected_is_current(self, measured: Path) -> None:
        assert "stale" not in tool("conformance", measured, "--check").stderr

    def test_changed_new_and_lost_tests_and_lost_functions_are_noticed(self, project: Path) -> None:
        tests = project / "tests" / "unit" / "test_unit.py"
        edit(tests, "== 7", "== 3 + 4")
        edit(tests, "def test_rare", "def test_seldom")
        edit(project / "src" / "tiny" / "adding.py", "def less(", "def lesser(")
        stderr = tool("conformance", project, "--check").stderr
        for complaint in (
            "1 changed tests: unit/test_unit.py::test_live",
            "1 new tests: unit/test_unit.py::test_seldom",
            "1 tests that are gone: unit/test_unit.py::test_rare",
            "1 functions that are gone: src/tiny/adding.py:less",
        ):
            assert f"evidence.json is stale: run make conformance ({complaint})" in stderr

    def test_other_changes_do_not_make_it_stale(self, project: Path) -> None:
        tests = project / "tests" / "unit" / "test_unit.py"
        edit(tests, "    assert adding.add(2, 0)", "    # why\n    assert adding.add(2, 0)")
        edit(tests, '"TINY 1/live"', '"TINY 1/live", "TINY 1/blind"')
        edit(project / "src" / "tiny" / "adding.py", "one + other", "other + one")
        assert "evidence.json is stale" not in tool("conformance", project, "--check").stderr


class TestAudit:
    @pytest.mark.soak
    def test_a_check_that_cannot_fail_is_found(self, measured: Path) -> None:
        before = {path: path.read_bytes() for path in (measured / "src").rglob("*.py")}
        done = tool("conformance_audit", measured, "--rules", "60", "--workers", "2", "--seed", "1")
        assert done.returncode == 1
        lines = done.stdout.splitlines()
        assert any(line.startswith("noticed: TINY 1/live [src/tiny/adding.py:") for line in lines)
        assert any(line.startswith("not noticed: TINY 1/blind [") for line in lines)
        assert any("noticed: TINY 1/killed [src/tiny/" in line for line in lines)
        assert re.search(r"^\d of 8 noticed by the first mistake, ", done.stdout, re.MULTILINE)
        assert {path: path.read_bytes() for path in (measured / "src").rglob("*.py")} == before

    def test_it_finds_lines_that_moved_and_follows_tests_by_itself(self, project: Path) -> None:
        adding = project / "src" / "tiny" / "adding.py"
        edit(adding, "import os", "# moved\n\n\nimport os")
        words = ("--workers", "1", "--seed", "1")
        rare = tool("conformance_audit", project, "--only", "TINY 1/rare", *words)
        assert "tests are followed" not in rare.stdout
        assert re.search(r"^noticed: TINY 1/rare \[src/tiny/adding.py:\d+ \w+\]", rare.stdout, re.M)
        assert "1 had lines that no other test runs; 0 more had no line" in rare.stdout
        shutil.rmtree(project / ".conformance")
        edit(adding, "one + other", "other + one")
        live = tool("conformance_audit", project, "--only", "TINY 1/live", *words)
        assert live.returncode == 0
        assert "10 tests are followed; 10 run now" in live.stdout
        assert "1 of 1 noticed by the first mistake, 1 by one of three" in live.stdout

    def test_a_rule_whose_lines_many_tests_run_has_none_and_is_replaced(
        self, project: Path
    ) -> None:
        tests = project / "tests" / "unit" / "test_unit.py"
        others = [f"def test_live_{n}(): assert adding.add({n}, 1) == {n + 1}" for n in range(13)]
        marked = [f'@pytest.mark.spec("TINY 1/client")\n{other}' for other in others]
        tests.write_text(tests.read_text() + "\n\n" + "\n\n\n".join(marked))
        tool("conformance_evidence", project)
        some = tool("conformance_audit", project, "--rules", "2", "--workers", "1", "--seed", "9")
        assert "2 of 8 rules that tests prove, seed 0x00000009\n" in some.stdout
        assert re.search(r"^no line of its own: TINY 1/\w+ \[\] unit/", some.stdout, re.M)
        assert " of 2 noticed by the first mistake, " in some.stdout

    def test_a_rule_that_no_test_proves_cannot_be_tried(self, measured: Path) -> None:
        done = tool("conformance_audit", measured, "--only", "TINY 1/dead", "--seed", "1")
        assert done.returncode == 1
        assert "not among the rules that tests prove: TINY 1/dead" in done.stderr

    def test_rules_are_drawn_by_the_last_commit(self, project: Path, tmp_path: Path) -> None:
        with pytest.raises(conformance.BadInput, match="there is no commit to draw rules by"):
            conformance_audit.seed_of_commit(tmp_path)
        subprocess.run(["git", "init", "-q"], cwd=project, check=True)
        person = ("-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false")
        words = ["git", *person, "commit", "-q", "--allow-empty", "-m", "x"]
        subprocess.run(words, cwd=project, check=True)
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=project, check=True, capture_output=True, text=True
        )
        assert f"{conformance_audit.seed_of_commit(project):08x}" == done.stdout[:8]

    def test_each_clause_of_a_rule_is_tried_by_its_own_tests(self, project: Path) -> None:
        rules = project / "conformance" / "tiny.toml"
        edit(rules, 'id = "TINY 1/live"\n', 'id = "TINY 1/live"\nclauses = ["sum", "less"]\n')
        tests = project / "tests" / "unit" / "test_unit.py"
        marked = '@pytest.mark.spec("TINY 1/live", clause="{}")\ndef test_{}'.format
        edit(tests, '@pytest.mark.spec("TINY 1/live")\ndef test_live', marked("sum", "live"))
        rare = '@pytest.mark.spec("TINY 1/rare")\n'
        edit(tests, rare, rare + '@pytest.mark.spec("TINY 1/live", clause="less")\n')
        found = conformance_audit.proved_rules(project, conformance.collect(project))
        assert found["TINY 1/live (sum)"] == ("unit/test_unit.py::test_live",)
        assert found["TINY 1/live (less)"] == ("unit/test_unit.py::test_rare",)
        assert "TINY 1/live" not in found


def test_digests_ignore_what_decides_nothing() -> None:
    one = conformance_digests.plain(ast.parse('def f():\n    "Text."\n    return 1'))
    other = conformance_digests.plain(ast.parse("def f():\n\n    return 1  # x"))
    assert one == other


def rows(project: Path) -> dict[str, str]:
    """The state of each rule on the page."""
    page = (project / "docs" / "conformance.md").read_text()
    found = re.findall(r"^\| (\w+) \| a [^|]* \| (.*) \|$", page, re.MULTILINE)
    return {rule: state.replace("`", "") for rule, state in found}
