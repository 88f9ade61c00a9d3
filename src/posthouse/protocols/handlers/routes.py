"""The one table of the API, of which HTTP, OpenAPI and the sessions' CALL frames are made."""

from __future__ import annotations

from typing import Final

from posthouse.api import certificates as tc
from posthouse.api import directory as td
from posthouse.api import groups as tg
from posthouse.api import peers as t2
from posthouse.api import ranges as tb
from posthouse.api import stages as ts
from posthouse.api import status as tst
from posthouse.api import transfer as tt
from posthouse.api import types as t
from posthouse.directory.document.document import Document
from posthouse.protocols.arrow import read as arrow
from posthouse.protocols.handlers import (
    certificates,
    damage,
    directory,
    groups,
    machine,
    messages,
    queues,
    stages,
)
from posthouse.protocols.handlers import move_copy_delete as bulk
from posthouse.protocols.handlers import peers as two_phase
from posthouse.protocols.handlers import read_plans as plan
from posthouse.protocols.handlers import users as security
from posthouse.protocols.handlers.route import ADMINISTER as ADMINISTER
from posthouse.protocols.handlers.route import ARROW as ARROW
from posthouse.protocols.handlers.route import JSON as JSON
from posthouse.protocols.handlers.route import OCTETS as OCTETS
from posthouse.protocols.handlers.route import OPERATE as OPERATE
from posthouse.protocols.handlers.route import PREFIX as PREFIX
from posthouse.protocols.handlers.route import READ as READ
from posthouse.protocols.handlers.route import Route as Route
from posthouse.protocols.handlers.route import route as _route
from posthouse.protocols.handlers.routes_directory import DIRECTORY_ROUTES
from posthouse.protocols.handlers.routes_jobs import JOB_ROUTES

_QUEUE = "/queues/{queue}"
_MESSAGE = _QUEUE + "/messages/{lookup_id}"
_GROUP = _QUEUE + "/groups/{group}"
_Q, _N, _G = t.QueueParams, t.Nothing, tg.GroupParams

