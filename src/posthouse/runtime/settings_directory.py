"""The section `[directory]` of `posthouse.toml`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from posthouse.directory.addresses import Address
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import QueueError
from posthouse.model.settings_kinds import DAY_S, YEAR_S, Names, Section
from posthouse.runtime.settings_ldap import LdapSection, ldap_faults, ldap_source

_engine = EngineSettings("default")
FILE_REFRESH_S = 5
FILE_LOCK_WAIT_S = 10
PATIENCE_S = 60
LDAP_REFRESH_S = 60


class DirectorySection(Section, frozen=True):
    """The directory of machines, sites and public queues."""

    integrated: Annotated[
        bool, Meta(description="Public queues by the embedded directory; false: a workgroup.")
    ] = _engine.directory_integrated
    file: Annotated[
        str,
        Meta(
            max_length=4096,
            description="A file that speaks for the directories of all queue managers that name "
            "it, as `posthouse directory export` writes it; empty: each has its own.",
        ),
    ] = ""
    refresh_s: Annotated[
        int,
        Meta(
            ge=0,
            le=DAY_S,
            description="How often a shared directory is asked for changes; 0: every "
            f"{FILE_REFRESH_S} seconds for a file, every {LDAP_REFRESH_S} for a server.",
        ),
    ] = 0
    lock_wait_s: Annotated[
        int,
        Meta(
            ge=1,
            le=3600,
            description="How long a change waits for somebody else who has locked the file.",
        ),
    ] = FILE_LOCK_WAIT_S
    addresses: Annotated[
        Names,
        Meta(
            description="Where other queue managers reach this one, `host` or `host:port`, as the "
            "directory tells them; empty: as the listener of the binary protocol has it."
        ),
    ] = ()
    site: Annotated[
        str,
        Meta(
            max_length=64,
            description="The site, by name or GUID, that this queue manager is entered in while "
            "the directory has no machine of its name yet; afterwards the directory says.",
        ),
    ] = _engine.directory_site
    notify: Annotated[
        bool,
        Meta(
            description="Tells other queue managers of a shared directory when their objects were "
            "changed from here, so that they look at once."
        ),
    ] = True
    notify_s: Annotated[
        int,
        Meta(
            ge=0,
            le=DAY_S,
            description="How long such news of others are collected before the directory is asked.",
        ),
    ] = _engine.notices_first_s
    notify_interval_s: Annotated[
        int,
        Meta(ge=0, le=DAY_S, description="How often that happens at most."),
    ] = _engine.notices_interval_s
    sites_update_s: Annotated[
        int, Meta(ge=1, le=YEAR_S, description="How often the sites are looked up again.")
    ] = _engine.directory_sites_update_s
    site_gates_update_s: Annotated[
        int, Meta(ge=1, le=YEAR_S, description="How often the site gates are looked up again.")
    ] = _engine.directory_site_gates_update_s
    online_s: Annotated[
        int, Meta(ge=1, le=DAY_S, description="How often a directory that is away is looked for.")
    ] = _engine.directory_online_s
    patience_s: Annotated[
        int,
        Meta(
            ge=1,
            le=DAY_S,
            description="How long a call waits for a shared directory that neither answers nor "
            "fails, such as one on a dead disk.",
        ),
    ] = PATIENCE_S
    ldap: LdapSection = LdapSection()


def directory_source(section: DirectorySection) -> str:
    """The name of the authority; empty where the directory is its own."""
    if not section.integrated:
        return ""
    return f"file {section.file}" if section.file else ldap_source(section.ldap)


def directory_faults(section: DirectorySection) -> Iterator[str]:
    """What is wrong in the section."""
    for address in section.addresses:
        try:
            Address.parse(address)
        except QueueError as error:
            yield f"[directory] addresses: {error.cause}. {error.remedy}"
    if section.file and not section.integrated:
        yield "[directory] file: a workgroup (integrated = false) has no directory"
    yield from ldap_faults(section.ldap)
    if section.file and ldap_source(section.ldap):
        yield "[directory] file: [directory.ldap] names a server; there is one authority"
    if ldap_source(section.ldap) and not section.integrated:
        yield "[directory.ldap] url: a workgroup (integrated = false) has no directory"
    if "\0" in section.file:
        yield "[directory] file: this is no path"
