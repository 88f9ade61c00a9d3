"""The developers' tools, on small samples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import conformance, fuzz, mutants, peers, reach

RULES = """
[meta]
document = "SAMPLE"
edition = "first"

[[rule]]
id = "SAMPLE 1.1/1"
text = "A | B"

[[rule]]
id = "SAMPLE 1.1/2"
text = "Second."
ruling = "decision 7"
open = "O3"

[[rule]]
id = "SAMPLE 1.2/1"
text = "Third."
"""

SAMPLE_TESTS = """
import pytest

@pytest.mark.spec("SAMPLE 1.1/1")
@pytest.mark.parametrize("value", [1, 2])
def test_first(value):
    assert value

@pytest.mark.spec("SAMPLE 1.1/1", "SAMPLE 1.2/1")
class TestAll:
    def test_inside(self):
        assert True
"""


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins of pytest are slow to load, and the small projects of these tests use none."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with three rules and two tests."""
    for name in ("conformance", "docs", "tests"):
        (tmp_path / name).mkdir()
    (tmp_path / "conformance" / "sample.toml").write_text(RULES)
    (tmp_path / "conformance" / "status.toml").write_text("")
    (tmp_path / "tests" / "test_sample.py").write_text(SAMPLE_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = spec(*rules): rules\n")
    return tmp_path


def excuse(project: Path, rule: str, more: str = "") -> None:
    text = f'[[entry]]\nrules = ["{rule}"]\nreason = "because"\n{more}\n'
    (project / "conformance" / "status.toml").write_text(text)


def complaints(project: Path, *arguments: str) -> list[str]:
    """What the tool says about the project, run as a developer runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.conformance", "--root", str(project), *arguments],
        cwd=conformance.ROOT,
        capture_output=True,
        text=True,
    )
    lines = done.stderr.splitlines()
    assert done.returncode == (1 if lines else 0), done
    return lines


def evidence(tests: dict[str, list[str]], entries: dict[str, conformance.Entry]) -> list[str]:
    rules = [conformance.Rule(f"S 1/{number}", "text", "") for number in (1, 2)]
    document = conformance.Document("S", "", rules)
    found = conformance.Evidence([document], tests, entries)
    return conformance.problems(found, complete=True)


ENTRY = conformance.Entry("because", "", "")
RULED = conformance.Entry("because", "", "decision 74")


class TestConformance:
    def test_page_lists_each_rule_with_its_tests(self, project: Path) -> None:
        excuse(project, "SAMPLE 1.1/2", 'waits_for = "part 9"')
        assert complaints(project) == []
        page = (project / "docs" / "conformance.md").read_text()
        assert "| SAMPLE | 3 | 2 | 0 | 0 | 1 | 0 | 0 |" in page
        assert "| all | 3 | 2 | 0 | 0 | 1 | 0 | 0 |" in page
        assert (
            "| 1 | A \\| B | done: `test_sample.py::TestAll::test_inside`,"
            " `test_sample.py::test_first` |" in page
        )
        assert "| 2 | Second. (decision 7, O3) | waiting for part 9: because |" in page
        assert "### SAMPLE 1.2" in page
        assert "**Not measured yet**" in page

    def test_a_rule_by_ruling_is_not_done_though_it_has_tests(self, project: Path) -> None:
        excuse(project, "SAMPLE 1.2/1", 'ruling = "decision 74"')
        assert complaints(project) == []
        page = (project / "docs" / "conformance.md").read_text()
        assert "| SAMPLE | 3 | 1 | 0 | 1 | 0 | 0 | 1 |" in page
        assert (
            "| 1 | Third. | by ruling (decision 74): because; tests of the ruling:"
            " `test_sample.py::TestAll::test_inside` |" in page
        )

    def test_a_rule_with_a_ruling_is_done_as_ruled(self) -> None:
        ruled = conformance.Rule("S 1/1", "text", "decision 7")
        for rule, state in (
            (ruled, "done as ruled"),
            (ruled._replace(printed="the opposite"), "by ruling"),
            (ruled._replace(ruling=""), "done"),
        ):
            found = conformance.Evidence([], {"S 1/1": ["a"]}, {})
            assert found.state(rule) == state
            assert conformance.state_cell(rule, found).startswith(state)
            assert conformance.Evidence([], {}, {}).state(rule) == "open"

    def test_a_departure_needs_a_ruling_and_a_key_has_to_be_known(self, project: Path) -> None:
        rules = project / "conformance" / "sample.toml"
        for line, why in (
            ('printed = "x"', "departs from what is printed without a ruling"),
            ('claus = ["x"]', "unknown keys: claus"),
        ):
            rules.write_text(f'[[rule]]\nid = "SAMPLE 1.1/1"\ntext = "x"\n{line}\n')
            with pytest.raises(conformance.BadInput, match=why):
                conformance.read_documents(project / "conformance")

    def test_each_clause_of_a_rule_needs_a_test(self) -> None:
        rule = conformance.Rule("S 1/1", "text", "", "", ("kept", "unique"))
        document = conformance.Document("S", "", [rule])
        held = {"kept": ["a"], "unique": ["b"]}

        def complaints_about(clauses: dict[str, list[str]]) -> list[str]:
            found = conformance.Evidence(
                [document], {"S 1/1": ["a", "b"]}, {}, clauses={"S 1/1": clauses}
            )
            assert (found.state(rule) == "done") is (held.keys() <= clauses.keys())
            return conformance.problems(found, complete=True)

        assert complaints_about(held) == []
        assert complaints_about({"kept": ["a"]}) == ["S 1/1: no test holds its clause 'unique'"]
        assert complaints_about(held | {"other": ["c"]}) == [
            "S 1/1: it has no clause 'other', named by c"
        ]

    def test_a_rule_by_ruling_may_have_tests_and_need_not(self) -> None:
        assert evidence({"S 1/1": ["a"]}, {"S 1/1": RULED, "S 1/2": RULED}) == []

    def test_an_entry_does_not_wait_for_what_a_ruling_excludes(self, project: Path) -> None:
        excuse(project, "SAMPLE 1.1/1", 'ruling = "decision 74"\nwaits_for = "part 9"')
        with pytest.raises(conformance.BadInput, match="a ruling or waits, not both"):
            conformance.read_status(project / "conformance" / "status.toml")

    def test_check_fails_on_a_stale_page_only(self, project: Path) -> None:
        assert complaints(project, "--check") == ["docs/conformance.md is stale: run make docs"]
        assert complaints(project) == []
        assert complaints(project, "--check") == []

    def test_complete_wants_every_rule_accounted_for(self, project: Path) -> None:
        assert complaints(project) == []
        neither = "SAMPLE 1.1/2: neither proved by a test nor listed in status.toml"
        assert complaints(project, "--check", "--complete") == [neither]

    def test_tests_that_cannot_be_collected_are_reported(self, project: Path) -> None:
        (project / "tests" / "test_broken.py").write_text("import no_such_module\n")
        assert "the tests cannot be collected:" in complaints(project)

    def test_unknown_rules_are_reported(self) -> None:
        found = evidence({"S 1/1": ["a"], "S 9/9": ["b"]}, {"S 1/2": ENTRY, "S 8/8": ENTRY})
        assert found == ["S 9/9: no such rule, named by b", "S 8/8: no such rule, in status.toml"]

    def test_a_rule_is_never_both_proved_and_excused(self) -> None:
        found = evidence({"S 1/1": ["a"], "S 1/2": ["a"]}, {"S 1/2": ENTRY})
        assert found == ["S 1/2: proved by a and listed in status.toml as well"]

    def test_a_complete_table_has_no_problems(self) -> None:
        assert evidence({"S 1/1": ["a"]}, {"S 1/2": ENTRY}) == []

    def test_a_rule_in_two_documents_is_refused(self, project: Path) -> None:
        (project / "conformance" / "again.toml").write_text(RULES)
        with pytest.raises(conformance.BadInput, match=r"listed twice: SAMPLE 1\.1/1"):
            conformance.read_documents(project / "conformance")

    def test_an_excuse_needs_a_reason(self, project: Path) -> None:
        status = project / "conformance" / "status.toml"
        status.write_text('[[entry]]\nrules = ["SAMPLE 1.1/1"]\n')
        with pytest.raises(conformance.BadInput, match="needs rules and a reason"):
            conformance.read_status(status)

    def test_an_excuse_with_an_unknown_key_is_refused(self, project: Path) -> None:
        excuse(project, "SAMPLE 1.1/1", 'wait_for = "part 9"')
        with pytest.raises(conformance.BadInput, match="unknown keys: wait_for"):
            conformance.read_status(project / "conformance" / "status.toml")

    def test_a_rule_excused_twice_is_refused(self, project: Path) -> None:
        status = project / "conformance" / "status.toml"
        status.write_text(2 * '[[entry]]\nrules = ["SAMPLE 1.1/1"]\nreason = "because"\n')
        with pytest.raises(conformance.BadInput, match="listed twice"):
            conformance.read_status(status)


MODULE = '''"""A module."""


def grown(value, limit):
    """One more, up to the limit."""
    if value < limit and limit:
        return value + 1
    return limit
'''

MODULE_TESTS = """
from posthouse.tiny.grow import grown

def test_grows_by_one():
    assert grown(1, 5) == 2
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository whose second commit brings a module and its tests."""
    root = tmp_path / "project"
    (root / "src" / "posthouse" / "tiny").mkdir(parents=True)
    (root / "tests" / "tiny").mkdir(parents=True)
    run_git(root, "init", "-q")
    run_git(root, "commit", "-q", "--allow-empty", "-m", "root")
    for folder in ("src/posthouse", "src/posthouse/tiny"):
        (root / folder / "__init__.py").write_text("")
    (root / "src" / "posthouse" / "tiny" / "grow.py").write_text(MODULE)
    (root / "tests" / "tiny" / "test_grow.py").write_text(MODULE_TESTS)
    (root / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    run_git(root, "add", ".")
    run_git(root, "commit", "-q", "-m", "module")
    return root


def run_git(root: Path, *arguments: str) -> None:
    person = {"NAME": "Tester", "EMAIL": "tester@example.invalid"}
    names = {f"GIT_{role}_{key}": person[key] for role in ("AUTHOR", "COMMITTER") for key in person}
    subprocess.run(["git", *arguments], cwd=root, check=True, env=os.environ | names)


def named(source: str) -> set[tuple[str, str]]:
    """Every mutant of a source as (name, changed line)."""
    lines = set(range(1, source.count("\n") + 2))
    found = set()
    for mutant in mutants.mutants_of("x.py", source, lines):
        pairs = zip(source.splitlines(), mutant.text.splitlines(), strict=True)
        found |= {(mutant.name, new.strip()) for old, new in pairs if old != new}
    return found


class TestMutants:
    @pytest.mark.parametrize(
        ("source", "name", "line"),
        [
            ("a < b", "compare", "(a <= b)"),
            ("a is None", "compare", "(a is not None)"),
            ("a and b", "boolean", "(a or b)"),
            ("a + b", "arithmetic", "(a - b)"),
            ("x = 7", "constant", "x = (8)"),
            ("x = True", "constant", "x = False"),
            ("while a: f()", "negate", "while (not a): f()"),
            ("while a: f()", "remove", "while a: pass"),
            ("def f(): return a", "return", "def f(): return None"),
            ("a.b = c", "remove", "pass"),
            ("'ä'; f(1)", "constant", "'ä'; f((2))"),
        ],
    )
    def test_mistakes(self, source: str, name: str, line: str) -> None:
        assert (name, line) in named(source)

    @pytest.mark.parametrize(
        "source",
        [
            "assert a < b",
            "f'{a + 1}'",
            "def f(a: x[1]) -> y[2]: ...",
            "return_none = None",
            "class A(B, frozen=True): ...",
            "'text'",
        ],
    )
    def test_what_decides_nothing_is_left_alone(self, source: str) -> None:
        assert named(source) == set()

    def test_a_truth_is_broken_once(self) -> None:
        """Nothing is as good as False."""
        assert named("def f(): return True") == {("constant", "def f(): return False")}

    def test_only_changed_lines_are_broken(self, repository: Path) -> None:
        module = repository / "src" / "posthouse" / "tiny" / "grow.py"
        module.write_text(MODULE.replace("value + 1", "1 + value"))
        chosen = mutants.sample(repository, "HEAD", "src/posthouse", 40, seed=1)
        assert {mutant.line for mutant in chosen} == {7}

    def test_default_base_is_the_first_commit_of_a_young_repository(self, repository: Path) -> None:
        assert (
            mutants.git(repository, "show", "-s", "--format=%s", mutants.default_base(repository))
            == "root\n"
        )

    def test_tests_of_a_module(self, repository: Path) -> None:
        assert mutants.tests_of(repository, "src/posthouse/tiny/grow.py") == [
            "tests/tiny/test_grow.py"
        ]
        assert mutants.tests_of(repository, "src/posthouse/tiny/other.py") == ["tests/tiny"]
        assert mutants.tests_of(repository, "src/posthouse/none/other.py") == []

    def test_every_module_of_engine_and_store_has_tests_that_exist(self) -> None:
        root = mutants.ROOT
        for package in ("engine", "store"):
            for module in (root / mutants.PACKAGE / package).glob("*.py"):
                assert mutants.tests_of(root, str(module.relative_to(root))), module
        for key, names in mutants.TESTS_OF.items():
            package = root / mutants.PACKAGE
            assert (package / key).is_dir() or any(package.glob(f"{key}.py")), key
            assert all(any(root.glob(name)) for name in names), names

    def test_a_part_of_the_engine_has_a_few_test_files_of_its_own(self) -> None:
        found = mutants.tests_of(mutants.ROOT, "src/posthouse/engine/messages/enqueue.py")
        assert "tests/engine/test_sending_limits.py" in found
        assert "tests/engine/test_reading.py" not in found
        everything = mutants.tests_of(mutants.ROOT, "src/posthouse/engine/manager.py")
        assert "tests/engine/test_reading.py" in everything
        assert mutants.MODEL not in everything

    def test_slow_tests_without_a_mistake_do_not_use_up_the_time_of_the_mutants(
        self, repository: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert mutants.main(["--root", str(repository), "--workers", "1", "--minutes", "0"]) == 0
        assert "0 killed, 0 timeout, 0 survived, 7 not run" in capsys.readouterr().out

    def test_survivors_are_told_from_the_killed(
        self, repository: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = {path: path.read_bytes() for path in repository.rglob("*.py")}
        assert mutants.main(["--root", str(repository), "--workers", "2"]) == 0
        said = capsys.readouterr().out
        assert "4 killed, 0 timeout, 3 survived, 0 not run" in said
        assert "-    if value < limit and limit:\n+    if (value <= limit) and limit:" in said
        assert "-    return limit\n+    return None" in said
        listed = said[said.index("survivors:") :].splitlines()[1:4]
        module = "  src/posthouse/tiny/grow.py"
        assert listed == [f"{module}:6 boolean", f"{module}:6 compare", f"{module}:8 return"]
        assert {path: path.read_bytes() for path in repository.rglob("*.py")} == before

    def test_failing_tests_are_reported_before_any_mutant(self, repository: Path) -> None:
        (repository / "tests" / "tiny" / "test_grow.py").write_text("def test(): assert False\n")
        with pytest.raises(SystemExit, match="fail without any mistake"):
            mutants.main(["--root", str(repository), "--workers", "1"])

    def test_an_endless_mutant_times_out(self, repository: Path) -> None:
        tree = mutants.Tree(repository, repository.parent / "copy")
        (tree.root / "tests" / "tiny" / "test_grow.py").write_text(
            "def test():\n  while True: pass\n"
        )
        assert tree.test(["tests/tiny"], 2.0) == "timeout"


TARGET = """
SEEDS = [bytes(range(32))]

def fuzz_one(data):
    if len(data) == 33:
        raise ValueError("thirty-three")
    return len(data) == 32
"""
TARGETS = sorted((fuzz.ROOT / "fuzz").glob("fuzz_*.py"))


class TestFuzz:
    @pytest.fixture
    def target(self, tmp_path: Path) -> Path:
        (tmp_path / "fuzz").mkdir()
        path = tmp_path / "fuzz" / "fuzz_sample.py"
        path.write_text(TARGET)
        return path

    def test_a_crash_is_found_kept_and_replayed(
        self, target: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        root = target.parent.parent
        arguments = ["--root", str(root), "--seconds", "60", "--workers", "1"]
        assert fuzz.main(arguments) == 1
        assert "0 passed, 1 failed" in capsys.readouterr().out
        (crash,) = (target.parent / "crashes").iterdir()
        assert len(crash.read_bytes()) == 33
        assert fuzz.main(["--root", str(root), "--replay", str(crash)]) == 1
        assert "thirty-three" in capsys.readouterr().out

    def test_a_seed_gives_the_same_crash_again(self, target: Path) -> None:
        first, again = (fuzz.fuzz(target, 60, seed=5) for _ in range(2))
        assert first.crash == again.crash
        assert first.runs == again.runs

    def test_every_seed_input_is_run_even_without_time(self, target: Path) -> None:
        outcome = fuzz.fuzz(target, 0, seed=1)
        assert (outcome.runs, outcome.accepted, outcome.crash) == (1, 1, None)

    def test_a_target_may_know_better_how_to_damage_its_inputs(self, target: Path) -> None:
        target.write_text(TARGET + "def mutate(seed, chance):\n    return seed + b'!'\n")
        outcome = fuzz.fuzz(target, 0, seed=1, runs_min=2)
        assert outcome.crash == bytes(range(32)) + b"!"

    @pytest.mark.parametrize("target", TARGETS, ids=lambda path: path.stem)
    def test_every_target_of_ours_runs_and_finds_nothing(self, target: Path) -> None:
        runs = fuzz.load(target).runs
        outcome = fuzz.fuzz(target, 0, seed=1, runs_min=runs)
        assert outcome.trace == ""
        assert outcome.runs == runs >= 1000
        assert outcome.accepted > runs // 20  # else nothing behind the first check is tried

    def test_no_target_is_a_failure(self, tmp_path: Path) -> None:
        assert fuzz.main(["--root", str(tmp_path), "--seconds", "1"]) == 1


class TestPeers:
    def test_a_missing_program_names_the_remedy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.add(monkeypatch, "no-such-program-here")
        assert peers.missing("sample") == "sample is not installed (make peers)"

    def test_a_program_that_fails_here_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.add(monkeypatch, "false")
        assert "does not work here" in str(peers.missing("sample"))

    def test_a_program_that_works_is_present(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.add(monkeypatch, "true")
        assert peers.missing("sample") is None

    @staticmethod
    def add(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
        monkeypatch.setitem(peers.PEERS, "sample", peers.Peer("sample", (program,), "why"))
        peers.missing.cache_clear()


PEER_TEST = """
import pytest

@pytest.mark.peer("strace")
def test_with_strace():
    assert True

def test_without():
    assert True
"""


class TestGroups:
    """tests/conftest.py: peers skipped or demanded, and the last lines."""

    def run(self, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        (folder / "tests" / "alone").mkdir(parents=True)
        (folder / "tests" / "conftest.py").write_text(
            Path(__file__).with_name("conftest.py").read_text()
        )
        (folder / "tests" / "alone" / "test_peer.py").write_text(PEER_TEST)
        (folder / "tests" / "test_top.py").write_text("def test():\n    assert True\n")
        variables = os.environ | {"PYTHONPATH": str(conformance.ROOT), "PATH": ""} | environment
        for name in ("POSTHOUSE_REQUIRE_PEERS", "POSTHOUSE_SKIPS_FILE", "POSTHOUSE_SOAK"):
            if name not in environment:
                variables.pop(name, None)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
        return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)

    def test_a_missing_peer_is_one_line(self, tmp_path: Path) -> None:
        done = self.run(tmp_path, POSTHOUSE_SKIPS_FILE=str(tmp_path / "skips"))
        line = (
            "skipped tests/alone/test_peer.py::test_with_strace:"
            " strace is not installed (make peers)"
        )
        assert done.returncode == 0
        assert line in done.stdout.splitlines()
        assert (tmp_path / "skips").read_text() == f"{line}\n"

    def test_a_promised_peer_must_be_there(self, tmp_path: Path) -> None:
        done = self.run(tmp_path, POSTHOUSE_REQUIRE_PEERS="1")
        assert done.returncode == 1
        assert "strace is not installed (make peers)" in done.stdout

    def test_each_group_says_what_it_took(self, tmp_path: Path) -> None:
        lines = [line.split() for line in self.run(tmp_path).stdout.splitlines()]
        assert [line[:3] for line in lines if "tests" in line] == [
            ["alone", "1", "tests"],
            ["top", "1", "tests"],
        ]


REACHED = """
import os, signal, sys, threading

def choose(word):
    if word == "child":
        pid = os.fork()
        if not pid:
            here("killed")
        os.waitpid(pid, 0)
    else:
        here("thread")

def here(word):
    if word == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "thread":
        print(word)
    else:
        print("nobody says this")

thread = threading.Thread(target=choose, args=("thread",))
thread.start()
thread.join()
choose("child")
"""


class TestReach:
    def test_what_nobody_runs_is_told_though_processes_are_killed(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file, folder = tmp_path / "program.py", tmp_path / "kept"
        file.write_text(REACHED)
        folder.mkdir()
        assert reach.run_traced(folder, [str(file)], [sys.executable, str(file)]) == 0
        assert reach.report(folder) == 1
        line = REACHED.splitlines().index('        print("nobody says this")') + 1
        assert str(line) in capsys.readouterr().out

    def test_every_name_is_that_of_a_file(self) -> None:
        for root, patterns in ((reach.PACKAGE, reach.FILES), (reach.ROOT, reach.TESTS)):
            for pattern in patterns:
                assert reach.expanded(root, (pattern,)), pattern
