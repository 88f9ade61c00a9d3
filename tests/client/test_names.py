"""The public names: the same ones, blocking and awaited, and cheap to import."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module

import pytest

import posthouse
import posthouse.aio

CLASSES = ["QueueManagerClient", "Queue", "Transaction", "Cursor", "Consumer"]
CONTEXTS = {"__enter__": "__aenter__", "__exit__": "__aexit__", "__iter__": "__aiter__"}


def members(kind: type) -> dict[str, object]:
    shown = {name for name in vars(kind) if not name.startswith("_")}
    special = {name for name in (*CONTEXTS, *CONTEXTS.values()) if name in vars(kind)}
    return {name: vars(kind)[name] for name in shown | special}


@pytest.mark.parametrize("name", CLASSES)
def test_both_clients_have_the_same_names_and_parameters(name: str) -> None:
    blocking, awaited = members(getattr(posthouse, name)), members(getattr(posthouse.aio, name))
    assert {CONTEXTS.get(name, name) for name in blocking} == set(awaited)
    for member, value in blocking.items():
        other = awaited[CONTEXTS.get(member, member)]
        assert type(value) is type(other)
        if inspect.isfunction(value) and inspect.isfunction(other):
            ours, theirs = inspect.signature(value), inspect.signature(other)
            assert list(ours.parameters.values()) == list(theirs.parameters.values()), member


def test_both_connect_alike() -> None:
    blocking = inspect.signature(posthouse.connect).parameters
    assert blocking == inspect.signature(posthouse.aio.connect).parameters


def test_every_public_name_is_there_and_explained() -> None:
    for name in posthouse.__all__:
        assert inspect.getdoc(getattr(posthouse, name)), name
    assert set(posthouse.__all__) == set(dir(posthouse))


def test_there_are_no_other_names() -> None:
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = posthouse.nothing_of_that_name


def test_type_checkers_see_the_names_that_a_program_sees_and_no_others() -> None:
    """They read imports and a literal `__all__`; a `__getattr__` would make every name good."""
    tree = ast.parse(inspect.getsource(posthouse))
    (types,) = (
        one
        for one in tree.body
        if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING"
    )
    seen = {
        alias.asname: (statement.module, alias.name)
        for statement in types.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert {*seen, "__version__", "open"} == set(posthouse.__all__)
    for name, (module, original) in seen.items():
        assert module is not None
        assert getattr(import_module(module), original) is getattr(posthouse, str(name))
    top = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
    assert "__getattr__" not in top, "type checkers would see it"
    (names,) = (
        one.value
        for one in tree.body
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "__all__"
    )
    assert ast.literal_eval(names) == posthouse.__all__
    assert posthouse.QueueManager is posthouse.QueueManagerClient
    assert posthouse.aio.QueueManager is posthouse.aio.QueueManagerClient


def loaded(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.split())


def test_importing_the_package_loads_nothing_of_it() -> None:
    modules = loaded("import posthouse")
    assert {name for name in modules if name.startswith("posthouse")} == {"posthouse"}
    assert not modules & {"asyncio", "socket", "aiohttp", "msgspec"}


def test_a_client_loads_no_engine_and_no_server() -> None:
    modules = loaded("import posthouse; posthouse.connect; posthouse.aio.connect; posthouse.Draft")
    ours = {name for name in modules if name.startswith("posthouse.")}
    assert not {name for name in ours if name.startswith(("posthouse.store", "posthouse.runtime"))}
    engine = {name for name in ours if name.startswith("posthouse.engine.")}
    assert engine == {"posthouse.engine.ledger", "posthouse.engine.ledger.records"}
    assert "aiohttp" not in modules
