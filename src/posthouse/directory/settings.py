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
        bool,
        meaning("Uses the directory for public queues. `false`: the machine is in a workgroup."),
    ] = True
    file: Annotated[
        FileName,
        meaning(
            "File that is the directory of all queue managers that name it, in the format of "
            "`posthouse directory export`. Empty: each has its own directory."
        ),
    ] = ""
    refresh_s: Annotated[
        int,
        within(
            0,
            DAY_S,
            "Time between two checks of a shared directory for changes. 0: every "
            f"{FILE_REFRESH_S} seconds for a file, every {LDAP_REFRESH_S} seconds for a server.",
        ),
    ] = 0
    lock_wait_s: Annotated[
        int,
        within(
            1, 3600, "Longest time that a change waits while another process has locked the file."
        ),
    ] = 10
    addresses: Annotated[
        Names,
        meaning(
            "Addresses at which other queue managers reach this one, `host` or `host:port`, "
            "as the directory publishes them. Empty: the address of the binary protocol's "
            "listener."
        ),
    ] = ()
    site: Annotated[
        str,
        text(
            64,
            "Site, by name or GUID, that this queue manager is added to if the directory has "
            "no machine of its name. Afterwards the directory decides.",
        ),
    ] = ""
    # [MS-MQCN]: change notifications.
    notify: Annotated[
        bool,
        meaning(
            "Notifies other queue managers of a shared directory when their objects are "
            "changed here, so that they read the directory at once."
        ),
    ] = True
    notify_s: Annotated[
        int,
        within(
            0,
            DAY_S,
            "Time that notifications of others are collected before the directory is read.",
        ),
    ] = 60
    notify_interval_s: Annotated[int, within(0, DAY_S, "Shortest time between two such reads.")] = (
        15 * 60
    )
    sites_update_s: Annotated[int, within(1, YEAR_S, "Time between two updates of the sites.")] = (
        12 * 3600
    )
    site_gates_update_s: Annotated[
        int, within(1, YEAR_S, "Time between two updates of the site gates.")
    ] = 3600
    online_s: Annotated[
        int,
        within(1, DAY_S, "Time between two attempts to reach a directory that is not available."),
    ] = 60
    patience_s: Annotated[
        int,
        within(
            1,
            DAY_S,
            "Longest time that a call waits for a shared directory that neither answers nor "
            "fails, for example on a dead disk.",
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
            yield "file", "this is not a path"
