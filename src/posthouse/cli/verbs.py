"""One vocabulary of verbs: `create`, `list`, `show`, `set`, `delete`, and other words for them.

Each noun has the verb that stands in its help. Words that mean the same are understood beside it,
among them the verbs of earlier versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from typer.core import TyperGroup

SAME: Final = (
    ("create", "add", "make", "new", "submit"),
    ("delete", "remove", "rm", "revoke"),
    ("list", "ls"),
    ("show", "info"),
    ("set", "change"),
)


def meant(word: str, known: list[str]) -> str:
    """The verb among the known ones that a word means; the word itself where none is."""
    if word in known:
        return word
    for group in SAME:
        if word in group:
            return next((verb for verb in group if verb in known), word)
    return word


class VerbGroup(TyperGroup):
    """A noun: its verbs by any word for them."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a verb."""
        return super().get_command(ctx, meant(cmd_name, list(self.commands)))


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command below this one that does something, by the words a user types."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for word, each in inner.items():
        yield from commands(each, f"{name} {word}")
