"""The shape of the source, held by reading it: imports point down, purity, size, docstrings."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tools import reach_names

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
    "console": {"", "model", "client"},
    "qms": {"model", "api", "client"},
    "connector": {"model", "wire", "client"},
    "spark": {"", "model", "formats", "client", "qms"},
    "cli": DOORS | {"", "runtime", "sim", "client", "console", "qms", "spark"},
}

# The program under another name: `python -m posthouse`.
ALSO_OF = {"__main__.py": "cli"}

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


class Module:
    """One source file, parsed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.relative_to(SOURCE).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        parts = self.name.split("/")
        self.package = parts[0] if len(parts) > 1 else ALSO_OF.get(self.name, "")
        self.sibling = parts[1] if len(parts) > 2 else ""

    def imports(self) -> Iterator[tuple[int, str]]:
        """Line and dotted name of everything imported, wherever it stands."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield node.lineno, alias.name
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.name}:{node.lineno}: write imports in full"
                for alias in node.names:
                    yield node.lineno, f"{node.module}.{alias.name}"

    def calls(self) -> Iterator[tuple[int, str]]:
        """Line and source of every function called."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield node.lineno, called(node.func)


def called(function: ast.expr) -> str:
    """Its source; of a plain name or an attribute without the detour over `unparse`."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return ast.unparse(function)


@cache
def modules() -> list[Module]:
    return [Module(path) for path in sorted(SOURCE.rglob("*.py"))]


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
APART: dict[str, tuple[str, ...]] = {
    "a name of the Python interface": ("aio.py",),
    "with it the importer would be too long": (
        "cli/directory/join.py",
        "client/deferred_calls.py",
        "engine/pipelines/stage_refusals.py",
        "engine/transfer/ended_messages.py",
        "rpc/backpressure.py",
        "runtime/listen_errors.py",
        "runtime/machine_keys.py",
    ),
    "the importer is of another package, and this belongs here": (
        "directory/references.py",
        "engine/transfer/admin_queue_names.py",
        "engine/transfer/order_queue_names.py",
        "model/bus_addresses.py",
        "protocols/metrics/loop_turns.py",
        "protocols/metrics/memory.py",
        "protocols/metrics/pgm.py",
        "qms/namespaces.py",
    ),
    "a program that Spark starts by its name": ("spark/quiet_daemon.py",),
    "a table of transitions": ("protocols/binary/session_states.py", "rpc/connection_states.py"),
    "one file for each format, or for the settings of each part": (
        "formats/encode/body.py",
        "formats/encode/headers.py",
        "formats/encode/wcf.py",
        "runtime/log_settings.py",
        "runtime/process_metrics.py",
    ),
}


APART_NEW_MAX = 4  # without a reason yet; it may only go down


def test_small_modules_with_one_importer_are_a_part_of_it() -> None:
    found = [
        module.name
        for module in modules()
        if module.text.count("\n") < SMALL_LINES and len(importers().get(module.name, ())) == 1
    ]
    new = set(found) - {name for names in APART.values() for name in names}
    assert len(new) <= APART_NEW_MAX, f"merge them into their importer: {new}"


@cache
def importers() -> dict[str, set[str]]:
    """Which modules import each; packages themselves are left out."""
    found: dict[str, set[str]] = {}
    names = {
        f"posthouse.{module.name.removesuffix('.py').replace('/', '.')}": module.name
        for module in modules()
        if module.path.name not in ("__init__.py", "__main__.py")
    }
    for module in modules():
        for _, dotted in module.imports():
            for target in (dotted, dotted.rpartition(".")[0]):
                if names.get(target, module.name) != module.name:
                    found.setdefault(names[target], set()).add(module.name)
    return found


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
        for node in ast.walk(module.tree)
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
NAMED_TWICE = {"Consumer", "Cursor", "Part", "Queue", "QueueManagerClient", "Transaction"}


def test_a_class_name_is_used_once() -> None:
    """Across engine, store, protocols and client: whoever searches for a name finds one class."""
    places: dict[str, list[str]] = {}
    for module in modules():
        if module.package in ("engine", "store", "protocols", "client"):
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(module.name)
    several = {name: found for name, found in places.items() if len(found) > 1}
    assert several.keys() == NAMED_TWICE, several


def test_no_test_imports_another() -> None:
    """What tests share is in tests/support, or in a module that is not a test."""
    found = [
        f"{path.relative_to(ROOT)}: {node.module}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if re.search(r"^ *from .*\btest_", text := path.read_text(), re.MULTILINE)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and is_test(node)
    ]
    assert found == []


def is_test(node: ast.ImportFrom) -> bool:
    """Whether it imports a test module, or something of one."""
    names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
    return any(name.startswith("test_") for name in names)


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


# The parts of the engine that others call: attribute of QueueManager, file and class of its facade.
FACADES: dict[str, tuple[str, str]] = {
    "queues": ("engine/queues/facade.py", "QueuesFacade"),
    "messages": ("engine/messages/facade.py", "MessagesFacade"),
    "transactions": ("engine/transactions/facade.py", "TransactionsFacade"),
    "transfer": ("engine/transfer/facade.py", "TransferFacade"),
    "directory": ("engine/directory/facade.py", "DirectoryFacade"),
    "machine": ("engine/machine/facade.py", "MachineFacade"),
    "accounts": ("engine/accounts/accounts.py", "Accounts"),
    "certificates": ("engine/accounts/certificates.py", "Certificates"),
    "tokens": ("engine/accounts/tokens.py", "Tokens"),
    "groups": ("engine/pipelines/groups.py", "Groups"),
    "stages": ("engine/pipelines/stages.py", "Stages"),
    "pulls": ("engine/pulls/pulls.py", "Pulls"),
    "operations": ("engine/operations/operations.py", "Operations"),
    "jobs": ("engine/jobs/queues.py", "JobQueues"),
    "bindery": ("engine/jobs/bindery/calls.py", "Bindery"),
    "stations": ("engine/jobs/bindery/stations.py", "Stations"),
    "sessions": ("engine/sessions/resumable.py", "ClientSessions"),
    "returning": ("engine/messages/returning.py", "Returning"),
    "poison": ("engine/messages/poison.py", "Poison"),
}
# What they give that is a value: its own fields may be read.
VALUES = {("machine", "settings"), ("machine", "state"), ("machine", "name")}
# Modules in which `manager` is something else: a queue manager as its clients see it.
OTHER_MANAGERS = {"client", "cli", "connector", "console", "qms", "spark"}
ENGINE_BESIDE_CLIENTS = {"client/embedded.py", "client/embedded_delivery.py"}

OWN_PLACES = {"engine/ledger/rows.py"}  # of a row, whose layout is the engine's
PLACE = re.compile(r"^_?[A-Z0-9_]+_(AT|END)$")
LAYOUTS = {"HEAD", "PROPERTY_SIZES", "SECURITY_SIZES", "TRANSACTION_FLAGS", "U16", "U32"}
ROWS = {"row", "look", "seen"}  # what rows and summaries are called

Chain = tuple[str, ...]


def chain_of(node: ast.expr) -> Chain:
    """The names of `a.b.c`, from the left; nothing for anything else."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute) and (before := chain_of(node.value)):
        return (*before, node.attr)
    return ()


