"""The command line beside a real server: terminals, pipes, signals, every example as printed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

import posthouse
from posthouse.cli import main
from posthouse.cli.commands_page import example
from posthouse.cli.contexts import Contexts, Target, contexts_file, write_contexts
from posthouse.cli.exit_codes import NOTHING_THERE
from posthouse.cli.verbs import commands
from posthouse.security.certificates import make_certificate, make_private_key
from posthouse.wire.binary.internal import establish_connection
from tests.process.serving import Serving
from tests.support.capture_files import conversation, pcap, timed

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "posthouse.cli.main"]
ORDERS = "./private$/orders"
ORDER_BIN = ROOT / "tests" / "vectors" / "formats" / "nrbf-class.body"
PEER = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11"
EXAMPLES = {name: example(command) for name, command in commands(main.program(), "posthouse")}
DIRECTORY = {
    "sites": [{"name": "Berlin"}, {"name": "Hamburg"}],
    "links": [{"sites": ["Berlin", "Hamburg"]}],
    "machines": [{"name": "BETA", "guid": PEER}],
    "lists": [{"name": "Branches"}],
    "queues": [{"path": "BETA\\orders", "guid": "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b77"}],
    "aliases": [{"name": "Till", "queue": "BETA\\orders"}],
    "users": [{"sid": "S-1-5-21-1-2-3-1001", "name": "Ada"}],
}
CERTIFICATE = make_certificate(make_private_key(1024), "Ada", int(datetime.now(UTC).timestamp()), 9)
# These run a while, and have tests of their own.
ELSEWHERE = {
    "posthouse serve",
    "posthouse bench",
    "posthouse demo",
    "posthouse exporter",  # tests/process/test_exporter.py
    "posthouse top",  # tests/cli/test_top.py
    "posthouse scan",  # tests/cli/test_scan.py
    "posthouse migrate pull",  # tests/cli/test_migrate.py
    "posthouse migrate switch",
    "posthouse migrate verify",
    "posthouse pipeline conform",  # tests/spark/test_conform.py
    "posthouse pipeline rehearse",  # tests/spark/test_rehearsal.py
    "posthouse pipeline run",  # tests/spark/test_run_examples.py
    "posthouse job server spark",  # tests/process/test_job_spark.py
    "posthouse directory join",  # tests/process/test_openldap_managers.py
}
# These name something that is not there.
NO_MESSAGE = {"posthouse message explain", "posthouse message show"}
REFUSED = {
    "posthouse cert delete",
    "posthouse damage accept",
    "posthouse lease end 7d0c",
    "posthouse migrate forget",
    "posthouse operation delete",
    "posthouse operation resume",
    "posthouse operation show",
    "posthouse operation stop",
    "posthouse pipeline checkpoint move",
    "posthouse pipeline checkpoint rebase",
    "posthouse pipeline checkpoint show",
    "posthouse pipeline settle",
    "posthouse transaction commit",
    "posthouse transaction abort",
    "posthouse token delete",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("serving"), "--name", "ALPHA") as running:
        running.ready()
        yield running


@pytest.fixture(autouse=True)
def home(server: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the server; whatever they write goes into a folder of the test."""
    monkeypatch.setenv("POSTHOUSE_HOME", str(server.home))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def quietly(*words: str) -> int:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return main.run(list(words))


# -- the examples


def run_line(line: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """A line as a shell runs it, with `<` and `>`."""
    words, given, taken = list[str](), io.BytesIO(), ""
    rest = iter(shlex.split(line))
    for word in rest:
        if word == "<":
            given = io.BytesIO(Path(next(rest)).read_bytes())
        elif word == ">":
            taken = str(Path(next(rest)).expanduser())
        else:
            words.append(str(Path(word).expanduser()) if word.startswith("~") else word)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given))
    said = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(said, "utf-8", write_through=True)):
        code = main.run(words[1:])
        if taken:
            Path(taken).write_bytes(said.getvalue())
    return code


