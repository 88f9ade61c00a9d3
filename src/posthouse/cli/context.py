"""`posthouse context`: names for queue managers, and which one commands use."""

from __future__ import annotations

from typing import Annotated

import typer

from posthouse.cli.command import CaFile, Home, Json, TokenFile, Url, group
from posthouse.cli.contexts import (
    NAME,
    ContextError,
    Contexts,
    Target,
    contexts_file,
    read_contexts,
    write_contexts,
)
from posthouse.cli.output import complain, print_json, print_pairs, print_table, say
from posthouse.client.address import resolve

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the context.")]
NO_CONTEXTS = (
    "There is no context. Create one with `posthouse context create prod --url "
    "https://host:8816 --token-file FILE`."
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    inner = group(
        app,
        "context",
        "Queue manager",
        "Contexts, which are names for queue managers: create, list, show, use, delete.",
    )
    inner.command("create")(create)
    inner.command("list")(list_contexts)
    inner.command("show")(show)
    inner.command("use")(use)
    inner.command("delete")(delete)


def create(
    name: Name,
    home: Home = None,
    url: Url = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    json: Json = False,
) -> None:
    """Create a context, or replace one: a name for a home or for an admin endpoint.

    The token stays in its file; the context has the path of the file only.

    Example: posthouse context create prod --url https://mq.example:8816 --token-file prod.token
    """
    if not NAME.fullmatch(name):
        raise typer.BadParameter(
            "a name has letters, digits, dots, underscores and hyphens, at most 64 of them"
        )
    if (home is None) == (url is None):
        raise typer.BadParameter("give --home or --url: a context is one of them")
    if url is None and (token_file or ca_file):
        raise typer.BadParameter("--token-file and --ca-file go with --url")
    target = Target(
        home and home.absolute(),
        url,
        token_file and token_file.absolute(),
        ca_file and ca_file.absolute(),
    )
    _check(target)
    contexts = _read()
    write_contexts(contexts_file(), contexts._replace(targets={**contexts.targets, name: target}))
    _tell(name, target, contexts, json)


def _check(target: Target) -> None:
    """Refuse an address that is none, and files that are not there, before they are needed."""
    for file in (target.token_file, target.ca_file):
        if file is not None and not file.is_file():
            raise typer.BadParameter(f"there is no file {file}")
    try:
        resolve(target.home, target.url, None, target.token_file)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def list_contexts(json: Json = False) -> None:
    """List the contexts. The one in use has a star.

    Example: posthouse context list
    """
    contexts = _read()
    if json:
        for name, target in sorted(contexts.targets.items()):
            print_json(_line(name, target, contexts))
        return
    if not contexts.targets:
        complain(NO_CONTEXTS)
        return
    rows = (
        ("*" if name == contexts.current else "", name, str(target.url or target.home))
        for name, target in sorted(contexts.targets.items())
    )
    print_table("", ("in use", "context", "queue manager"), rows)


def show(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name (default: the one in use).")
    ] = None,
    json: Json = False,
) -> None:
    """Show a context: address, token file, certificates.

    Example: posthouse context show prod
    """
    contexts = _read()
    wanted = name or contexts.current
    if not wanted:
        raise ContextError("no context is in use. `posthouse context list` shows them.")
    _tell(wanted, contexts.find(wanted), contexts, json)


def use(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Name (default: none; commands use the home again)."),
    ] = None,
) -> None:
    """Choose the context that commands are about if they name no other queue manager.

    These go before it: --home, --url and --context, then $POSTHOUSE_CONTEXT, $POSTHOUSE_URL and
    $POSTHOUSE_HOME.

    Example: posthouse context use prod
    """
    contexts = _read()
    if name is not None:
        contexts.find(name)
    write_contexts(contexts_file(), contexts._replace(current=name or ""))
    say(f"Commands now use {name}." if name else "Commands now use the default home.")


def delete(name: Name) -> None:
    """Delete a context. The queue manager and the token are not touched.

    Example: posthouse context delete prod
    """
    contexts = _read()
    contexts.find(name)
    left = {one: target for one, target in contexts.targets.items() if one != name}
    current = "" if contexts.current == name else contexts.current
    write_contexts(contexts_file(), Contexts(left, current))
    say(f"The context {name} is deleted.")
    if contexts.current == name:
        complain("It was in use. Commands now use the default home.")


def _read() -> Contexts:
    return read_contexts(contexts_file())


def _line(name: str, target: Target, contexts: Contexts) -> dict[str, str | bool]:
    return {"name": name, "in_use": name == contexts.current, **target.values}


def _tell(name: str, target: Target, contexts: Contexts, json: bool) -> None:
    if json:
        print_json(_line(name, target, contexts))
        return
    pairs = {key.replace("_", " "): value for key, value in target.values.items()}
    print_pairs({"context": name, **pairs, "in use": "yes" if name == contexts.current else "no"})
