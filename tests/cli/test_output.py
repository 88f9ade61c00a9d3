"""Nothing a peer wrote may steer the terminal of whoever looks at it."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.cli import output
from posthouse.cli.output import (
    complain,
    json_line,
    partly,
    print_json,
    print_table,
    safe,
    say,
    take_over,
    whole_file,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("Aufträge", "Aufträge"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\r", "a\\nb\\r"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("\u2028", "\\u2028"),
    ],
)
def test_what_steers_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert safe(text) == shown


@given(st.text(st.characters()))
def test_any_text_becomes_printable(text: str) -> None:
    shown = safe(text)
    assert shown.encode().decode() == shown
    assert {unicodedata.category(character)[0] for character in shown} <= set("LMNPSZ")
    assert "\u2028" not in shown


def test_lines_go_where_they_belong(capsys: pytest.CaptureFixture[str]) -> None:
    say("good\x1b")
    complain("bad\x1b")
    assert capsys.readouterr() == ("good\\x1b\n", "bad\\x1b\n")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_survives_the_escapes(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setattr("sys.stdout.write", lines.append)
        print_json({"label": text})
    (line,) = lines
    assert json.loads(line) == {"label": text}
    assert safe(line[:-1]) == line[:-1]


def test_cells_of_a_table_are_escaped_and_never_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Queue", ["name", "count"], [["[red]a\x1b", "1"]])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["[red]a\\x1b", "1"] in rows


def test_long_cells_are_neither_cut_nor_wrapped_for_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table("Queue", ["name", "count"], [["q" * 500, "1"]])
    assert f"{'q' * 500}  1" in capsys.readouterr().out


def test_names_are_broken_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    print_table("", ("name", "label"), [("ALPHA\\private$\\orders;journal", "word " * 20)])
    assert "ALPHA\\private$\\orders;journal " in capsys.readouterr().out


def on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))


@given(
    st.lists(st.lists(st.text("ab 1$", max_size=30), min_size=6, max_size=6), max_size=4),
    st.integers(20, 120),
)
def test_no_value_is_dropped_however_narrow_the_terminal(rows: list[list[str]], width: int) -> None:
    out = io.StringIO()
    out.isatty = lambda: True  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("NO_COLOR", "1")
        patch.setenv("TERM", "dumb")
        patch.setattr(sys, "stdout", out)
        print_table("", [f"column {number}" for number in range(6)], rows)
    shown = out.getvalue()
    for letter in "ab1$":
        count = sum(cell.count(letter) for row in rows for cell in row)
        titles = shown.count("column 1") if letter == "1" else 0
        assert shown.count(letter) == count + titles


def test_a_table_that_does_not_fit_becomes_names_and_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_narrow_terminal(monkeypatch, 30)
    print_table("", ("queue", "messages", "bytes"), [("q" * 25, "1,000", "2")] * 2)
    record = f"queue     {'q' * 25}\nmessages  1,000\nbytes     2\n"
    assert capsys.readouterr().out == f"{record}\n{record}"


def test_long_texts_are_broken_before_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_narrow_terminal(monkeypatch, 40)
    monkeypatch.setenv("NO_COLOR", "1")
    print_table("", ("queue", "messages", "label"), [("orders", "1,234,567", "new orders " * 9)])
    assert "orders  1,234,567  new orders" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError(), "Sent 2 messages before this error:\n"),
        (KeyboardInterrupt(), "Sent 2 messages before Ctrl-C.\n"),
        (BrokenPipeError(), "Sent 2 messages before the output was closed.\n"),
    ],
)
def test_what_was_done_before_an_early_end_is_told(
    error: BaseException, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is printed of output that was closed: no error would follow a colon."""
    for done, shown in (("Sent 2 messages", told), ("", "")):
        with pytest.raises(type(error)), partly(lambda done=done: done):  # type: ignore[misc]
            raise error
        assert capsys.readouterr().err == shown


