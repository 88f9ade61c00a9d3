"""A directory file that two real queue managers share, and what each entry of it makes them do."""

from __future__ import annotations

import re
import uuid
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from posthouse.client.binary.sender import BinarySender
from posthouse.model.errors import DsError, NoDs, QueueExists
from posthouse.model.message import Message
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.security.certificates import make_certificate, make_private_key
from posthouse.security.descriptors import SecurityDescriptor
from posthouse.security.sids import EVERYONE
from posthouse.wire.packet.message import serialize
from tests.process.offices import Office, wait_until
from tests.support.process.shared_directory import MACHINE, NEWS, OWN_QUEUE, SETTINGS

HOME, STREAMS, LOST = (str(uuid.uuid4()) for _ in range(3))
SITES = f"[[sites]]\nname = 'Home'\nguid = '{HOME}'\n"
FOREIGN = f"[[sites]]\nname = 'Streams'\nguid = '{STREAMS}'\nforeign = true\n"
THEIRS = "[[queues]]\npath = 'BETA\\{name}'\nguid = '{guid}'\n"
ANYBODYS = b64encode(SecurityDescriptor(EVERYONE).pack()).decode()


class House:
    """ALPHA and BETA, each told in its own way which site is theirs, and the file."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.path = folder / "shared" / "directory.toml"
        self.path.parent.mkdir()
        self.path.write_text(SITES)
        more = SETTINGS.format(path=self.path)
        self.alpha, self.beta = (
            Office(
                folder / name,
                name,
                running,
                f"{more}site = '{site}'\n",
                machine="routing_server = true",
            )
            for name, site in (("ALPHA", HOME), ("BETA", "home"))
        )
        self.qm = self.alpha.qm
        wait_until(lambda: "BETA" in self.path.read_text(), self.path.read_text)
        self.whole = self.path.read_text()

    def refreshed(self, office: Office | None = None) -> str:
        """Why the directory is away now; nothing if it is not."""
        qm = (office or self.alpha).qm
        return str(qm.call("POST", "/directory/refresh")["reason"])

    def edit(self, text: str) -> str:
        """By hand; as it is told."""
        self.path.write_text(text)
        return self.refreshed()

    def said_of_alpha(self, line: str) -> str:
        """The file with one line more, or another one, in the entry of ALPHA."""
        name = line.partition(" ")[0]
        first, start, entry = self.whole.partition("[[machines]]")
        entry = re.sub(rf"^{name} = .*\n", "", entry, count=1, flags=re.MULTILINE)
        assert 'name = "ALPHA"' in entry.partition("[[")[0]
        return f"{first}{start}\n{line}{entry}"

    def has(self, name: str) -> bool:
        queues = self.qm.queues(system=True)
        return name in {text for queue in queues for text in (queue.path, queue.format_name)}

    def change(self, **parts: object) -> None:
        self.qm.call("POST", "/directory", {"document": parts})

    def refusals(self, name: str) -> int:
        found = self.qm.call("GET", "/status")["refusals"]
        return sum(one["count"] for one in found if one["name"] == name)

    def logs(self, words: str) -> None:
        file = self.alpha.server.home / "logs" / "posthouse.log"
        wait_until(lambda: words in file.read_text(), lambda: words)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with ExitStack() as stack:
        yield House(tmp_path_factory.mktemp("house"), stack)


@pytest.fixture
def house(running: House) -> House:
    assert running.edit(running.whole) == ""
    assert running.refreshed(running.beta) == ""
    return running


def own(name: str, *lines: str) -> str:
    return OWN_QUEUE.format(name=name, guid=uuid.uuid4()) + "".join(f"{line}\n" for line in lines)


def test_new_machines_enter_themselves_in_their_site(house: House) -> None:
    for part in house.qm.call("GET", "/directory")["machines"]:
        assert part["sites"] == ["Home"]


def test_a_large_file_is_taken_in_portions(house: House) -> None:
    sites = "".join(f"[[sites]]\nname = 'site {number}'\n" for number in range(600))
    lists = "".join(f"[[lists]]\nname = 'list {number}'\n" for number in range(600))
    assert house.edit(f"{house.whole}\n{own('large', 'transactional = true')}{sites}{lists}") == ""
    assert house.qm.queue(r"ALPHA\large").properties().transactional
    found = house.qm.call("GET", "/directory")
    assert (len(found["sites"]), len(found["lists"])) == (601, 600)
    assert house.edit(house.whole) == ""
    assert not house.has(r"ALPHA\large")


def test_a_queue_that_cannot_be_ours_is_not_made(house: House) -> None:
    assert house.edit(f"{house.whole}\n{own('bad', f'security = {ANYBODYS!r}')}") == ""
    house.logs("directory_queue_refused")
    assert not house.has(r"ALPHA\bad")


def test_a_queue_that_a_group_reads_stays_until_that_ends(house: House) -> None:
    assert house.edit(f"{house.whole}\n{own('read')}") == ""
    lease = "/queues/" + quote(r"ALPHA\read", safe="") + "/groups/archive/lease"
    body = {"mode": "consume", "owner": "somebody", "end": False}
    epoch = house.qm.call("POST", lease, body)["epoch"]
    assert house.edit(house.whole) == ""
    assert house.has(r"ALPHA\read")
    house.qm.call("POST", lease, body | {"epoch": epoch, "end": True})
    house.qm.call("DELETE", lease.removesuffix("/lease"))
    assert house.edit(f"# again\n{house.whole}") == ""
    assert not house.has(r"ALPHA\read")


def test_nothing_changes_while_the_file_is_away(house: House) -> None:
    assert house.edit(f"{house.whole}\n{own('kept')}") == ""
    house.path.unlink()
    with pytest.raises(NoDs, match="does not exist"):  # it is asked, and cannot be
        house.change(sites=[{"name": "Paris"}])
    assert "does not exist" in house.refreshed()
    with pytest.raises(NoDs, match="does not exist"):  # it is not even asked
        house.change(sites=[{"name": "Paris"}])
    kept = house.qm.queue(r"ALPHA\kept")
    with pytest.raises(NoDs):
        kept.set(label="other")
    with pytest.raises(NoDs):
        kept.delete()
    with pytest.raises(NoDs):
        house.qm.call("GET", rf"/directory/place?queue=PRIVATE={LOST}\5")


def theirs(name: str) -> str:
    return THEIRS.format(name=name, guid=uuid.uuid4())


def test_what_others_entered_meanwhile_is_not_entered_twice(house: House) -> None:
    house.path.write_text(f"{house.whole}\n{own('made')}{theirs('made')}")
    with pytest.raises(QueueExists, match="made"):
        house.qm.create_queue(r"ALPHA\made")
    with pytest.raises(QueueExists, match="made"):
        house.change(queues=[{"path": r"BETA\made", "guid": str(uuid.uuid4())}])


def test_certificates_are_added_to_those_of_others(house: House) -> None:
    for number in range(2):
        file = make_certificate(make_private_key(1024), f"Ada {number}", 1_700_000_000, 9)
        body = {"user": "S-1-5-21-7", "certificates": [b64encode(file).decode()]}
        house.qm.call("POST", "/directory/users", body)
    (user,) = house.qm.call("GET", "/directory")["users"]
    assert len(user["certificates"]) == 2


def test_owners_are_told_of_changes_unless_nobody_wants_it(house: House) -> None:
    house.change(queues=[{"path": r"BETA\told", "guid": str(uuid.uuid4())}])
    beta = house.beta.qm
    wait_until(lambda: r"BETA\told" in {queue.path for queue in beta.queues()}, beta.queues)
    beta.queue(house.alpha.name_of("notify_queue$")).send(NEWS)
    sender = BinarySender("127.0.0.1", house.alpha.port, 60, BinarySettings())
    name = house.alpha.name_of("notify_queue$")
    sender.send([serialize(Message(destination_queue_format_name=name, body=NEWS))])
    assert house.refusals("notice_of_a_stranger") == 1
    assert house.edit(house.said_of_alpha("quota_kib = 0")) == ""
    house.change(queues=[{"path": r"BETA\full", "guid": str(uuid.uuid4())}])
    assert house.refusals("notice_dropped") == 1
    quiet = f"{house.whole}\n[enterprise]\nchange_notifications = false\n"
    assert house.edit(quiet) == ""
    house.change(queues=[{"path": r"BETA\quiet", "guid": str(uuid.uuid4())}])
    assert r"BETA\quiet" not in {queue.path for queue in beta.queues()}


def test_what_is_removed_is_gone_for_everybody(house: House) -> None:
    house.change(sites=[{"name": "Paris"}])
    assert "Paris" in house.path.read_text()
    house.qm.call("POST", "/directory/remove", {"kind": "site", "name": "Paris"})
    assert "Paris" not in house.path.read_text()
    assert "Paris" not in str(house.qm.call("GET", "/directory"))


def test_another_machine_of_our_name_keeps_us_out_until_it_is_gone(house: House) -> None:
    house.qm.create_queue(r"ALPHA\ours")
    assert "does not take" in house.edit(SITES + MACHINE.format(name="ALPHA", guid=LOST))
    assert "does not take" in house.qm.queue(r"ALPHA\ours").properties().reason
    assert house.edit(SITES) == ""
    assert "ours" in house.path.read_text()
    house.qm.delete_queue(r"ALPHA\ours")


def test_the_same_file_in_another_place_is_known(house: House) -> None:
    moved, settings = house.path.with_name("moved.toml"), "posthouse.toml"
    moved.write_text(house.path.read_text())
    file = house.alpha.server.home / settings
    before = file.read_text()
    for text in (before.replace(str(house.path), str(moved)), before):
        house.alpha.server.kill()
        file.write_text(text)
        house.alpha.server.start()
        assert house.refreshed() == ""
    assert moved.read_text() == house.whole


def test_what_cannot_be_written_of_ourselves_is_told(house: House) -> None:
    obstacle = house.path.with_name(".directory.toml.new")
    obstacle.mkdir()
    assert house.edit(house.said_of_alpha("addresses = ['10.0.0.1']")) == ""
    house.logs("directory_refused")
    obstacle.rmdir()


def test_connector_queues_stay_while_nobody_can_tell(house: House) -> None:
    sites = f"sites = ['Home', 'Streams', '{LOST}']"
    assert house.edit(f"{house.said_of_alpha(sites)}\n{FOREIGN}") == ""
    assert house.has(f"CONNECTOR={STREAMS}")
    house.path.unlink()
    assert house.refreshed()
    assert house.has(f"CONNECTOR={STREAMS}")
    house.alpha.restart()
    assert house.has(f"CONNECTOR={STREAMS}")
    assert house.edit(house.whole) == ""
    assert not house.has(f"CONNECTOR={STREAMS}")


def test_an_entry_of_ours_is_what_we_say(house: House) -> None:
    part = {"name": "ALPHA", "guid": house.qm.guid, "routing_server": False}
    body = {"document": {"machines": [part]}, "only": ["routing_server"]}
    with pytest.raises(DsError, match="this queue manager sets"):
        house.qm.call("POST", "/directory", body)
