"""The shape of the source, held by reading it: imports point down, purity, size, docstrings."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.source import source_tree
from tools import reach_names
from tools.counts import Counts, imports_of_tests
from tools.source_tree import (
    FACADES,
    TWIN_PACKAGES,
    Module,
    SourceTree,
    called,
    chain_of,
    knot_of,
    names_in,
    past_the_manager,
    uses_the_engine,
)

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "posthouse"
LINES_MAX = 600

# Which package may import which. An empty name is the top: posthouse/__init__.py.
PURE = {"model", "wire", "security", "directory", "formats"}
CORE = PURE | {"engine", "store"}
DOORS = CORE | {"api", "net", "rpc", "protocols"}
MAY_IMPORT: dict[str, set[str]] = {
    "": {"model", "client", "runtime"},
    "model": set(),
    "wire": {"model"},
    "formats": {"model"},
    "security": {"model", "wire"},
    "directory": {"model", "wire", "security"},
    "engine": PURE - {"formats"},
    "store": PURE - {"formats"} | {"engine"},
    "api": {"model", "directory"},
    "net": {"model"},
    "rpc": {"model", "wire", "security", "net"},
    "protocols": CORE | {"api", "net", "rpc"},
    "runtime": DOORS,
    "sim": DOORS | {"runtime"},
    "client": DOORS | {"runtime"},
    "qms": {"model", "api", "client"},
    "connector": {"model", "wire", "client"},
    "spark": {"", "model", "formats", "client", "qms"},
    "cli": DOORS | {"", "runtime", "sim", "client", "qms", "spark"},
}

# Clocks, sockets and chance enter at the edge.
EDGE_MODULES = {"asyncio", "random", "secrets", "select", "selectors", "socket", "ssl", "time"}
EDGE_PACKAGES = {"net", "runtime", "client", "sim", "qms", "spark"}
EDGE_SERVERS = {"rpc", "protocols"}
# What aiohttp calls, and what runs beside the loop: parts of the server next to them.
EDGE_FILES = {
    "cli/audit.py",
    "cli/complete.py",
    "cli/operation.py",
    "cli/connection.py",
    "cli/top.py",
    "cli/watch_option.py",
    "protocols/http/connection.py",
    "protocols/http/door.py",
    "protocols/http/requests.py",
    "protocols/http/query_runs.py",
    "protocols/http/background_work.py",
    "protocols/http/request_streams.py",
    "protocols/http/passwords.py",
    "protocols/http/memory_reservations.py",
    "protocols/http/answer_streams.py",
    "protocols/streams.py",
}
# What the doors of all protocols have in common.
SHARED_BY_PROTOCOLS = {
    "engine_calls",
    "memory",
    "outgoing_reports",
    "pacing",
    "queue_format",
    "rpc_callers",
    "sending_queue",
    "settings",
    "streams",
    "timers",
    "transport",
}
# The packages of one door, the admin endpoint: which of them may use which others.
ADMIN_ENDPOINT = {
    "http": {"sessions", "handlers", "arrow", "metrics"},
    "sessions": {"handlers"},
    "handlers": {"arrow"},
    "arrow": {"handlers"},
    "metrics": {"handlers"},
}
# Every package of a protocol has protocol.py (pure), server.py (asyncio) and settings.py, but for:
OTHER_FILES: dict[str, tuple[str, ...]] = {
    "http": ("protocol.py",),  # that is aiohttp
    "sessions": ("server.py", "settings.py"),  # they come in through the port of http
    "management": ("server.py", "settings.py"),  # an interface on the endpoint of remote_read
    # What the admin endpoint answers, in whatever way it was asked.
    "handlers": ("protocol.py", "server.py", "settings.py"),
    "arrow": ("protocol.py", "server.py", "settings.py"),
    "metrics": ("protocol.py", "server.py", "settings.py"),
}
CLOCK_OR_CHANCE = {
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "os.urandom",
    "uuid.uuid1",
    "uuid.uuid4",
    "uuid1",
    "uuid4",
    "urandom",
}
# Files are the store's, and inside the store they are disk.py's.
FILE_MODULES = {"os", "pathlib", "mmap", "shutil", "tempfile", "fcntl", "glob", "subprocess"}
WITHOUT_FILES = CORE
FILES_ALLOWED = {"store/disk.py"}


def tree() -> SourceTree:
    return source_tree()


def modules() -> list[Module]:
    return tree().modules


def target_package(dotted: str) -> str | None:
    """The package of ours a dotted name belongs to, or None for anything else."""
    first, *rest = dotted.split(".")
    if first != "posthouse":
        return None
    return rest[0] if rest and (SOURCE / rest[0]).is_dir() else ""


def is_edge(module: Module) -> bool:
    server = module.path.name == "server.py" and module.package in EDGE_SERVERS
    return module.package in EDGE_PACKAGES or server or module.name in EDGE_FILES


def test_there_is_source_to_check() -> None:
    assert len(modules()) > 10
    assert {module.package for module in modules()} <= MAY_IMPORT.keys()


def test_imports_point_down() -> None:
    wrong = [
        f"{module.name}:{line}: {module.package or 'posthouse'} must not import {dotted}"
        for module in modules()
        for line, dotted in module.imports()
        if (target := target_package(dotted)) is not None
        and target != module.package
        and target not in MAY_IMPORT[module.package]
    ]
    assert wrong == []


def allowed_to(protocol: str) -> set[str]:
    """Which parts of `protocols` the modules of one protocol may import."""
    return SHARED_BY_PROTOCOLS | ADMIN_ENDPOINT.get(protocol, set()) | {protocol}


def test_protocols_never_meet() -> None:
    wrong = [
        f"{module.name}:{line}: imports {dotted}"
        for module in modules()
        if module.package == "protocols"
        for line, dotted in module.imports()
        if dotted.startswith("posthouse.protocols.")
        and dotted.split(".")[2] not in allowed_to(module.sibling)
    ]
    assert wrong == []


def test_protocols_have_files_of_the_same_names() -> None:
    lacking = tree().files_that_protocols_lack()
    assert {name: files for name, files in lacking.items() if OTHER_FILES.get(name) != files} == {}


def test_clocks_sockets_and_chance_enter_at_the_edge() -> None:
    wrong = [
        f"{module.name}:{line}: imports {dotted}"
        for module in modules()
        if not is_edge(module)
        for line, dotted in module.imports()
        if dotted.split(".")[0] in EDGE_MODULES
    ]
    wrong += [
        f"{module.name}:{line}: calls {name}"
        for module in modules()
        if module.package in CORE
        for line, name in module.calls()
        if name in CLOCK_OR_CHANCE or name.endswith((".utcnow", "datetime.now"))
    ]
    assert wrong == []


def test_files_belong_to_the_disk() -> None:
    bound = [
        module
        for module in modules()
        if module.package in WITHOUT_FILES and module.name not in FILES_ALLOWED
    ]
    wrong = [
        f"{module.name}:{line}: imports {dotted}"
        for module in bound
        for line, dotted in module.imports()
        if dotted.split(".")[0] in FILE_MODULES
    ]
    wrong += [
        f"{module.name}:{line}: opens a file"
        for module in bound
        for line, name in module.calls()
        if name in ("open", "io.open", "os.open")
    ]
    assert wrong == []


def test_modules_stay_readable() -> None:
    assert [
        f"{module.name}: {count} lines"
        for module in modules()
        if (count := module.text.count("\n")) > LINES_MAX
    ] == []


SMALL_LINES = 60
# Modules below that with one importer are a part of it. These stay apart, for a reason each.
LONG_LINES = 550  # of an importer that has no room left
TOO_LONG = "with it the importer would be too long"
APART: dict[str, tuple[str, ...]] = {
    "a name of the Python interface": ("aio.py",),
    TOO_LONG: (
        "cli/directory/join.py",
        "client/deferred_calls.py",
        "engine/pipelines/stage_refusals.py",
        "engine/transfer/ended_messages.py",
        "protocols/binary/packet_scan.py",
        "rpc/backpressure.py",
        "runtime/machine_keys.py",
    ),
    "the importer is of another package, and this belongs here": (
        "api/console.py",
        "directory/references.py",
        "engine/transfer/admin_queue_names.py",
        "model/bus_addresses.py",
        "protocols/metrics/loop_turns.py",
        "protocols/metrics/memory.py",
        "protocols/metrics/pgm.py",
        "qms/namespaces.py",
    ),
    "a table of transitions": ("protocols/binary/session_states.py", "rpc/connection_states.py"),
    "one file for each format, or for the settings of each part": (
        "formats/encode/headers.py",
        "formats/encode/wcf.py",
        "runtime/log_settings.py",
    ),
}


def test_small_modules_with_one_importer_are_a_part_of_it() -> None:
    listed = {name for names in APART.values() for name in names}
    found = set(tree().small_with_one_importer(SMALL_LINES))
    assert found - listed == set(), "merge them into their importer"


def test_the_reasons_for_small_modules_hold() -> None:
    found = set(tree().small_with_one_importer(SMALL_LINES))
    assert [name for names in APART.values() for name in names if name not in found] == []
    for name in APART[TOO_LONG]:
        (importer,) = tree().importers[name]
        assert tree().by_name[importer].lines + tree().by_name[name].lines > LONG_LINES, name


# A function for many beside one for one: either calls the other, or there is a reason for two.
TWINS: dict[str, tuple[str, ...]] = {
    "of many, columns are written as one slice or one update; a loop over the one costs more": (
        "engine/ledger/expiry_times.py: add_run beside add",
        "engine/ledger/ledger.py: end_run beside end",
        "engine/ledger/ledger.py: lock_all beside lock",
        "engine/ledger/ledger.py: unlock_all beside unlock",
        "engine/ledger/order.py: insert_run beside insert",
        "engine/ledger/order.py: remove_run beside remove",
        "engine/ledger/state.py: _enter_all beside _enter",
        "engine/ledger/state.py: end_run beside end",
        "engine/ledger/table.py: put_run beside put",
        "store/express.py: put_all beside put",
        "store/index.py: add_all beside add",
        "store/positions.py: kill_run beside kill",
    ),
    "packets are looked at or read together, in one pass of C or one read of the disk": (
        "engine/messages/packet_reads.py: fetch_many beside fetch",
        "store/log.py: read_many beside read",
        "wire/packet/packet_fields.py: summarize_all beside summarize",
    ),
    "messages that were found alike take one step; the others take the way of one": (
        "engine/transfer/receiving.py: _take_run beside _take",
    ),
    "an interface, which declares both": (
        "engine/ledger/parts.py: transferred_all beside transferred",
        "store/base.py: read_many beside read",
    ),
    "not one act for many: all handles of a station on one file": (
        "engine/jobs/files.py: close_all beside close",
    ),
}


def test_one_of_two_functions_for_one_and_for_many_calls_the_other() -> None:
    """Or both are in the list, which says why: a rule is written once."""
    listed = [name for names in TWINS.values() for name in names]
    assert tree().twins_apart(TWIN_PACKAGES) == sorted(listed)


# What there is no room for, and what has come too late: each is worked out by one function.
WORKED_OUT = {
    "the quota of a queue": ({"bytes", "limit"}, "engine/queues/queue.py"),
    "a time to reach a queue": ({"sent_time", "utc"}, "engine/messages/admission.py"),
}


@pytest.mark.parametrize("reason", WORKED_OUT)
def test_a_reason_to_refuse_is_worked_out_in_one_place(reason: str) -> None:
    names, place = WORKED_OUT[reason]
    found = {
        module.name
        for module in modules()
        if module.package == "engine"
        for node in module.nodes
        if isinstance(node, ast.Compare | ast.BinOp) and names <= names_in(node)
        if not any(isinstance(part, ast.Call) for part in ast.walk(node))
    }
    assert found == {place}


# Functions that put messages into a queue without a word of admission, and why that is right.
WAYS_IN: dict[str, tuple[str, ...]] = {
    "they were admitted before": (
        "engine/transactions/collection.py: _append_pending",
        "engine/transactions/collection.py: _commit_batch",
        "engine/transfer/receiving.py: _take_run",
    ),
    "handed over together with the admission, which the batch asks": (
        "engine/transfer/srmp/receiving.py: _batch",
    ),
    "answers, without which a sender keeps what it sent": (
        "engine/messages/acknowledgments.py: send",
        "engine/transfer/srmp/streams.py: _send",
    ),
    "copies and moves to journals and dead-letter queues": (
        "engine/messages/enqueue.py: copy",
        "engine/messages/outcome.py: _keep",
    ),
    "moves within the machine, whose few reasons are those of `Moving.admit`": (
        "engine/messages/moving.py: relocate",
    ),
    "what waited in an outgoing queue goes to a connector queue, if there is room": (
        "engine/directory/connectors.py: _enter",
    ),
    "pieces of job files, after `check_room`": ("engine/jobs/files.py: _append",),
}
ARRIVES = {"arrive", "arrive_pending"}


def ways_in(module: Module) -> Iterator[str]:
    """The functions of a module that put a message into a queue, and name no admission."""
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef) and node.name not in ("accept", "apply_message"):
            puts = any(puts_in(part, module) for part in ast.walk(node))
            if puts and not any("admit" in name for name in names_in(node)):
                yield f"{module.name}: {node.name}"


def puts_in(node: ast.AST, module: Module) -> bool:
    """`core.arrive`, `self._sending.accept`, called there or not; `row._replace(queue=...)`."""
    if isinstance(node, ast.Call):
        names = chain_of(node.func)[-1:]
        return names == ("_replace",) and any(word.arg == "queue" for word in node.keywords)
    if not isinstance(node, ast.Attribute):
        return False
    *owner, name = chain_of(node) or ("",)
    own = "self" if module.name == "engine/messages/enqueue.py" else "_sending"
    return name in ARRIVES or (name == "accept" and own in owner)


def all_ways_in() -> set[str]:
    inside = [module for module in modules() if module.package == "engine"]
    outside = [module for module in inside if not module.name.startswith("engine/ledger/")]
    return {way for module in outside for way in ways_in(module)}


def test_every_way_into_a_queue_asks_the_admission() -> None:
    """A new reason to refuse a message holds there, or the list says why it does not."""
    assert all_ways_in() - {name for names in WAYS_IN.values() for name in names} == set()


# Who raises what refuses a message because of its queue or its machine.
REFUSALS = {
    "MachineQuotaExceeded": {"engine/messages/admission.py"},
    "MessageNotAuthenticated": {"engine/messages/admission.py"},
    "QueueQuotaExceeded": {
        "engine/messages/admission.py",
        "engine/messages/moving.py",  # moves within the machine
        "protocols/handlers/returning.py",  # once more, for the messages after one that got it
    },
    "TimedOutInTransit": {"engine/messages/admission.py"},
}


def refusals() -> set[tuple[str, str]]:
    return {
        (name, module.name)
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.Raise) and node.exc is not None
        for name in names_in(node.exc) & REFUSALS.keys()
    }


def test_only_the_admission_refuses_messages() -> None:
    assert {(name, place) for name, place in refusals() if place not in REFUSALS[name]} == set()


def test_the_lists_of_what_is_not_asked_and_of_who_refuses_hold() -> None:
    assert {name for names in WAYS_IN.values() for name in names} == all_ways_in()
    assert {(name, place) for name in REFUSALS for place in REFUSALS[name]} == refusals()


# Modules whose names begin alike, where a folder of their own would say less.
PREFIXES = {
    "client/aio_": "the asyncio client; without `aio_` these are the names of the blocking one",
    "engine/transfer/outgoing_": "the part for each direction: there are `incoming_` ones, too",
    "model/message_": "what every package imports by the name of the thing: message classes, ids",
    "protocols/srmp/http_": "the HTTP of this protocol, apart from `protocols/http`",
}


def test_modules_whose_names_begin_alike_have_a_reason() -> None:
    assert tree().prefixes(3).keys() == PREFIXES.keys()


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_names(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Classes, functions and methods that are not private; a setter shares its getter's words."""
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        if any(name.endswith((".setter", "overload", "override")) for name in decorators):
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from public_names(node.body, f"{prefix}{node.name}.")


