"""`[admin]`: the endpoint of the JSON API, client sessions and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

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
        bool, meaning("Without it there is the control socket in the home only.")
    ] = True
    listen: Annotated[
        Name,
        meaning("Address of the listener; off the loopback it needs a certificate or `insecure`."),
    ] = "127.0.0.1"
    port: Annotated[Port | None, meaning("Its port; left out: the one of the port set, 8816.")] = (
        None
    )
    hosts: Annotated[
        Names,
        meaning(
            "Names this endpoint is called by, beside its address and the computer name; "
            "requests for any other Host are refused."
        ),
    ] = ()
    certificate: Annotated[
        FileName, meaning("PEM file of its certificates, relative to the home.")
    ] = ""
    private_key: Annotated[FileName, meaning("PEM file of the key, relative to the home.")] = ""
    insecure: Annotated[bool, meaning("Allows it off the loopback without a certificate.")] = False
    body_size_max: Annotated[
        int, size(MIB, GIB, "Body of a request, or frame of a client session.")
    ] = 64 * MIB
    header_timeout_s: Annotated[
        int, within(1, 600, "Time for the header of a request to arrive.")
    ] = 10
    body_timeout_s: Annotated[int, within(1, 3600, "Time for the body of a request to arrive.")] = (
        60
    )
    idle_timeout_s: Annotated[
        int, within(1, DAY_S, "A connection without requests is closed after it.")
    ] = 75

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
            yield "listen", f"{excerpt(self.listen)} is no address; allowed: an IP address"
