"""`[admin]`: the endpoint of the JSON API, client sessions and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from posthouse.model.settings_kinds import (
    DAY_S,
    GIB,
    MIB,
    Fault,
    FileName,
    Name,
    Names,
    Port,
    Section,
    is_address,
    is_loopback,
    meaning,
    size,
    within,
)
from posthouse.model.text import excerpt


class AdminSettings(Section, frozen=True):
    """The JSON API, client sessions, metrics: the endpoint `admin`."""

    enabled: Annotated[
        bool,
        meaning("Opens this endpoint. Without it there is only the control socket in the home."),
    ] = True
    listen: Annotated[
        Name,
        meaning(
            "Address of the listener. Other than on the loopback, it needs a certificate or "
            "`insecure`."
        ),
    ] = "127.0.0.1"
    port: Annotated[
        Port | None, meaning("Port of the listener. Default: that of the port set, 8816.")
    ] = None
    hosts: Annotated[
        Names,
        meaning(
            "Host names of this endpoint, in addition to its address and the computer name. "
            "Requests with any other Host are refused."
        ),
    ] = ()
    certificate: Annotated[
        FileName, meaning("PEM file of the server's certificates, relative to the home.")
    ] = ""
    private_key: Annotated[
        FileName, meaning("PEM file of its private key, relative to the home.")
    ] = ""
    insecure: Annotated[
        bool, meaning("Allows other addresses than the loopback without a certificate.")
    ] = False
    console: Annotated[
        Literal["loopback", "on", "off"],
        meaning(
            "Web console at `/console/`. `loopback`: only if `listen` is the loopback; `on`: on "
            "any address; `off`: no console."
        ),
    ] = "loopback"
    console_idle_s: Annotated[
        int,
        within(60, DAY_S, "Time after which an unused session of the console ends."),
    ] = 3600
    explain_peers: Annotated[
        Names,
        meaning(
            "Queue managers that are asked where a message is, each `NAME URL TOKEN_FILE`; the "
            "file is relative to the home and holds a token of role look for that machine."
        ),
    ] = ()
    masks: Annotated[
        Names,
        meaning(
            "Fields of bodies that a role does not see, each `ROLE QUEUES PATH`: a role (`read`, "
            "`operate`), which includes the smaller ones, a pattern of queue paths, and a JSONPath "
            "or an XPath."
        ),
    ] = ()
    queries_max: Annotated[
        int, within(0, 64, "Queries by SQL that run at a time, each in a process. 0: none.")
    ] = 2
    query_time_s: Annotated[int, within(1, 3600, "Time after which a query is ended.")] = 30
    query_memory: Annotated[
        int,
        size(
            64 * MIB, 64 * GIB, "Memory for the data of a query. A query that needs more is ended."
        ),
    ] = GIB
    query_lake: Annotated[
        FileName,
        meaning(
            "Folder of a lake that queries read as `lake.messages`, relative to the home. Only "
            "administrators without masks read it."
        ),
    ] = ""
    body_size_max: Annotated[
        int, size(MIB, GIB, "Largest body of a request, and largest frame of a client session.")
    ] = 64 * MIB
    header_timeout_s: Annotated[
        int, within(1, 600, "Time allowed for the header of a request to arrive.")
    ] = 10
    body_timeout_s: Annotated[
        int, within(1, 3600, "Time allowed for the body of a request to arrive.")
    ] = 60
    idle_timeout_s: Annotated[
        int, within(1, DAY_S, "Time after which a connection without requests is closed.")
    ] = 75

    @property
    def serves_console(self) -> bool:
        """Whether the web console is there."""
        return self.console == "on" or (self.console == "loopback" and is_loopback(self.listen))

    def faults(self) -> Iterator[Fault]:
        """An endpoint for others without TLS, and half a certificate."""
        if bool(self.certificate) != bool(self.private_key):
            yield "certificate", "certificate and private_key go together"
        if not is_loopback(self.listen) and not (self.certificate or self.insecure):
            yield (
                "listen",
                "off the loopback this needs certificate and private_key, or insecure = true",
            )
        if not is_address(self.listen):
            yield "listen", f"{excerpt(self.listen)} is not an address; allowed: an IP address"
