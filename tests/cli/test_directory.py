"""`posthouse directory`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from posthouse.cli.directory.command import read_file
from posthouse.directory.document.document import Document, LinkPart, SitePart
from posthouse.directory.document.text import written
from tests.cli.conftest import Posthouse

GUIDS = {name: f"5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b{at}" for at, name in enumerate("BGH", 11)}


@pytest.fixture(autouse=True)
def nothing_but_us(ph: Posthouse, tmp_path: Path) -> Iterator[None]:
    before = tmp_path / "before.toml"
    assert ph("directory", "export", before).code == 0
    yield
    assert ph("directory", "import", before, "--prune").code == 0


def enterprise(ph: Posthouse) -> str:
    """Two sites with a gate each; returns our own name."""
    own = str(ph("directory", "machine", "list", "--json").value["name"])
    guid = str(ph("directory", "machine", "list", "--json").value["guid"])
    for site in ("North", "South"):
        assert ph("directory", "site", "add", site).code == 0
    gate, far, home = ("GATE", GUIDS["G"]), ("FAR", GUIDS["H"]), (own, guid)
    add = "directory", "machine", "add"
    near = "--site", "North", "--routing-server", "--address", "10.0.0.2:1801"
    assert ph(*add, *gate, *near).code == 0
    assert ph(*add, *far, "--site", "South", "--routing-server").code == 0
    assert ph(*add, "BETA", GUIDS["B"], "--site", "South", "--in-routing", "FAR").code == 0
    assert ph(*add, *home, "--site", "North").code == 0
    gates = "--gate", "GATE", "--gate", "FAR"
    assert ph("directory", "link", "add", "North", "South", "--cost", "7", *gates).code == 0
    return own


def test_machines_sites_and_links_are_entered_and_listed(ph: Posthouse) -> None:
    enterprise(ph)
    machines = ph("directory", "machine", "list").out
    assert "10.0.0.2:1801" in machines
    assert "routing" in machines
    sites = ph("directory", "site", "list").out
    assert "BETA, FAR" in sites
    assert "North - South" in ph("directory", "link", "list").out
    link = ph("directory", "link", "list", "--json").value
    assert link.pop("guid")
    assert link == {"sites": ["North", "South"], "cost": 7, "gates": ["FAR", "GATE"]}


def test_what_is_removed_says_who_still_names_it(ph: Posthouse) -> None:
    enterprise(ph)
    told = ph("directory", "site", "remove", "South", "--dry-run")
    for name in ("machine FAR", "machine BETA", "link North,South"):
        assert name in " ".join(told.out.split())
    (gone,) = ph("directory", "machine", "remove", "FAR", "--json").lines
    assert gone["change"] == "deleted"
    assert sorted(gone["named_by"]) == ["link North,South", "machine BETA"]
    (gone,) = ph("directory", "machine", "remove", "GATE", "--json").lines
    assert gone["named_by"] == ["link North,South"]
    assert "still named" not in ph("directory", "link", "remove", "North", "South").out


def test_a_file_is_written_for_programs_too(ph: Posthouse, tmp_path: Path) -> None:
    file = tmp_path / "directory.toml"
    assert ph("directory", "export", file, "--json").value == {"file": str(file)}
    assert read_file(file).machines
    assert ph("directory", "export", "--json").value["machines"]
    missing = ph("directory", "export", tmp_path / "no" / "directory.toml")
    assert missing.code == 2
    assert str(tmp_path / "no") in missing.err


def test_what_is_there_already_is_said(ph: Posthouse) -> None:
    assert "created" in ph("directory", "site", "add", "North").out
    assert "has this already" in ph("directory", "site", "add", "North").out
    assert ph("directory", "site", "add", "North", "--json").out == ""


def test_a_route_is_explained_and_drawn(ph: Posthouse) -> None:
    own = enterprise(ph)
    told = ph("directory", "route", own, "beta")
    assert "cost of 7" in told.out
    assert "come through this machine" in told.out
    hops = [line["target"] for line in ph("directory", "route", own, "BETA", "--json").lines]
    assert hops == ["GATE", "FAR", "BETA"]
    drawing = ph("directory", "route", own, "BETA", "--dot").out
    assert drawing.startswith("graph directory {")
    assert '"GATE" -- "FAR" [dir=forward, penwidth=3];' in drawing
    assert "nothing has to travel" in ph("directory", "route", own, own).out


def test_where_there_is_no_way_the_reason_is_given(ph: Posthouse) -> None:
    own = enterprise(ph)
    assert ph("directory", "link", "remove", "south", "north").code == 0
    refused = ph("directory", "route", own, "BETA")
    assert refused.code == 1
    assert "has a gate to other sites" in refused.err
    drawing = ph("directory", "route", own, "BETA", "--dot")
    assert drawing.code == 1
    assert "has a gate to other sites" in drawing.err
    assert drawing.out.endswith("}\n")
    assert "penwidth" not in drawing.out
    unknown = ph("directory", "route", own, "NOBODY")
    assert unknown.code == 1
    assert "no machine NOBODY" in unknown.err


def test_an_export_is_imported_elsewhere_and_changes_nothing_here(
    ph: Posthouse, tmp_path: Path
) -> None:
    enterprise(ph)
    assert ph("directory", "list", "add", "All", "--member", r"DIRECT=OS:beta\private$\q").code == 0
    file = tmp_path / "directory.toml"
    assert ph("directory", "export", file).code == 0
    assert ph("directory", "export").out == file.read_text()
    assert "has this already" in ph("directory", "import", file, "--prune").out
    text = file.read_text().replace("cost = 7", "cost = 8").replace('name = "All"', 'name = "Some"')
    file.write_text(text)
    would = ph("directory", "import", file, "--dry-run")
    assert "North,South" in would.out
    assert ph("directory", "link", "list", "--json").value["cost"] == 7
    assert ph("directory", "import", file).code == 0
    assert ph("directory", "link", "list", "--json").value["cost"] == 8
    assert ph("directory", "list", "list", "--json").value["name"] == "Some"


def test_what_a_file_does_not_have_goes_only_with_prune(ph: Posthouse, tmp_path: Path) -> None:
    own = enterprise(ph)
    file = tmp_path / "directory.toml"
    file.write_text('[[sites]]\nname = "North"\n')
    assert "has this already" in ph("directory", "import", file).out
    refused = ph("directory", "import", file, "--prune", "--dry-run")
    assert "deleted" in refused.out
    assert ph("directory", "import", file, "--prune").code == 0
    assert [one["name"] for one in ph("directory", "machine", "list", "--json").lines] == [own]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sites = 7", "Expected `array`"),
        ("[[sites]]\nnmae = 'x'", "nmae"),
        ("[[", "is not TOML"),
        ("[[machines]]\nname = 'X'\nguid = 'nonsense'", "machine 'X'"),
        ("[[links]]\nsites = ['Here', 'There']", "it does not exist"),
        ("[[sites]]\nname = 'A'\n[[sites]]\nname = 'a'", "it is there twice"),
        ("[[links]]\nsites = ['Here']", "length"),
    ],
)
def test_a_file_that_is_wrong_changes_nothing(
    ph: Posthouse, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "directory.toml"
    file.write_text(text)
    before = ph("directory", "export").out
    refused = ph("directory", "import", file)
    assert refused.code == 1
    assert said in refused.err
    assert ph("directory", "export").out == before
    assert ph("directory", "import", tmp_path / "nowhere").code == 1


def test_what_is_removed_is_gone_and_we_ourselves_stay(ph: Posthouse) -> None:
    own = enterprise(ph)
    assert ph("directory", "machine", "remove", "FAR", "--dry-run").code == 0
    assert ph("directory", "machine", "remove", "FAR").code == 0
    refused = ph("directory", "machine", "remove", "FAR")
    assert "no machine FAR" in refused.err
    assert ph("directory", "machine", "remove", own).code == 1
    assert ph("directory", "site", "remove", "South").code == 0
    assert ph("directory", "list", "remove", "Nothing").code == 1


def test_texts_survive_the_file(tmp_path: Path) -> None:
    document = Document(
        sites=[SitePart(name="x"), SitePart(name="y")],
        links=[LinkPart(sites=["x", "y"], description='a "b" \\ \x7f \t \x9b é 😀 \U000e0001 #')],
    )
    file = tmp_path / "written.toml"
    file.write_text(written(document), encoding="utf-8")
    assert read_file(file) == document


def test_a_change_is_told_field_by_field(ph: Posthouse, tmp_path: Path) -> None:
    enterprise(ph)
    file = tmp_path / "changed.toml"
    file.write_text('[[links]]\nsites = ["North", "South"]\ncost = 9\ngates = ["GATE", "FAR"]\n')
    told = ph("directory", "import", file, "--dry-run")
    assert "cost = 9 (was 7)" in told.out
    assert "gates" not in told.out
    assert ph("directory", "import", file, "--json").value["fields"] == [
        {"field": "cost", "before": "7", "after": "9"}
    ]


def test_what_a_command_does_not_name_stays(ph: Posthouse) -> None:
    enterprise(ph)

    def gate() -> dict[str, object]:
        lines = ph("directory", "machine", "list", "--json").lines
        return next(one for one in lines if one["name"] == "GATE")

    add = "directory", "machine", "add", "GATE", GUIDS["G"]
    assert ph(*add, "--site", "North", "--site", "South").code == 0
    assert gate()["sites"] == ["North", "South"]
    assert gate()["addresses"] == ["10.0.0.2:1801"]
    assert gate()["routing_server"]
    told = ph(*add, "--site", "", "--no-routing-server").out
    assert 'sites removed (was ["North", "South"]); routing_server removed (was true)' in told
    assert gate()["addresses"] == ["10.0.0.2:1801"]
    assert ph("directory", "machine", "add", "gate", "--site", "North").code == 0
    assert gate()["sites"] == ["North"]
    unknown = ph("directory", "machine", "add", "NOBODY", "--site", "North")
    assert unknown.code == 1
    assert "machine create NOBODY GUID" in unknown.err
    link = "directory", "link", "add", "North", "South"
    assert ph(*link, "--gate", "FAR").code == 0
    assert ph("directory", "link", "list", "--json").value["cost"] == 7
    assert "cost back to its default (was 7)" in ph(*link, "--cost", "1").out
    assert ph("directory", "site", "add", "Streams", "--foreign").code == 0
    assert "has this already" in ph("directory", "site", "add", "Streams").out
    assert "changed" in ph("directory", "site", "add", "Streams", "--no-foreign").out


def test_limits_are_told_before_anybody_is_asked(ph: Posthouse) -> None:
    enterprise(ph)
    assert ph("directory", "link", "add", "North", "South", "--cost", "0").code == 2
    assert ph("directory", "site", "add", "").code == 2
    assert ph("directory", "site", "add", "x" * 257).code == 2
    assert ph("directory", "alias", "add", "Till", "").code == 2
    no_way = ph("directory", "link", "remove", "North", "South")
    assert no_way.code == 0
    route = ph("directory", "route", "GATE", "FAR")
    assert "directory export" in route.err


def test_of_very_many_changes_the_first_are_told(ph: Posthouse, tmp_path: Path) -> None:
    file = tmp_path / "many.toml"
    file.write_text("".join(f'[[sites]]\nname = "s{number}"\n' for number in range(1003)))
    told = ph("directory", "import", file, "--dry-run").out
    assert told.endswith("3 more; add --json to see all.\n")
    assert len(told.splitlines()) == 1002
    assert len(ph("directory", "import", file, "--dry-run", "--json").lines) == 1003
