"""Reads the modules of a source tree: what they import, call and name.

`tests/test_architecture.py` holds rules by it, and `python -m tools.counts` prints how many places
break each of them, also in an older tree.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

# The program under another name: `python -m posthouse`.
ALSO_OF = {"__main__.py": "cli"}

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
# Functions for one protocol or page each, which go through the facades, too.
CALLS = {"engine/machine/health.py", "engine/sessions/calls.py", "engine/transfer/remote_reads.py"}
# What a facade gives that is more than a value: who has one may name its class.
GIVEN = {"engine/transfer/outgoing_cursor.py": "OutgoingCursor"}
LEDGER = "engine/ledger/ledger.py"
MANAGER = {"manager", "_manager", "m"}  # what the queue manager is called
# What they give that is a value: its own fields may be read.
VALUES = {("machine", part) for part in ("name", "refusals", "settings", "state")}
# Modules in which `manager` is something else: a queue manager as its clients see it.
OTHER_MANAGERS = {"client", "cli", "connector", "console", "qms", "spark"}
ENGINE_BESIDE_CLIENTS = {"client/embedded.py", "client/embedded_delivery.py"}

PROTOCOL_FILES = ("protocol.py", "server.py", "settings.py")
PLACE = re.compile(r"^_?[A-Z0-9_]+_(AT|END)$")
LAYOUTS = {"HEAD", "PROPERTY_SIZES", "SECURITY_SIZES", "TRANSACTION_FLAGS", "U16", "U32"}
PLACES_OF_FIELDS = {"body_at", "extension_at", "label_at", "properties_at"}  # of a summary
ROWS = {"row", "look", "seen"}  # what rows and summaries are called
SENT = {"message"}  # what a message on its way out is called; in `wire` that is bytes

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MANY = re.compile(r"_(run|all|many|plain)$")
TWIN_PACKAGES = {"engine", "protocols", "store", "wire"}

Chain = tuple[str, ...]
Graph = dict[str, set[str]]


class Module:
    """One source file, parsed."""

    def __init__(self, path: Path, source: Path) -> None:
        self.path = path
        self.name = path.relative_to(source).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        parts = self.name.split("/")
        self.package = parts[0] if len(parts) > 1 else ALSO_OF.get(self.name, "")
        self.sibling = parts[1] if len(parts) > 2 else ""

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of its tree; every rule reads it."""
        return list(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        """How long it is."""
        return self.text.count("\n")

    def imports(self) -> Iterator[tuple[int, str]]:
        """Line and dotted name of everything imported, wherever it stands."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield node.lineno, alias.name
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.name}:{node.lineno}: write imports in full"
                for alias in node.names:
                    yield node.lineno, f"{node.module}.{alias.name}"

    def calls(self) -> Iterator[tuple[int, str]]:
        """Line and source of every function called."""
        for node in self.nodes:
            if isinstance(node, ast.Call):
                yield node.lineno, called(node.func)


def called(function: ast.expr) -> str:
    """Its source; of a plain name or an attribute without the detour over `unparse`."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return ast.unparse(function)


def chain_of(node: ast.expr) -> Chain:
    """The names of `a.b.c`, from the left; nothing for anything else."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute) and (before := chain_of(node.value)):
        return (*before, node.attr)
    return ()


class Twin(NamedTuple):
    """A function for many, beside one for one."""

    module: str
    many: str
    one: str
    joined: bool  # one of them calls the other

    def __str__(self) -> str:
        return f"{self.module}: {self.many} beside {self.one}"


class SourceTree:
    """All modules of `src/posthouse`, or of an older one."""

    def __init__(self, source: Path, facades: dict[str, tuple[str, str]] = FACADES) -> None:
        self.source = source
        self._facades = facades

    @cached_property
    def modules(self) -> list[Module]:
        """Every module, by its path."""
        return [Module(path, self.source) for path in sorted(self.source.rglob("*.py"))]

    @cached_property
    def by_name(self) -> dict[str, Module]:
        """The modules by their paths."""
        return {module.name: module for module in self.modules}

    @cached_property
    def dotted(self) -> dict[str, str]:
        """The path of each module by its dotted name; packages themselves are left out."""
        return {
            f"posthouse.{module.name.removesuffix('.py').replace('/', '.')}": module.name
            for module in self.modules
            if module.path.name not in ("__init__.py", "__main__.py")
        }

    @cached_property
    def imported(self) -> Graph:
        """Which modules each imports, for types alone included."""
        return {
            module.name: {
                found
                for _, dotted in module.imports()
                for target in (dotted, dotted.rpartition(".")[0])
                if (found := self.dotted.get(target, module.name)) != module.name
            }
            for module in self.modules
        }

    @cached_property
    def importers(self) -> Graph:
        """Which modules import each."""
        found: Graph = defaultdict(set)
        for name, targets in self.imported.items():
            for target in targets:
                found[target].add(name)
        return found

    def circles(self) -> list[str]:
        """The modules that import one another in a circle, packages themselves included."""
        files = {
            f"posthouse.{name.removesuffix('.py').replace('/', '.')}".removesuffix(
                ".__init__"
            ): name
            for name in self.by_name
        }
        graph = {
            name: {
                file
                for _, dotted in module.imports()
                for file in [files.get(dotted) or files.get(dotted.rpartition(".")[0], name)]
                if file != name
            }
            for name, module in self.by_name.items()
        }
        return knot_of(graph)

    def small_with_one_importer(self, lines: int) -> list[str]:
        """Modules below this length that one other module imports."""
        return [
            module.name
            for module in self.modules
            if module.lines < lines and len(self.importers.get(module.name, ())) == 1
        ]

    def prefixes(self, files: int) -> dict[str, list[str]]:
        """First words that at least this number of modules in one folder share."""
        found = defaultdict(list)
        for module in self.modules:
            first, _, rest = module.path.stem.partition("_")
            if first and rest:
                folder = module.name.rpartition("/")[0]
                found[f"{folder}/{first}_"].append(module.name)
        return {prefix: names for prefix, names in found.items() if len(names) >= files}

    def class_names(self, packages: set[str] | None = None) -> dict[str, list[str]]:
        """The names that several classes have, with their modules."""
        places = defaultdict(list)
        for module in self.modules:
            if packages is None or module.package in packages:
                for node in module.nodes:
                    if isinstance(node, ast.ClassDef):
                        places[node.name].append(module.name)
        return {name: found for name, found in places.items() if len(found) > 1}

    def files_that_protocols_lack(self) -> dict[str, tuple[str, ...]]:
        """The packages of protocols without all three files, and which of them they lack."""
        folders = sorted(path.parent for path in (self.source / "protocols").glob("*/__init__.py"))
        lacking = {
            folder.name: tuple(file for file in PROTOCOL_FILES if not (folder / file).exists())
            for folder in folders
        }
        return {name: files for name, files in lacking.items() if files}

    def docstrings_that_begin(self, words: re.Pattern[str]) -> list[str]:
        """Docstrings with these first words."""
        return [
            f"{module.name}: {text.splitlines()[0]}"
            for module in self.modules
            for node in module.nodes
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and words.match(text := ast.get_docstring(node) or "")
        ]

    def with_packet_places(self) -> dict[str, list[str]]:
        """Modules outside `wire` that have places of a packet, and which."""
        found = {
            module.name: sorted(set(places_in(module)))
            for module in self.modules
            if module.package != "wire"
        }
        return {name: places for name, places in found.items() if places}

    def positional_reads(self) -> list[str]:
        """Where a row or a summary is read by a number."""
        return [
            f"{module.name}:{node.lineno} {ast.unparse(node)}"
            for module in self.modules
            if module.package in ("engine", "protocols", "runtime", "sim", "store", "wire")
            for node in module.nodes
            if isinstance(node, ast.Subscript)
            and is_a_row(node.value, ROWS if module.package == "wire" else ROWS | SENT)
            and any(isinstance(part, ast.Constant) for part in ends_of(node.slice))
        ]

    def twins(self, packages: set[str]) -> list[Twin]:
        """Functions of a module or a class that have one for a single thing beside them."""
        return [
            Twin(module.name, name, one, joined)
            for module in self.modules
            if module.package in packages
            for scope in module.nodes
            if isinstance(scope, ast.Module | ast.ClassDef)
            for found in [{node.name: node for node in scope.body if isinstance(node, FUNCTIONS)}]
            for name in sorted(found)
            for one in [MANY.sub("", name)]
            if one != name and one in found
            for joined in [one in names_in(found[name]) or name in names_in(found[one])]
        ]

    def twins_apart(self, packages: set[str]) -> list[str]:
        """Those of which neither calls the other."""
        return sorted(str(twin) for twin in self.twins(packages) if not twin.joined)

    def classes(self, file: str) -> dict[str, ast.ClassDef]:
        """The classes of one of our modules."""
        tree = self.by_name[file].tree
        return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    def public_methods(self, name: str, file: str) -> set[str]:
        """Methods, properties and declared attributes of a class, with those of its bases."""
        found = self.classes(file)[name]
        methods = {name for node in found.body if (name := name_of(node)) and name[0] != "_"}
        bases = {base.id for base in found.bases if isinstance(base, ast.Name)}
        for _, dotted in self.by_name[file].imports():
            *path, base = dotted.split(".")
            if base in bases and path[:2] == ["posthouse", "engine"]:
                methods |= self.public_methods(base, "/".join(path[1:]) + ".py")
        return methods

    @cached_property
    def parts_of_the_manager(self) -> set[str]:
        """What QueueManager assigns to `self`."""
        return {
            node.attr
            for node in ast.walk(self.classes("engine/manager.py")["QueueManager"])
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and chain_of(node.value) == ("self",)
        }

    @cached_property
    def entries(self) -> dict[str, set[str]]:
        """The methods of each facade; a tree that has no such class has none."""
        return {
            part: self.public_methods(name, file)
            for part, (file, name) in self._facades.items()
            if file in self.by_name and name in self.classes(file)
        }

    def is_reach(self, rest: Chain) -> bool:
        """Whether this goes past the facades; `rest` is what follows on the manager."""
        if not rest or rest[0] not in self.parts_of_the_manager:
            return False
        if rest[0] not in self.entries:
            return True
        deeper = len(rest) > 2 and rest[:2] not in VALUES
        return deeper or (len(rest) >= 2 and rest[1] not in self.entries[rest[0]])

    def reaches(self, module: Module) -> list[str]:
        """Where a module names more of the engine than the methods of its facades."""
        return [
            f"{module.name}:{line}: manager.{'.'.join(rest)}"
            for line, rest in self.uses(module)
            if self.is_reach(rest)
        ]

    @cached_property
    def inner(self) -> set[str]:
        """Modules of the engine that have the ledger in hand, other than through a facade."""
        doors = {file for file, _ in self._facades.values()} | CALLS | {"engine/manager.py"}
        graph = {name: targets - doors for name, targets in self.imported.items()}
        return {
            name
            for name in self.by_name
            if name.startswith("engine/")
            and name not in doors
            and (name == LEDGER or LEDGER in reachable(name, graph))
        }

    def inner_imports(self, module: Module) -> list[str]:
        """What a module imports of the engine beside facades and values, for types included."""
        return [
            f"{module.name}:{line}: imports {dotted}"
            for line, dotted in module.imports()
            for target in (dotted, dotted.rpartition(".")[0])
            if (file := self.dotted.get(target)) in self.inner
            and GIVEN.get(str(file)) != dotted.rpartition(".")[2]
        ]

    def uses(self, module: Module) -> list[tuple[int, Chain]]:
        """What a module names of the queue manager, or of a part of it under a local name."""
        known = self._aliases(module)
        inner = {
            id(node.value)
            for node in module.nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute)
        }
        found = []
        for node in module.nodes:
            if isinstance(node, ast.Call) and called(node.func) == "getattr":
                chain = (*chain_of(node.args[0]), "getattr")
            elif isinstance(node, ast.Attribute) and id(node) not in inner:
                chain = chain_of(node)
            else:
                continue
            rest = past_the_manager(chain)
            if not rest:
                rest = next(
                    ((*known[chain[:n]], *chain[n:]) for n in (1, 2) if chain[:n] in known),
                    self._past_a_field(chain),
                )
            if rest:
                found.append((node.lineno, rest))
        return found

    def _aliases(self, module: Module) -> dict[Chain, Chain]:
        """Other names of parts of the queue manager.

        `stages = desk.manager.stages`, `self._stages = manager.stages`, `stages: Stages`.
        """
        found: dict[Chain, Chain] = {}
        for node in module.nodes:
            if isinstance(node, ast.arg) and node.annotation is not None:
                if part := self._part_of(node.annotation):
                    found[node.arg,] = (part,)
                elif names_in(node.annotation) == {"QueueManager"} and node.arg not in MANAGER:
                    found[node.arg,] = ()
        for target, value in assigned(module):
            rest = past_the_manager(value) or found.get(value, ())
            is_part = bool(rest) and rest[0] in self.parts_of_the_manager
            is_manager = (value in found and not rest) or MANAGER & {*value[-1:]}
            if (is_part or is_manager) and 1 <= len(target) <= 2 and not MANAGER & {*target}:
                found[target] = rest
        return found

    def _past_a_field(self, chain: Chain) -> Chain:
        """What follows on a field that has a facade: `context.services.tokens.core`."""
        begin = 2 if chain[:1] == ("self",) else 1  # of another class it may be something else
        for at, name in enumerate(chain[begin:], begin):
            if name in self._fields:
                return (self._fields[name], *chain[at + 1 :])
        return ()

    def _part_of(self, annotation: ast.expr | None) -> str:
        """The part of the queue manager whose facade an annotation names; empty: none."""
        names = names_in(annotation) if annotation is not None else set[str]()
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            names = {annotation.value}
        return next((part for name in names if (part := self._part_of_class.get(name))), "")

    @cached_property
    def _fields(self) -> dict[str, str]:
        """Fields of classes outside the engine that have a facade, by their names: `tokens`."""
        return {
            node.target.id: part
            for module in self.modules
            if uses_the_engine(module)
            for scope in module.nodes
            if isinstance(scope, ast.ClassDef)
            for node in scope.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            if (part := self._part_of(node.annotation))
        }

    @cached_property
    def _part_of_class(self) -> dict[str, str]:
        """The part of the queue manager that has each class of a facade."""
        return {name: part for part, (_, name) in self._facades.items()}


def assigned(module: Module) -> Iterator[tuple[Chain, Chain]]:
    """The names that get other names: `a = b.c`, `a, self.d = b.c, e`, `(a := b.c)`."""
    for node in module.nodes:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = zip(target.elts, value.elts, strict=False)
                yield from ((chain_of(one), chain_of(other)) for one, other in pairs)
            else:
                yield chain_of(target), chain_of(value)


def names_in(node: ast.AST) -> set[str]:
    """What a function names: variables, functions, attributes."""
    return {
        part.id if isinstance(part, ast.Name) else part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Name | ast.Attribute)
    }


def name_of(node: ast.stmt) -> str:
    """The name of a method or of a declared attribute."""
    if isinstance(node, ast.FunctionDef):
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return ""


def knot_of(graph: Graph) -> list[str]:
    """The names of a graph from which a way leads back to them."""
    return sorted(name for name in graph if name in reachable(name, graph))


def reachable(start: str, graph: Graph) -> set[str]:
    """Where the ways from a name lead."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = graph[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def past_the_manager(chain: Chain) -> Chain:
    """What follows on the last `manager` of a chain."""
    places = [at for at, name in enumerate(chain) if name in MANAGER]
    return chain[places[-1] + 1 :] if places else ()


def uses_the_engine(module: Module) -> bool:
    """Whether `manager` is the engine's QueueManager there, seen from outside."""
    beside = module.package in OTHER_MANAGERS and module.name not in ENGINE_BESIDE_CLIENTS
    return module.package != "engine" and not beside


def places_in(module: Module) -> Iterator[str]:
    """How a module that has packets in hand shows where something is in them."""
    yield from (ast.unparse(node) for node in module.nodes if cuts_a_packet(node))
    imported = [
        name.name
        for node in module.nodes
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("posthouse.wire.packet")
        for name in node.names
    ]
    if not imported:
        return
    yield from (name for name in imported if PLACE.match(name) or name in LAYOUTS)
    for node in module.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and PLACE.match(node.id):
            yield node.id
        elif isinstance(node, ast.Attribute) and node.attr in ("pack_into", "unpack_from"):
            yield node.attr
        elif isinstance(node, ast.BinOp):
            fields = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
            yield from fields & PLACES_OF_FIELDS
        elif isinstance(node, ast.Slice):
            parts = [part for end in (node.lower, node.upper) if end for part in ast.walk(end)]
            names = [part.attr for part in parts if isinstance(part, ast.Attribute)]
            yield from (name for name in names if name.endswith("_at"))


def cuts_a_packet(node: ast.AST) -> bool:
    """Whether it takes bytes of what is called a packet: `packet[4:8]`, `packet[at]`."""
    return (
        isinstance(node, ast.Subscript)
        and chain_of(node.value)[-1:] == ("packet",)
        and not isinstance(node.slice, ast.Call)  # of a function of `wire`
    )


def is_a_row(node: ast.expr, names: set[str]) -> bool:
    """Whether it is one of these, or one of several: `row`, `rows[at]`."""
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
        return isinstance(node.value, ast.Name) and node.value.id.removesuffix("s") in names
    return isinstance(node, ast.Name) and node.id in names


def ends_of(index: ast.expr) -> list[ast.expr | None]:
    """A number, or both ends of a slice."""
    return [index.lower, index.upper] if isinstance(index, ast.Slice) else [index]
