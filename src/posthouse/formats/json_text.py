"""JSON of a body: read within limits, in the conventions that all decoders share."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from posthouse.formats.limits import FormatError, LimitReached, Limits

_LONE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _constant(name: str) -> str:
    return name


def _number(text: str) -> float | str:
    number = float(text)
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


_decode: Final = json.JSONDecoder(
    parse_float=_number, parse_constant=_constant, strict=False
).decode


def read_json(text: str, limits: Limits) -> Any:
    """The value; Json.NET's NaN and Infinity are strings, a lone surrogate is U+FFFD."""
    containers = text.count("{") + text.count("[")
    if containers > limits.elements or containers + text.count(",") > limits.items // 4:
        raise LimitReached("the JSON has more values than the limit")
    try:
        value = _decode(text)
    except RecursionError:
        raise LimitReached("the JSON has more levels than the limit") from None
    except json.JSONDecodeError as error:
        raise FormatError(f"not JSON: {str(error)[:200]}") from None
    except ValueError:  # Python reads whole numbers of up to 4,300 digits
        raise LimitReached("the JSON has a number with too many digits") from None
    if containers > limits.depth:
        _check_depth(value, limits.depth)
    return _mended(value) if _LONE.search(text) else value


def _mended(value: Any) -> Any:
    """The value without halves of surrogate pairs, which no encoding can carry."""
    top = [value]
    todo: list[Any] = [top]
    while todo:
        container = todo.pop()
        if isinstance(container, dict):
            entries = [(_whole(key), _whole(item)) for key, item in container.items()]
            container.clear()
            container.update(entries)
            todo.extend(container.values())
        elif isinstance(container, list):
            container[:] = map(_whole, container)
            todo.extend(item for item in container if isinstance(item, dict | list))
    return top[0]


def _whole(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _check_depth(value: Any, most: int) -> None:
    level = [value]
    for _ in range(most + 1):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return
    raise LimitReached("the JSON has more levels than the limit")


def _children(value: Any) -> list[Any]:
    inner = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(inner, list):
        return []
    return [item for item in inner if isinstance(item, dict | list)]