def prepare(folder: Path) -> None:
    """What the examples take for granted."""
    with posthouse.connect() as qm:
        with contextlib.suppress(posthouse.QueueError):
            qm.delete_queue(ORDERS)  # one that an example made may be transactional
        for name in ("audit", "error", "in", "orders"):
            queue = qm.create_queue(f"./private$/{name}", exist_ok=True)
        queue.send(b"x", dead_letter=True)
        (folder / "message.bin").write_bytes(queue.peek(0).packet)
        qm.queue("DIRECT=OS:beta\\private$\\orders").send(b"x")
        with contextlib.suppress(posthouse.QueueError):
            qm.call("POST", "/users", {"name": "alice"})
        with contextlib.suppress(posthouse.QueueError):
            qm.call("DELETE", "/peers/BETA")
        qm.call("POST", "/directory", {"document": DIRECTORY})
    machine = {"host": "winhost", "time": "2026-11-17T12:00:00Z", "reached": True}
    inventory = {"format": "posthouse inventory", "version": 1, "made": "", "machines": [machine]}
    (folder / "inventory.json").write_text(json.dumps(inventory))
    (folder / "ada.pem").write_bytes(CERTIFICATE)
    (folder / "prod.token").write_text("x" * 40)
    write_contexts(contexts_file(), Contexts({"prod": Target(url="http://127.0.0.1:1")}, "prod"))
    (folder / "directory.toml").write_text('[[sites]]\nname = "Berlin"\n')
    (folder / "orders.jsonl").write_text('{"body_text": "x"}\n')
    (folder / "order.xml").write_text("<order/>")
    (folder / "order.bin").write_bytes(ORDER_BIN.read_bytes())
    hello = establish_connection(bytes(16), time_stamp=1)
    (folder / "capture.pcap").write_bytes(pcap(timed(conversation((True, hello)))))
    (folder / "password.txt").write_text("correct horse\n")
    (folder / ".local/share/bash-completion/completions").mkdir(parents=True)


def make_jobs(folder: Path, name: str) -> None:
    """A job queue REPORTS with one job, and what else the examples of jobs name."""
    (folder / "query.sql").write_text("SELECT 1")
    everyone = ("EVERYONE", "GROUP_MEMBERS", "SUPERVISOR", "--type", "group")
    quietly("bindery", "set", "add", *everyone)
    for queue in ("REPORTS", "NIGHTLY"):
        quietly("job", "queue", "delete", queue, "--yes")
        if name != "posthouse job queue create":
            quietly("job", "queue", "create", queue)
    quietly("job", "submit", "REPORTS", "query.sql")
    if name == "posthouse job queue allow":
        quietly("job", "queue", "deny", "REPORTS", "users", "SUPERVISOR")
    if name == "posthouse job queue deny":
        quietly("job", "queue", "allow", "REPORTS", "users", "SUPERVISOR")
    if name == "posthouse job watch":
        words = ("--queue", "REPORTS", "--enrol", "--jobs", "1", "--", "true")
        quietly("job", "server", "run", "COUNTER", *words)


def make_bindery(name: str) -> None:
    """The objects that the examples of the bindery name."""
    noun = name.removeprefix("posthouse bindery ")
    for server in ("SPARK1", "SPARK2"):
        quietly("bindery", "object", "delete", server, "--type", "job_server", "--yes")
    if noun in ("object set", "passwd"):
        quietly("bindery", "object", "create", "SPARK1", "--type", "job_server")
    if noun == "object delete":
        quietly("bindery", "object", "create", "SPARK2", "--type", "job_server")
    quietly("bindery", "property", "delete", "SUPERVISOR", "ROOM", "--yes")
    if noun.startswith("property") and noun != "property create":
        quietly("bindery", "property", "create", "SUPERVISOR", "ROOM")
    member = ("EVERYONE", "GROUP_MEMBERS", "SUPERVISOR", "--type", "group")
    quietly("bindery", "set", "remove" if noun == "set add" else "add", *member)


