"""`posthouse directory join` and `schema`: before the first start with a directory server."""

from __future__ import annotations

from importlib.resources import files

import typer

from posthouse.cli.command import Home, Json
from posthouse.cli.output import print_json, say
from posthouse.model.errors import ServiceNotAvailable
from posthouse.model.extras import install
from posthouse.net.control_socket import default_home


def register(inner: typer.Typer) -> None:
    """Add the commands."""
    inner.command("join")(join)
    inner.command("schema")(schema)


def join(home: Home = None, json: Json = False) -> None:
    """Join a directory server: take the identity that it has for this computer's queue manager.

    For a home that is not running, with `directory.ldap` in its posthouse.toml. The object of this
    queue manager is found on the server, or created there. An unused home takes over the identifier
    of the object, because domains assign identifiers themselves.

    Example: posthouse directory join --home ./second
    """
    try:
        from posthouse.runtime.directory.join import join as join_home
    except ModuleNotFoundError as error:
        raise ServiceNotAvailable(
            f"this needs the extra ldap: {error}",
            f"Install it: {install('ldap')}",
        ) from None
    place = home or default_home()
    joined = join_home(place)
    if json:
        print_json(joined._asdict())
        return
    entered = "was created" if joined.created else "already exists"
    say(f"{joined.place} {entered}: this is queue manager {joined.identifier}.")
    if joined.adopted:
        say("This home took over that identifier.")
    say(f"Start it with: posthouse serve --home {place}")


def schema() -> None:
    """Print the schema that OpenLDAP needs in addition to its own msuser.schema.

    Example: posthouse directory schema
    """
    text = files("posthouse.directory").joinpath("schema", "posthouse.schema").read_text()
    for line in text.splitlines():
        say(line)
