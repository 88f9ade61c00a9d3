"""What `python -m tools.counts` counts, in a small tree with one of each fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import counts

FILES = {
    "src/posthouse/engine/manager.py": """
class QueueManager:
    def __init__(self):
        self.core = object()
    def send(self): ...
""",
    "src/posthouse/engine/a.py": "if TYPE_CHECKING:\n    from posthouse.engine.b import B",
    "src/posthouse/engine/b.py": "from posthouse.engine.a import A\nclass B: ...",
    "src/posthouse/client/b.py": "'The same, elsewhere.'\nclass B: ...",
    "src/posthouse/spark/b.py": "class B:\n    def read(self): ...\nclass C: ...",
    "src/posthouse/cli/b.py": "# no class of four packages\nclass C: ...",
    "src/posthouse/store/log.py": "def read(): ...\ndef read_all(): ...\ndef write_many(): ...",
    "src/posthouse/protocols/tcp/__init__.py": "",
    "src/posthouse/protocols/tcp/server.py": """
from posthouse.wire.packet.patch import SENT_TIME_AT
def serve(manager, row):
    manager.core.x()
    manager.send()
    return row[3]
""",
    "src/posthouse/wire/x_one.py": "",
    "src/posthouse/wire/x_two.py": "",
    "src/posthouse/wire/x_three.py": "",
    "tests/helper.py": "class MemoryStore: ...\n",
    "tests/paper.py": """
class Paper:
    def append(self, records): ...
    def sync(self): ...
    def read(self, number): ...
    def has_room(self): ...
""",
    "tests/test_one.py": "from tests.test_two import rig\n",
    "tests/test_three.py": "from tests import (\n    helper,\n    test_two,\n)\n",
}
EXPECTED = {
    "modules": 12,
    "past_the_door": 1,
    "through_the_door": 1,
    "circles": 2,
    "many": 2,
    "twins": 1,
    "twins_apart": 1,
    "packet_places": 1,
    "positional_reads": 1,
    "protocols_by_name": 2,
    "prefixes": 1,
    "files_with_prefixes": 3,
    "small_60": 2,
    "class_names": 1,
    "class_names_everywhere": 2,
    "the_same": 1,
    "test_helpers": 2,
    "helper_lines": 7,
    "tests_from_tests": 2,
    "memory_stores": 2,
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def printed(*arguments: str) -> list[str]:
    lines: list[str] = []
    counts.main(arguments, lines.append)
    return lines


def test_each_fault_is_counted(tree: Path) -> None:
    found = {line.rpartition("(")[2].rstrip(")"): line for line in printed(str(tree))}
    assert list(found) == list(counts.ROWS)
    assert {name: int(found[name].split()[0]) for name in EXPECTED} == EXPECTED


def test_what_a_line_has_counted_is_listed(tree: Path) -> None:
    assert printed(str(tree), "--list", "twins") == ["store/log.py: read_all beside read"]
    assert printed(str(tree), "--list", "circles") == ["engine/a.py", "engine/b.py"]
    assert printed(str(tree), "--list", "helper_lines") == ["7"]