def test_every_public_name_has_a_docstring() -> None:
    wrong = [f"{module.name}: the module" for module in modules() if not documented(module.tree)]
    for module in modules():
        wrong += [
            f"{module.name}:{node.lineno}: {name}"
            for name, node in public_names(module.tree.body)
            if not documented(node)
        ]
    assert wrong == []


def documented(node: ast.Module | Definition) -> bool:
    empty = isinstance(node, ast.Module) and not node.body
    return empty or bool(ast.get_docstring(node))


def is_silent(handler: ast.ExceptHandler) -> bool:
    """`except:` or `except Exception: pass`: an error that nobody hears of."""
    if handler.type is None:
        return True
    everything = ast.unparse(handler.type) in ("Exception", "BaseException")
    return everything and all(isinstance(node, ast.Pass) for node in handler.body)


def test_no_error_is_swallowed() -> None:
    assert [
        f"{module.name}:{node.lineno}"
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.ExceptHandler) and is_silent(node)
    ] == []


def tracked_files() -> list[Path]:
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):  # a source archive has no repository
        return [path for path in ROOT.glob("*/**/*.py") if ".venv" not in path.parts]
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


MACHINE = re.compile(rb"""["'` =(]/(?:home|root|work)/""")
HOSTS = re.compile(rb"\b(?:pypi|npmjs|pythonhosted|deb\.debian)\.(?:org|com)\b")


