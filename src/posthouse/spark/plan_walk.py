"""Walks over Spark's own trees of a statement, on the JVM where they are.

Every field of every node is followed, not only children: subqueries sit in expressions, common
table expressions in tuples of a node's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from py4j.java_gateway import JavaObject

from posthouse.model.errors import InvalidParameter

CATALYST: Final = "org.apache.spark.sql.catalyst."
NODES_MAX: Final = 20_000
# Types, and the pickled functions of Python: nothing of a statement is in them.
_OPAQUE: Final = ("org.apache.spark.sql.types.", "org.apache.spark.api.python.")
# The first that fits states what an object is.
_KINDS: Final = (
    (f"{CATALYST}plans.logical.LogicalPlan", "plan"),
    (f"{CATALYST}trees.TreeNode", "expression"),
    ("scala.collection.Iterable", "sequence"),
    ("scala.Product", "product"),
)


class Node:
    """A plan or an expression of a statement."""

    def __init__(self, tree: Any, class_name: str, *, is_plan: bool) -> None:
        self.tree = tree
        self.class_name = class_name
        self.is_plan = is_plan

    @property
    def word(self) -> str:
        """The name of its class alone."""
        return self.class_name.rpartition(".")[2].rstrip("$")

    @property
    def place(self) -> tuple[int, int] | None:
        """Where it stands in the statement: first character, and the one after the last."""
        origin = self.tree.origin()
        first, last = origin.startIndex(), origin.stopIndex()
        if first.isEmpty() or last.isEmpty():
            return None
        return int(first.get()), int(last.get()) + 1


class Walk:
    """Finds the nodes of trees. What a class of the JVM is, is asked once: each call takes time."""

    def __init__(self, jvm: Any) -> None:
        self._classes = [(jvm.java.lang.Class.forName(name), kind) for name, kind in _KINDS]
        self._kinds: dict[str, str] = {}
        self._fields: dict[str, int] = {}

    def nodes(self, tree: Any, stop: frozenset[str] = frozenset()) -> Iterator[Node]:
        """All nodes, from the root on. Below a class of `stop` nothing is looked at."""
        waiting = [tree]
        seen = 0
        while waiting:
            found = waiting.pop()
            if not isinstance(found, JavaObject):  # a text, a number or nothing
                continue
            name = str(found.getClass().getName())
            kind = self._kind(found, name)
            if kind in ("plan", "expression"):
                seen += 1
                if seen > NODES_MAX:
                    raise InvalidParameter("the statement is too large", "Make it shorter.")
                node = Node(found, name, is_plan=kind == "plan")
                yield node
                if node.word in stop:
                    continue
            waiting += self._inside(found, name, kind)

    def texts(self, sequence: Any) -> list[str]:
        """A Scala sequence of texts."""
        return [str(one) for one in _elements(sequence)]

    def _kind(self, value: Any, name: str) -> str:
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = self._ask_kind(value, name)
        return kind

    def _ask_kind(self, value: Any, name: str) -> str:
        if name.startswith(_OPAQUE):
            return "other"
        return next((kind for one, kind in self._classes if one.isInstance(value)), "other")

    def _inside(self, value: Any, name: str, kind: str) -> Iterator[Any]:
        if kind == "sequence":
            return _elements(value.toSeq())
        if kind == "other":
            return iter(())
        if name not in self._fields:
            self._fields[name] = value.productArity()
        return (value.productElement(index) for index in range(self._fields[name]))


def _elements(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.length()))
