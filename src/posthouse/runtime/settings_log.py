"""`[log]` of the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from posthouse.model.settings_kinds import SIZE, SIZE_MAX, Section
from posthouse.store.settings import KIB, MIB


class LogSection(Section, frozen=True):
    """The log of events, one line each."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The least important events that are written."),
    ] = "info"
    format: Annotated[
        Literal["text", "json"], Meta(description="`key=value` for people, JSON for machines.")
    ] = "text"
    file: Annotated[
        str,
        Meta(
            max_length=4096,
            description="Where it goes, relative to the home; empty: standard error.",
        ),
    ] = "logs/posthouse.log"
    size_max: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            le=SIZE_MAX,
            extra={"unit": SIZE},
            description="A file of this size is set aside as `.1`, and older ones move up.",
        ),
    ] = 16 * MIB
    files_kept: Annotated[int, Meta(ge=0, le=1000, description="How many old files stay.")] = 5
    repeats_max: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Lines in 10 s for events of one name and address; those beyond are one"
            " line, with `repeated`, `first` and `last`. What a user did is always written. 0: no"
            " limit.",
        ),
    ] = 20
