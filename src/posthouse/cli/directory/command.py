"""`posthouse directory`: machines, sites, links, lists; the whole of it as a file; routes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posthouse.api.directory import (
    RouteJson,
)
from posthouse.api.types import DirectoryStatusJson
from posthouse.cli.command import DryRun, Yes, confirm, group, guid, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.directory import join as directory_join
from posthouse.cli.directory import names as directory_names
from posthouse.cli.directory.shared import (
    Many,
    Name,
    changed,
    document_of,
    given,
    print_parts,
    remove_object,
    tell_where,
)
from posthouse.cli.output import print_json, print_table, say, whole_file
from posthouse.cli.status import directory_words
from posthouse.directory.document.document import (
    Document,
    LinkPart,
    ListPart,
    MachinePart,
    SitePart,
)
from posthouse.directory.document.text import parse_document, written
from posthouse.directory.objects import ACTUAL_COST_MAX, ACTUAL_COST_MIN
from posthouse.model.errors import DsError, InvalidParameter

FILE_SIZE_MAX = 256 << 20

SiteName = Annotated[str, typer.Argument(metavar="SITE", help="Name of the site.")]
MachineName = Annotated[
    str, typer.Argument(metavar="MACHINE", help="Computer name of the machine.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = "Directory: machines, sites, links, distribution lists, routes."
    inner = group(app, "directory", "Queue manager", summary)
    inner.command("export")(export)
    inner.command("import")(import_file)
    inner.command("refresh")(refresh)
    inner.command("route")(route)
    machine = group(
        inner, "machine", "", "Queue managers and their addresses: create, list, delete."
    )
    machine.command("create")(add_machine)
    machine.command("list")(list_machines)
    machine.command("delete")(remove_machine)
    site = group(
        inner, "site", "", "Sites, groups of machines that reach each other: create, list, delete."
    )
    site.command("create")(add_site)
    site.command("list")(list_sites)
    site.command("delete")(remove_site)
    link = group(inner, "link", "", "Links between sites: create, list, delete.")
    link.command("create")(add_link)
    link.command("list")(list_links)
    link.command("delete")(remove_link)
    lists = group(inner, "list", "", "Distribution lists: create, list, delete.")
    lists.command("create")(add_list)
    lists.command("list")(list_lists)
    lists.command("delete")(remove_list)
    directory_names.register(inner)
    directory_join.register(inner)


# -- the whole of it


@talking
def export(
    remote: Remote,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="File to write (default: standard output)."),
    ] = None,
) -> None:
    """Write the whole directory as one TOML file, to review, keep and import elsewhere.

    Example: posthouse directory export directory.toml
    """
    document = document_of(remote)
    if file is not None:
        with whole_file(file) as out:
            out.write(written(document).encode())
        if remote.json:
            print_json({"file": str(file)})
        else:
            say(f"The directory is in {file}.")
    elif remote.json:
        print_json(document)
    else:
        for line in written(document).splitlines():
            say(line)


@talking
def import_file(
    remote: Remote,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File in the format of `directory export`.")
    ],
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete objects that the file does not have.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Change the directory to match a file. If anything in the file is wrong, nothing is changed.

    The entry of this queue manager and its own public queues are not changed.

    Example: posthouse directory import directory.toml --dry-run
    """
    document = read_file(file)
    if prune and not dry_run:
        confirm(lambda: f"Remove from the directory what {file} does not have?", yes)
    changed(remote, document, prune=prune, dry_run=dry_run)


@talking
def refresh(remote: Remote) -> None:
    """Read the shared directory now. Exit code 1 if it cannot be reached.

    Example: posthouse directory refresh
    """
    found = remote.ask(DirectoryStatusJson, "POST", path_of("directory", "refresh"))
    if remote.json:
        print_json(found)
    else:
        say(f"The directory is {directory_words(found)}.")
    raise typer.Exit(0 if found.online else 1)


@talking
def route(
    remote: Remote,
    source: MachineName,
    target: MachineName,
    dot: Annotated[
        bool, typer.Option("--dot", help="Print sites, links and the route as a Graphviz graph.")
    ] = False,
) -> None:
    """Show the route of messages from one machine to another, with the reason for each hop.

    Example: posthouse directory route ALPHA ALPHA
    """
    path, ends = path_of("directory", "route"), {"source": source, "target": target}
    try:
        found = remote.ask(RouteJson, "GET", path, query=ends)
    except DsError:
        if dot:  # where there is no way, people want to see why
            draw(remote, RouteJson(steps=[]))
        raise
    if dot:
        draw(remote, found)
    elif remote.json:
        for step in found.steps:
            print_json(step)
    elif not found.steps:
        say(f"{source} is {target}: nothing has to travel.")
    else:
        rows = (
            (str(at), step.source, step.target, step.rule) for at, step in enumerate(found.steps, 1)
        )
        print_table("", ("hop", "from", "to", "because"), rows)