@pytest.mark.parametrize("pattern", [MACHINE, HOSTS], ids=["machine paths", "registry hosts"])
def test_nothing_names_a_machine(pattern: re.Pattern[bytes]) -> None:
    assert [
        f"{path.relative_to(ROOT)}: {found[0]!r}"
        for path in tracked_files()
        if (found := pattern.search(path.read_bytes()))
    ] == []


def test_nothing_is_only_for_tests() -> None:
    """A door, a client, a command or a library leads to each function and class of all of src."""
    assert reach_names.found() == []


USED = """
def main(): used()
def used(): '''Of a method by its name: late'''
def round_and_round(): round_and_round()
def first(): second()
def second(): first()
class Class:
    def method(self): ...
    def late(self): ...
made = getattr(Class(), "method")
if __name__ == "__main__": main()
"""


def test_what_only_tests_call_is_noticed(tmp_path: Path) -> None:
    """Also where two functions call each other, and in a module that nobody loads."""
    (tmp_path / "program.py").write_text(USED)
    (tmp_path / "alone.py").write_text("import program\nprogram.Class().late()\n")
    page = tmp_path / "page.md"
    page.write_text("The first one is not code.")
    assert reach_names.found(tmp_path, [page]) == [
        "alone.py: the whole module",
        "program.py: round_and_round",
        "program.py: first",
        "program.py: second",
        "program.py: Class.late",
    ]
    page.write_text("Call `first` or\n```python\nround_and_round()\n```\n")
    assert reach_names.found(tmp_path, [page]) == [
        "alone.py: the whole module",
        "program.py: Class.late",
    ]