def make_group() -> None:
    """A group whose reader has ended."""
    with posthouse.connect() as qm:
        lease = f"/queues/{quote(ORDERS, safe='')}/groups/archive/lease"
        body = {"mode": "observe", "owner": "somebody", "end": False}
        epoch = qm.call("POST", lease, body)["epoch"]
        qm.call("POST", lease, body | {"epoch": epoch, "end": True})


def sealed_certificate(password: bytes) -> bytes:
    """A certificate and its private key, as other programs hand them out."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "alice")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    now = datetime.now(UTC)
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    certificate = builder.sign(key, hashes.SHA256())
    seal = serialization.BestAvailableEncryption(password)
    return pkcs12.serialize_key_and_certificates(b"alice", key, certificate, None, seal)


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - ELSEWHERE))
def test_the_example_in_the_help_works(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if name.startswith("posthouse pipeline"):
        request.getfixturevalue("spark")  # which the command finds, and uses
    prepare(tmp_path)
    if name == "posthouse config check":
        (tmp_path / "posthouse.toml").write_text("[log]\nlevel = 'info'\n")
    if name.startswith("posthouse definitions"):
        quietly("definitions", "export", "--output", "definitions.json")
    if name == "posthouse operation start":
        quietly("send", ORDERS, "--body", "x", "--count", "2")
        quietly("message", "move", ORDERS, f"{ORDERS};failed", "--where", "priority < 8")
    if name in ("posthouse restore", "posthouse doctor"):
        quietly("backup", "./backup-monday")
    if name == "posthouse doctor":
        quietly("restore", "./backup-monday", "--home", ".local/share/posthouse")
    if name == "posthouse rename":
        posthouse.open("./alpha", name="ALPHA").close()
    if name == "posthouse message export":
        (tmp_path / "orders.jsonl").unlink()
    if name == "posthouse message return":
        quietly("message", "move", ORDERS, f"{ORDERS};poison", "--where", "priority < 8")
    if name == "posthouse queue create":
        quietly("queue", "delete", ORDERS)
    if name == "posthouse queue set":
        quietly("queue", "create", "./private$/bills", "--transactional")
    if name in ("posthouse failures", "posthouse message return"):
        quietly("queue", "create", "./private$/error", "--transactional")
        quietly("send", ORDERS, "--body", "x", "--label", "order 1")
        quietly("message", "move", ORDERS, f"{ORDERS};poison")
    if name == "posthouse peer delete":
        quietly("peer", "add", "BETA", PEER, "http://beta:8816")
    if name in ("posthouse cert export", "posthouse cert trust"):
        quietly("cert", "make")
        quietly("cert", "export", "beta.json")
        keys = json.loads((tmp_path / "beta.json").read_text())
        (tmp_path / "beta.json").write_text(json.dumps(keys | {"name": "BETA", "guid": PEER}))
    if name == "posthouse cert import":
        (tmp_path / "alice.p12").write_bytes(sealed_certificate(b"correct horse"))
    if name == "posthouse user create":
        quietly("user", "delete", "alice")
    if name.startswith("posthouse group"):
        make_group()
    if name.startswith("posthouse job"):
        make_jobs(tmp_path, name)
    if name.startswith("posthouse bindery"):
        make_bindery(name)
    if name == "posthouse pipeline watch":
        (tmp_path / "examples").symlink_to(ROOT / "examples")
    if name in ("posthouse pipeline replay", "posthouse pipeline erase"):
        quietly("send", ORDERS, "--label", "customer 4711", "--body", "x")
        quietly("pipeline", "archive", ORDERS, "--lake", "./lake")
    for line in EXAMPLES[name].splitlines():
        if name == "posthouse receive":
            quietly("send", ORDERS, "--body", "x")
        expected = int(line.startswith(tuple(REFUSED)))
        if name in NO_MESSAGE:
            expected = NOTHING_THERE
        assert run_line(line, monkeypatch) == expected, line


def test_the_commands_of_the_readme_work_as_printed(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    (script,) = re.findall(r"## Send and receive\n.*?```sh\n(.*?)```", readme, re.DOTALL)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e"],
        input=script,
        env={"PATH": path, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(script.splitlines()) <= 10
    assert "<order/>" in done.stdout
    assert '"label":"order 1"' in done.stdout


# -- terminals, pipes and signals


def test_a_person_at_a_terminal_is_asked(server: Serving) -> None:
    asked = "./private$/asked"
    quietly("queue", "create", asked)
    quietly("send", asked, "--body", "x")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "queue", "purge", asked], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    os.write(ours, b"n\n")
    said = read_all(ours)
    assert process.wait(30) == 1
    assert b"1 message? [y/N]" in said
    assert b"Nothing was changed." in said
    assert quietly("peek", asked) == 0


def read_all(terminal: int) -> bytes:
    said = b""
    with contextlib.suppress(OSError):  # how a terminal says that the other side is gone
        while data := os.read(terminal, 4096):
            said += data
    os.close(terminal)
    return said


def test_following_ends_well_with_ctrl_c(server: Serving) -> None:
    quietly("queue", "create", "./private$/followed")
    quietly("send", "./private$/followed", "--body", "1")
    process = subprocess.Popen(
        [*PROGRAM, "receive", "./private$/followed", "--follow", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["body_text"] == "1"
    quietly("send", "./private$/followed", "--body", "2")
    assert json.loads(process.stdout.readline())["body_text"] == "2"
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    process.stdout.close()


def test_ctrl_c_tells_how_much_was_sent(server: Serving, tmp_path: Path) -> None:
    quietly("queue", "create", "./private$/many")
    lines = tmp_path / "lines"
    lines.write_text("x\n" * 1_000_000)
    process = subprocess.Popen(
        [*PROGRAM, "send", "./private$/many", "--lines", lines],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert re.fullmatch(r"Sent about [\d,]+ messages before Ctrl-C\.\n", said)


def test_ctrl_c_while_commands_are_loaded_is_no_traceback() -> None:
    interrupted = """