def draw(remote: Remote, way: RouteJson) -> None:
    """Print the drawing of the directory with a way in it."""
    for line in drawn(document_of(remote), way):
        say(line)


def drawn(document: Document, way: RouteJson) -> list[str]:
    """Sites with their machines, links with their costs, the way in bold; in Graphviz's words."""
    lines = ["graph directory {", "  compound=true; node [shape=box];"]
    placed: set[str] = set()
    for at, site in enumerate(document.sites):
        lines.append(f"  subgraph cluster_{at} {{ label={_quoted(site.name)};")
        for machine in document.machines:
            if site.name in machine.sites and machine.name not in placed:
                placed.add(machine.name)
                lines.append(f"    {_quoted(machine.name)}{_shape(machine)};")
        lines.append(f"    {_quoted('site ' + site.name)} [shape=point];")
        lines.append("  }")
    rest = [machine for machine in document.machines if machine.name not in placed]
    lines += [f"  {_quoted(machine.name)}{_shape(machine)};" for machine in rest]
    for link in document.links:
        one, other = (_quoted(f"site {name}") for name in link.sites)
        lines.append(f"  {one} -- {other} [label={_quoted(str(link.cost))}, style=dashed];")
    for step in way.steps:
        ends = f"{_quoted(step.source)} -- {_quoted(step.target)}"
        lines.append(f"  {ends} [dir=forward, penwidth=3];")
    return [*lines, "}"]


def _shape(machine: MachinePart) -> str:
    return " [peripheries=2]" if machine.routing_server else ""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# -- machines


@talking
def add_machine(
    remote: Remote,
    name: Name,
    identifier: Annotated[
        str | None,
        typer.Argument(
            metavar="[GUID]",
            help="GUID of the queue manager, as `posthouse status` there shows it. Needed for a "
            "new machine only.",
        ),
    ] = None,
    address: Annotated[
        Many,
        typer.Option(
            "--address", help="Address of its listener, HOST or HOST:PORT; repeat it for several."
        ),
    ] = None,
    site: Annotated[
        Many, typer.Option("--site", help="Site of the machine; repeat it for several.")
    ] = None,
    dns_name: Annotated[
        str | None, typer.Option("--dns-name", help="Full DNS name of the machine.")
    ] = None,
    routing_server: Annotated[
        bool | None,
        typer.Option(
            "--routing-server/--no-routing-server",
            help="The machine is a routing server: it forwards messages of others.",
        ),
    ] = None,
    in_routing: Annotated[
        Many,
        typer.Option(
            "--in-routing",
            help="Routing server that all messages to the machine pass; repeat it for several.",
        ),
    ] = None,
    out_routing: Annotated[
        Many,
        typer.Option(
            "--out-routing",
            help="Routing server that all messages of the machine pass; repeat it for several.",
        ),
    ] = None,
    foreign: Annotated[
        bool | None,
        typer.Option(
            "--foreign/--no-foreign",
            help="The machine is a foreign system, which a connector serves.",
        ),
    ] = None,
) -> None:
    """Add a queue manager to the directory, or change its entry.

    Options that you leave out are not changed; an empty value, such as --site '', removes all.

    Example: posthouse directory machine create BETA 5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11
    """
    if not identifier:
        known = _known_machine(remote, name)
        name, identifier = known.name, known.guid
    said = given(
        addresses=address,
        sites=site,
        dns_name=dns_name,
        routing_server=routing_server,
        in_routing_servers=in_routing,
        out_routing_servers=out_routing,
        foreign=foreign,
    )
    part = MachinePart(name=name, guid=guid(identifier), **said)
    changed(remote, Document(machines=[part]), only=["name", *said])


def _known_machine(remote: Remote, name: str) -> MachinePart:
    for machine in document_of(remote).machines:
        if machine.name.casefold() == name.casefold():
            return machine
    raise InvalidParameter(
        f"the directory has no machine {name} yet",
        f"Add its identifier, which `posthouse status` shows there: machine create {name} GUID.",
    )


@talking
def list_machines(remote: Remote) -> None:
    """List the queue managers of the directory.

    Example: posthouse directory machine list
    """
    print_parts(
        remote,
        document_of(remote).machines,
        ("machine", "guid", "listens at", "sites", "kind"),
        lambda part: (
            part.name,
            part.guid,
            ", ".join(part.addresses) or part.dns_name,
            ", ".join(part.sites),
            "foreign" if part.foreign else "routing" if part.routing_server else "",
        ),
    )


