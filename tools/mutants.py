"""Breaks recently changed lines one by one and looks whether their tests notice.

`make mutants` takes a seeded sample of small mistakes (a comparison turned round, a condition
negated, a constant off by one, a statement left out ...) on lines changed since --base, and runs
each against the tests of its module in a copy of the tree; the work tree is never touched.
A survivor is a line that no test holds: write the test, or see that the change means nothing.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import difflib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import SimpleQueue
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = "src/posthouse"

# Modules that other test files than their own cover: few and fast ones, because each mutant runs
# all of them. A key may name a folder, for the modules not named themselves; keys and names may
# have a *, and the longest key counts.
MODEL = "tests/engine/model"  # random days beside a simple model: where many parts play together
FAULTS = "tests/store/faults"
READ = ["tests/protocols/remote_read/test_[!d]*.py"]  # without lines and machines that die
JOBS = ["tests/engine/test_job*.py"]
LAKE = ["tests/spark/test_lake*.py"]
ROWS = ["tests/spark/test_rows.py", "tests/spark/test_sink_rows.py"]
REPORTS = [f"tests/spark/test_{name}.py" for name in ("report", "deadletters", "latency")]
SQL = ["tests/spark/test_sql*.py"]
SPARK_JOBS = ["tests/process/test_job_spark.py"]
DOCUMENT = ["tests/directory/test_document.py", "tests/runtime/test_directory_file.py"]
LDAP = [
    "tests/directory/test_ldap_*.py",
    "tests/directory/test_any_sequence.py",
    "tests/process/test_openldap.py",
    "tests/process/test_openldap_entries.py",
]
MIRROR = ["tests/runtime/test_mirroring*.py", "tests/runtime/test_notices.py"]
SESSION = ["tests/protocols/binary/test_session_[!p]*.py"]  # without pairs of them
LINKS = [
    f"tests/protocols/binary/test_{name}.py"
    for name in ("links", "claims", "routed", "routed_changes", "relayed_acks")
]
AFAR = ["tests/client/test_rem*.py", "tests/client/test_rpc_link.py"]
TESTS_OF = {
    "cli": ["tests/cli"],
    "client/remote/connect": AFAR,
    "client/remote/consumer": AFAR,
    "client/remote/messages": AFAR,
    "client/remote/transaction_parts": AFAR,
    "client/remote/queue": AFAR,
    "client/remote/reader": AFAR,
    "client/remote/state": AFAR,
    "client/rpc_link": AFAR,
    "connector": ["tests/connector"],
    "directory/authority": [*DOCUMENT, *MIRROR],
    "directory/base": [
        "tests/directory/test_base.py",
        "tests/directory/test_embedded.py",
        "tests/directory/test_service.py",
    ],
    "directory/document": DOCUMENT,
    "directory/embedded": [
        "tests/directory/test_embedded.py",
        "tests/directory/test_any_sequence.py",
    ],
    "directory/ldap/fields": LDAP,
    "directory/ldap/reading": LDAP,
    "directory/ldap/writing": LDAP,
    "directory/mirror": [*MIRROR, "tests/directory/test_embedded.py"],
    "directory/change_merging": ["tests/directory/test_rebasing.py", *DOCUMENT],
    "directory/routing": ["tests/directory/test_routing*.py"],
    "directory/service": [
        "tests/directory/test_service.py",
        "tests/directory/test_topology.py",
        "tests/directory/test_routing*.py",
        "tests/engine/test_directory_start.py",
        "tests/engine/test_connectors.py",
        "tests/runtime/test_mirroring.py",
    ],
    "engine": ["tests/engine/test_*.py"],
    "engine/accounts/accounts": ["tests/engine/test_accounts.py", "tests/engine/test_access.py"],
    "engine/messages/acknowledgments": [
        "tests/engine/test_acks.py",
        "tests/engine/test_answers.py",
        "tests/engine/test_outgoing_sequences.py",
        "tests/engine/test_receiving_*.py",
    ],
    "engine/transfer/arrivals": ["tests/engine/test_receiving*.py"],
    "engine/directory/authority_calls": [*MIRROR, "tests/engine/test_directory_start.py"],
    "engine/jobs/bindery": ["tests/engine/test_bindery*.py", "tests/engine/test_job_roles.py"],
    "engine/ledger/books": ["tests/engine/test_books.py", "tests/engine/test_state.py"],
    "engine/ledger/expiry_times": ["tests/engine/test_calendar.py", "tests/engine/test_expiry.py"],
    "engine/accounts/certificates": [
        "tests/engine/test_certificates.py",
        "tests/engine/test_receiving_security.py",
        "tests/protocols/admin/test_api_certificates.py",
    ],
    "engine/directory/connectors": [
        "tests/engine/test_connectors.py",
        "tests/connector",
        "tests/protocols/binary/test_foreign.py",
    ],
    "engine/ledger/ledger": ["tests/engine/test_*.py", MODEL],
    "engine/messages/cursor": ["tests/engine/test_cursor.py"],
    "engine/queues/open_queues": ["tests/engine/test_opening.py", "tests/engine/test_waiting.py"],
    "engine/directory/changes": [
        "tests/engine/test_directory_*.py",
        "tests/protocols/admin/test_api_directory.py",
        "tests/cli/test_directory.py",
        *MIRROR,
    ],
    "engine/directory/entries": [
        "tests/engine/test_directory_*.py",
        "tests/protocols/admin/test_api_directory.py",
        "tests/cli/test_directory_names.py",
    ],
    "engine/ledger/effects": ["tests/engine/test_effects.py", "tests/engine/test_steps.py"],
    "engine/messages/expiry": ["tests/engine/test_expiry.py"],
    "engine/transfer/forwarding": [
        "tests/engine/test_forwarding.py",
        "tests/engine/test_receiving_forward.py",
        "tests/engine/test_tracing.py",
        "tests/protocols/binary/test_routed.py",
        "tests/protocols/binary/test_routed_changes.py",
    ],
    "engine/pipelines/group*": ["tests/engine/test_groups*.py", "tests/engine/test_user_shares.py"],
    "engine/jobs": JOBS,
    "engine/directory/mirroring": MIRROR,
    "engine/messages/moving": ["tests/engine/test_moving.py", "tests/engine/test_steps.py", MODEL],
    "engine/queues/naming": ["tests/engine/test_queues.py", "tests/engine/test_opening.py"],
    "engine/directory/change_notices": ["tests/runtime/test_notices.py"],
    "engine/queues/opening": [
        "tests/engine/test_opening.py",
        "tests/engine/test_access.py",
        "tests/engine/test_owned.py",
    ],
    "engine/messages/packet_reads": [
        "tests/runtime/test_damage.py",
        "tests/engine/test_runs.py",
        MODEL,
    ],
    "engine/ledger/order": [
        "tests/engine/test_order.py",
        "tests/engine/test_lookup.py",
        "tests/engine/test_runs.py",
        MODEL,
    ],
    "engine/messages/outcome": ["tests/engine/test_outcome.py", "tests/engine/test_runs.py"],
    "engine/ledger/owner_index": ["tests/engine/test_owned.py"],
    "engine/directory/public_queues": [
        "tests/engine/test_queues.py",
        "tests/engine/test_opening.py",
        "tests/engine/test_directory_*.py",
        "tests/engine/test_sending_lists.py",
        *MIRROR,
    ],
    "engine/queues/queue": ["tests/engine/test_queues.py", "tests/engine/test_lookup.py"],
    "engine/queues/collection": ["tests/engine/test_queues.py", "tests/engine/test_access.py"],
    "engine/messages/reading": [
        "tests/engine/test_reading.py",
        "tests/engine/test_lookup.py",
        "tests/engine/test_cursor.py",
        MODEL,
    ],
    "engine/transfer/receiving": [
        "tests/engine/test_receiving*.py",
        "tests/engine/test_forwarding.py",
        "tests/engine/test_connectors.py",
    ],
    "engine/ledger/records": ["tests/engine/test_records.py"],
    "engine/ledger/rows": ["tests/engine/test_runs.py"],
    "engine/messages/enqueue": ["tests/engine/test_sending*.py", "tests/engine/test_runs.py"],
    "engine/transfer/outgoing_sequences": [
        "tests/engine/test_outgoing_sequences.py",
        "tests/engine/test_acks.py",
        "tests/engine/test_connectors.py",
    ],
    "engine/transfer/srmp": ["tests/engine/test_srmp_*.py"],
    "engine/pipelines/stage*": [
        "tests/engine/test_stages.py",
        "tests/engine/test_publish_runs.py",
        "tests/engine/test_user_shares.py",
    ],
    "engine/ledger/state": ["tests/engine/test_state.py", "tests/engine/test_runs.py", MODEL],
    "engine/ledger/table": ["tests/engine/test_table.py", "tests/engine/test_runs.py"],
    "engine/transfer/connect_targets": [
        "tests/engine/test_targets.py",
        "tests/engine/test_directory_names.py",
        "tests/engine/test_srmp_receipts.py",
    ],
    "engine/transactions/transaction": [
        "tests/engine/test_transaction.py",
        "tests/engine/test_two_phase.py",
    ],
    "engine/transactions/collection": [
        "tests/engine/test_transaction*.py",
        "tests/engine/test_two_phase.py",
        "tests/engine/test_owned.py",
        "tests/store/test_repair.py",
        MODEL,
    ],
    "engine/transfer/outgoing_queues": [
        "tests/engine/test_transfer.py",
        "tests/engine/test_receiving_transactional.py",
    ],
    "engine/messages/waiting": [
        "tests/engine/test_waiting.py",
        "tests/engine/test_cursor.py",
        "tests/engine/test_owned.py",
    ],
    "engine/transfer/remote_reads": ["tests/engine/test_remote_reads.py", *READ],
    "engine/accounts/logins": ["tests/engine/test_logins.py", "tests/rpc/test_providers.py"],
    "formats": ["tests/formats/test_[!h]*.py"],  # without large hostile inputs
    "protocols/binary/close_reasons": SESSION,
    "protocols/binary/session_setup": LINKS,
    "protocols/binary/handshake": SESSION,
    "protocols/binary/link": LINKS,
    "protocols/binary/links": LINKS,
    "protocols/binary/packet_scan": SESSION,
    "protocols/binary/interfaces": SESSION,
    "protocols/binary/protocol": ["tests/protocols/binary/test_protocol.py", *LINKS],
    "protocols/binary/next_hop_lookup": ["tests/protocols/binary/test_resolving.py", *LINKS],
    "protocols/binary/sending": ["tests/protocols/binary/test_dispatch.py", *SESSION],
    "protocols/binary/session": [
        *SESSION,
        "tests/protocols/binary/test_protocol.py",
        "tests/protocols/binary/test_links.py",
        "tests/protocols/binary/test_routed_changes.py",
    ],
    "protocols/binary/peer_addresses": LINKS,
    "protocols/ncp": ["tests/protocols/job_queue/test_*.py"],
    "protocols/pgm": ["tests/protocols/pgm/test_*.py"],
    "protocols/remote_read": READ,
    "protocols/srmp": ["tests/protocols/srmp/test_*.py"],
    "qms": ["tests/qms/test_*.py"],
    "rpc": ["tests/rpc/test_*.py"],
    "runtime/directory/authority": [
        "tests/runtime/test_directory_authority.py",
        "tests/runtime/test_mirroring.py",
    ],
    "runtime/directory/feed": [*MIRROR, "tests/runtime/test_directory_authority.py"],
    "runtime/directory/file": [*DOCUMENT, *MIRROR],
    "runtime/directory/ldap": LDAP,
    "runtime/directory/join": ["tests/process/test_openldap_managers.py"],
    "runtime/ldap": [*LDAP, "tests/runtime/test_ldap_connection.py"],
    "runtime/ldap/kerberos": [
        "tests/runtime/test_ldap_kerberos.py",
        "tests/process/test_openldap_kerberos.py",
    ],
    "runtime/settings": ["tests/runtime/test_settings*.py"],
    "spark/__init__": ["tests/spark/test_session.py"],
    "spark/lakes/archiving": ["tests/spark/test_archive.py"],
    "spark/rows/bad_rows": ROWS,
    "spark/batch": ["tests/spark/test_source.py"],
    "spark/body_shapes": ["tests/spark/test_clusters.py"],
    "spark/reports/charts": REPORTS,
    "spark/lakes/compaction": LAKE,
    "spark/stream_planner": ["tests/spark/test_course*.py"],
    "spark/reports/dead_letters": REPORTS,
    "spark/endpoint": ["tests/spark/test_leases.py", "tests/spark/test_source.py"],
    "spark/flows": ["tests/spark/test_run.py"],
    "spark/worker_home": ["tests/spark/test_session.py", "tests/spark/test_java.py"],
    "spark/jobs": SPARK_JOBS,
    "spark/lakes": LAKE,
    "spark/reports/latencies": REPORTS,
    "spark/msmq": ["tests/spark/test_msmq_*.py"],
    "spark/reports/page_text": REPORTS,
    "spark/pipelines": ["tests/spark/test_pipeline.py", "tests/spark/test_run.py"],
    "spark/queue_selection": ["tests/spark/test_leases.py", "tests/spark/test_source.py"],
    "spark/plan_walk": SQL,
    "spark/progress": ["tests/spark/test_archive.py", "tests/spark/test_replay.py"],
    "spark/remedies": ["tests/spark/test_clusters.py"],
    "spark/replaying": ["tests/spark/test_replay.py"],
    "spark/reports": REPORTS,
    "spark/rows": [*ROWS, *SQL],
    "spark/rows/rows": ROWS,
    "spark/pipeline_runner": ["tests/spark/test_run.py"],
    "spark/selection": ["tests/spark/test_replay.py"],
    "spark/sessions": ["tests/spark/test_session.py"],
    "spark/last_batch": ["tests/spark/test_archive.py", "tests/spark/test_checkpoints.py"],
    "spark/sink*": ["tests/spark/test_sink*.py"],
    "spark/queries": SQL,
    "spark/table_files": SQL,
    "store": ["tests/store/test_*.py", "tests/contract"],
    "store/compact": ["tests/store/test_compact.py", f"{FAULTS}/test_compact_everywhere.py"],
    "store/express": [
        "tests/store/test_express.py",
        "tests/contract",
        f"{FAULTS}/test_clean_stop.py",
    ],
    "store/log": ["tests/store/test_*.py", "tests/contract", f"{FAULTS}/test_clean_stop.py"],
    "store/recovery": ["tests/store/test_*.py", f"{FAULTS}/test_cut.py"],
    "store/maintenance": ["tests/store/test_compact.py", f"{FAULTS}/test_compact_everywhere.py"],
}

HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")
LEFT_OUT = (
    ".git",
    ".venv",
    ".conformance",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
)
BASELINE_SECONDS = 900.0  # without a mistake, beside whatever else the machine does
SECONDS_MIN = 20.0
SECONDS_FACTOR = 5.0


class Mutant(NamedTuple):
    """One small mistake: the whole text of its file with it, and what it does."""

    path: str
    line: int
    name: str
    text: str


class Result(NamedTuple):
    """What became of a mutant: killed, survived, timeout or not run."""

    mutant: Mutant
    outcome: str


# --- mistakes -----------------------------------------------------------------------------------

COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Mod: ast.FloorDiv,
}

Change = tuple[str, ast.AST, str]  # what it is called, the node it replaces, the new source


def changes(node: ast.AST) -> Iterator[Change]:
    """Every small mistake that can be made at one node."""
    match node:
        case ast.Compare(left=left, ops=[op, *rest], comparators=others) if type(op) in COMPARE:
            ops = [COMPARE[type(op)](), *rest]
            yield "compare", node, expression(ast.Compare(left, ops, others))
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "boolean", node, expression(ast.BoolOp(other, values))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            yield "arithmetic", node, expression(ast.BinOp(left, ARITHMETIC[type(op)](), right))
        case ast.Constant(value=bool() as value):
            yield "constant", node, repr(not value)
        case ast.Constant(value=int() as value):
            yield "constant", node, f"({value + 1})"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield "negate", test, expression(ast.UnaryOp(ast.Not(), test))
        case ast.Return(value=ast.expr() as value) if not is_truth(value):
            yield "return", node, "return None"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield "remove", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "remove", node, "pass"


def expression(node: ast.expr) -> str:
    """Source of an expression that is safe in the place of another one."""
    return f"({ast.unparse(ast.fix_missing_locations(node))})"


def is_truth(node: ast.expr) -> bool:
    """Whether the expression is None, which stays what it is, or a truth that can be turned."""
    return isinstance(node, ast.Constant) and isinstance(node.value, bool | None)


def mutable_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that decide something: no annotations, texts, assertions or type-checking imports."""
    if isinstance(node, ast.Assert | ast.JoinedStr | ast.Raise):
        if isinstance(node, ast.Raise):
            yield node
        return
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    yield node
    skipped = {"annotation", "returns", "decorator_list", "bases"}
    if isinstance(node, ast.ClassDef):
        skipped.add("keywords")
    for field, value in ast.iter_fields(node):
        if field in skipped:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from mutable_nodes(child)


