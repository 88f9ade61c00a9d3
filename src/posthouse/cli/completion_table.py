"""Makes the table for completion: `python -m posthouse.cli.completion_table`."""

from __future__ import annotations

import json
from typing import Any

from posthouse.cli.complete import QUEUES, TABLE
from posthouse.cli.main import program
from posthouse.cli.name_hints import full_name


def completion_table() -> str:
    """One line for each command, in the order of their names."""
    entries = dict(_entries(program(), ""))
    lines = [f"{json.dumps(name)}: {json.dumps(entries[name])}" for name in sorted(entries)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _entries(command: Any, name: str) -> Any:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, _entry(command)
        return
    yield name, {"commands": sorted(word for word in inner if not inner[word].hidden)}
    for word, each in inner.items():
        if not each.hidden:
            yield from _entries(each, f"{name} {word}".strip())


def _entry(command: Any) -> dict[str, Any]:
    options = [one for one in command.params if one.param_type_name == "option"]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    words = [word for one in options for word in one.opts if word.startswith("--")]
    values = {
        word: _choices(one)
        for one in options
        if not getattr(one, "is_flag", False)
        for word in one.opts
    }
    choices = [word for one in arguments for word in _choices(one)]
    return {"options": sorted({*words, "--help"}), "values": values, "arguments": choices}


def _choices(parameter: Any) -> list[str]:
    """The words that a parameter can have, where the program has them."""
    kind = parameter.type
    if choices := getattr(kind, "choices", None):
        return sorted(map(str, choices))
    return [QUEUES] if getattr(kind, "func", None) is full_name else []


if __name__ == "__main__":
    TABLE.write_text(completion_table(), encoding="utf-8")
