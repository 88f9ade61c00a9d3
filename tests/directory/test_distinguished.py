"""Distinguished names."""

import pytest

from posthouse.directory.distinguished_names import distinguished_name, escaped
from posthouse.directory.objects import ConnectedNetwork, DirectoryObject, DistributionList, User

from .world import ALICE, guid, link, machine, queue, site

ROOT = "DC=corp,DC=example"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (machine(1, "ALPHA"), "CN=msmq,CN=ALPHA,CN=Computers"),
        (queue(1, r"ALPHA\a=b"), r"CN=a\=b,CN=msmq,CN=ALPHA,CN=Computers"),
        (site(1, "Köln, Süd"), r"CN=Köln\, Süd,CN=Sites,CN=Configuration"),
        (
            link(1, 2, 3),
            f"CN={guid(2).hex()}{guid(3).hex()},CN=MsmqServices,CN=Services,CN=Configuration",
        ),
        (User(security_identifier=ALICE), "CN=S-1-5-21-1-2-3-1000,CN=Users"),
        (DistributionList(name="all"), "CN=all,CN=Users"),
    ],
)
def test_every_kind_has_its_place(value: DirectoryObject, name: str) -> None:
    assert distinguished_name(value, ROOT) == f"{name},{ROOT}"


def test_a_connected_network_has_no_place() -> None:
    assert distinguished_name(ConnectedNetwork(name="n"), ROOT) == ""


def test_signs_with_a_meaning_are_escaped() -> None:
    assert escaped("#a+b\\c\n ") == "\\#a\\+b\\\\c\\0A\\ "
    assert escaped(" x") == "\\ x"
