"""A process of another user, in the group of a shared directory file, that changes the file."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from posthouse.directory.mirror import Action, Order
from posthouse.directory.objects import Site
from posthouse.runtime.directory.file import FileAuthority

NOBODY = 65534


def run(arguments: list[str]) -> int:
    """The directory file, and its group."""
    path, group = arguments
    if os.geteuid() == 0:  # whoever is not root is themselves
        os.setgroups([int(group)])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    authority = FileAuthority(Path(path), lambda: uuid.uuid4().bytes_le)
    authority.together([Order(Action.CREATE, Site(name="Berlin"), 1_700_000_000)])
    return 0