def source_class(name: str, file: str) -> ast.ClassDef:
    """A class of one of our modules."""
    tree = next(module.tree for module in modules() if module.name == file)
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return next(node for node in classes if node.name == name)


def public_methods(name: str, file: str) -> set[str]:
    """Methods, properties and declared attributes of a class, with those of its bases."""
    found = source_class(name, file)
    tree = next(module for module in modules() if module.name == file)
    names = [
        node.name if isinstance(node, ast.FunctionDef) else node.target.id
        for node in found.body
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name))
    ]
    methods = {name for name in names if not name.startswith("_")}
    bases = {base.id for base in found.bases if isinstance(base, ast.Name)}
    for _, dotted in tree.imports():
        *path, base = dotted.split(".")
        if base in bases and path[:2] == ["posthouse", "engine"]:
            methods |= public_methods(base, "/".join(path[1:]) + ".py")
    return methods


def instance_attributes(name: str, file: str) -> set[str]:
    """What a class assigns to `self`."""
    return {
        node.attr
        for node in ast.walk(source_class(name, file))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and chain_of(node.value) == ("self",)
    }


@cache
def parts_of_the_manager() -> set[str]:
    return instance_attributes("QueueManager", "engine/manager.py")


@cache
def doors(facade: str) -> set[str]:
    file, name = FACADES[facade]
    return public_methods(name, file)


def past_the_manager(chain: Chain) -> Chain:
    """What follows on the last `manager` of a chain."""
    places = [at for at, name in enumerate(chain) if name in ("manager", "_manager", "m")]
    return chain[places[-1] + 1 :] if places else ()


def aliases(module: Module) -> dict[str, Chain]:
    """Local names of parts of the queue manager: `stages = desk.manager.stages`."""
    found = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            rest = past_the_manager(chain_of(node.value))
            target = node.targets[0]
            if rest and rest[0] in parts_of_the_manager() and isinstance(target, ast.Name):
                found[target.id] = rest
    return found


def is_reach(rest: Chain) -> bool:
    """Whether this goes past the facades; `rest` is what follows on the manager."""
    if not rest or rest[0] not in parts_of_the_manager():
        return False
    if rest[0] not in FACADES:
        return True
    deeper = len(rest) > 2 and rest[:2] not in VALUES
    return deeper or (len(rest) >= 2 and rest[1] not in doors(rest[0]))


def reaches(module: Module) -> list[str]:
    """Where a module names more of the engine than the methods of its facades."""
    known = aliases(module)
    inner = {
        id(node.value)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute)
    }
    found = []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Attribute) or id(node) in inner:
            continue
        chain = chain_of(node)
        rest = past_the_manager(chain) or known.get(chain[0] if chain else "", ())
        if rest and not past_the_manager(chain):
            rest = (*rest, *chain[1:])
        if is_reach(rest):
            found.append(f"{module.name}:{node.lineno}: manager.{'.'.join(rest)}")
    return found


