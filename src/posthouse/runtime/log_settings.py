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
        meaning("Least important level of events that are written."),
    ] = "info"
    format: Annotated[
        Literal["text", "json"], meaning("`text`: `key=value`; `json`: one JSON object per line.")
    ] = "text"
    file: Annotated[
        FileName, meaning("File of the log, relative to the home. Empty: standard error.")
    ] = "logs/posthouse.log"
    size_max: Annotated[
        int,
        size(64 * KIB, SIZE_MAX, "Size at which the file is renamed to `.1`. Older files move up."),
    ] = 16 * MIB
    files_kept: Annotated[int, within(0, 1000, "Number of old files that are kept.")] = 5
    repeats_max: Annotated[
        int,
        within(
            0,
            1_000_000,
            "Largest number of lines in 10 s for events of one name and address. Further ones"
            " become one line with `repeated`, `first` and `last`. Actions of users are "
            "always written. 0: no limit.",
        ),
    ] = 20
