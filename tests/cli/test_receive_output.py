"""What `posthouse receive` and `posthouse peek` write: raw bodies, templates, files; and where not.

A message leaves its queue only after it has been written.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from posthouse.cli import main
from tests.cli.conftest import OUTPUT_MODES, Posthouse, closed_pipe, full_device, run_into
from tests.client.serving import Serving

ORDERS = "./private$/orders"


@pytest.fixture(autouse=True)
def orders(ph: Posthouse) -> None:
    ph("queue", "create", ORDERS)
    ph("queue", "purge", ORDERS)


def send(ph: Posthouse, *bodies: str) -> None:
    ph("send", ORDERS, "--lines", "-", stdin="\n".join(bodies).encode())


def waiting(ph: Posthouse) -> int:
    count: int = ph("queue", "show", ORDERS, "--json").value["messages"]
    return count


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def raw(*words: str, kind: type[io.TextIOWrapper] = io.TextIOWrapper) -> tuple[int, bytes]:
    """The exit code of a command line, and the bytes that it writes."""
    said = io.BytesIO()
    with contextlib.redirect_stdout(kind(said, "utf-8", write_through=True)):
        code = main.run(words)
        return code, said.getvalue()


# -- raw bodies


def test_raw_bodies_are_written_byte_for_byte(ph: Posthouse) -> None:
    body = b"\xef\xbb\xbf\x00\x1b[2J\r\n" + bytes(range(256)) * 5000
    ph("send", ORDERS, "--body-file", "-", stdin=body)
    assert raw("receive", ORDERS, "--raw") == (0, body)
    assert waiting(ph) == 0


@pytest.mark.parametrize(
    ("options", "written"),
    [
        (["--count", "9"], b"one\ntwo\n"),
        (["--count", "9", "--separator", ""], b"onetwo"),
        (["--count", "9", "--separator", r"\0"], b"one\0two\0"),
        (["--count", "9", "--separator", r"\r\t\\\xff;"], b"one\r\t\\\xff;two\r\t\\\xff;"),
        (["-f", "--count", "2"], b"one\ntwo\n"),
        ([], b"one"),
        (["--separator", r"\n"], b"one\n"),
    ],
)
def test_separators(ph: Posthouse, options: list[str], written: bytes) -> None:
    send(ph, "one", "two")
    assert raw("peek", ORDERS, "--raw", *options) == (0, written)
    assert raw("receive", ORDERS, "--raw", *options) == (0, written)


def test_raw_bodies_cannot_steer_a_terminal(ph: Posthouse) -> None:
    ph("send", ORDERS, "--body-file", "-", stdin=b"a\x1b[2J\nb\xff\x9b")
    shown = b"a\\x1b[2J\nb\\xff\\x9b"
    assert raw("receive", ORDERS, "--raw", kind=Terminal) == (0, shown)


# -- templates


def test_a_template_prints_the_fields_of_the_message_json(ph: Posthouse) -> None:
    ph("send", ORDERS, "--body", "one\ntwo", "--label", "order\x1b")
    ph("send", ORDERS, "--body-file", "-", stdin=b"\x00\xff")
    template = r"{{{label}}} {class} {priority}\t{body_text} {body} {encrypted}"
    template += "{time_to_be_received}"
    said = ph("receive", ORDERS, "--count", "5", "--format", template)
    assert said.out.splitlines() == [
        r"{order\x1b} normal 3" + "\t" + r"one\ntwo b25lCnR3bw== false",
        "{} normal 3\t00 ff AP8= false",
    ]


def test_every_field_can_be_in_a_template(ph: Posthouse) -> None:
    send(ph, "x")
    for name, value in ph("peek", ORDERS, "--json").value.items():
        said = ph("peek", ORDERS, "--format", f"<{{{name}}}>").out
        if name == "decoded":
            assert said == f"<{value['text']}>\n"
        elif isinstance(value, str | int) and not isinstance(value, bool):
            assert said == f"<{value}>\n"
        else:
            assert said in ("<>\n", "<true>\n", "<false>\n")


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{lable}", "did you mean {label}?"),
        ("{zzz}", "there are id, lookup_id, queue, "),
        ("{}", "there are id, "),
        ("{label.upper}", "did you mean {label}?"),
        ("{label:>9}", "{label} stands alone"),
        ("{label!r}", "{label} stands alone"),
        ("{label", "expected '}'"),
        ("label", "names no field"),
        (r"{label}\q", r"\q is not an escape"),
    ],
)
def test_a_template_that_cannot_be_is_refused_before_anything_is_taken(
    ph: Posthouse, template: str, told: str
) -> None:
    send(ph, "x")
    refused = ph("receive", ORDERS, "--format", template)
    assert (refused.code, refused.out) == (2, "")
    assert told in refused.err
    assert waiting(ph) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ["--raw", "--format", "{id}"],
        ["--raw", "--out", "folder"],
        ["--format", "{id}", "--out", "folder"],
        ["--raw", "--json"],
        ["--format", "{id}", "--json"],
        ["--separator", ";"],
        ["--raw", "--separator", "\\"],
        ["--out", "/dev/null"],
        ["--out", "/no/such/folder/here"],
        ["--out", "folder", "--lookup-id", "1", "--count", "2"],
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_taken(
    ph: Posthouse, wrong: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    send(ph, "x")
    for verb in ("receive", "peek"):
        refused = ph(verb, ORDERS, *wrong)
        assert (refused.code, refused.out) == (2, "")
    assert waiting(ph) == 1
    assert list(tmp_path.iterdir()) == []


# -- files


def test_a_file_for_each_body_and_its_properties_beside_it(ph: Posthouse, tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    ph("send", ORDERS, "--lines", "-", "--label", "order", stdin=b"one\ntwo")
    peeked = ph("peek", ORDERS, "--count", "2", "--json").lines
    said = ph("receive", ORDERS, "--count", "9", "--out", folder)
    files = sorted(folder.glob("*.body"))
    assert said.out.splitlines() == list(map(str, files))
    assert [file.read_bytes() for file in files] == [b"one", b"two"]
    for file, message in zip(files, peeked, strict=True):
        properties = json.loads(file.with_suffix(".json").read_text())
        del message["decoded"]
        assert properties == message | {"body": None, "body_text": None, "body_file": file.name}
    assert len(list(folder.iterdir())) == 4
    assert waiting(ph) == 0


def test_files_and_a_new_folder_are_private(ph: Posthouse, tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    before = os.umask(0)
    try:
        for _ in range(2):
            send(ph, "x")
            assert ph("receive", ORDERS, "--out", folder).code == 0
            (tmp_path / "orders").chmod(0o755)  # as it was shared by its owner
            modes = {file.stat().st_mode & 0o777 for file in folder.iterdir()}
            assert modes == {0o600}
        assert folder.stat().st_mode & 0o777 == 0o755
        assert ph("peek", ORDERS, "--out", tmp_path / "empty").code == 4
        assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_later_files_sort_after_earlier_ones_and_nothing_is_overwritten(
    ph: Posthouse, tmp_path: Path
) -> None:
    (tmp_path / "0000000007-1.json").write_text("mine")
    (tmp_path / "note.txt").write_text("mine")
    for body in ("one", "two", "three"):
        send(ph, body)
        shown = ph("peek", ORDERS, "--out", tmp_path, "--json").value
        assert Path(shown["body_file"]).read_bytes() == body.encode()
        assert Path(shown["properties_file"]).exists()
        ph("receive", ORDERS, "--out", tmp_path)
    bodies = [file.read_bytes() for file in sorted(tmp_path.glob("*.body"))]
    assert bodies == [b"one", b"one", b"two", b"two", b"three", b"three"]
    assert (tmp_path / "0000000007-1.json").read_text() == "mine"


def test_files_are_imported_again(ph: Posthouse, tmp_path: Path) -> None:
    bodies = [b"\x00\xff", b"", b"text"]
    for body in bodies:
        ph("send", ORDERS, "--body-file", "-", "--label", "kept", stdin=body)
    ph("receive", ORDERS, "--count", "3", "--out", tmp_path)
    assert ph("message", "import", tmp_path, ORDERS, "--json").value["messages"] == 3
    messages = ph("receive", ORDERS, "--count", "3", "--json").lines
    assert [base64.b64decode(one["body"]) for one in messages] == bodies
    assert {one["label"] for one in messages} == {"kept"}
    alone = min(tmp_path.glob("*.json")).read_bytes()
    refused = ph("message", "import", "-", ORDERS, stdin=alone)
    assert refused.code == 1
    assert "line 1: the message has a body of 2 bytes, and it is not in the line" in refused.err
    assert waiting(ph) == 0


def test_files_are_on_disk_before_the_message_leaves_its_queue(
    ph: Posthouse, server: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, int]] = []
    sync = os.fsync
    send(ph, "one")

    def watched(descriptor: int) -> None:
        sync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_relative_to(tmp_path):
            synced.append((path.suffix or path.name, there(server)))

    monkeypatch.setattr(os, "fsync", watched)
    assert ph("receive", ORDERS, "--out", tmp_path / "orders").code == 0
    files = [tmp_path.name, ".body", ".partial", "orders"]
    assert synced == [(name, 1) for name in files]
    assert there(server) == 0


def there(server: Serving) -> int:
    """Messages in all queues, those that are being received included."""
    return server.ask(lambda manager: sum(queue.state.count for queue in manager.queues.all()))


# -- output that cannot be written


@pytest.mark.parametrize(
    ("choice", "output"),
    [
        ("one", full_device),
        ("many", full_device),
        ("many", closed_pipe),
        ("following", closed_pipe),
        ("lookup", full_device),
    ],
)
@pytest.mark.parametrize("mode", OUTPUT_MODES, ids=" ".join)
def test_what_cannot_be_printed_stays_in_the_queue(
    ph: Posthouse,
    output: Callable[[], io.TextIOWrapper],
    mode: list[str],
    choice: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    send(ph, "one", "two", "three")
    lookup_id = str(ph("peek", ORDERS, "--json").value["lookup_id"])
    options = {
        "one": [],
        "many": ["--count", "3"],
        "following": ["--follow"],
        "lookup": ["--lookup-id", lookup_id],
    }
    assert run_into(output(), "receive", ORDERS, *options[choice], *mode) == 1
    messages = ph("receive", ORDERS, "--count", "9", "--json").lines
    assert [message["body_text"] for message in messages] == ["one", "two", "three"]


def test_a_full_output_is_an_error_that_says_where_the_message_is(
    ph: Posthouse, capsys: pytest.CaptureFixture[str]
) -> None:
    send(ph, "one")
    assert run_into(full_device(), "receive", ORDERS) == 1
    assert capsys.readouterr().err == (
        "The message could not be written; it stays in the queue.\n"
        "standard output: No space left on device\n"
    )


class Second(io.RawIOBase):
    """Takes the first write; the second fails."""

    def __init__(self, failure: BaseException) -> None:
        self.taken: list[bytes] = []
        self._failures = iter([failure])

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        if self.taken:
            raise next(self._failures, OSError(5, "closed"))
        self.taken.append(bytes(data))  # type: ignore[call-overload]
        return len(self.taken[0])


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (OSError(28, "No space left on device"), "it stays in the queue"),
        (KeyboardInterrupt(), "Interrupted after 1 message; the others are still in the queue."),
    ],
)
def test_what_was_printed_before_is_gone_and_the_rest_stays(
    ph: Posthouse, capsys: pytest.CaptureFixture[str], failure: BaseException, told: str
) -> None:
    send(ph, "one", "two", "three")
    device = Second(failure)
    stream = io.TextIOWrapper(io.BufferedWriter(device), "utf-8")
    assert run_into(stream, "receive", ORDERS, "--count", "3", "--raw") == 1
    assert device.taken == [b"one\n"]
    assert told in capsys.readouterr().err
    messages = ph("receive", ORDERS, "--count", "9", "--json").lines
    assert [message["body_text"] for message in messages] == ["two", "three"]
