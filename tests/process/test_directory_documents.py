"""Documents, searches and lists of the directory on a real server: what is wrong with any part is
said, whole documents survive the log, and every command prints what it should."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import posthouse
from posthouse.cli import main
from posthouse.directory.expand import NAMES_MAX
from posthouse.directory.routing import HOPS_MAX
from posthouse.model.errors import AccessDenied, QueueError
from posthouse.model.names import ELEMENTS_MAX
from posthouse.security.acls import ALLOWED, Ace, Acl
from posthouse.security.certificates import make_certificate, make_private_key
from posthouse.security.descriptors import SecurityDescriptor
from posthouse.security.keys import certificate_digest
from posthouse.security.sids import EVERYONE
from tests.process.offices import Office, outgoing, wait_until
from tests.process.rpc_house import port_of

SID = "S-1-5-21-1-2-3-1001"
CERTIFICATE = make_certificate(make_private_key(1024), "Ada", 1_700_000_000, 9)
DIRECT = r"DIRECT=OS:far\private$\q"
LAND = "over land\u2028\U000e0001"
ZERO = "00000000-0000-0000-0000-000000000000"


def guid(number: int) -> str:
    return f"5b7a4a3e-7d0c-4f5e-9a51-{number:012x}"


def text_of(data: bytes) -> str:
    return b64encode(data).decode()


def readable_by(mask: int) -> str:
    """A descriptor that lets everybody do this."""
    dacl = Acl((Ace.of(ALLOWED, EVERYONE, mask),)) if mask else Acl()
    return text_of(SecurityDescriptor(EVERYONE).with_dacl(dacl).pack())


# One of each kind, with what is not as usual.
WHOLE: dict[str, Any] = {
    "enterprise": {"name": "Post", "guid": guid(99), "security": readable_by(0x20)},
    "sites": [{"name": "Berlin"}, {"name": "Hamburg"}],
    "networks": [{"name": "Token ring"}],
    "machines": [
        {
            "name": "BETA",
            "guid": guid(1),
            "addresses": ["[::1]:1801", "::1", "beta-1.example.com:1801", "10.0.0.1"],
            "sites": ["Berlin"],
            "networks": ["Token ring"],
            "routing_server": True,
        },
        {"name": "GAMMA", "guid": guid(2), "sites": ["Hamburg"], "routing_server": True},
        {"name": "DELTA", "guid": guid(3), "in_routing_servers": ["BETA"]},
    ],
    "links": [{"sites": ["Berlin", "Hamburg"], "gates": ["BETA", "GAMMA"], "description": LAND}],
    "queues": [
        {"path": r"BETA\orders", "guid": guid(11), "transactional": True, "type": guid(50)},
        {"path": r"BETA\closed", "guid": guid(12), "security": readable_by(0)},
        {"path": r"BETA\shown", "guid": guid(13), "security": readable_by(0x20)},
        {"path": r"BETA\moved", "guid": guid(14), "machine": "GAMMA"},
        {"path": r"BETA\known", "guid": guid(15), "qualified_path": r"beta.example\known"},
    ],
    "lists": [
        {"name": "Branches", "members": [r"BETA\orders", "Till", *(DIRECT + str(n) for n in "ab")]},
        {"name": "Nobody"},
        *({"name": f"Deep {at}", "members": [f"Deep {at + 1}"]} for at in range(40)),
        {"name": "Deep 40"},
    ],
    "aliases": [{"name": "Till", "queue": r"BETA\orders"}],
    "users": [
        {
            "sid": SID,
            "name": "Ada",
            "certificates": [text_of(CERTIFICATE), f"{guid(60)} {text_of(b'no certificate')}"],
        },
        {"sid": "S-1-5-21-1-2-3-1002"},
    ],
}


class Desk:
    """A server and its operator."""

    def __init__(self, office: Office, environment: pytest.MonkeyPatch) -> None:
        self.office = office
        self.qm = office.qm
        environment.setenv("POSTHOUSE_HOME", str(office.server.home))

    def take_in(self, document: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
        body = {"document": document, **more}
        return list(self.qm.call("POST", "/directory", body)["changes"])

    def document(self) -> dict[str, Any]:
        return dict(self.qm.call("GET", "/directory"))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with ExitStack() as running, pytest.MonkeyPatch.context() as environment:
        folder = tmp_path_factory.mktemp("documents") / "ALPHA"
        more = "[directory]\nsite = 'Nowhere'\n"  # nobody has it: then it is in none
        yield Desk(Office(folder, "ALPHA", running, more), environment)


@pytest.fixture(autouse=True)
def whole(desk: Desk) -> None:
    desk.take_in(WHOLE, prune=True)


def timeless(document: dict[str, Any]) -> str:
    """Without the times of the log."""
    return re.sub(r'"(created|modified)": "[^"]*"', "", json.dumps(document))


def test_a_whole_document_survives_the_log(desk: Desk, tmp_path: Path) -> None:
    before, file = desk.document(), tmp_path / "directory.toml"
    assert desk.take_in(before) == []
    assert main.run(["directory", "export", str(file)]) == 0
    desk.office.restart()
    assert desk.document() == before
    assert desk.take_in({}, prune=True)
    assert main.run(["directory", "import", str(file)]) == 0
    assert timeless(desk.document()) == timeless(before)


MACHINE = {"name": "OMEGA", "guid": guid(40)}
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"sites": [{"name": "X"}, {"name": "x"}]}, "site x: it is there twice"),
    (
        {"sites": [{"name": "X", "guid": guid(9)}, {"name": "Y", "guid": guid(9)}]},
        "two sites of the document have the same guid",
    ),
    ({"sites": [{"name": "X", "guid": "x"}]}, "site X"),
    ({"sites": [{"name": "X", "guid": ZERO}]}, "its guid is zero"),
    ({"sites": [{"name": " X"}]}, "cannot be the name of a site"),
    ({"sites": [{"name": "X", "signing_keys": text_of(b"x" * 9)}]}, "the signing keys"),
    ({"networks": [{"name": "X "}]}, "cannot be the name of a connected network"),
    ({"lists": [{"name": "A"}], "aliases": [{"name": "a", "queue": DIRECT}]}, "a list has this"),
    ({"lists": [{"name": "A", "members": ["whoever"]}]}, "list or alias whoever: A names it"),
    ({"lists": [{"name": "A", "members": [r"X\q"]}]}, r"public queue X\q: A names it"),
    ({"lists": [{"name": "A", "members": ["DIRECT=XYZ:"]}]}, "list A: "),
    ({"lists": [{"name": "A", "members": [f"MACHINE={guid(1)};JOURNAL"]}]}, "cannot be"),
    ({"aliases": [{"name": "A", "queue": f"{DIRECT},{DIRECT}"}]}, "cannot be"),
    ({"queues": [{"path": r"BETA\x", "guid": guid(11)}]}, r"its guid is that of BETA\orders"),
    ({"queues": [{"path": r"BETA\orders", "guid": guid(11)}]}, "transactional is fixed"),
    ({"queues": [{"path": r"BETA\private$\x", "guid": guid(20)}]}, "not name a public queue"),
    ({"queues": [{"path": r"BETA\x;journal", "guid": guid(20)}]}, "cannot name a queue object"),
    ({"queues": [{"path": r"BETA\x", "guid": guid(20 + n)} for n in (0, 1)]}, "there twice"),
    ({"queues": [{"path": rf"BETA\{n}", "guid": guid(20)} for n in "xy"]}, "has its guid"),
    ({"queues": [{"path": r"BETA\Orders", "guid": guid(20)}]}, "another one has this name"),
    ({"machines": [{**MACHINE, "name": "BETA"}]}, "another one has this name"),
    ({"machines": [{**MACHINE, "name": r"X\Y"}]}, r"machine X\Y"),
    ({"machines": [{**MACHINE, "addresses": ["no host!"]}]}, "no host! is not an address"),
    ({"machines": [{**MACHINE, "addresses": ["beta:70000"]}]}, "beta:70000 is not an address"),
    ({"machines": [{**MACHINE, "addresses": ["[::1]x"]}]}, "[::1]x is not an address"),
    ({"machines": [{**MACHINE, "addresses": ["[beta]"]}]}, "[beta] is not an address"),
    ({"machines": [{**MACHINE, "addresses": ["x" * 256]}]}, "is not an address"),
    ({"machines": [{**MACHINE, "encryption_keys": "!!"}]}, "the value is not base64"),
    (
        {"machines": [{**MACHINE, "created": "2999-01-01T00:00:00Z"}]},
        "is not a time of a directory",
    ),
    ({"machines": [{**MACHINE, "networks": ["X"]}]}, "network X: OMEGA names it"),
    ({"links": [{"sites": ["Berlin", "Hamburg"]}, {"sites": ["Hamburg", "Berlin"]}]}, "twice"),
    ({"links": [{"sites": ["Berlin", "Berlin"]}]}, "joins two different sites"),
    ({"links": [{"sites": [ZERO, "Berlin"]}]}, "names two sites"),
    ({"links": [{"sites": ["Berlin", guid(8)], "gates": ["BETA", "BETA"]}]}, "named twice"),
    ({"users": [{"sid": "x"}]}, "user x: "),
    ({"users": [{"sid": SID, "certificates": [""]}]}, "a certificate is empty"),
    ({"users": [{"sid": SID}, {"sid": SID}]}, "it is there twice"),
    ({"users": [{"sid": "S-1-5-21-9", "name": " Bob"}]}, "cannot be the name of a user"),
    ({"enterprise": {"security": "!!"}}, "the value is not base64"),
    ({"enterprise": {"security": "AAAA"}}, "enterprise"),
]


def plain(error: QueueError) -> str:
    """Without the marks that excerpts have."""
    return error.cause.replace("'", "").replace("\\\\", "\\")


@pytest.mark.parametrize(("document", "words"), FAULTS, ids=[words for _, words in FAULTS])
def test_what_is_wrong_with_a_part_is_said_and_nothing_is_changed(
    desk: Desk, document: dict[str, Any], words: str
) -> None:
    before = desk.document()
    with pytest.raises(QueueError) as refused:
        desk.take_in({"sites": [{"name": "Ulm"}], **document})
    assert words in plain(refused.value)
    assert desk.document() == before


def test_gates_in_another_order_are_no_change(desk: Desk) -> None:
    link = {**WHOLE["links"][0], "gates": ["GAMMA", "BETA"]}
    assert desk.take_in({"links": [link]}) == []


def test_an_identifier_of_the_enterprise_stays(desk: Desk) -> None:
    (change,) = desk.take_in({"enterprise": {"name": "Mail", "guid": guid(98)}})
    assert (change["kind"], change["change"]) == ("enterprise", "changed")
    assert desk.document()["enterprise"]["guid"] == guid(99)


NESTED = "sites = " + "[" * 5000
FILES: list[tuple[Callable[[Path], object], str]] = [
    (lambda file: None, "cannot be read"),
    (lambda file: file.write_bytes(b"\xff"), "is not TOML"),
    (lambda file: file.write_text("sites = 1\n["), "is not TOML"),
    (lambda file: file.write_text(NESTED), "nested too deep"),
    (lambda file: file.write_text("\n[[sites]]\nname = 1"), "line 2"),
    (lambda file: file.write_text("x = 1"), "unknown field"),
    (lambda file: file.open("wb").truncate((256 << 20) + 1), "larger than 256 MiB"),
]


@pytest.mark.parametrize("number", range(len(FILES)))
def test_what_is_wrong_with_a_file_is_said(
    desk: Desk, number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, words = FILES[number]
    make(tmp_path / "file")
    assert main.run(["directory", "import", str(tmp_path / "file")]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("machine", "BETA"),
        ("site", "Hamburg"),
        ("link", "over land"),
        ("list", "Branches"),
        ("alias", "Till"),
        ("user", "Ada"),
        ("queue", "orders"),
    ],
)
def test_lists_are_for_people_and_for_programs(
    desk: Desk, kind: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["directory", kind, "list"]) == 0
    assert words in capsys.readouterr().out
    assert main.run(["directory", kind, "list", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert any(words in str(row) for row in rows)


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main.run(["directory", *words]) == code
    told = capsys.readouterr()
    return told.out + told.err


def test_a_way_is_told_and_drawn(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing has to travel" in said(capsys, "route", "BETA", "BETA")
    assert "leads through Hamburg" in said(capsys, "route", "BETA", "GAMMA")
    assert json.loads(said(capsys, "route", "BETA", "GAMMA", "--json"))["target"] == "GAMMA"
    drawn = said(capsys, "route", "BETA", "GAMMA", "--dot")
    assert '"BETA" -- "GAMMA" [dir=forward, penwidth=3];' in drawn
    assert '"BETA" [peripheries=2];' in drawn
    assert '"DELTA";' in drawn
    assert "no machine NOBODY" in said(capsys, "route", "BETA", "NOBODY", code=1)
    assert "no way" in said(capsys, "route", "GAMMA", "ALPHA", code=1)


FOREIGN = {
    "sites": [
        {"name": "Streams", "foreign": True},
        {"name": "Isle"},
        {"name": "Lost", "foreign": True},
    ],
    "machines": [
        {**WHOLE["machines"][0], "sites": ["Berlin", "Streams"]},
        {"name": "REDIS", "guid": guid(4), "foreign": True, "sites": ["Streams"]},
        {"name": "LOST", "guid": guid(5), "foreign": True, "sites": ["Lost"]},
        {"name": "ISLE", "guid": guid(6), "sites": ["Isle"]},
        {"name": "LEAF", "guid": guid(7), "sites": ["Berlin"], "out_routing_servers": [guid(70)]},
        {"name": "TWIG", "guid": guid(8), "sites": ["Berlin"], "out_routing_servers": ["LEAF"]},
        {"name": "RING", "guid": guid(9), "sites": ["Berlin"], "in_routing_servers": ["BETA"]},
        {"name": "SELF", "guid": guid(10), "sites": ["Berlin"], "out_routing_servers": ["SELF"]},
    ],
}
WAYS = [
    ("GAMMA", "REDIS", 0, "through the connector queue of Streams"),
    ("GAMMA", "LOST", 1, "no routing server belongs to a foreign site of LOST"),
    ("GAMMA", "ISLE", 1, "no links lead to a site of ISLE"),
    ("LEAF", "GAMMA", 1, "but the directory has none of them"),
    ("TWIG", "GAMMA", 1, "but none of them is a routing server"),
    ("GAMMA", "RING", 0, "RING"),
    ("SELF", "GAMMA", 1, "and that is SELF itself"),
]


def test_ways_to_foreign_systems_and_ways_that_end_are_told(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.take_in(FOREIGN)
    nowhere = f"PRIVATE={guid(5)}\\00000005"
    desk.qm.queue(nowhere).send(b"to a system without a connector")

    def error() -> str:
        (found,) = [one for one in outgoing(desk.qm) if one.format_name == nowhere]
        assert found.outgoing is not None
        return found.outgoing.last_error

    wait_until(lambda: "no routing server belongs to a foreign site of LOST" in error(), error)
    for source, target, code, words in WAYS:
        told = said(capsys, "route", source, target, code=code)
        assert words in " ".join(told.split()), (source, target, told)


def test_the_rest_is_for_programs_as_well(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert json.loads(said(capsys, "export", "--json"))["enterprise"]["name"] == "Post"
    assert json.loads(said(capsys, "refresh", "--json"))["online"]
    (tmp_path / "more.toml").write_text("[[sites]]\nname = 'Ulm'\n")
    changes = said(capsys, "import", str(tmp_path / "more.toml"), "--json", "--dry-run")
    assert json.loads(changes)["name"] == "Ulm"
    assert "Berlin,Hamburg" in said(capsys, "link", "remove", "Hamburg", "Berlin", "--yes")
    assert "has no link" in said(capsys, "link", "remove", "Hamburg", "Berlin", "--yes", code=1)
    added = ("queue", "add", r"BETA\exact", guid(16), "--transactional")
    assert r"BETA\exact" in said(capsys, *added)
    assert "transactional" in said(capsys, "queue", "find", "--machine", "BETA")
    assert "the queue manager itself" in said(capsys, "machine", "remove", "ALPHA", code=1)
    desk.qm.create_queue(r"ALPHA\ours")
    assert "a queue of this queue manager" in said(capsys, "queue", "remove", r"ALPHA\ours", code=1)
    desk.qm.delete_queue(r"ALPHA\ours")


def test_certificates_of_users_come_and_go(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, digest = tmp_path / "ada.der", certificate_digest(CERTIFICATE).hex()
    file.write_bytes(CERTIFICATE)
    add, remove = ("user", "add", "Ada", "--certificate"), ("user", "remove", "Ada")
    assert "has this already" in said(capsys, *add, str(file))  # they have it
    assert "changed" in said(capsys, *remove, "--certificate", digest, "--yes")
    assert digest not in said(capsys, "user", "list")
    assert "no certificate" in said(capsys, *remove, "--certificate", digest, "--yes", code=1)
    assert "changed" in said(capsys, *add, str(file))
    assert f"{digest} " in said(capsys, "user", "list")
    assert "cannot be read" in said(capsys, *add, str(tmp_path / "none"), code=1)
    with file.open("wb") as large:
        large.truncate(64 << 20)
    assert "too large" in said(capsys, *add, str(file), code=1)
    assert "Eve" in said(capsys, "user", "add", "S-1-5-21-7", "--name", "Eve")
    assert "Anna" in said(capsys, "user", "add", SID, "--name", "Anna")


def test_a_name_that_two_have_means_nobody(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.take_in({"users": [{"sid": "S-1-5-21-1-2-3-1003", "name": "ada"}]})
    assert main.run(["directory", "user", "remove", "Ada", "--yes"]) == 1
    assert "Name them by their SID" in capsys.readouterr().err


def test_programs_see_the_queues_that_they_may(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    find = ("queue", "find", "--machine", "BETA")
    assert r"BETA\orders" in said(capsys, *find, "--type", guid(50))
    assert r"BETA\closed" in said(capsys, *find, "--created-after", "2026-01-01")
    assert "4 more match" in said(capsys, *find, "--limit", "1")
    desk.qm.call("POST", "/users", {"name": "reader"})
    token = desk.qm.call("POST", "/tokens", {"user": "reader", "role": "read"})["token"]
    ready = json.loads((desk.office.server.home.parent / "ready.json").read_text())
    url = f"http://127.0.0.1:{port_of(ready['endpoints']['admin'])}"
    with posthouse.connect(url=url, token=token) as reader:
        paths = {queue.path for queue in reader.find_queues(machine="BETA")}
    some = {"user": "reader", "role": "read", "queues": ["*=peek"]}
    token = desk.qm.call("POST", "/tokens", some)["token"]
    with posthouse.connect(url=url, token=token) as reader, pytest.raises(AccessDenied):
        reader.find_queues(machine="BETA")
    assert paths == {r"BETA\orders", r"BETA\shown", r"BETA\moved", r"BETA\known"}


KEY_ALONE = make_private_key(1024).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
NOBODY = [
    ({"user": "S-1-x"}, "user list"),
    ({"user": "whoever"}, "neither this queue manager nor the directory"),
    ({"user": SID, "certificates": [text_of(KEY_ALONE)]}, "holds no certificate"),
]


@pytest.mark.parametrize(("body", "words"), NOBODY)
def test_users_that_are_none_are_refused(desk: Desk, body: dict[str, Any], words: str) -> None:
    with pytest.raises(QueueError, match=words):
        desk.qm.call("POST", "/directory/users", body)


def test_a_time_that_is_none_is_refused(desk: Desk) -> None:
    with pytest.raises(QueueError, match="is not a time"):
        desk.qm.call("GET", "/directory/queues?created_after=yesterday")


PLACES = [
    (DIRECT, "far"),
    (f"PRIVATE={guid(1)}\\5", "BETA"),
    (f"MACHINE={guid(1)};DEADLETTER", "BETA"),
    (f"PUBLIC={guid(14)}", "GAMMA"),
    (r"BETA\orders", "BETA"),
]
NOWHERE = [
    (f"PRIVATE={guid(77)}\\5", "has no queue manager"),
    (f"PUBLIC={guid(77)}", "has no queue"),
    (f"DL={guid(77)}", "not one queue of one machine"),
]


def test_a_queue_of_any_name_has_its_place(desk: Desk) -> None:
    desk.qm.create_queue(r".\private$\own")
    own = desk.qm.queue(r".\private$\own").properties().guid_name
    for name, machine in [*PLACES, (own, "ALPHA")]:
        found = desk.qm.call("GET", f"/directory/place?queue={quote(name)}")
        assert found["machine"] == machine, name
    for name, words in NOWHERE:
        with pytest.raises(QueueError) as refused:
            desk.qm.call("GET", f"/directory/place?queue={quote(name)}")
        assert words in str(refused.value)


def test_lists_that_lead_to_nobody_are_refused(desk: Desk) -> None:
    crowds = [
        {"name": f"Crowd {at}", "members": [f"{DIRECT}{at}x{n}" for n in range(ELEMENTS_MAX)]}
        for at in range(NAMES_MAX // ELEMENTS_MAX + 1)
    ]
    members = [str(crowd["name"]) for crowd in crowds]
    desk.take_in({"lists": [{"name": "Crowd", "members": members}, *crowds]})
    lists = {one["name"]: one["guid"] for one in desk.document()["lists"]}
    for name, words in [
        ("Nobody", "no queue to send to"),
        ("Deep 0", "deep"),
        ("Crowd", "4096"),
    ]:
        with pytest.raises(QueueError) as refused:
            desk.qm.queue(f"DL={lists[name]}").send(b"x")
        assert words in str(refused.value)
    desk.qm.queue(f"DL={lists['Branches']},{DIRECT}a").send(b"to all of them")


def test_changes_are_told_field_by_field(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = ("link", "add", "Berlin", "Hamburg")
    assert "cost = 7" in said(capsys, *link, "--cost", "7")
    assert "cost = 8 (was 7)" in said(capsys, *link, "--cost", "8")
    assert "cost back to its default (was 8)" in said(capsys, *link, "--cost", "1")
    assert "description removed (was" in said(capsys, *link, "--description", "")
    beta = ("machine", "add", "beta", "--dns-name", "beta.example.com")
    assert "dns_name" in said(capsys, *beta)  # one that is known needs no identifier
    assert "has no machine" in said(capsys, "machine", "add", "OMEGA", code=1)
    assert "still named by" in said(capsys, "site", "remove", "Hamburg", "--yes")
    assert "is not a digest" in said(
        capsys, "user", "remove", "Ada", "--certificate", "x", "--yes", code=2
    )
    file = tmp_path / "export.toml"
    assert json.loads(said(capsys, "export", str(file), "--json")) == {"file": str(file)}
    for name in ("", "x" * 257):
        assert "1 to 256 characters" in said(capsys, "site", "add", name, code=2)
    sites = "".join(f"[[sites]]\nname = 'Site {number}'\n" for number in range(1002))
    (tmp_path / "many.toml").write_text(sites)
    assert "2 more; add --json" in said(capsys, "import", str(tmp_path / "many.toml"), "--dry-run")


def test_no_way_is_drawn_too(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = said(capsys, "route", "GAMMA", "ALPHA", "--dot", code=1)
    assert '"site Berlin" -- "site Hamburg"' in drawn
    assert "penwidth" not in drawn


def test_a_way_that_is_too_long_is_told(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """A message would be dropped on it: each hop is counted."""
    count = HOPS_MAX + 2
    names = [f"S{at}" for at in range(count)]
    servers = [
        {"name": f"G{at}", "guid": guid(100 + at), "sites": [name], "routing_server": True}
        for at, name in enumerate(names)
    ]
    links = [
        {"sites": [names[at], names[at + 1]], "gates": [f"G{at}", f"G{at + 1}"]}
        for at in range(count - 1)
    ]
    sites = [{"name": name} for name in names]
    desk.take_in({"sites": sites, "machines": servers, "links": links})
    assert "leads through S1" in said(capsys, "route", "G0", f"G{HOPS_MAX}")
    told = said(capsys, "route", "G0", f"G{HOPS_MAX + 1}", code=1)
    assert f"after {HOPS_MAX} hops the message is still on its way" in " ".join(told.split())
