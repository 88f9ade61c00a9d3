"""Checks that a statement is read-only: one SELECT over named tables (decision 17).

Looked at after parsing, in Spark's own tree, and once more in the tree that Spark has made of it.
Texts are never searched: what counts is what Spark will do. Both trees are held against lists of
what is allowed, so that whatever a later Spark invents is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import accumulate
from typing import Any, Final, NamedTuple, NoReturn

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from posthouse.model.errors import InvalidParameter
from posthouse.model.text import excerpt
from posthouse.spark.plan_walk import CATALYST, Node, Walk
from posthouse.spark.queries.decoding import FUNCTIONS, register_functions
from posthouse.spark.queries.functions import (
    ALLOWED,
    ARGUMENTS_MAX,
    TABLE_FUNCTIONS,
    plain_name,
)
from posthouse.spark.queries.parsers import PARSED_WITH, parser_of
from posthouse.spark.sessions import is_connect

STATEMENT_LENGTH_MAX: Final = 100_000
DEPTH_MAX: Final = 200  # brackets in brackets: far deeper ones keep the parser busy for minutes
REMEDY: Final = (
    "Write one SELECT over the tables that SHOW TABLES lists; it may join, group and nest them."
)

SUBSTITUTE: Final = "spark.sql.variable.substitute"
_SETTINGS: Final = {
    SUBSTITUTE: "false",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.scripting.enabled": "false",
}
_TIME_ZONE: Final = "spark.sql.session.timeZone"
_LOGICAL: Final = f"{CATALYST}plans.logical."
_ANALYSIS: Final = f"{CATALYST}analysis."
# What SELECT, VALUES, TABLE, WITH and their clauses are parsed to.
_PARSED_LOGICAL = """
Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LimitAll LocalLimit
LocalRelation Offset OneRowRelation Pivot Project RepartitionByExpression Sample Sort SubqueryAlias
Union Unpivot UnresolvedHint UnresolvedWith WithWindowDefinition
"""
_PARSED_ANALYSIS = """
UnresolvedHaving UnresolvedInlineTable UnresolvedRelation UnresolvedSubqueryColumnAliases
UnresolvedTVFAliases UnresolvedTableValuedFunction
"""
_PARSED: Final = frozenset(
    [
        *(_LOGICAL + name for name in _PARSED_LOGICAL.split()),
        *(_ANALYSIS + name for name in _PARSED_ANALYSIS.split()),
        f"{CATALYST}expressions.PipeOperator",
    ]
)
# Leaves of an analysed statement whose rows come from the statement itself.
_LEAVES: Final = frozenset(
    {"CTERelationRef", "LocalRelation", "OneRowRelation", "Range", "UnionLoopRef"}
)
_STARS: Final = frozenset({"UnresolvedStar", "UnresolvedStarExceptOrReplace"})
_EXPRESSIONS: Final = (f"{CATALYST}expressions.", _ANALYSIS)
# Expressions of those packages that are code of somebody's, or names that are made up later.
_FOREIGN = """
CallMethodViaReflection ExpressionWithUnresolvedIdentifier FunctionTableSubqueryArgumentExpression
NamedParameter PosParameter PythonUDAF PythonUDF PythonUDTF ScalaUDF UnresolvedPolymorphicPythonUDTF
UnresolvedTableArgPlanId
"""
_NOT_ALLOWED: Final = frozenset(_FOREIGN.split())
# Of functions in Python only ours: a guarded session has no others.
_PYTHON: Final = f"{CATALYST}expressions.PythonUDF"
# Rows of an inline table are constants that the parser has worked out; there may be very many.
_CLOSED: Final = frozenset({"LocalRelation", "View"})


class Name(NamedTuple):
    """A name of several parts, and where in the statement it stands."""

    parts: list[str]
    first: int
    behind: int


class Statement(NamedTuple):
    """What a statement names."""

    relations: list[Name]
    attributes: list[Name]
    common_tables: frozenset[str]
    columns: frozenset[str] | None = None  # all words that may be columns; None: it has a *


class ShowTables(NamedTuple):
    """SHOW TABLES, the one statement that is not a SELECT."""

    namespace: str
    pattern: str


def guarded_session(spark: SparkSession) -> SparkSession:
    """A session for statements of others, beside the given one: a second bolt on the guard's doors.

    No variables of the environment in texts, no files as tables, no scripts.
    """
    inner = spark.newSession()
    register_functions(inner)
    for key, value in (_SETTINGS | (PARSED_WITH if is_connect(spark) else {})).items():
        inner.conf.set(key, value)
    inner.conf.set(_TIME_ZONE, str(spark.conf.get(_TIME_ZONE)))
    return inner


class Guard:
    """Checks statements of one session, which must not put variables into texts."""

    def __init__(self, spark: SparkSession) -> None:
        if spark.conf.get(SUBSTITUTE) != "false":
            raise ValueError(f"{SUBSTITUTE} is on: take a guarded session")
        jvm, self._parser = parser_of(spark)
        self._walk = Walk(jvm)

    def parsed(self, text: str) -> Statement | ShowTables:
        """What the statement names, if it may be run at all."""
        tree = self._tree(text)
        root = str(tree.getClass().getName())
        if root == f"{_LOGICAL}ShowTables":
            return self._show_tables(tree)
        found = Statement([], [], frozenset())
        common: set[str] = set()
        words, stars = set[str](), 0
        for node in self._walk.nodes(tree, _CLOSED):
            if node.is_plan:
                self._check_plan(node)
            else:
                self._check_expression(node)
            if node.word == "UnresolvedRelation":
                found.relations.append(self._relation(node, text))
            elif node.word == "UnresolvedAttribute" or node.word in _STARS:
                found.attributes.extend(self._attribute(node, text))
                stars += node.word in _STARS
                if not stars:
                    words.update(word.lower() for word in self._walk.texts(node.tree.nameParts()))
            elif node.word == "UnresolvedWith":
                common.update(self._common_tables(node))
        columns = None if stars else frozenset(words)
        return found._replace(common_tables=frozenset(common), columns=columns)

    def check_analysed(self, tree: Any, views: Collection[str]) -> None:
        """Refuses an analysed statement that reads anything but those views."""
        for node in self._walk.nodes(tree, _CLOSED):
            if not node.is_plan:
                self._check_expression(node)
            elif node.word == "View":
                self._check_view(node, views)
            elif not node.class_name.startswith(CATALYST) or (
                node.tree.children().isEmpty() and node.word not in _LEAVES
            ):
                _refuse(f"the statement leads to {node.word}, which is not a table here")

    def _tree(self, text: str) -> Any:
        if len(text) > STATEMENT_LENGTH_MAX:
            _refuse(f"the statement has {len(text):,} characters; {STATEMENT_LENGTH_MAX:,} may be")
        if depth(text) > DEPTH_MAX:
            _refuse(f"the statement opens more than {DEPTH_MAX} brackets in each other")
        try:
            return self._parser.parsePlan(text)
        except PySparkException as error:
            raise wrong_statement(error) from None
        except Py4JJavaError as error:
            raise given_up(error) from None

    def _check_plan(self, node: Node) -> None:
        if node.class_name not in _PARSED:
            _refuse(f"{node.word} is not part of a SELECT over tables")
        if node.word == "UnresolvedTableValuedFunction":
            name = plain_name(self._walk.texts(node.tree.name()))
            if name not in TABLE_FUNCTIONS:
                _refuse(f"the table function {excerpt(name)} is not allowed")

    def _check_expression(self, node: Node) -> None:
        if node.class_name == _PYTHON and str(node.tree.name()) in FUNCTIONS:
            return
        if not node.class_name.startswith(_EXPRESSIONS) or node.word in _NOT_ALLOWED:
            _refuse(f"{node.word} is not allowed in a read-only statement")
        if node.word == "UnresolvedFunction":
            parts = self._walk.texts(node.tree.nameParts())
            self._check_function(parts, node.tree.arguments().length())
        elif node.word == "UnresolvedGenerator":
            parts = self._walk.texts(node.tree.name().nameParts())
            self._check_function(parts, node.tree.children().length())

    def _check_function(self, parts: list[str], arguments: int) -> None:
        name = plain_name(parts)
        if name in FUNCTIONS and len(parts) == 1:
            return
        if name not in ALLOWED:
            _refuse(f"the function {excerpt('.'.join(parts))} is not allowed")
        if arguments > ARGUMENTS_MAX.get(name, arguments):
            _refuse(f"the function {name} takes no options here")

    def _check_view(self, node: Node, views: Collection[str]) -> None:
        description = node.tree.desc()
        name = str(description.identifier().table())
        if not node.tree.isTempView() or name not in views:
            _refuse(f"the statement reads {excerpt(name)}, which is not a table here")

    def _relation(self, node: Node, text: str) -> Name:
        tree = node.tree
        parts = self._walk.texts(tree.multipartIdentifier())
        if tree.isStreaming() or not tree.options().isEmpty():
            _refuse(f"{excerpt('.'.join(parts))} is read as it is: no options, no stream")
        name = self._name(node, parts, text)
        if name is None:
            _refuse(f"{excerpt('.'.join(parts))} is not written as a name")
        return name

    def _attribute(self, node: Node, text: str) -> list[Name]:
        """A column, where it is written as a name; syntax of other kinds needs no care."""
        if node.word in _STARS:
            target = node.tree.target()
            if target.isEmpty():
                return []
            name = self._name(node, [*self._walk.texts(target.get()), "*"], text)
        else:
            name = self._name(node, self._walk.texts(node.tree.nameParts()), text)
        return [] if name is None else [name]

    def _name(self, node: Node, parts: list[str], text: str) -> Name | None:
        """The name where it stands; none if what stands there is not just that name."""
        place = node.place
        if place is None:
            return None
        written = text[place[0] : place[1]]
        if parts[-1] == "*":
            written = written.partition("*")[0].rstrip().removesuffix(".")
            parts = parts[:-1]
        try:
            again = self._walk.texts(self._parser.parseMultipartIdentifier(written))
        except (PySparkException, Py4JJavaError):
            return None
        return Name(parts, place[0], place[0] + len(written)) if again == parts else None

    def _common_tables(self, node: Node) -> list[str]:
        relations = node.tree.cteRelations()
        return [
            str(relations.apply(index).productElement(0)).lower()
            for index in range(relations.length())
        ]

    def _show_tables(self, tree: Any) -> ShowTables:
        namespace, pattern = tree.namespace(), tree.pattern()
        words = (
            self._walk.texts(namespace.multipartIdentifier())
            if str(namespace.getClass().getSimpleName()) == "UnresolvedNamespace"
            else []
        )
        return ShowTables(".".join(words), "*" if pattern.isEmpty() else str(pattern.get()))


def depth(text: str) -> int:
    """How many round brackets are open at once; those in texts count too, which does no harm."""
    steps = ((character == "(") - (character == ")") for character in text)
    return max(accumulate(steps), default=0)


def wrong_statement(error: PySparkException) -> InvalidParameter:
    """Why Spark cannot parse or analyse a statement, in one line."""
    return _wrong(error.getMessage() or str(error))


def _wrong(said: str) -> InvalidParameter:
    first = said.strip().split("\n\n")[0]
    return InvalidParameter(" ".join(first.split())[:600], REMEDY)


def given_up(error: Py4JJavaError) -> InvalidParameter:
    """What Spark states where it has no words for users: its parser's stack has an end, for one.

    A parser without a session has words, but nothing makes them an error of PySpark.
    """
    kind = str(error.java_exception.getClass().getSimpleName())
    if kind == "ParseException":
        return _wrong(str(error.java_exception.getMessage()))
    return InvalidParameter(f"Spark gives the statement up: {kind}", REMEDY)


def _refuse(why: str) -> NoReturn:
    raise InvalidParameter(why, REMEDY)
