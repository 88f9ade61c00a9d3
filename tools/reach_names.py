"""What in the source no door, client, command or library can call, found by reading it.

`python -m tools.reach --names` prints it, and tests/test_architecture.py holds that it is nothing.
A definition is reached if something that is reached names it. It begins with the modules that users
start or import, with what the pages show as code, and with what libraries call. Names are not
resolved: of two methods of one name both are reached. So what is found is called by tests alone; a
little may be missed, which `python -m tools.reach` finds by running the program.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from posthouse.cli import program

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
# What users import. What they start has a `__main__` block, or is a noun of the command line.
IMPORTED = (
    *("posthouse", "posthouse.aio", "posthouse.connector", "posthouse.qms", "posthouse.spark"),
    "pyspark_posthouse",
)
# asyncio, aiohttp, http.server, socketserver, ldap3, pyspark.
CALLED_BY_LIBRARIES = {
    *("connection_made", "connection_lost", "eof_received", "pause_writing", "resume_writing"),
    *("datagram_received", "error_received", "get_buffer", "buffer_updated", "handle_error"),
    *("finish_response", "do_GET", "log_message", "process_request", "process_request_thread"),
    *("do_sasl_bind", "initialOffset", "getDefaultReadLimit", "prepareForTriggerAvailableNow"),
    *("pushFilters", "reportLatestOffset", "streamReader", "streamWriter"),
}
# Python interfaces of users, one method for each call, and errors that are found by their code.
INTERFACES = (
    *("posthouse.client.ncp.calls", "posthouse.qms.bindery", "posthouse.qms.calls"),
    *("posthouse.qms.objects", "posthouse.model.errors"),
)
# The other side of a codec, the simulated world, and questions that only tests ask of a server.
FOR_TESTS = {
    *("encode_send", "encode_messages", "pack_srmp", "read_response", "read_fault"),
    *("encode_request", "decode_request", "encode_response"),
    *("fail_at", "fill_up", "flip_bit", "clone", "run_until_idle"),
    *("read_sender", "backup_embedded"),
    *("built_in_functions", "apply_message"),
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
WORDS_MAX = 80  # of a text that may name something: an attribute, a module, a key of a table
CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
WORD = re.compile(r"\w+")


class Node:
    """A definition, or what a module does when it is loaded."""

    def __init__(self, module: str, name: str, owner: Node | None) -> None:
        self.module = module
        self.name = name
        self.owner = owner  # the class of a method, the function of an inner one
        self.words: set[str] = set()
        self.modules: set[str] = set()

    @property
    def place(self) -> str:
        """How a report names it."""
        outer = self.owner
        qualified = f"{outer.name}.{self.name}" if outer is not None and outer.name else self.name
        return f"{self.module.replace('.', '/')}.py: {qualified}"


class Reader(ast.NodeVisitor):
    """Reads one module into nodes."""

    def __init__(self, module: str, known: set[str], nodes: list[Node]) -> None:
        self._known = known
        self._nodes = nodes
        self._at = Node(module, "", None)
        nodes.append(self._at)

    def _define(self, node: Definition) -> None:
        """Decorators and defaults belong to the definer, the body is its own."""
        outside: list[ast.AST] = [*node.decorator_list]
        if isinstance(node, ast.ClassDef):
            outside += [*node.bases, *node.keywords]
        else:
            outside += [*node.args.defaults, *(one for one in node.args.kw_defaults if one)]
        for one in outside:
            self.visit(one)
        outer, self._at = self._at, Node(self._at.module, node.name, self._at)
        self._nodes.append(self._at)
        if node.decorator_list and not isinstance(node, ast.ClassDef):
            self._at.words |= {"@"}
        for one in ast.iter_child_nodes(node):
            if one not in outside:
                self.visit(one)
        self._at = outer

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _define

    def visit_Name(self, node: ast.Name) -> None:
        """A name that is read."""
        if isinstance(node.ctx, ast.Load):
            self._at.words.add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """An attribute, whatever is done to it."""
        self._at.words.add(node.attr)
        self.visit(node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        """An argument by its name, which may be a field of a class."""
        if node.arg:
            self._at.words.add(node.arg)
        self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A docstring names nothing that is called."""
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """A short text names attributes and modules now and then."""
        text = node.value
        if isinstance(text, str) and "\n" not in text and len(text) <= WORDS_MAX:
            self._at.words |= set(WORD.findall(text))
            self._at.modules |= {text} & self._known

    def visit_Import(self, node: ast.Import) -> None:
        """A module of ours that is loaded."""
        self._load(alias.name for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Something of a module of ours; under another name it counts as named."""
        self._load([str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)])
        self._at.words |= {alias.name for alias in node.names if alias.asname}

    def _load(self, names: Iterable[str]) -> None:
        for name in names:
            parts = name.split(".")
            packages = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
            self._at.modules |= packages & self._known


def read(source: Path) -> list[Node]:
    """All modules below a folder."""
    files = {module_of(path, source): path for path in sorted(source.rglob("*.py"))}
    nodes: list[Node] = []
    for module, path in files.items():
        Reader(module, set(files), nodes).visit(ast.parse(path.read_text(encoding="utf-8")))
    return nodes


def module_of(path: Path, source: Path) -> str:
    """Its dotted name."""
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def code_words(pages: Iterable[Path]) -> set[str]:
    """What pages show as code."""
    texts = (page.read_text(encoding="utf-8") for page in pages)
    return {
        word for text in texts for code in CODE.finditer(text) for word in WORD.findall(code[0])
    }


def unreached(nodes: list[Node], begun: Iterable[str], words: Iterable[str]) -> list[Node]:
    """The definitions that nothing leads to from these modules and these words."""
    by_name: dict[str, list[Node]] = defaultdict(list)
    inside: dict[Node, list[Node]] = defaultdict(list)
    tops = {node.module: node for node in nodes if node.owner is None}
    for node in nodes:
        if node.owner is not None:
            by_name[node.name].append(node)
            inside[node.owner].append(node)
    reached, named = set[Node](), set[str]()
    ahead = [tops[module] for module in begun]
    fresh = set(words)
    while ahead or fresh:
        while ahead:
            node = ahead.pop()
            if node in reached:
                continue
            reached.add(node)
            fresh |= node.words - named
            ahead += [tops[module] for module in node.modules]
            ahead += [one for one in inside[node] if one.name in named or is_called_by_python(one)]
        named |= fresh
        ahead = [one for word in fresh for one in by_name[word] if one.owner in reached]
        fresh = set()
    return [node for node in nodes if node not in reached and is_outermost(node, reached)]


def is_called_by_python(node: Node) -> bool:
    """Methods such as `__enter__`, and what a decorator has in hand."""
    return "@" in node.words or (node.name.startswith("__") and node.name.endswith("__"))


def is_outermost(node: Node, reached: set[Node]) -> bool:
    """Of a class that is not reached the methods are not listed, too."""
    return node.owner is None or node.owner in reached or node.owner.owner is None


def begun(nodes: Iterable[Node]) -> set[str]:
    """The modules that users import or start."""
    modules = {node.module for node in nodes}
    nouns = {f"posthouse.cli.{noun}" for noun in program.NOUNS}
    started = {node.module for node in nodes if node.owner is None and "__main__" in node.words}
    return (modules & {*IMPORTED, *nouns}) | started


def found(source: Path = SOURCE, pages: Iterable[Path] | None = None) -> list[str]:
    """A line for each definition that is not reached."""
    nodes = read(source)
    words = code_words((ROOT / "docs").glob("*.md") if pages is None else pages)
    left = unreached(nodes, begun(nodes), words | CALLED_BY_LIBRARIES | FOR_TESTS)
    return [
        node.place if node.name else f"{node.module.replace('.', '/')}.py: the whole module"
        for node in left
        if node.module not in INTERFACES
    ]
