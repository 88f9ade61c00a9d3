"""Users and tokens over the API, and what each role reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from posthouse.api.route import Route
from posthouse.api.routes import ROUTES
from posthouse.model.errors import CorruptedSecurityData
from posthouse.model.roles import Role
from posthouse.protocols.http import wrong_tokens
from posthouse.security.nt_hash import nt_hash
from posthouse.security.rights import QUEUE_GENERIC_ALL
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at, with_api

USERS, TOKENS = "/api/v1/users", "/api/v1/tokens"


def test_a_user_comes_changes_and_goes(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        rig.desk.manager.certificates.key_file = lambda: b"s" * 32
        made = await rig.post(
            USERS, {"name": "Bob", "password": "s3cret", "doors": ["http", "ncp"]}
        )
        assert made.status == 201
        assert made.json["doors"] == ["http", "ncp"]
        assert made.json["password"] is True
        assert "s3cret" not in made.text
        assert rig.desk.manager.accounts.find("bob").http.accepts("s3cret")  # type: ignore[union-attr]
        again = await rig.post(USERS, {"name": "BOB"})
        assert again.status == 409
        changed = await rig.ask("PATCH", USERS + "/bob", {"administrator": True, "doors": []})
        assert (changed.json["administrator"], changed.json["doors"]) == (True, [])
        assert (await rig.post(USERS + "/bob/password", {"password": "other"})).status == 200
        account = rig.desk.manager.accounts.find("bob")
        assert account.http is not None
        assert account.http.accepts("other")
        assert account.is_administrator
        shown = await rig.get(USERS + "/Bob")
        assert shown.json == (await rig.get(USERS)).json["users"][0]
        assert (await rig.ask("DELETE", USERS + "/bob")).status == 200
        for method, path in (("GET", "/bob"), ("DELETE", "/bob")):
            assert (await rig.ask(method, USERS + path)).status == 404
        assert (await rig.post(USERS + "/bob/password", {"password": "x"})).status == 404

    with_api(tmp_path, work)


def test_a_password_opens_the_rpc_door_while_there_is_one(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        accounts = rig.desk.manager.accounts
        accounts.certificates.key_file = lambda: b"s" * 32
        made = await rig.post(USERS, {"name": "bob", "password": "s3cret", "doors": ["rpc"]})
        assert (made.json["doors"], made.json["shut"]) == (["rpc"], [])
        assert accounts.nt_hash(accounts.find("bob")) == nt_hash("s3cret")
        await rig.post(USERS + "/bob/password", {"password": "gru\u0308n"})
        assert accounts.nt_hash(accounts.find("bob")) == nt_hash("grün")
        changed = await rig.ask("PATCH", USERS + "/bob", {"disabled": True, "doors": ["http"]})
        assert changed.json["shut"] == []
        assert accounts.find("bob").rpc == b""
        changed = await rig.ask("PATCH", USERS + "/bob", {"doors": ["http", "rpc"]})
        assert changed.json["shut"] == ["rpc"]  # until there is a password again

    with_api(tmp_path, work)


def damaged_key_file() -> bytes:
    raise CorruptedSecurityData("the key file is damaged")


def test_the_rpc_door_needs_the_key_file_for_its_verifiers(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        rig.desk.manager.certificates.key_file = damaged_key_file
        refused = await rig.post(USERS, {"name": "bob", "password": "s3cret", "doors": ["rpc"]})
        assert refused.status == 422
        assert refused.json["error"]["name"] == "MQ_ERROR_CORRUPTED_SECURITY_DATA"
        assert (await rig.get(USERS)).json == {"users": []}

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "administrator"}, 409),
        ({"name": "everyone"}, 422),
        ({"name": "S-1-5-7"}, 422),
        ({"name": "two words"}, 422),
        ({"name": "\x1b[31m"}, 422),
        ({"name": "x" * 65}, 400),
        ({"name": ""}, 400),
        ({"name": "bob", "doors": ["window"]}, 400),
        ({"name": "bob", "password": ""}, 400),
    ],
)
def test_users_that_cannot_be(body: Any, status: int, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        assert (await rig.post(USERS, body)).status == status
        assert (await rig.get(USERS)).json == {"users": []}

    with_api(tmp_path, work)


def test_a_token_is_made_used_and_revoked(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(AUDIT)
        made = await rig.post(TOKENS, {"role": "operate", "queues": [r".\private$\ord*=peek,send"]})
        assert made.status == 201
        token, info = made.json["token"], made.json["info"]
        assert info["queues"] == ["private$\\ord*=peek,send"]
        named = await rig.post(TOKENS, {"queues": ["alpha/private$/ord*=peek", "beta/private$/x"]})
        assert named.json["info"]["queues"][0] == "private$\\ord*=peek"
        assert named.json["info"]["queues"][1].startswith("beta\\private$\\x=")
        assert (await rig.post(at() + "/messages", {}, token=token)).status == 201
        assert (await rig.post(at(AUDIT) + "/messages", {}, token=token)).status == 403
        assert (await rig.post(at() + "/receive", {}, token=token)).status == 403
        assert info in (await rig.get(TOKENS)).json["tokens"]
        assert token.split("_")[2] not in (await rig.get(TOKENS)).text
        assert (await rig.ask("DELETE", f"{TOKENS}/{info['id']}")).json == {"done": True}
        assert (await rig.get(at(), token=token)).status == 401
        assert (await rig.ask("DELETE", f"{TOKENS}/{info['id']}")).status == 404

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"user": "nobody"}, 404),
        ({"role": "god"}, 400),
        ({"expires": "2001-01-01"}, 422),
        ({"expires": "tomorrow at noon"}, 422),
        ({"queues": ["*=fly"]}, 422),
        ({"queues": ["=peek"]}, 422),
    ],
)
def test_tokens_that_cannot_be(body: Any, status: int, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        before = (await rig.get(TOKENS)).json
        assert (await rig.post(TOKENS, body)).status == status
        assert (await rig.get(TOKENS)).json == before

    with_api(tmp_path, work)


def test_a_user_takes_his_tokens_along(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        token = await rig.user("bob")
        assert (await rig.get("/api/v1/status", token=token)).status == 200
        await rig.ask("PATCH", USERS + "/bob", {"disabled": True})
        assert (await rig.get("/api/v1/status", token=token)).status == 401
        await rig.ask("DELETE", USERS + "/bob")
        await rig.post(USERS, {"name": "bob"})
        assert (await rig.get("/api/v1/status", token=token)).status == 401

    with_api(tmp_path, work)


def test_a_token_cut_to_queues_reaches_no_further(tmp_path: Path) -> None:
    """It could make itself a better one otherwise."""

    async def work(rig: ApiRig) -> None:
        token = await rig.token(role=Role.ADMINISTER, scopes=(("*", QUEUE_GENERIC_ALL),))
        for method, path, body in (
            ("POST", TOKENS, {}),
            ("GET", TOKENS, None),
            ("POST", USERS, {"name": "bob"}),
            ("POST", "/api/v1/offline", None),
            ("GET", "/api/v1/transactions", None),
            ("POST", "/api/v1/backup", {"directory": "x"}),
        ):
            assert (await rig.ask(method, path, body, token=token)).status == 403
        assert (await rig.get("/metrics", token=token)).status == 403
        assert rig.backups == []

    with_api(tmp_path, work)


def test_users_who_are_no_administrators_manage_nothing(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        token = await rig.user("bob")
        for method, path, body in (
            ("POST", TOKENS, {"user": "bob"}),
            ("POST", USERS, {"name": "eve"}),
            ("PATCH", USERS + "/bob", {"administrator": True}),
            ("POST", USERS + "/bob/password", {"password": "x"}),
            ("POST", "/api/v1/online", None),
            ("POST", "/api/v1/backup", {"directory": "x"}),
            ("POST", "/api/v1/queues", {"path": ORDERS}),
        ):
            assert (await rig.ask(method, path, body, token=token)).status == 403
        admin = await rig.user("root", administrator=True)
        assert (await rig.post("/api/v1/online", token=admin)).status == 200

    with_api(tmp_path, work)


SAMPLE = {"queue": ORDERS, "lookup_id": "1", "id": "0" * 16, "name": "bob"}


def path_of(route: Route) -> str:
    path = route.path
    for name, value in SAMPLE.items():
        path = path.replace(f"{{{name}}}", at(value).rpartition("/")[2])
    return path


def test_each_route_needs_its_role_and_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who lacks the role is told so, whatever else is wrong; nobody without a token gets in.

    `test_wrong_tokens.py` has how long the answers to wrong tokens wait.
    """
    monkeypatch.setattr(wrong_tokens, "FREE", 3 * len(ROUTES))

    async def work(rig: ApiRig) -> None:
        for route in ROUTES:
            body = {"where": "priority < 8"} if route.takes_body else None
            for role in Role:
                reply = await rig.ask(
                    route.method, path_of(route), body, token=rig.tokens[role.value]
                )
                lacking = reply.status == 403 and "this needs the role" in reply.text
                if not role.includes(route.role):
                    assert lacking, (route.name, role, reply)
                else:
                    assert not lacking, (route.name, role, reply)
            for token in (None, "nonsense", "pht_" + "0" * 16 + "_" + "0" * 64):
                reply = await rig.ask(route.method, path_of(route), body, token=token)
                assert reply.status == 401
                assert reply.headers["WWW-Authenticate"].startswith("Bearer")
                assert reply.json["error"]["name"] == "MQ_ERROR_ACCESS_DENIED"

    with_api(tmp_path, work)
