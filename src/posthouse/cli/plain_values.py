"""Refuses values of options and arguments that no command can use, before it begins."""

from __future__ import annotations

import sys
from copy import copy
from typing import Any

import typer


def check_values(parameter: Any) -> None:
    """Empty paths, which are variables that are not set, and numbers that no loop can count to."""
    kind = copy(parameter.type)
    convert, is_path = kind.convert, hasattr(kind, "dir_okay")

    def checked(value: Any, param: Any, ctx: Any) -> Any:
        if is_path and value == "":
            raise typer.BadParameter("the path is empty; . is the current folder", ctx, param)
        found = convert(value, param, ctx)
        if isinstance(found, int) and found > sys.maxsize:
            raise typer.BadParameter(f"the largest value is {sys.maxsize}", ctx, param)
        return found

    kind.convert = checked
    parameter.type = kind