# What users call so, in the blocking and in the asyncio client, and beside it in the engine.
MANAGERS = ["client/aio_manager.py", "client/manager.py"]
TRANSACTIONS = ["client/aio_transaction.py", "client/transaction.py"]
NAMED_TWICE = {
    "Consumer": MANAGERS,
    "Cursor": [*MANAGERS, "engine/queues/queue.py"],
    "Part": TRANSACTIONS,
    "Queue": [*MANAGERS, "engine/queues/queue.py"],
    "QueueManagerClient": MANAGERS,
    "Transaction": [*TRANSACTIONS, "engine/transactions/transaction.py"],
}


def test_a_class_name_is_used_once() -> None:
    """Across engine, store, protocols and client: a search for a name finds one class."""
    several = tree().class_names({"engine", "store", "protocols", "client"})
    assert {name: found for name, found in several.items() if name[0] != "_"} == NAMED_TWICE
    assert len(several) <= 12, several


def test_no_test_imports_another() -> None:
    """What tests share is in tests/support, or in a module that is not a test."""
    assert imports_of_tests(ROOT) == []


def test_there_is_one_store_in_memory() -> None:
    assert Counts(ROOT).memory_stores == ["tests/support/memory_store.py: MemoryStore"]


def test_no_test_sleeps() -> None:
    """Waiting on the clock is for tests against real processes only."""
    files = [
        path
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.parent.name not in ("process", "interop")
        and "sleep(" in path.read_text(encoding="utf-8")
    ]
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and called(node.func).endswith("sleep")
    ] == []


