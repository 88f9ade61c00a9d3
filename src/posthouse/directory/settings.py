"""`[directory]`: the directory of machines, sites and public queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from posthouse.directory.addresses import Address
from posthouse.directory.ldap.settings import LdapSettings
from posthouse.model.errors import QueueError
from posthouse.model.settings_kinds import (
    DAY_S,
    YEAR_S,
    Fault,
    FileName,
    Names,
    Section,
    meaning,
    text,
    within,
)

FILE_REFRESH_S = 5
LDAP_REFRESH_S = 60


class DirectorySettings(Section, frozen=True):
    """The directory of machines, sites and public queues."""

    integrated: Annotated[
        bool, meaning("Public queues by the embedded directory; false: a workgroup.")
    ] = True
    file: Annotated[
        FileName,
        meaning(
            "A file that speaks for the directories of all queue managers that name it, as "
            "`posthouse directory export` writes it; empty: each has its own."
        ),
    ] = ""
    refresh_s: Annotated[
        int,
        within(
            0,
            DAY_S,
            "How often a shared directory is asked for changes; 0: every "
            f"{FILE_REFRESH_S} seconds for a file, every {LDAP_REFRESH_S} for a server.",
        ),
    ] = 0
    lock_wait_s: Annotated[
        int, within(1, 3600, "How long a change waits for somebody else who has locked the file.")
    ] = 10
    addresses: Annotated[
        Names,
        meaning(
            "Where other queue managers reach this one, `host` or `host:port`, as the "
            "directory tells them; empty: as the listener of the binary protocol has it."
        ),
    ] = ()
    site: Annotated[
        str,
        text(
            64,
            "The site, by name or GUID, that this queue manager is entered in while the "
            "directory has no machine of its name yet; afterwards the directory says.",
        ),
    ] = ""
    # [MS-MQCN]: change notifications.
    notify: Annotated[
        bool,
        meaning(
            "Tells other queue managers of a shared directory when their objects were changed"
            " from here, so that they look at once."
        ),
    ] = True
    notify_s: Annotated[
        int,
        within(
            0, DAY_S, "How long such news of others are collected before the directory is asked."
        ),
    ] = 60
    notify_interval_s: Annotated[int, within(0, DAY_S, "How often that happens at most.")] = 15 * 60
    sites_update_s: Annotated[
        int, within(1, YEAR_S, "How often the sites are looked up again.")
    ] = 12 * 3600
    site_gates_update_s: Annotated[
        int, within(1, YEAR_S, "How often the site gates are looked up again.")
    ] = 3600
    online_s: Annotated[
        int, within(1, DAY_S, "How often a directory that is away is looked for.")
    ] = 60
    patience_s: Annotated[
        int,
        within(
            1,
            DAY_S,
            "How long a call waits for a shared directory that neither answers nor fails, "
            "such as one on a dead disk.",
        ),
    ] = 60
    ldap: LdapSettings = LdapSettings()

    @property
    def source(self) -> str:
        """The name of the authority; empty where the directory is its own."""
        if not self.integrated:
            return ""
        return f"file {self.file}" if self.file else self.ldap.source

    def faults(self) -> Iterator[Fault]:
        """Addresses that are none, and more than one authority."""
        for address in self.addresses:
            try:
                Address.parse(address)
            except QueueError as error:
                yield "addresses", f"{error.cause}. {error.remedy}"
        if self.file and not self.integrated:
            yield "file", "a workgroup (integrated = false) has no directory"
        if self.file and self.ldap.source:
            yield "file", "[directory.ldap] names a server; there is one authority"
        if self.ldap.source and not self.integrated:
            yield "ldap.url", "a workgroup (integrated = false) has no directory"
        if "\0" in self.file:
            yield "file", "this is no path"