@pytest.mark.parametrize("may", [True, False])
def test_a_new_file_keeps_the_group_that_shares_it(
    may: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory of several queue managers, for example: its group could not read it any longer.

    Where the group cannot be given to a new file, the earlier one is written in place.
    """
    others = [one for one in os.getgroups() if one != os.getegid()]
    group = others[0] if others else (4711 if os.geteuid() == 0 else os.getegid())
    file = tmp_path / "directory.toml"
    file.write_bytes(b"earlier")
    os.chown(file, -1, group)
    file.chmod(0o660)
    before = file.stat()

    def refuse(handle: int, owner: int, group: int) -> None:
        raise PermissionError

    if not may:
        monkeypatch.setattr(os, "fchown", refuse)
    with whole_file(file) as out:
        closed = not may and group != os.getegid()
        assert os.fstat(out.fileno()).st_mode & 0o070 == (0 if closed else 0o060)
        out.write(b"new")
    after = file.stat()
    assert (file.read_bytes(), after.st_gid, after.st_mode) == (b"new", group, before.st_mode)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_file_that_nothing_can_replace_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is mounted into a container, or that of another user in /tmp."""
    file = tmp_path / "definitions.json"
    for number in (errno.EBUSY, errno.EPERM):

        def refuse(path: Path, target: Path, number: int = number) -> Path:
            raise OSError(number, os.strerror(number), str(path), None, str(target))

        file.write_bytes(b"earlier")
        before = file.stat().st_ino
        with monkeypatch.context() as patch, whole_file(file) as out:
            patch.setattr(Path, "replace", refuse)
            out.write(b"new")
        assert (file.read_bytes(), file.stat().st_ino) == (b"new", before)
        assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_links_are_followed_and_circles_of_them_are_not(tmp_path: Path) -> None:
    file, link, circle = (tmp_path / name for name in ("file", "link", "circle"))
    link.symlink_to(file)
    circle.symlink_to(circle)
    for path in (link, circle):
        with whole_file(path) as out:
            out.write(b"new")
    assert (file.read_bytes(), link.is_symlink(), circle.read_bytes()) == (b"new", True, b"new")


def test_a_new_file_is_private_from_the_first_instant_and_follows_no_link_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who opened it before it was closed to others could read all that is written then."""
    file, secret = tmp_path / "definitions.json", tmp_path / "secret"
    file.touch(0o600)
    secret.write_bytes(b"of someone")
    (tmp_path / "definitions.json.partial").symlink_to(secret)
    modes: list[int] = []

    def seen(handle: int, owner: int, group: int) -> None:
        modes.append(os.fstat(handle).st_mode & 0o777)

    monkeypatch.setattr(os, "fchown", seen)
    with whole_file(file) as out:
        out.write(b"new")
    assert modes == [0o600]
    assert (file.read_bytes(), secret.read_bytes()) == (b"new", b"of someone")
    assert sorted(path.name for path in tmp_path.iterdir()) == [file.name, secret.name]


@pytest.mark.parametrize(("mode", "left"), [(0o640, 0o600), (0o664, 0o644), (0o644, 0o644)])
def test_another_group_than_was_meant_gets_what_all_have(
    mode: int, left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows"
    file.touch(0o600)
    model = os.stat_result((mode, 0, 0, 1, os.geteuid(), os.getegid() + 1, 0, 0, 0, 0))

    def refuse(file: object, owner: int, group: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    with file.open("wb") as out:
        assert not take_over(out.fileno(), model)
    assert file.stat().st_mode & 0o777 == left


def test_what_could_not_be_written_in_place_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a mounted file whose file system is full: the earlier one is cut by then."""
    file = tmp_path / "definitions.json"
    file.write_text("earlier")

    def full(source: Path, target: Path) -> None:
        target.write_text("")
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr(output, "copyfile", full)
    monkeypatch.setattr(output, "_replaced", lambda path, by: False)
    kept = tmp_path / "definitions.json.partial"
    with pytest.raises(OSError, match=re.escape(str(kept))), whole_file(file) as out:
        out.write(b"new")
    assert kept.read_bytes() == b"new"


def test_json_of_ascii_alone_has_no_delete_character() -> None:
    assert json_line({"a": "b\x7fc"}) == '{"a":"b\\u007fc"}'
