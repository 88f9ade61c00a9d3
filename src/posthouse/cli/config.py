"""`posthouse config`: checks a file of settings, and shows what is in force."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from posthouse.cli.command import Json, group
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.exit_codes import WRONG_USAGE
from posthouse.cli.output import print_json, say
from posthouse.model.settings_kinds import SIZE
from posthouse.model.text import nearest
from posthouse.net.control_socket import default_home
from posthouse.runtime.settings.file import (
    SETTINGS_NAME,
    SettingsError,
    fields_of,
    is_section,
    read_settings,
    size_text,
    unit_of,
)
from posthouse.runtime.settings.settings import Settings

HomeOfFile = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="DIR",
        readable=False,
        help="Home with the posthouse.toml to read (default: $POSTHOUSE_HOME, or "
        "~/.local/share/posthouse).",
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="File of settings (default: posthouse.toml in the home)."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    inner = group(
        app, "config", "Installation", "Settings of a queue manager on this machine: check, show."
    )
    inner.command("check")(check)
    inner.command("show")(show)


def check(home: HomeOfFile = None, config: File = None, json: Json = False) -> None:
    """Check a file of settings, as `posthouse serve` does, without starting anything.

    Files that it names are read, and its addresses have to be those of this machine; ports that
    are in use are not looked at, since the queue manager itself may run. Exit code 2 if there is a
    mistake: each is a line with section, setting and what is allowed.

    Example: posthouse config check --config posthouse.toml
    """
    # Here, because TLS and Kerberos take longer to load than other commands take altogether.
    from posthouse.runtime.start_checks import start_faults

    settings, source, found = _read(home, config)
    if faults := start_faults(settings, (home or default_home()).absolute()):
        raise _wrong(SettingsError(str(source), faults))
    changed = sum(1 for _ in _changed(settings))
    if json:
        print_json({"file": str(source), "exists": found, "changed": changed, "problems": []})
    elif found:
        say(f"{source} is correct. Settings that differ from their defaults: {changed:,}.")
    else:
        say(f"There is no {source}: every setting has its default.")


def show(
    section: Annotated[
        str | None, typer.Argument(metavar="[SECTION]", help="Section, such as admin.")
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Show only settings that differ from their defaults.")
    ] = False,
    home: HomeOfFile = None,
    config: File = None,
    json: Json = False,
) -> None:
    """Show the settings that a start would use: those of the file, and the defaults of all others.

    The output is a file of settings itself. A running queue manager has the settings of its start.

    Example: posthouse config show --changed

    Example: posthouse config show admin
    """
    settings, _, _ = _read(home, config)
    names = [name for name, _, _ in _sections(settings)]
    if section is not None and section not in names:
        raise typer.BadParameter(
            f"there is no section [{section}]; the nearest is [{nearest(section, names)}]"
        )
    chosen = [one for one in _sections(settings) if section is None or _is_in(one[0], section)]
    if json:
        print_json({name: _values(now, usual, changed) for name, now, usual in chosen})
        return
    blocks = ("\n".join(_lines(*one, changed)) for one in chosen)
    say_all("\n\n".join(filter(None, blocks)))


def say_all(text: str) -> None:
    """Lines of text."""
    for line in text.split("\n") if text else ():
        say(line)


def _is_in(name: str, section: str) -> bool:
    return name == section or name.startswith(f"{section}.")


def _read(home: Path | None, config: Path | None) -> tuple[Settings, Path, bool]:
    """The settings, their file, and whether it is there; ends the command if it is wrong."""
    source = config or (home or default_home()) / SETTINGS_NAME
    try:
        return read_settings(source, must_exist=config is not None), source, source.exists()
    except SettingsError as error:
        raise _wrong(error) from None


def _wrong(error: SettingsError) -> CommandFailed:
    return CommandFailed(str(error), exit_code=WRONG_USAGE, name="WRONG_SETTINGS")


def _sections(settings: Settings) -> Iterator[tuple[str, Any, Any]]:
    """Each section with its name, as it is and as it is by default; inner ones after their own."""
    for name in fields_of(Settings):
        yield from _with_inner(name, getattr(settings, name), getattr(Settings(), name))


def _with_inner(name: str, now: Any, usual: Any) -> Iterator[tuple[str, Any, Any]]:
    yield name, now, usual
    for key, kind in fields_of(type(now)).items():
        if is_section(kind):
            yield from _with_inner(f"{name}.{key}", getattr(now, key), getattr(usual, key))


def _changed(settings: Settings) -> Iterator[str]:
    """The names of the settings that are not the default."""
    for name, now, usual in _sections(settings):
        yield from (f"{name}.{key}" for key in _values(now, usual, changed=True))


def _values(now: Any, usual: Any, changed: bool) -> dict[str, Any]:
    """The settings of a section, without the sections in it."""
    return {
        key: getattr(now, key)
        for key, kind in fields_of(type(now)).items()
        if not is_section(kind) and not (changed and getattr(now, key) == getattr(usual, key))
    }


def _lines(name: str, now: Any, usual: Any, changed: bool) -> Iterator[str]:
    """A section as TOML. Settings that have no value are comments."""
    values = _values(now, usual, changed)
    if not values:
        return
    kinds = fields_of(type(now))
    yield f"[{name}]"
    for key, value in values.items():
        if value is None:
            yield f"# {key} is not set"
        else:
            yield f"{key} = {_toml(value, unit_of(kinds[key]))}"


def _toml(value: Any, unit: str) -> str:
    if unit == SIZE and isinstance(value, int):
        text = size_text(value)
        return text if text.isdigit() else f'"{text}"'
    if isinstance(value, dict):
        pairs = ", ".join(f"{_text(key)} = {_toml(inner, '')}" for key, inner in value.items())
        return f"{{{pairs}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(inner, '') for inner in value)}]"
    return _text(value)


def _text(value: Any) -> str:
    """Texts, numbers and truth are written as in JSON; DEL is the one difference."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
