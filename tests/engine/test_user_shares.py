"""Groups and stages: no user takes what is there for all."""

from __future__ import annotations

import pytest

from posthouse.model.errors import InsufficientResources
from posthouse.security.access import Caller
from tests.engine.group_rig import OBSERVE, GroupRig
from tests.engine.rig import Rig
from tests.engine.staging import begin, key_of, stage

ANN, EVE = b"ann", b"eve"


def groups_rig() -> GroupRig:
    rig = GroupRig(groups_per_user=2)
    for name in ("one", "two"):
        rig.lease(name, mode=OBSERVE, user=EVE)
    return rig


def test_a_user_with_many_groups_leaves_room_for_others() -> None:
    rig = groups_rig()
    with pytest.raises(InsufficientResources, match=r"2 groups.*\[limits\] groups_per_user"):
        rig.lease("three", mode=OBSERVE, user=EVE)
    rig.lease("three", mode=OBSERVE, user=ANN)


def test_groups_that_are_there_are_leased_again() -> None:
    rig = groups_rig()
    assert rig.lease("one", mode=OBSERVE, user=EVE) == 2


def test_a_group_counts_for_whoever_made_it() -> None:
    rig = groups_rig()
    rig.lease("hers", mode=OBSERVE, user=ANN)
    rig.lease("hers", mode=OBSERVE, user=EVE)
    rig.lease("hers-too", mode=OBSERVE, user=ANN)
    with pytest.raises(InsufficientResources):
        rig.lease("three", mode=OBSERVE, user=ANN)


def test_groups_are_counted_after_a_restart_until_they_are_deleted() -> None:
    rig = groups_rig()
    rig.restart()
    with pytest.raises(InsufficientResources, match="groups_per_user"):
        rig.lease("three", mode=OBSERVE, user=EVE)
    rig.run(lambda m: m.groups.delete(rig.group("one")))
    rig.lease("three", mode=OBSERVE, user=EVE)


def test_a_group_of_nobody_counts_for_whoever_goes_on_with_it() -> None:
    """Those that were made before it was kept whose they are."""
    rig = GroupRig(groups_per_user=1)
    rig.lease("old", mode=OBSERVE)
    for _ in range(2):
        rig.lease("old", mode=OBSERVE, user=EVE)
        with pytest.raises(InsufficientResources, match="1 groups"):
            rig.lease("new", mode=OBSERVE, user=EVE)
        rig.restart()
    rig.run(lambda m: m.groups.delete(rig.group("old")))
    rig.lease("new", mode=OBSERVE, user=EVE)


def test_the_end_of_all_groups_names_its_setting() -> None:
    rig = GroupRig(groups_max=1)
    rig.lease("one", mode=OBSERVE, user=ANN)
    with pytest.raises(InsufficientResources, match=r"\[limits\] groups_max"):
        rig.lease("two", mode=OBSERVE, user=EVE)


def stages_rig() -> tuple[Rig, Caller]:
    rig = Rig(stages_per_user=2)
    rig.create("orders")
    rig.run(lambda m: m.accounts.add("eve"))
    return rig, rig.run(lambda m: m.accounts.caller("eve"))


def test_a_user_with_many_stages_leaves_room_for_others() -> None:
    rig, eve = stages_rig()
    stage(rig, key_of(0), ("orders", [b"x"]))
    begin(rig, key_of(1))
    with pytest.raises(InsufficientResources, match=r"2 stages.*\[limits\] stages_per_user"):
        begin(rig, key_of(2))
    assert rig.run(lambda m: m.stages.begin(key_of(0, query="hers"), eve)) is not None


def test_stages_are_counted_after_a_restart_until_they_are_gone() -> None:
    rig, _ = stages_rig()
    for number in range(2):
        stage(rig, key_of(number), ("orders", [b"x"]))
    rig.restart()
    with pytest.raises(InsufficientResources, match="stages_per_user"):
        begin(rig, key_of(2))
    rig.run(lambda m: m.stages.discard(key_of(0).query, 0, rig.admin))
    begin(rig, key_of(2))


def test_an_upload_that_ended_counts_no_more() -> None:
    rig, _ = stages_rig()
    uploads = [begin(rig, key_of(number)) for number in range(2)]
    rig.run(lambda m: m.stages.abort(uploads[0]))
    begin(rig, key_of(2))


def test_the_end_of_all_stages_names_its_setting() -> None:
    rig = Rig(stages_max=1)
    begin(rig, key_of(0))
    with pytest.raises(InsufficientResources, match=r"\[limits\] stages_max"):
        begin(rig, key_of(1))


def test_what_is_known_of_queries_has_an_end_too() -> None:
    """Batches without any messages are published as others are, and remembered for a year."""
    rig, eve = stages_rig()
    for number in range(2):
        rig.run(lambda m, n=number: m.stages.publish(f"query {n}", 0, [], eve))
    with pytest.raises(InsufficientResources, match=r"2 of them of this user.*stages_per_user"):
        rig.run(lambda m: m.stages.publish("query 2", 0, [], eve))
    rig.run(lambda m: m.stages.publish("query 1", 1, [], eve))
    rig.run(lambda m: m.stages.publish("query 2", 0, [], rig.admin))
    for number in range(2):
        rig.run(lambda m, n=number: m.stages.forget_query(f"query {n}", eve))
        rig.run(lambda m, n=number: m.stages.publish(f"query 1{n}", 0, [], eve))
        with pytest.raises(InsufficientResources):
            rig.run(lambda m: m.stages.publish("query 3", 0, [], eve))
        rig.restart()


def test_the_end_of_all_queries_is_the_same_for_everybody() -> None:
    rig = Rig(stages_max=1)
    rig.run(lambda m: m.stages.publish("query 1", 0, [], rig.admin))
    with pytest.raises(InsufficientResources, match="of 1 queries"):
        rig.run(lambda m: m.stages.publish("query 2", 0, [], Caller.anonymous()))
