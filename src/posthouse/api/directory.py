"""The types of the API that concern the directory."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from posthouse.api.types import Json
from posthouse.directory.document.document import Document

Name = Annotated[str, Meta(min_length=1, max_length=256)]
ObjectKind = Literal["machine", "site", "link", "queue", "list", "alias", "user", "network"]


class DirectoryImportBody(Json):
    """A document for the directory. With `prune` what it does not have is taken out.

    `only` names the fields that it speaks of: of objects that are there the others stay as they
    are. Without it, fields that are left out become as usual.
    """

    document: Document
    only: Annotated[list[Name], Meta(max_length=64)] | None = None
    prune: bool = False
    dry_run: bool = False


class DirectoryRemoveBody(Json):
    """An object that goes; a link is named by its two sites, with a comma between."""

    kind: ObjectKind
    name: Annotated[str, Meta(min_length=1, max_length=520)]
    dry_run: bool = False


class ChangedFieldJson(Json):
    """A field of the directory's file that is different; empty where it is as usual."""

    field: str
    before: str
    after: str


class ChangedObjectJson(Json):
    """An object of the directory that was changed, or would be.

    `named_by` are objects that still name one that was removed, the first of them; `left_off` is
    how many more there are.
    """

    kind: ObjectKind | Literal["enterprise"]
    name: str
    change: Literal["created", "changed", "deleted"]
    fields: list[ChangedFieldJson] = field(default_factory=list)
    named_by: list[str] = field(default_factory=list)
    left_off: int = 0


class DirectoryChangeJson(Json):
    """What a change of the directory did, or would do."""

    changes: list[ChangedObjectJson]


class RouteParams(Json):
    """Two machines, by their computer names."""

    source: Name
    target: Name


class RouteStepJson(Json):
    """One hop: from whom, to whom, and the rule for it."""

    source: str
    target: str
    rule: str


class RouteJson(Json):
    """The way of a message while everybody can be reached."""

    steps: list[RouteStepJson]