def mutants_of(path: str, source: str, lines: set[int]) -> list[Mutant]:
    """Every mutant of the given lines of one file."""
    found = (mutant_of(path, source, change) for change in changes_of(ast.parse(source), lines))
    return [mutant for mutant in found if mutant is not None]


def changes_of(tree: ast.Module, lines: set[int]) -> Iterator[Change]:
    """Every small mistake that can be made in the given lines."""
    for node in mutable_nodes(tree):
        if getattr(node, "lineno", None) in lines:
            yield from changes(node)


def mutant_of(path: str, source: str, change: Change) -> Mutant | None:
    """The file with a mistake; None where that changes nothing or is not Python."""
    name, target, new = change
    text = splice(source, target, new)
    if text == source or not compiles(text):
        return None
    return Mutant(path, getattr(target, "lineno", 0), name, text)


def splice(source: str, node: Any, new: str) -> str:
    """The source with one node replaced. Columns of ast count bytes of UTF-8."""
    rows = source.encode().splitlines(keepends=True)
    first: int = node.lineno - 1
    last: int = node.end_lineno - 1
    head = b"".join(rows[:first]) + rows[first][: node.col_offset]
    tail = rows[last][node.end_col_offset :] + b"".join(rows[last + 1 :])
    return (head + new.encode() + tail).decode()


