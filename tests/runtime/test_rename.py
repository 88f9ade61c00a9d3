"""Another name for a stopped home; homes of version 0.1, which kept none."""

from __future__ import annotations

from pathlib import Path

import pytest

from posthouse.directory import objects
from posthouse.directory.base import equals
from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import InvalidParameter, ServiceNotAvailable
from posthouse.model.names import PublicName
from posthouse.model.properties import QueueProperties
from posthouse.runtime.embedded import EmbeddedQueueManager
from posthouse.runtime.home import host_name
from posthouse.runtime.rename import current_name, rename

PRIVATE, PUBLIC = r".\private$\orders", r".\orders"


def names(opened: EmbeddedQueueManager) -> set[str]:
    return {queue.definition.pathname for queue in opened.manager.queues.all()} - {""}


def forget_the_name(manager: QueueManager) -> None:
    """As version 0.1 left it."""
    manager.machine.keep_name("")


def test_path_names_the_directory_and_the_file_server_follow(tmp_path: Path) -> None:
    with EmbeddedQueueManager(tmp_path, name="ALPHA") as opened:
        opened.create_queue(PRIVATE, QueueProperties(journaling=True))
        identifier = opened.create_queue(PUBLIC, QueueProperties()).definition.identifier
        guid = opened.manager.machine.identifier
    renamed = rename(tmp_path, "BETA")
    assert (renamed.old, renamed.name, renamed.queues, renamed.public_queues) == (
        "ALPHA",
        "BETA",
        2,
        1,
    )
    assert current_name(tmp_path) == "BETA"
    with EmbeddedQueueManager(tmp_path) as opened:
        manager = opened.manager
        assert manager.machine.identifier == guid
        assert manager.machine.settings.computer_name == "BETA"
        assert {name.partition("\\")[0] for name in names(opened)} == {"BETA"}
        directory = manager.directory.queues.directory
        queue = directory.known(objects.Queue, equals("identifier", identifier))
        assert queue is not None
        assert queue.pathname == r"BETA\orders"
        assert queue.full_path.startswith("CN=orders,CN=msmq,CN=BETA,")
        assert directory.known(objects.Queue, equals("pathname", r"ALPHA\orders")) is None
        local = manager.queues.find_local(PublicName(identifier))
        assert local is not None
        assert local.definition.full_path == queue.full_path
        own = directory.known(objects.QueueManager, equals("identifier", guid))
        assert own is not None
        assert own.computer_name == "BETA"
        assert manager.bindery.objects.by_id[2].name == "BETA"


def test_what_cannot_be_renamed_stays(tmp_path: Path) -> None:
    with EmbeddedQueueManager(tmp_path, name="ALPHA") as opened:
        with pytest.raises(ServiceNotAvailable, match="in use"):
            rename(tmp_path, "BETA")
        opened.run(
            lambda m: m.directory.queues.directory.create(
                objects.QueueManager(identifier=b"x" * 16, computer_name="TAKEN"), 1
            )
        )
    with pytest.raises(InvalidParameter, match="another machine that is named TAKEN"):
        rename(tmp_path, "TAKEN")
    with pytest.raises(InvalidParameter, match="cannot be the name"):
        rename(tmp_path, "a\\b")
    with pytest.raises(InvalidParameter, match="holds no store"):
        rename(tmp_path / "nothing", "BETA")
    assert not (tmp_path / "nothing").exists()
    assert current_name(tmp_path) == "ALPHA"
    assert rename(tmp_path, "ALPHA").notes == ()


def test_names_that_differ_in_case_only_are_one_name_to_others(tmp_path: Path) -> None:
    EmbeddedQueueManager(tmp_path, name="Alpha").close()
    renamed = rename(tmp_path, "ALPHA")
    assert (renamed.old, renamed.name, renamed.notes) == ("Alpha", "ALPHA", ())
    assert current_name(tmp_path) == "ALPHA"


def test_a_name_that_cannot_be_one_is_refused_with_what_helps_here(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="cannot be the name") as refused:
        rename(tmp_path, "a b")
    assert "posthouse serve" not in refused.value.remedy


def test_public_queues_of_a_shared_directory_are_in_the_way(tmp_path: Path) -> None:
    with EmbeddedQueueManager(tmp_path, name="ALPHA") as opened:
        opened.create_queue(PUBLIC, QueueProperties())
    (tmp_path / "posthouse.toml").write_text("[directory]\nfile = 'directory.json'\n")
    with pytest.raises(InvalidParameter, match=r"1 public queues .* others share"):
        rename(tmp_path, "BETA")
    assert current_name(tmp_path) == "ALPHA"


def test_settings_that_name_another_are_told(tmp_path: Path) -> None:
    EmbeddedQueueManager(tmp_path, name="ALPHA").close()
    (tmp_path / "posthouse.toml").write_text("[queue_manager]\nname = 'ALPHA'\n")
    assert "The settings name ALPHA" in " ".join(rename(tmp_path, "BETA").notes)


def test_a_home_of_version_0_1_has_the_name_of_its_first_start(tmp_path: Path) -> None:
    with EmbeddedQueueManager(tmp_path, name="ALPHA") as opened:
        opened.create_queue(PRIVATE, QueueProperties())
        opened.run(forget_the_name)
    with EmbeddedQueueManager(tmp_path) as opened:
        assert opened.manager.machine.settings.computer_name == "ALPHA" != host_name()
        assert opened.manager.machine.record.computer_name == "ALPHA"


def test_a_home_of_version_0_1_takes_the_name_that_is_given(tmp_path: Path) -> None:
    with EmbeddedQueueManager(tmp_path, name="ALPHA") as opened:
        opened.create_queue(PRIVATE, QueueProperties())
        opened.run(forget_the_name)
    with EmbeddedQueueManager(tmp_path, settings=EngineSettings("BETA")) as opened:
        assert opened.manager.machine.record.computer_name == "BETA"
        assert {name.partition("\\")[0] for name in names(opened)} == {"BETA"}
    assert current_name(tmp_path) == "BETA"


def test_a_host_whose_name_cannot_be_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "private$")
    with pytest.raises(InvalidParameter, match="cannot be the name of this computer"):
        EmbeddedQueueManager(tmp_path)
