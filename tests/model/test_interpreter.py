"""Which interpreter runs this: how it was built, and which one `make` takes."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from posthouse.model.interpreter import build, describe, shown_flags
from tools.choose_python import Interpreter, candidates, choose, look_at
from tools.choose_python import describe as describe_choice


@pytest.mark.parametrize(
    ("arguments", "flags", "prefix", "expected"),
    [
        ("'--enable-optimizations'", "-O3", "/opt/python", "optimised"),
        ("'--with-lto'", "-O3", "/opt/python", "optimised"),
        ("", "-O2 -flto -fprofile-use", "/opt/python", "optimised"),
        ("'--enable-shared'", "-O2", "/usr", "distribution"),
        ("'--enable-shared'", "-O3", "/opt/versions/3.11", "plain"),
    ],
)
def test_a_build_is_known_by_what_it_records(
    arguments: str, flags: str, prefix: str, expected: str
) -> None:
    assert build(arguments, flags, prefix) == expected


def test_flags_that_count_are_shown() -> None:
    arguments = "'--enable-optimizations' '--prefix=/x' '--with-lto' '--enable-shared'"
    assert shown_flags(arguments, "-O1 -g -O2") == [
        "-O2",
        "--enable-optimizations",
        "--with-lto",
        "--enable-shared",
    ]
    assert shown_flags("", "") == []


def test_this_interpreter_is_described() -> None:
    assert describe().startswith(f"{platform.python_implementation()} {platform.python_version()},")


FIRST = Interpreter("/first/python3", (3, 11, 7), 1.0)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (Interpreter("/second/python3", (3, 11, 2), 0.8), "/second/python3"),
        (Interpreter("/second/python3", (3, 11, 2), 0.95), "/first/python3"),
        (Interpreter("/second/python3", (3, 13, 0), 0.5), "/first/python3"),  # another release
    ],
)
def test_another_one_has_to_be_clearly_quicker(other: Interpreter, expected: str) -> None:
    chosen = choose([FIRST, other])
    assert chosen is not None
    assert chosen.path == expected


def test_none_is_chosen_of_none() -> None:
    assert choose([]) is None


def test_the_choice_states_what_it_was_compared_with() -> None:
    other = Interpreter("/second/python3", (3, 11, 2), 0.5)
    assert describe_choice(other, [FIRST, other]) == (
        "using /second/python3, Python 3.11.2 (/first/python3 takes 2.00 times as long)"
    )


def test_what_is_no_interpreter_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.choose_python.ROUNDS", 1)
    for name, text in {
        "old": '#!/bin/sh\necho "/old|3|10|1|0.1"\n',
        "broken": "#!/bin/sh\nexit 1\n",
        "good": '#!/bin/sh\necho "/good|3|12|1|0.1"\n',
    }.items():
        (tmp_path / name).mkdir()
        program = tmp_path / name / "python3"
        program.write_text(text)
        program.chmod(0o755)
    (tmp_path / "empty").mkdir()
    folders = [tmp_path / name for name in ("empty", "old", "broken", "good", "good")]
    assert [one.path for one in candidates(":".join(map(str, folders)))] == ["/good"]


def test_this_interpreter_can_be_looked_at() -> None:
    found = look_at(sys.executable)
    assert found is not None
    assert found.version == sys.version_info[:3]
    assert found.seconds > 0