def uses_the_engine(module: Module) -> bool:
    beside = module.package in OTHER_MANAGERS and module.name not in ENGINE_BESIDE_CLIENTS
    return module.package != "engine" and not beside


def test_only_facades_of_the_engine_are_called() -> None:
    found = [line for module in modules() if uses_the_engine(module) for line in reaches(module)]
    assert found == []


def engine_imports() -> dict[str, set[str]]:
    """Which module of the engine imports which, for types alone included."""
    names = {
        f"posthouse.{module.name.removesuffix('.py').replace('/', '.')}": module
        for module in modules()
        if module.package == "engine"
    }
    return {
        name: {
            target
            for _, dotted in module.imports()
            for target in (dotted, dotted.rpartition(".")[0])
            if target in names and target != name
        }
        for name, module in names.items()
    }


def reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = graph[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def test_the_modules_of_the_engine_are_in_layers() -> None:
    graph = engine_imports()
    knot = sorted(name for name in graph if name in reachable(name, graph))
    assert knot == []


def places_in(tree: ast.Module) -> Iterator[str]:
    """How a module that reads packets shows where something is in them."""
    imported = [
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("posthouse.wire.packet")
        for name in node.names
    ]
    if not imported:
        return
    yield from (name for name in imported if PLACE.match(name) or name in LAYOUTS)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and PLACE.match(node.id):
            yield node.id
        elif isinstance(node, ast.Attribute) and node.attr in ("pack_into", "unpack_from"):
            yield node.attr
        elif isinstance(node, ast.Slice):
            parts = [part for end in (node.lower, node.upper) if end for part in ast.walk(end)]
            names = [part.attr for part in parts if isinstance(part, ast.Attribute)]
            yield from (name for name in names if name.endswith("_at"))


def test_only_wire_has_the_places_of_a_packet() -> None:
    found = {
        module.name: sorted(set(places_in(module.tree)))
        for module in modules()
        if not module.name.startswith("wire/")
    }
    bad = {name: places for name, places in found.items() if places}
    assert bad.keys() <= OWN_PLACES, {name: bad[name] for name in bad.keys() - OWN_PLACES}


def ends_of(index: ast.expr) -> list[ast.expr | None]:
    """A number, or both ends of a slice."""
    return [index.lower, index.upper] if isinstance(index, ast.Slice) else [index]


def test_rows_and_summaries_are_read_by_name() -> None:
    bad = [
        f"{module.name}:{node.lineno} {ast.unparse(node)}"
        for module in modules()
        if module.name.startswith(("engine/", "protocols/", "store/", "wire/"))
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in ROWS
        and any(isinstance(part, ast.Constant) for part in ends_of(node.slice))
    ]
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
    ("engine/a.py", "x = row[11] & 1", test_rows_and_summaries_are_read_by_name),
    ("wire/a.py", "x = seen[4:6]", test_rows_and_summaries_are_read_by_name),
    ("wire/a.py", "import posthouse.engine", test_imports_point_down),
    ("engine/a.py", "def f():\n    from posthouse.store import base", test_imports_point_down),
    ("directory/a.py", "from posthouse import runtime", test_imports_point_down),
    ("protocols/a/b.py", "from posthouse.protocols.c import d", test_protocols_never_meet),
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
    (tmp_path / name).write_text(text)
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    clear_caches()
    try:
        with pytest.raises(AssertionError):
            rule()
    finally:
        clear_caches()


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
    ],
)
def test_the_count_of_reaches_notices(
    text: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in MAY_IMPORT:
        (tmp_path / package).mkdir(exist_ok=True)
    for name, source in {**ENGINE, "protocols/a.py": text}.items():
        (tmp_path / name).write_text(source)
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    monkeypatch.setitem(globals(), "FACADES", {"part": ("engine/b.py", "Facade")})
    clear_caches()
    try:
        assert len([line for module in modules() for line in reaches(module)]) == count
        assert engine_imports()["posthouse.engine.manager"] == {"posthouse.engine.b"}
    finally:
        clear_caches()


def test_a_knot_of_types_is_noticed() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert [name for name in graph if name in reachable(name, graph)] == ["b", "c"]


def clear_caches() -> None:
    modules.cache_clear()
    importers.cache_clear()
    parts_of_the_manager.cache_clear()
    doors.cache_clear()


def test_parts_of_the_engine_get_what_they_need_as_arguments() -> None:
    """The ledger that all parts share has no other part, but for what happens to its messages."""
    (manager,) = (one for one in modules() if one.name == "engine/manager.py")
    assigned = {
        target.attr
        for node in ast.walk(ast.parse(manager.text))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "core"
    }
    hooks = {"damage_ended", "serve", "ordinals_in_use", "queue_emptied"}
    clock_and_turn = {"now_ms", "utc", "turn", "effects"}
    assert assigned - clock_and_turn == hooks