OWN_PLACES = {
    "cli/decode/capture/blanking.py",  # what of a captured packet is secret, by its summary
    "engine/ledger/rows.py",  # of a row, whose layout is the engine's
}


def test_the_queue_manager_has_an_attribute_for_each_part_and_no_other() -> None:
    """But the ledger, for those modules of the engine that get the manager as a whole."""
    public = {name for name in tree().parts_of_the_manager if name[0] != "_"}
    assert public == FACADES.keys() | {"ledger"}


def test_only_facades_of_the_engine_are_called() -> None:
    inside = [module for module in modules() if uses_the_engine(module)]
    assert [line for module in inside for line in tree().reaches(module)] == []


# What depends on the machine, set between the making of a queue manager and its start.
SET_BEFORE_THE_START = {
    "runtime/home.py: manager.certificates.key_file",
    "runtime/home.py: manager.jobs.utc_offset_s",
}


def test_only_the_engine_changes_what_it_has() -> None:
    """Protocols report by a call; they do not write into a queue that a facade gave them."""
    changed = {
        f"{module.name}: {'.'.join(chain)}"
        for module in modules()
        if uses_the_engine(module)
        for node in module.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        for chain in [chain_of(node)]
        if past_the_manager(chain) or {"outgoing", "definition"} & {*chain[1:-1]}
    }
    assert changed <= SET_BEFORE_THE_START, changed - SET_BEFORE_THE_START


def test_only_the_engine_walks_the_order_of_a_queue() -> None:
    """Others ask the facade of messages; the simulations' own checks count what is there."""
    walked = [
        f"{module.name}:{node.lineno}: {'.'.join(chain)}"
        for module in modules()
        if uses_the_engine(module) and module.package not in ("sim", "store")
        for node in module.nodes
        if isinstance(node, ast.Attribute)
        for chain in [chain_of(node)]
        if chain[-2:] == ("state", "order")
    ]
    assert walked == []


def test_others_import_facades_and_values_of_the_engine() -> None:
    """Also for types alone: a module that has the ledger in hand is for the engine."""
    outside = [module for module in modules() if module.package != "engine"]
    assert [line for module in outside for line in tree().inner_imports(module)] == []


def test_no_modules_import_one_another_in_a_circle() -> None:
    """Imports for types, and those inside of functions, count too."""
    assert tree().circles() == []


