"""`[log]`: the log of events."""

from __future__ import annotations

from typing import Annotated, Literal

from posthouse.model.settings_kinds import (
    KIB,
    MIB,
    SIZE_MAX,
    FileName,
    Section,
    meaning,
    size,
    within,
)


class LogSettings(Section, frozen=True):
    """The log of events, one line each."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        meaning("The least important events that are written."),
    ] = "info"
    format: Annotated[
        Literal["text", "json"], meaning("`key=value` for people, JSON for machines.")
    ] = "text"
    file: Annotated[
        FileName, meaning("Where it goes, relative to the home; empty: standard error.")
    ] = "logs/posthouse.log"
    size_max: Annotated[
        int,
        size(
            64 * KIB, SIZE_MAX, "A file of this size is set aside as `.1`, and older ones move up."
        ),
    ] = 16 * MIB
    files_kept: Annotated[int, within(0, 1000, "How many old files stay.")] = 5
    repeats_max: Annotated[
        int,
        within(
            0,
            1_000_000,
            "Lines in 10 s for events of one name and address; those beyond are one line, "
            "with `repeated`, `first` and `last`. What a user did is always written. 0: no "
            "limit.",
        ),
    ] = 20