@talking
def remove_machine(remote: Remote, name: Name, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a queue manager from the directory.

    Example: posthouse directory machine delete BETA --yes
    """
    remove_object(remote, "machine", name, dry_run, yes)


# -- sites


@talking
def add_site(
    remote: Remote,
    name: Name,
    foreign: Annotated[
        bool | None,
        typer.Option(
            "--foreign/--no-foreign", help="The machines of this site are foreign systems."
        ),
    ] = None,
) -> None:
    """Create a site, or change its entry.

    Example: posthouse directory site create Berlin
    """
    said = given(foreign=foreign)
    changed(remote, Document(sites=[SitePart(name=name, **said)]), only=["name", *said])


@talking
def list_sites(remote: Remote) -> None:
    """List the sites of the directory.

    Example: posthouse directory site list
    """
    document = document_of(remote)
    members: dict[str, list[str]] = {}
    for machine in document.machines:
        for name in machine.sites:
            members.setdefault(name, []).append(machine.name)
    print_parts(
        remote,
        document.sites,
        ("site", "guid", "machines", "kind"),
        lambda site: (
            site.name,
            site.guid,
            ", ".join(members.get(site.name, [])),
            "foreign" if site.foreign else "",
        ),
    )


@talking
def remove_site(remote: Remote, name: Name, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a site from the directory.

    Example: posthouse directory site delete Berlin --yes
    """
    remove_object(remote, "site", name, dry_run, yes)


# -- links


@talking
def add_link(
    remote: Remote,
    one: SiteName,
    other: SiteName,
    cost: Annotated[
        int | None,
        typer.Option(
            "--cost",
            min=ACTUAL_COST_MIN,
            max=ACTUAL_COST_MAX,
            help="Cost of the link; routes with the lowest cost are used (new links: 1).",
        ),
    ] = None,
    gate: Annotated[
        Many,
        typer.Option(
            "--gate", help="Routing server that is a site gate of the link; repeat it for several."
        ),
    ] = None,
    description: Annotated[str | None, typer.Option("--description", help="Description.")] = None,
) -> None:
    """Create a link between two sites, or change its cost and its site gates.

    Options that you leave out are not changed; an empty value, such as --gate '', removes all.

    Example: posthouse directory link create Berlin Hamburg --cost 5
    """
    said = given(cost=cost, gates=gate, description=description)
    changed(remote, Document(links=[LinkPart(sites=[one, other], **said)]), only=[*said])


@talking
def list_links(remote: Remote) -> None:
    """List the links between sites.

    Example: posthouse directory link list
    """
    print_parts(
        remote,
        document_of(remote).links,
        ("sites", "cost", "gates", "description"),
        lambda link: (
            " - ".join(link.sites),
            str(link.cost),
            ", ".join(link.gates),
            link.description,
        ),
    )


@talking
def remove_link(
    remote: Remote, one: SiteName, other: SiteName, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Delete a link from the directory.

    Example: posthouse directory link delete Berlin Hamburg --yes
    """
    remove_object(remote, "link", f"{one},{other}", dry_run, yes)


# -- distribution lists


@talking
def add_list(
    remote: Remote,
    name: Name,
    member: Annotated[
        Many,
        typer.Option(
            "--member",
            help="Member: format name, path of a public queue, list or alias; repeat it for "
            "several.",
        ),
    ] = None,
) -> None:
    """Create a distribution list, or replace its members. Messages to DL=GUID go to all of them.

    Example: posthouse directory list create Branches --member 'DIRECT=OS:beta\\private$\\orders'
    """
    said = given(members=member)
    changed(remote, Document(lists=[ListPart(name=name, **said)]), only=["name", *said])
    tell_where(remote, document_of(remote).lists, name)


@talking
def list_lists(remote: Remote) -> None:
    """List the distribution lists.

    Example: posthouse directory list list
    """
    print_parts(
        remote,
        document_of(remote).lists,
        ("list", "send to", "members"),
        lambda part: (part.name, f"DL={part.guid}", ", ".join(part.members)),
    )


@talking
def remove_list(remote: Remote, name: Name, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a distribution list from the directory.

    Example: posthouse directory list delete Branches --yes
    """
    remove_object(remote, "list", name, dry_run, yes)


def read_file(file: Path) -> Document:
    """The document of a file; what is wrong with it is told with its place."""
    try:
        if file.stat().st_size > FILE_SIZE_MAX:
            raise InvalidParameter(f"{file} is larger than {FILE_SIZE_MAX >> 20} MiB")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidParameter(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidParameter(f"{file} is not TOML: {error}", "Correct it there.") from error
    return parse_document(text, str(file))