# Bytes of their own: keys and records of the log, structures of the wire, formats of bodies.
BYTES = {"engine", "formats", "rpc", "security", "store", "wire"}
STRUCT_ELSEWHERE = {
    "model/message_ids.py": "identifiers, which are 16 bytes and a number wherever they stand",
    "model/print_jobs.py": "the print record, which queues never look into",
    "protocols/arrow/ipc_frames.py": "frames of Arrow",
    "protocols/http/background_work.py": "the credentials of a local socket",
    "protocols/remote_read/receiving.py": "stubs of NDR",
    "protocols/remote_read/stubs.py": "stubs of NDR",
    "spark/rows/variants.py": "variants of Spark",
}


def test_structures_of_bytes_are_where_bytes_are_read() -> None:
    found = {
        module.name
        for module in modules()
        if module.package not in BYTES
        for _, dotted in module.imports()
        if dotted.split(".")[0] == "struct"
    }
    assert found <= STRUCT_ELSEWHERE.keys(), found - STRUCT_ELSEWHERE.keys()


def test_only_wire_has_the_places_of_a_packet() -> None:
    found = tree().with_packet_places()
    assert found.keys() <= OWN_PLACES, {name: found[name] for name in found.keys() - OWN_PLACES}


def test_rows_and_summaries_are_read_by_name() -> None:
    bad = tree().positional_reads()
    assert not bad, "\n".join(bad)


BAD = [
    (
        "client/a.py",
        "from posthouse.wire.packet.patch import SENT_TIME_AT",
        test_only_wire_has_the_places_of_a_packet,
    ),
    (
        "protocols/a.py",
        "from posthouse.wire.packet.packet_fields import summarize\nx = p[seen.body_at :]",
        test_only_wire_has_the_places_of_a_packet,
    ),
    (
        "security/a.py",
        "from posthouse.wire.packet.packet_fields import summarize\n_FLAGS_AT = 2",
        test_only_wire_has_the_places_of_a_packet,
    ),
    (
        "engine/a.py",
        "from posthouse.wire.packet.packet_fields import summarize\nend = seen.body_at + 4",
        test_only_wire_has_the_places_of_a_packet,
    ),
    ("engine/a.py", "x = int.from_bytes(packet[4:8])", test_only_wire_has_the_places_of_a_packet),
    ("engine/a.py", "x = one.packet[PLACE]", test_only_wire_has_the_places_of_a_packet),
    ("protocols/a.py", "queue.outgoing.next_hops = ()", test_only_the_engine_changes_what_it_has),
    (
        "protocols/a.py",
        "x = queue.state.order.used",
        test_only_the_engine_walks_the_order_of_a_queue,
    ),
    ("runtime/a.py", "self.manager.jobs.utc = f", test_only_the_engine_changes_what_it_has),
    ("protocols/a.py", "import struct", test_structures_of_bytes_are_where_bytes_are_read),
    ("cli/a.py", "from struct import Struct", test_structures_of_bytes_are_where_bytes_are_read),
    ("store/a.py", "class A: ...\ndef f():\n    class A: ...", test_a_class_name_is_used_once),
    (
        "engine/a.py",
        "def f(self): self._sending.accept(queue, batch)",
        test_every_way_into_a_queue_asks_the_admission,
    ),
    (
        "engine/a.py",
        "def f(self):\n    accept = self._sending.accept\n    accept(queue, batch)",
        test_every_way_into_a_queue_asks_the_admission,
    ),
    (
        "engine/a.py",
        "def f(core): core.arrive(row, batch)",
        test_every_way_into_a_queue_asks_the_admission,
    ),
    (
        "engine/a.py",
        "def f(row): x = row._replace(queue=target.number)",
        test_every_way_into_a_queue_asks_the_admission,
    ),
    (
        "protocols/a.py",
        "raise QueueQuotaExceeded('full')",
        test_only_the_admission_refuses_messages,
    ),
    ("engine/a.py", "x = row[11] & 1", test_rows_and_summaries_are_read_by_name),
    ("engine/a.py", "x = rows[at][11]", test_rows_and_summaries_are_read_by_name),
    ("protocols/a.py", "x = message[1]", test_rows_and_summaries_are_read_by_name),
    ("wire/a.py", "x = seen[4:6]", test_rows_and_summaries_are_read_by_name),
    ("wire/a.py", "import posthouse.engine", test_imports_point_down),
    ("engine/a.py", "def f():\n    from posthouse.store import base", test_imports_point_down),
    ("directory/a.py", "from posthouse import runtime", test_imports_point_down),
    ("protocols/a/b.py", "from posthouse.protocols.c import d", test_protocols_never_meet),
    ("protocols/a/__init__.py", "", test_protocols_have_files_of_the_same_names),
    ("cli/a.py", "import time", test_clocks_sockets_and_chance_enter_at_the_edge),
    ("rpc/a.py", "import socket", test_clocks_sockets_and_chance_enter_at_the_edge),
    ("engine/a.py", "x = datetime.now(UTC)", test_clocks_sockets_and_chance_enter_at_the_edge),
    ("engine/a.py", "x = uuid.uuid4()", test_clocks_sockets_and_chance_enter_at_the_edge),
    ("security/a.py", "x = os.urandom(4)", test_clocks_sockets_and_chance_enter_at_the_edge),
    ("security/a.py", "import secrets", test_clocks_sockets_and_chance_enter_at_the_edge),
    ("store/a.py", "import os", test_files_belong_to_the_disk),
    ("security/a.py", "from pathlib import Path", test_files_belong_to_the_disk),
    ("model/a.py", "open('x')", test_files_belong_to_the_disk),
    ("model/a.py", "\n" * 601, test_modules_stay_readable),
    (
        "cli/b.py",
        "from posthouse.cli import a, c, d, e, f",
        test_small_modules_with_one_importer_are_a_part_of_it,
    ),
    ("cli/c.py", "import posthouse.cli.c1", test_no_modules_import_one_another_in_a_circle),
    ("cli/c.py", "from posthouse.cli import c1", test_no_modules_import_one_another_in_a_circle),
    (
        "cli/__init__.py",
        "from posthouse.cli.c2 import C2",
        test_no_modules_import_one_another_in_a_circle,
    ),
    (
        "cli/c.py",
        "def f():\n    from posthouse.cli.c1 import g",
        test_no_modules_import_one_another_in_a_circle,
    ),
    (
        "cli/c.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from posthouse.cli.c1 import g",
        test_no_modules_import_one_another_in_a_circle,
    ),
    (
        "store/a.py",
        "def put(): ...\ndef put_all(): ...",
        test_one_of_two_functions_for_one_and_for_many_calls_the_other,
    ),
    ("model/a.py", "x = 1", test_every_public_name_has_a_docstring),
    ("model/a.py", "'Doc.'\ndef f(): ...", test_every_public_name_has_a_docstring),
    (
        "model/a.py",
        "'Doc.'\nclass A:\n 'A.'\n def f(self): 'F.'\nclass B:\n 'B.'\n def f(self): ...",
        test_every_public_name_has_a_docstring,
    ),
    ("model/a.py", "try: f()\nexcept: g()", test_no_error_is_swallowed),
    ("model/a.py", "try: f()\nexcept Exception: pass", test_no_error_is_swallowed),
]


