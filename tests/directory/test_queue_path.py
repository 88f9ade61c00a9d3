"""Get Queue Path."""

import pytest

from posthouse.directory.queue_path import QueuePath, get_queue_path
from posthouse.model.errors import IllegalFormatName
from posthouse.model.guids import format_guid
from posthouse.model.names import parse_format_name

from .world import Local, World, guid, machine, private, queue, service_of

pytestmark = pytest.mark.usefixtures("any_directory")

own = machine(1, "ALPHA")
notes = private(3, r"ALPHA\private$\notes", 7)


def path_of(text: str, *, connected: bool = True) -> QueuePath:
    world = World()
    world.add(own, machine(5, "BETA"), queue(8, r"BETA\orders"))
    world.directory.connected = connected
    local = Local(own, [notes])
    return get_queue_path(parse_format_name(text), service_of(world, local), local, 0)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/1")
@pytest.mark.parametrize(
    ("text", "path", "machine_name"),
    [
        (r"DIRECT=OS:beta\private$\q", r"beta\private$\q", "beta"),
        (r"DIRECT=TCP:10.0.0.1\orders", r"10.0.0.1\orders", "10.0.0.1"),
    ],
)
def test_a_direct_name_has_its_address_as_machine(text: str, path: str, machine_name: str) -> None:
    assert path_of(text) == QueuePath(path, machine_name)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/2")
@pytest.mark.parametrize("scheme", ["HTTP", "HTTPS"])
def test_a_web_name_has_a_machine_and_no_path(scheme: str) -> None:
    assert path_of(f"DIRECT={scheme}://beta:8080/msmq/private$/q") == QueuePath("", "beta")


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/3")
def test_a_public_name_is_looked_up() -> None:
    assert path_of(f"PUBLIC={format_guid(guid(8))}") == QueuePath(r"BETA\orders", "BETA")


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/4")
def test_a_private_name_has_a_path_only_if_the_queue_is_ours() -> None:
    ours = f"PRIVATE={format_guid(guid(1))}"
    assert path_of(rf"{ours}\00000007") == QueuePath(r"ALPHA\private$\notes", "ALPHA")
    assert path_of(rf"{ours}\00000008") == QueuePath("", "ALPHA")
    assert path_of(rf"PRIVATE={format_guid(guid(5))}\00000007") == QueuePath("", "BETA")


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/5")
@pytest.mark.parametrize("text", ["PUBLIC={}", r"PRIVATE={}\00000007"])
def test_names_unknown_to_the_directory_are_illegal(text: str) -> None:
    for connected in (True, False):
        with pytest.raises(IllegalFormatName):
            path_of(text.format(format_guid(guid(99))), connected=connected)


def test_other_kinds_lead_nowhere() -> None:
    assert path_of("MULTICAST=234.1.1.1:8001") == QueuePath()
    assert path_of(f"DL={format_guid(guid(1))}") == QueuePath()