def compiles(text: str) -> bool:
    """Whether the mistake is still Python."""
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


# --- which lines, which tests -------------------------------------------------------------------


def git(root: Path, *arguments: str) -> str:
    """What git answers."""
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def default_base(root: Path) -> str:
    """The last commit older than four hours, else the first one."""
    base = git(root, "rev-list", "-1", "--before=4 hours ago", "HEAD").strip()
    return base or git(root, "rev-list", "--max-parents=0", "HEAD").split()[-1]


def changed_lines(root: Path, base: str, folder: str) -> dict[str, set[int]]:
    """Line numbers added or changed since base, by file; the work tree counts."""
    changed: dict[str, set[int]] = {}
    path = ""
    for line in git(root, "diff", "--unified=0", "--no-color", base, "--", folder).splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ ").removeprefix("b/")
        elif (hunk := HUNK.match(line)) and path.endswith(".py"):
            start, count = int(hunk[1]), int(hunk[2] or 1)
            changed.setdefault(path, set()).update(range(start, start + count))
    return {path: lines for path, lines in changed.items() if lines}


def tests_of(root: Path, path: str) -> list[str]:
    """The tests that ought to notice a mistake in the module; empty where there are none."""
    inside = "/".join(Path(path).with_suffix("").parts[2:])  # the path below src/posthouse
    keys = [key for key in TESTS_OF if fnmatchcase(inside, key) or inside.startswith(f"{key}/")]
    if keys:
        wanted = TESTS_OF[max(keys, key=len)]
    else:
        package, _, module = inside.rpartition("/")
        wanted = [str(Path("tests", package, f"test_{module}.py"))]
        if package and not (root / wanted[0]).exists():
            wanted = [f"tests/{package}"]
    return [str(path.relative_to(root)) for name in wanted for path in sorted(root.glob(name))]