ROUTES: Final[tuple[Route, ...]] = (
    _route("GET", "/status", READ, machine.show_status, t.StatusJson),
    _route("GET", "/books", READ, machine.show_books, t.BooksListJson, t.BooksParams, steps=True),
    # queues
    _route("GET", "/queues", READ, queues.list_queues, t.QueueListJson, t.QueuesParams, steps=True),
    _route(
        "POST",
        "/queues",
        ADMINISTER,
        queues.create_queue,
        t.QueueJson,
        _N,
        t.QueueCreateBody,
        status=201,
    ),
    _route("GET", _QUEUE, READ, queues.show_queue, t.QueueJson, _Q),
    _route("PATCH", _QUEUE, ADMINISTER, queues.set_queue, t.QueueJson, _Q, t.QueueSetBody),
    _route("DELETE", _QUEUE, ADMINISTER, queues.delete_queue, t.CountJson, t.DryRunParams),
    _route("POST", _QUEUE + "/purge", OPERATE, queues.purge_queue, t.CountJson, t.DryRunParams),
    _route("POST", _QUEUE + "/pause", OPERATE, queues.pause_queue, t.QueueJson, _Q),
    _route("POST", _QUEUE + "/resume", OPERATE, queues.resume_queue, t.QueueJson, _Q),
    _route("POST", _QUEUE + "/retry", OPERATE, queues.retry_queue, t.QueueJson, _Q),
    _route("GET", _QUEUE + "/sequences", READ, queues.show_sequences, tt.SequencesJson, _Q),
    _route(
        "POST",
        _QUEUE + "/reset-sequence",
        ADMINISTER,
        queues.reset_sequence,
        tt.ResetJson,
        tt.ResetParams,
    ),
    _route("GET", _QUEUE + "/access", READ, queues.show_access, t.AccessJson, _Q),
    _route("POST", _QUEUE + "/access/grant", ADMINISTER, queues.grant, t.Done, _Q, t.GrantBody),
    _route("POST", _QUEUE + "/access/deny", ADMINISTER, queues.deny, t.Done, _Q, t.GrantBody),
    _route("POST", _QUEUE + "/access/revoke", ADMINISTER, queues.revoke, t.Done, _Q, t.RevokeBody),
    # messages
    _route(
        "GET",
        _QUEUE + "/messages",
        READ,
        messages.list_messages,
        t.MessagePageJson,
        t.MessagesParams,
        steps=True,
    ),
    _route(
        "POST",
        _QUEUE + "/messages",
        OPERATE,
        messages.send_message,
        t.SentJson,
        _Q,
        t.SendBody,
        steps=True,
        status=201,
    ),
    _route(
        "GET", _MESSAGE, READ, messages.show_message, t.MessageJson, t.ShowMessageParams, steps=True
    ),
    _route(
        "DELETE",
        _MESSAGE,
        OPERATE,
        messages.receive_message,
        t.MessageJson,
        t.MessageParams,
        steps=True,
    ),
    _route(
        "POST",
        _QUEUE + "/receive",
        OPERATE,
        messages.receive_messages,
        t.MessageListJson,
        _Q,
        t.ReceiveBody,
        steps=True,
    ),
    _route(
        "POST",
        _QUEUE + "/move",
        OPERATE,
        bulk.move_messages,
        t.BulkJson,
        _Q,
        t.SelectToBody,
        steps=True,
    ),
    _route(
        "POST",
        _QUEUE + "/copy",
        OPERATE,
        bulk.copy_messages,
        t.BulkJson,
        _Q,
        t.SelectToBody,
        steps=True,
    ),
    _route(
        "POST",
        _QUEUE + "/delete",
        OPERATE,
        bulk.delete_messages,
        t.BulkJson,
        _Q,
        t.SelectBody,
        steps=True,
    ),
    _route(
        "POST",
        _QUEUE + "/resend",
        OPERATE,
        bulk.resend_messages,
        t.BulkJson,
        _Q,
        t.ResendBody,
        steps=True,
    ),
    _route(
        "GET",
        "/messages",
        READ,
        messages.find_messages,
        t.MessagePageJson,
        t.FindParams,
        steps=True,
    ),
    _route(
        "GET",
        "/messages/{id}/explain",
        READ,
        messages.explain_message,
        t.ExplainJson,
        t.MessageIdParams,
        steps=True,
    ),
    # messages as tables
    _route(
        "GET",
        _QUEUE + "/arrow",
        READ,
        arrow.read_arrow,
        t.Nothing,
        tb.ArrowParams,
        steps=True,
        produces=ARROW,
    ),
    _route("POST", "/bulk/plan", READ, plan.plan_reads, tb.PlanJson, _N, tb.PlanBody, steps=True),
    _route(
        "POST", "/bulk/split", READ, plan.split_range, tb.SplitJson, _N, tb.SplitBody, steps=True
    ),
    # named groups
    _route("GET", "/groups", READ, groups.list_groups, tg.GroupListJson, tg.GroupsParams),
    _route(
        "GET",
        _QUEUE + "/groups",
        READ,
        groups.list_queue_groups,
        tg.GroupListJson,
        tg.QueueGroupsParams,
    ),
    _route("GET", _GROUP, READ, groups.show_group, tg.GroupJson, _G),
    _route("POST", _GROUP + "/lease", OPERATE, groups.lease_group, tg.GroupJson, _G, tg.LeaseBody),
    _route(
        "POST", _GROUP + "/claim", OPERATE, groups.claim_messages, tg.GroupJson, _G, tg.ClaimBody
    ),
    _route(
        "POST",
        _GROUP + "/acknowledge",
        OPERATE,
        groups.acknowledge_messages,
        tg.AcknowledgedJson,
        _G,
        tg.AcknowledgeBody,
        steps=True,
    ),
    _route(
        "POST",
        _GROUP + "/release",
        OPERATE,
        groups.release_group,
        tg.ReleasedJson,
        _G,
        tg.ReleaseBody,
    ),
    _route("PATCH", _GROUP, OPERATE, groups.set_group, tg.GroupJson, _G, tg.PositionBody),
    _route("DELETE", _GROUP, OPERATE, groups.delete_group, t.Done, _G),
    # batches of messages that are published as one commit
    _route(
        "PUT",
        "/stages/{query}/{batch}/{partition}/{attempt}",
        OPERATE,
        stages.put_stage,
        ts.StagedJson,
        ts.StageParams,
        steps=True,
        consumes=ARROW,
    ),
    _route("GET", "/stages", READ, stages.list_stages, ts.StageListJson),
    _route(
        "DELETE",
        "/stages/{query}/{batch}",
        OPERATE,
        stages.discard_batch,
        ts.DiscardedJson,
        ts.BatchParams,
    ),
    _route("POST", "/publish", OPERATE, stages.publish_batch, ts.PublishedJson, _N, ts.PublishBody),
    _route("GET", "/queries/{query}", READ, stages.show_query, ts.QueryJson, ts.QueryParams),
    _route("DELETE", "/queries/{query}", OPERATE, stages.forget_query, t.Done, ts.QueryParams),
    # users and tokens
    _route("GET", "/users", ADMINISTER, security.list_users, t.UserListJson),
    _route(
        "POST",
        "/users",
        ADMINISTER,
        security.add_user,
        t.UserJson,
        _N,
        t.UserCreateBody,
        steps=True,
        status=201,
    ),
    _route("GET", "/users/{name}", ADMINISTER, security.show_user, t.UserJson, t.UserParams),
    _route(
        "PATCH",
        "/users/{name}",
        ADMINISTER,
        security.set_user,
        t.UserJson,
        t.UserParams,
        t.UserSetBody,
    ),
    _route("DELETE", "/users/{name}", ADMINISTER, security.delete_user, t.Done, t.UserParams),
    _route(
        "POST",
        "/users/{name}/password",
        ADMINISTER,
        security.set_password,
        t.Done,
        t.UserParams,
        t.PasswordBody,
        steps=True,
    ),
    _route("GET", "/tokens", ADMINISTER, security.list_tokens, t.TokenListJson),
    _route(
        "POST",
        "/tokens",
        ADMINISTER,
        security.create_token,
        t.TokenCreatedJson,
        _N,
        t.TokenCreateBody,
        status=201,
    ),
    _route("DELETE", "/tokens/{id}", ADMINISTER, security.revoke_token, t.Done, t.TokenParams),
    # certificates
    _route(
        "GET", "/certificates", ADMINISTER, certificates.list_certificates, tc.CertificateListJson
    ),
    _route(
        "POST",
        "/certificates",
        ADMINISTER,
        certificates.make_keys,
        tc.CertificateJson,
        _N,
        tc.CertificateMakeBody,
        steps=True,
        status=201,
    ),
    _route(
        "POST",
        "/users/{name}/certificates",
        ADMINISTER,
        certificates.import_certificate,
        tc.CertificateJson,
        t.UserParams,
        tc.CertificateImportBody,
        steps=True,
        status=201,
    ),
    _route(
        "POST",
        "/trust",
        ADMINISTER,
        certificates.trust_certificate,
        tc.CertificateJson,
        _N,
        tc.CertificateTrustBody,
        steps=True,
        status=201,
    ),
    _route("GET", "/machine-keys", ADMINISTER, certificates.export_keys, tc.MachineKeysJson),
    _route(
        "DELETE",
        "/certificates/{id}",
        ADMINISTER,
        certificates.remove_certificate,
        t.Done,
        tc.CertificateParams,
    ),
    # the queue manager
    _route("GET", "/transactions", READ, two_phase.list_transactions, t.TransactionListJson),
    _route(
        "POST",
        "/transactions/{id}/commit",
        OPERATE,
        two_phase.commit_transaction,
        t.Done,
        t.TransactionParams,
    ),
    _route(
        "POST",
        "/transactions/{id}/abort",
        OPERATE,
        two_phase.abort_transaction,
        t.Done,
        t.TransactionParams,
    ),
    _route("GET", "/damage", READ, damage.list_damage, tst.DamageListJson),
    _route(
        "POST",
        "/damage/accept",
        OPERATE,
        damage.accept_damage,
        t.Done,
        _N,
        tst.DamageAcceptBody,
    ),
    _route("GET", "/peers", ADMINISTER, two_phase.list_peers, t2.PeerListJson),
    _route(
        "POST",
        "/peers",
        ADMINISTER,
        two_phase.add_peer,
        t2.PeerAddedJson,
        _N,
        t2.PeerAddBody,
        status=201,
    ),
    _route("DELETE", "/peers/{name}", ADMINISTER, two_phase.remove_peer, t.Done, t2.PeerParams),
    # the directory
    _route("GET", "/directory", READ, directory.show_directory, Document),
    _route(
        "POST",
        "/directory",
        ADMINISTER,
        directory.import_directory,
        td.DirectoryChangeJson,
        _N,
        td.DirectoryImportBody,
    ),
    _route(
        "POST",
        "/directory/remove",
        ADMINISTER,
        directory.remove_from_directory,
        td.DirectoryChangeJson,
        _N,
        td.DirectoryRemoveBody,
    ),
    _route(
        "POST",
        "/directory/refresh",
        OPERATE,
        directory.refresh_directory,
        t.DirectoryStatusJson,
        steps=True,
    ),
    _route("GET", "/directory/route", READ, directory.show_route, td.RouteJson, td.RouteParams),
    *DIRECTORY_ROUTES,
    _route("POST", "/offline", OPERATE, machine.take_offline, t.OnlineJson),
    _route("POST", "/online", OPERATE, machine.bring_online, t.OnlineJson),
    _route(
        "POST",
        "/backup",
        ADMINISTER,
        machine.make_backup,
        t.BackupJson,
        _N,
        t.BackupBody,
        steps=True,
    ),
    *JOB_ROUTES,
)
