"""`[audit]`: the log of what operators do."""

from __future__ import annotations

from typing import Annotated

from posthouse.model.settings_kinds import KIB, MIB, FileName, Section, meaning, size, within


class AuditSettings(Section, frozen=True):
    """The audit log: each act of an operator, one line of JSON."""

    file: Annotated[FileName, meaning("File of the audit log, relative to the home.")] = (
        "audit/audit.log"
    )
    size_max: Annotated[
        int,
        size(
            64 * KIB,
            64 * MIB,
            "Size at which the file is renamed to `.1`. Older files move up. The files of "
            "attempts and of refused sign-ins have the same bound, and one old file each.",
        ),
    ] = 8 * MIB
    files_kept: Annotated[int, within(1, 1000, "Number of old files that are kept.")] = 10
    days_kept: Annotated[
        int, within(0, 36_500, "Days after which an old file is deleted. 0: age does not count.")
    ] = 0
    required: Annotated[
        bool,
        meaning(
            "Refuses acts of operators that cannot be written to the audit log first. Without it "
            "they are done, and written as soon as the log can be written again."
        ),
    ] = False