@pytest.mark.parametrize(("name", "text", "rule"), BAD)
def test_the_rules_notice(
    name: str,
    text: str,
    rule: Callable[[], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each rule above fails on a source that breaks it."""
    for package in (*MAY_IMPORT, "protocols/a"):
        (tmp_path / package).mkdir(exist_ok=True)
    for small in "acdef":
        (tmp_path / "cli" / f"{small}.py").write_text("'Doc.'")
    (tmp_path / "cli" / "c1.py").write_text("from posthouse.cli.c import f")
    (tmp_path / "cli" / "c2.py").write_text("from posthouse.cli import C3")
    (tmp_path / name).write_text(text)
    planted = SourceTree(tmp_path)
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    monkeypatch.setitem(globals(), "tree", lambda: planted)
    with pytest.raises(AssertionError):
        rule()


MANAGER = """
from posthouse.engine.b import Facade
class QueueManager:
    def __init__(self):
        self.part = Facade()
        self.core = object()
    def start(self): ...
"""
FACADE = """
from posthouse.engine.c import Base
class Facade(Base):
    def __init__(self): self.inner = object()
    def call(self): ...
    @property
    def value(self): ...
    bound: Callable
"""
ENGINE = {
    "engine/manager.py": MANAGER,
    "engine/b.py": FACADE,
    "engine/c.py": "class Base:\n    def old(self): ...",
}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("manager.part.call(); desk.manager.part.value; self._manager.part.old()", 0),
        ("m.part.bound(); manager.start(); manager.part.call().anything.at_all", 0),
        ("manager.core", 1),
        ("self.manager.core.x", 1),
        ("manager.part.inner", 1),
        ("manager.part.value.deeper", 1),
        ("def f(manager):\n    part = manager.part\n    part.call()\n    part.inner.x", 1),
        ("def f(manager):\n    core = manager.core\n    core.x\n    core.y()", 3),
        ("self._part = manager.part\nself._part.call()", 0),
        ("self._part = manager.part\nself._part.inner.x", 1),
        ("def f(one: Facade): one.inner.x; one.call()", 1),
        ("def f(one: Facade | None): one.inner", 1),
        ("def f(one: 'Facade'): self._one = one\nself._one.inner", 1),
        ("part, n = manager.part, 1\npart.inner.x; part.call()", 1),
        ("if part := manager.part: part.inner", 1),
        ("part: Facade = manager.part\npart.inner", 1),
        ("engine = desk.manager\nengine.part.inner; engine.part.call()", 1),
        ("def f(one: QueueManager): one.part.inner; one.part.call()", 1),
        ("getattr(manager.part, 'inner'); getattr(figures, 'part')", 1),
        ("class Has:\n    one: Facade\ncontext.has.one.inner; has.one.call(); one.inner", 1),
    ],
)
def test_the_count_of_reaches_notices(text: str, count: int, tmp_path: Path) -> None:
    for package in MAY_IMPORT:
        (tmp_path / package).mkdir(exist_ok=True)
    for name, source in {**ENGINE, "protocols/a.py": text}.items():
        (tmp_path / name).write_text(source)
    found = SourceTree(tmp_path, {"part": ("engine/b.py", "Facade")})
    assert len([line for module in found.modules for line in found.reaches(module)]) == count
    assert found.imported["engine/manager.py"] == {"engine/b.py"}


INNER = {
    "engine/ledger/ledger.py": "class Ledger: ...",
    "engine/rules.py": "from posthouse.engine.ledger.ledger import Ledger",
    "engine/values.py": "class Value: ...",
    "engine/b.py": "from posthouse.engine.rules import Rules\nclass Facade: ...",
    "engine/manager.py": "from posthouse.engine.b import Facade\nclass QueueManager: ...",
    "engine/logins.py": "from posthouse.engine.b import Facade",
}
FOR_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("from posthouse.engine.manager import QueueManager", 0),
        ("from posthouse.engine.b import Facade", 0),
        ("from posthouse.engine.values import Value", 0),
        ("from posthouse.engine.logins import Logins", 0),
        ("from posthouse.engine.rules import CONSTANT", 1),
        ("import posthouse.engine.rules", 1),
        ("from posthouse.engine import rules", 1),
        (FOR_TYPES + "from posthouse.engine.rules import Rules", 1),
        ("def f():\n    from posthouse.engine.ledger.ledger import Ledger", 1),
    ],
)
def test_an_import_of_the_inner_engine_is_noticed(text: str, count: int, tmp_path: Path) -> None:
    for package in (*MAY_IMPORT, "engine/ledger"):
        (tmp_path / package).mkdir(exist_ok=True)
    for name, source in {**INNER, "protocols/a.py": text}.items():
        (tmp_path / name).write_text(source)
    found = SourceTree(tmp_path, {"part": ("engine/b.py", "Facade")})
    assert found.inner == {"engine/ledger/ledger.py", "engine/rules.py"}
    assert len(found.inner_imports(found.by_name["protocols/a.py"])) == count


def test_a_knot_of_types_is_noticed() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert knot_of(graph) == ["b", "c"]


# What two parts of the engine, made one after the other, tell each other by a function.
HOOKS = {
    "core": {"damage_ended", "serve", "ordinals_in_use", "queue_emptied"},
    "sending": {"signed"},
    "transfer": {"seal"},
    "certificates": {"directory", "on_keys"},
    "directory": {"keys_changed", "own_keys", "own_signing_keys"},
    "changes": {"follow"},
    "outcomes": {"stream_ended"},
    "targets": {"is_forbidden"},
    "self": {"bindery"},  # of the accounts
}


def test_parts_of_the_engine_get_what_they_need_as_arguments() -> None:
    """No part is put into another, or into the ledger, once that is made; some functions are."""
    assert late_names(tree().by_name["engine/manager.py"].text) == HOOKS


def late_names(text: str) -> dict[str, set[str]]:
    """What the constructor of QueueManager assigns to the parts that it has made."""
    (made,) = (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    chains = [
        ast.unparse(target).split(".")
        for node in ast.walk(made)
        if isinstance(node, ast.Assign)
        for target in node.targets
    ]
    found: dict[str, set[str]] = {}
    for first, *rest in chains:
        if rest and (first != "self" or len(rest) > 1):
            found.setdefault(first, set()).add(rest[-1])
    return found


def test_a_part_that_comes_late_is_noticed() -> None:
    text = "class Q:\n def __init__(self):\n  self.a = a = A()\n  {}\n def f(self): self.a.x = 1"
    assert late_names(text.format("self.b = B(a)")) == {}
    assert late_names(text.format("a.part = self.a")) == {"a": {"part"}}
    assert late_names(text.format("self.a.inner.part = a")) == {"self": {"part"}}