import sys
class Interrupting:
    def find_spec(self, name, *more):
        if name == "posthouse.cli.program":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from posthouse.cli.main import main
sys.argv = ["posthouse", "status"]
main()
"""
    done = subprocess.run([sys.executable, "-c", interrupted], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_reader_who_has_seen_enough_costs_nothing(server: Serving) -> None:
    """What did not reach anybody is still in the queue."""
    quietly("queue", "create", "./private$/piped")
    quietly("send", "./private$/piped", "--body", "x" * 20_000, "--count", "50")
    receive = shlex.join([*PROGRAM, "receive", "./private$/piped", "--count", "50", "--json"])
    done = subprocess.run(
        ["bash", "-c", f"{receive} | head -c 10"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"id":"' + done.stdout[7:], "")
    with posthouse.connect() as qm:
        assert qm.queue("./private$/piped").count() > 40


# -- backup


def test_a_backup_becomes_a_queue_manager_of_its_own(
    server: Serving, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quietly("queue", "create", "./private$/saved")
    quietly("send", "./private$/saved", "--body", "kept", "--recoverable")
    assert main.run(["backup", "copy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"directory": str(tmp_path / "copy")}
    assert main.run(["restore", "copy", "--home", str(server.home)]) == 1  # in use
    assert main.run(["restore", "copy", "--home", str(tmp_path / "home"), "--json"]) == 0
    capsys.readouterr()
    assert main.run(["restore", "copy", "--home", str(tmp_path / "home")]) == 1  # has a store
    with Serving(tmp_path) as second:
        second.ready()
        with posthouse.connect(second.home) as qm:
            assert qm.queue("./private$/saved").receive(0).body == b"kept"
    next((tmp_path / "copy" / "store").glob("*.log")).write_bytes(b"damaged")
    assert main.run(["restore", "copy", "--home", str(tmp_path / "third")]) == 1
