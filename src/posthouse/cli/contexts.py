"""Which queue manager a command uses: options, environment, and named contexts.

A context is a home, or an admin endpoint with its token file and certificates. They are kept in
`contexts.json`, one file for each user. Standard library only: the completion of words reads it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

CONTEXT_VARIABLE: Final = "POSTHOUSE_CONTEXT"
URL_VARIABLE: Final = "POSTHOUSE_URL"
HOME_VARIABLE: Final = "POSTHOUSE_HOME"
FILE_NAME: Final = "contexts.json"
FILE_SIZE_MAX: Final = 1 << 20
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class ContextError(Exception):
    """A context that cannot be used; the text has the cause and the remedy."""


class Target(NamedTuple):
    """How a queue manager is reached. Without a home and a URL it is the default home."""

    home: Path | None = None
    url: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None

    @property
    def values(self) -> dict[str, str]:
        """What is set, as the file and `--json` have it."""
        return {name: str(value) for name, value in self._asdict().items() if value is not None}


class Contexts(NamedTuple):
    """The contexts of a user, and the one in use; empty: none."""

    targets: dict[str, Target]
    current: str = ""

    def find(self, name: str) -> Target:
        """The context of a name."""
        if name not in self.targets:
            known = ", ".join(sorted(self.targets)) or "none"
            raise ContextError(
                f"there is no context {name!r}; there are: {known}. "
                "`posthouse context create` adds one."
            )
        return self.targets[name]


def contexts_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the contexts of this user are."""
    base = environment.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base else Path.home() / ".config") / "posthouse" / FILE_NAME


def read_contexts(file: Path) -> Contexts:
    """The contexts of a file; none where there is no file."""
    try:
        with file.open("rb") as stream:
            data = stream.read(FILE_SIZE_MAX + 1)
    except FileNotFoundError:
        return Contexts({})
    except OSError as error:
        raise ContextError(f"{file}: {error.strerror}. Make it readable, or remove it.") from None
    if len(data) > FILE_SIZE_MAX:
        raise ContextError(f"{file} is larger than {FILE_SIZE_MAX:,} bytes. Remove it.")
    try:
        return _parsed(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise ContextError(f"{file}: {error}. Correct the file, or remove it.") from None


def _parsed(value: Any) -> Contexts:
    if not isinstance(value, dict) or not isinstance(value.get("contexts"), dict):
        raise ValueError("this is not a file of contexts")
    targets = {name: _target(name, given) for name, given in value["contexts"].items()}
    current = value.get("current", "")
    if not isinstance(current, str) or (current and current not in targets):
        raise ValueError(f"the context in use, {current!r}, is not there")
    return Contexts(targets, current)


def _target(name: str, given: Any) -> Target:
    if not NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not the name of a context")
    if not isinstance(given, dict) or not all(isinstance(one, str) for one in given.values()):
        raise ValueError(f"the context {name} is not a table of texts")
    unknown = [key for key in given if key not in Target._fields]
    if unknown:
        raise ValueError(f"the context {name} has an unknown entry {unknown[0][:80]!r}")
    paths = {key: Path(given[key]) for key in given if key != "url"}
    target = Target(url=given.get("url"), **paths)
    if (target.home is None) == (target.url is None):
        raise ValueError(f"the context {name} needs a home or a url, and not both")
    if target.url is None and (target.token_file or target.ca_file):
        raise ValueError(f"the context {name} has a token or certificates without a url")
    return target


def write_contexts(file: Path, contexts: Contexts) -> None:
    """Replace the file: at every moment it is the old one or the new one, and the user's alone."""
    targets = {name: target.values for name, target in sorted(contexts.targets.items())}
    text = json.dumps({"current": contexts.current, "contexts": targets}, indent=2) + "\n"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(prefix=f".{FILE_NAME}-", dir=file.parent)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ContextError(f"{file} cannot be written: {error.strerror}.") from None


def chosen(
    given: Target, context: str | None, environment: Mapping[str, str] = os.environ
) -> Target:
    """The queue manager that is meant: options, then the environment, then the context in use."""
    if given.home is not None and given.url is not None:
        raise ContextError("give --home or --url, not both")
    if context is not None and (given.home is not None or given.url is not None):
        raise ContextError("give --context, or --home or --url, not both")
    target = given if given.home or given.url else _implied(context, environment)
    extra = Target(token_file=given.token_file, ca_file=given.ca_file).values
    if extra and target.url is None:
        option = "--" + next(iter(extra)).replace("_", "-")
        raise ContextError(f"{option} goes with --url; the control socket needs none")
    return target._replace(
        token_file=given.token_file or target.token_file, ca_file=given.ca_file or target.ca_file
    )


def _implied(context: str | None, environment: Mapping[str, str]) -> Target:
    url, home = environment.get(URL_VARIABLE, ""), environment.get(HOME_VARIABLE, "")
    name = context or environment.get(CONTEXT_VARIABLE, "")
    if name:
        return read_contexts(contexts_file(environment)).find(name)
    if url and home:
        raise ContextError(
            f"${URL_VARIABLE} and ${HOME_VARIABLE} are both set, and name two queue managers. "
            "Unset one of them, or give --home or --url."
        )
    if url:
        return Target(url=url)
    if home:
        return Target()
    contexts = read_contexts(contexts_file(environment))
    return contexts.targets[contexts.current] if contexts.current else Target()