# --- running ------------------------------------------------------------------------------------


class Tree:
    """A copy of the project in which one mutant at a time may live."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = folder
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        # Compiled files that go by the content of the source: a mutant is never taken for the
        # file before it, and everything else is imported in half the time.
        compileall.compile_dir(
            folder / "src", quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH
        )

    def test(self, targets: list[str], seconds: float) -> str:
        """`killed` where the tests fail, `survived` where they pass, or `timeout`."""
        environment = os.environ | {
            "PYTHONPATH": str(self.root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        # The limit for one test is made for a machine with nothing else to do; ours is `seconds`.
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", "-o", "timeout=0"]
        process = subprocess.Popen(
            [*command, f"--rootdir={self.root}", *targets],
            cwd=self.root,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return "killed" if process.wait(seconds) else "survived"
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def try_mutant(self, mutant: Mutant, targets: list[str], seconds: float) -> str:
        """Put the mutant in, run its tests, take it out again."""
        file = self.root / mutant.path
        original = file.read_text(encoding="utf-8")
        file.write_text(mutant.text, encoding="utf-8")
        try:
            return self.test(targets, seconds)
        finally:
            file.write_text(original, encoding="utf-8")


class Campaign:
    """A sample of mutants, the trees they run in and the time they have."""

    def __init__(self, root: Path, say: Callable[[str], None]) -> None:
        self.root = root
        self.deadline = 0.0
        self.say = say
        self.trees: SimpleQueue[Tree] = SimpleQueue()
        self.limits: dict[tuple[str, ...], float] = {}

    def measure(self, targets: tuple[str, ...]) -> str | None:
        """Run tests without a mistake, to measure how long they take; returns what is wrong."""
        tree = self.trees.get()
        began = time.monotonic()
        outcome = tree.test(list(targets), BASELINE_SECONDS)
        self.trees.put(tree)
        self.limits[targets] = max(SECONDS_MIN, SECONDS_FACTOR * (time.monotonic() - began))
        if outcome == "survived":
            return None
        return f"{' '.join(targets)}: the tests fail without any mistake ({outcome})"

    def attempt(self, mutant: Mutant) -> Result:
        """Try one mutant in the next free tree."""
        targets = tests_of(self.root, mutant.path)
        if not targets:
            return Result(mutant, "survived")
        left = self.deadline - time.monotonic()
        if left <= 0:
            return Result(mutant, "not run")
        tree = self.trees.get()
        try:
            limit = self.limits[tuple(targets)]
            outcome = tree.try_mutant(mutant, targets, min(limit, left))
        finally:
            self.trees.put(tree)
        if outcome == "timeout" and left < limit:
            outcome = "not run"
        self.say(f"{outcome:<9} {mutant.path}:{mutant.line} {mutant.name}")
        return Result(mutant, outcome)


def sample(root: Path, base: str, folder: str, count: int, seed: int) -> list[Mutant]:
    """A seeded choice among all mutants of the lines changed since base."""
    found: list[Mutant] = []
    for path, lines in sorted(changed_lines(root, base, folder).items()):
        if (root / path).exists():
            found += mutants_of(path, (root / path).read_text(encoding="utf-8"), lines)
    chooser = random.Random(seed)
    return chooser.sample(found, min(count, len(found)))


def difference(root: Path, mutant: Mutant) -> str:
    """The changed lines of a mutant, as a diff without context."""
    before = (root / mutant.path).read_text(encoding="utf-8").splitlines()
    rows = list(difflib.unified_diff(before, mutant.text.splitlines(), n=0, lineterm=""))[3:]
    return "\n".join([f"{mutant.path}:{mutant.line} ({mutant.name})", *rows])


def run(options: argparse.Namespace, say: Callable[[str], None] = print) -> list[Result]:
    """Choose, measure and try; returns what became of each mutant."""
    base = options.base or default_base(options.root)
    chosen = sample(options.root, base, options.folder, options.count, options.seed)
    say(f"{len(chosen)} mutants of lines changed since {base[:12]}, seed {options.seed}")
    campaign = Campaign(options.root, say)
    with tempfile.TemporaryDirectory(prefix="posthouse-mutants-") as folder:
        for number in range(options.workers):
            campaign.trees.put(Tree(options.root, Path(folder) / str(number)))
        groups = {tuple(tests_of(options.root, mutant.path)) for mutant in chosen}
        with ThreadPoolExecutor(options.workers) as pool:
            wrong = [text for text in pool.map(campaign.measure, sorted(groups - {()})) if text]
            if wrong:
                raise SystemExit("\n".join(wrong))
            campaign.deadline = time.monotonic() + 60 * options.minutes
            return list(pool.map(campaign.attempt, chosen))


def report(root: Path, results: list[Result], say: Callable[[str], None] = print) -> None:
    """The survivors as diffs, then as a list to work through, then the totals."""
    survivors = sorted(result.mutant for result in results if result.outcome == "survived")
    for mutant in survivors:
        say("\n" + difference(root, mutant))
    if survivors:
        say("\nsurvivors:")
    for mutant in survivors:
        say(f"  {mutant.path}:{mutant.line} {mutant.name}")
    outcomes = [result.outcome for result in results]
    names = ("killed", "timeout", "survived", "not run")
    say("\n" + ", ".join(f"{outcomes.count(name)} {name}" for name in names))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="tools.mutants", description=__doc__)
    parser.add_argument("--base", help="revision to compare with (default: four hours ago)")
    parser.add_argument("--count", type=int, default=40, help="mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another choice")
    parser.add_argument(
        "--minutes", type=float, default=20.0, help="time for the mutants, after the baseline"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", default=PACKAGE, help="only files below this folder")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """The command line. Survivors are not a failure: some mistakes change nothing."""
    options = parse(arguments)
    report(options.root, run(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
