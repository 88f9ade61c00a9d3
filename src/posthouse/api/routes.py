"""The table of all routes, from which HTTP, OpenAPI, client sessions and clients are made."""

from __future__ import annotations

from typing import Final

from posthouse.api import access as ta
from posthouse.api import audit as tau
from posthouse.api import certificates as tc
from posthouse.api import directory as td
from posthouse.api import directory_names as tn
from posthouse.api import explain as tx
from posthouse.api import failures as tf
from posthouse.api import groups as tg
from posthouse.api import history as th
from posthouse.api import leases as tl
from posthouse.api import operations as to
from posthouse.api import peers as t2
from posthouse.api import pulls as tp
from posthouse.api import queries as tq
from posthouse.api import ranges as tb
from posthouse.api import refused as tr
from posthouse.api import sends as tse
from posthouse.api import stages as ts
from posthouse.api import status as tst
from posthouse.api import tails as ttl
from posthouse.api import transfer as tt
from posthouse.api import types as t
from posthouse.api.directory import DirectoryChangeJson
from posthouse.api.job_routes import JOB_ROUTES
from posthouse.api.route import ADMINISTER, ARROW, LOOK, OPERATE, READ, Route, route
from posthouse.api.types import Nothing
from posthouse.directory.document.document import Document

DIRECTORY_ROUTES: Final[tuple[Route, ...]] = (
    route(
        "GET",
        "/directory/queues",
        LOOK,
        "find_queues",
        tn.PublicQueueListJson,
        tn.QueueSearchParams,
    ),
    route(
        "POST",
        "/directory/users",
        ADMINISTER,
        "enter_user",
        DirectoryChangeJson,
        Nothing,
        tn.DirectoryUserBody,
    ),
    route("GET", "/directory/place", LOOK, "show_place", tn.QueuePlaceJson, tn.PlaceParams),
)


_QUEUE = "/queues/{queue}"
_MESSAGE = _QUEUE + "/messages/{lookup_id}"
_GROUP = _QUEUE + "/groups/{group}"
_OPERATION, _OP = "/operations/{operation}", to.OperationParams
_Q, _N, _G = t.QueueParams, t.Nothing, tg.GroupParams

ROUTES: Final[tuple[Route, ...]] = (
    route("GET", "/status", LOOK, "show_status", t.StatusJson),
    route("GET", "/history", LOOK, "show_history", th.HistoryJson, th.HistoryParams),
    route("GET", "/books", LOOK, "show_books", t.BooksListJson, t.BooksParams),
    # queues
    route("GET", "/queues", LOOK, "list_queues", t.QueueListJson, t.QueuesParams),
    route(
        "POST",
        "/queues",
        ADMINISTER,
        "create_queue",
        t.QueueJson,
        _N,
        t.QueueCreateBody,
        status=201,
    ),
    route("GET", _QUEUE, LOOK, "show_queue", t.QueueJson, _Q),
    route("PATCH", _QUEUE, ADMINISTER, "set_queue", t.QueueJson, _Q, t.QueueSetBody),
    route("DELETE", _QUEUE, ADMINISTER, "delete_queue", t.CountJson, t.DryRunParams),
    route("POST", _QUEUE + "/purge", OPERATE, "purge_queue", t.CountJson, t.DryRunParams),
    route("POST", _QUEUE + "/pause", OPERATE, "pause_queue", t.QueueJson, _Q),
    route("POST", _QUEUE + "/resume", OPERATE, "resume_queue", t.QueueJson, _Q),
    route("POST", _QUEUE + "/retry", OPERATE, "retry_queue", t.QueueJson, _Q),
    route("GET", _QUEUE + "/sequences", LOOK, "show_sequences", tt.SequencesJson, _Q),
    route(
        "POST",
        _QUEUE + "/reset-sequence",
        ADMINISTER,
        "reset_sequence",
        tt.ResetJson,
        tt.ResetParams,
    ),
    route("GET", _QUEUE + "/access", LOOK, "show_access", ta.AccessJson, _Q),
    route("PUT", _QUEUE + "/access", ADMINISTER, "set_access", ta.AccessJson, _Q, ta.AccessSetBody),
    route("POST", _QUEUE + "/access/grant", ADMINISTER, "grant", t.Done, _Q, ta.GrantBody),
    route("POST", _QUEUE + "/access/deny", ADMINISTER, "deny", t.Done, _Q, ta.GrantBody),
    route("POST", _QUEUE + "/access/revoke", ADMINISTER, "revoke", t.Done, _Q, ta.RevokeBody),
    # messages
    route(
        "GET",
        _QUEUE + "/messages",
        LOOK,
        "list_messages",
        t.MessagePageJson,
        t.MessagesParams,
    ),
    route(
        "POST",
        _QUEUE + "/messages",
        OPERATE,
        "send_message",
        tse.SentJson,
        _Q,
        tse.SendBody,
        status=201,
    ),
    route("GET", _QUEUE + "/tail", LOOK, "tail_queue", ttl.TailJson, ttl.TailParams),
    route("GET", _MESSAGE, LOOK, "show_message", t.MessageJson, t.ShowMessageParams),
    route(
        "DELETE",
        _MESSAGE,
        OPERATE,
        "receive_message",
        t.MessageJson,
        t.MessageParams,
    ),
    route(
        "POST",
        _QUEUE + "/receive",
        OPERATE,
        "receive_messages",
        t.MessageListJson,
        _Q,
        t.ReceiveBody,
    ),
    route("POST", _QUEUE + "/lease", OPERATE, "lease_messages", tl.LeasedJson, _Q, tl.TakeBody),
    route("GET", "/leases", LOOK, "list_leases", tl.LeaseListJson, tl.LeasesParams),
    route("DELETE", "/leases/{id}", OPERATE, "release_lease", tl.LeaseReleasedJson, tl.LeaseParams),
    route(
        "POST",
        "/leases/{id}/end",
        OPERATE,
        "end_lease",
        tl.LeaseJson,
        tl.LeaseParams,
        tl.LeaseEndBody,
    ),
    route(
        "POST",
        "/leases/{id}/renew",
        OPERATE,
        "renew_lease",
        tl.LeaseJson,
        tl.LeaseParams,
        tl.LeaseRenewBody,
    ),
    route(
        "POST",
        _QUEUE + "/move",
        OPERATE,
        "move_messages",
        t.BulkJson,
        _Q,
        t.MoveMessagesBody,
    ),
    route(
        "POST",
        _QUEUE + "/copy",
        OPERATE,
        "copy_messages",
        t.BulkJson,
        _Q,
        t.SelectToBody,
    ),
    route(
        "POST",
        _QUEUE + "/delete",
        OPERATE,
        "delete_messages",
        t.BulkJson,
        _Q,
        t.SelectBody,
    ),
    route(
        "POST",
        _QUEUE + "/resend",
        OPERATE,
        "resend_messages",
        t.BulkJson,
        _Q,
        t.ResendBody,
    ),
    route(
        "POST",
        _QUEUE + "/return",
        OPERATE,
        "return_messages",
        tf.ReturnJson,
        _Q,
        tf.ReturnBody,
    ),
    route(
        "POST",
        "/operations",
        OPERATE,
        "begin_operation",
        to.OperationJson,
        _N,
        to.OperationBody,
        status=201,
    ),
    route("GET", "/operations", LOOK, "list_operations", to.OperationListJson),
    route("GET", _OPERATION, LOOK, "show_operation", to.OperationJson, _OP),
    route("POST", _OPERATION + "/stop", OPERATE, "stop_operation", to.OperationJson, _OP),
    route("POST", _OPERATION + "/resume", OPERATE, "resume_operation", to.OperationJson, _OP),
    route("DELETE", _OPERATION, OPERATE, "forget_operation", to.ForgottenJson, _OP),
    route(
        "GET",
        _QUEUE + "/failures",
        READ,
        "list_failures",
        tf.FailuresJson,
        tf.FailuresParams,
    ),
    route(
        "GET",
        "/messages",
        LOOK,
        "find_messages",
        t.MessagePageJson,
        t.FindParams,
    ),
    route(
        "GET",
        "/messages/{id}/explain",
        LOOK,
        "explain_message",
        tx.LifeJson,
        tx.ExplainParams,
    ),
    route("GET", "/refused", LOOK, "list_refused", tr.RefusedListJson, tr.RefusedParams),
    # messages as tables
    route(
        "GET",
        _QUEUE + "/arrow",
        READ,
        "read_arrow",
        t.Nothing,
        tb.ArrowParams,
        produces=ARROW,
    ),
    route("POST", "/bulk/plan", READ, "plan_reads", tb.PlanJson, _N, tb.PlanBody),
    route("POST", "/bulk/split", READ, "split_range", tb.SplitJson, _N, tb.SplitBody),
    route("POST", "/sql", READ, "run_query", tq.QueryResultJson, _N, tq.QueryBody),
    # named groups
    route("GET", "/groups", LOOK, "list_groups", tg.GroupListJson, tg.GroupsParams),
    route(
        "GET",
        _QUEUE + "/groups",
        LOOK,
        "list_queue_groups",
        tg.GroupListJson,
        tg.QueueGroupsParams,
    ),
    route("GET", _GROUP, LOOK, "show_group", tg.GroupJson, _G),
    route("POST", _GROUP + "/lease", OPERATE, "lease_group", tg.GroupJson, _G, tg.LeaseBody),
    route("POST", _GROUP + "/claim", OPERATE, "claim_messages", tg.GroupJson, _G, tg.ClaimBody),
    route(
        "POST",
        _GROUP + "/acknowledge",
        OPERATE,
        "acknowledge_messages",
        tg.AcknowledgedJson,
        _G,
        tg.AcknowledgeBody,
    ),
    route(
        "POST",
        _GROUP + "/release",
        OPERATE,
        "release_group",
        tg.ReleasedJson,
        _G,
        tg.ReleaseBody,
    ),
    route("PATCH", _GROUP, OPERATE, "set_group", tg.GroupJson, _G, tg.PositionBody),
    route("DELETE", _GROUP, OPERATE, "delete_group", t.Done, _G),
    # batches of messages that are published as one commit
    route(
        "PUT",
        "/stages/{query}/{batch}/{partition}/{attempt}",
        OPERATE,
        "put_stage",
        ts.StagedJson,
        ts.StageParams,
        consumes=ARROW,
    ),
    route("GET", "/stages", LOOK, "list_stages", ts.StageListJson),
    route(
        "DELETE",
        "/stages/{query}/{batch}",
        OPERATE,
        "discard_batch",
        ts.DiscardedJson,
        ts.BatchParams,
    ),
    route("POST", "/publish", OPERATE, "publish_batch", ts.PublishedJson, _N, ts.PublishBody),
    route("GET", "/queries/{query}", LOOK, "show_query", ts.QueryJson, ts.QueryParams),
    route("DELETE", "/queries/{query}", OPERATE, "forget_query", t.Done, ts.QueryParams),
    # messages taken over from queues of other machines
    route("GET", "/pulls", ADMINISTER, "list_pulls", tp.PullListJson),
    route("POST", "/pulls", ADMINISTER, "begin_pull", tp.PullJson, _N, tp.PullBeginBody),
    route(
        "GET",
        "/pulls/{id}/messages",
        ADMINISTER,
        "list_pulled",
        tp.PulledListJson,
        tp.PulledParams,
    ),
    route(
        "POST",
        "/pulls/{id}/messages",
        ADMINISTER,
        "take_messages",
        tp.TakenJson,
        tp.PullParams,
        tp.OfferBody,
    ),
    route("POST", "/pulls/{id}/end", ADMINISTER, "end_pull", t.Done, tp.PullParams, tp.PullEndBody),
    route("DELETE", "/pulls/{id}", ADMINISTER, "forget_pull", t.Done, tp.PullParams),
    # what operators did
    route("GET", "/audit", ADMINISTER, "show_audit", tau.AuditPageJson, tau.AuditParams),
    route("GET", "/log", ADMINISTER, "tail_log", ttl.LogTailJson, ttl.LogTailParams),
    # users and tokens
    route("GET", "/users", ADMINISTER, "list_users", t.UserListJson),
    route(
        "POST",
        "/users",
        ADMINISTER,
        "add_user",
        t.UserJson,
        _N,
        t.UserCreateBody,
        status=201,
    ),
    route("GET", "/users/{name}", ADMINISTER, "show_user", t.UserJson, t.UserParams),
    route(
        "PATCH",
        "/users/{name}",
        ADMINISTER,
        "set_user",
        t.UserJson,
        t.UserParams,
        t.UserSetBody,
    ),
    route("DELETE", "/users/{name}", ADMINISTER, "delete_user", t.Done, t.UserParams),
    route(
        "POST",
        "/users/{name}/password",
        ADMINISTER,
        "set_password",
        t.Done,
        t.UserParams,
        t.PasswordBody,
    ),
    route("GET", "/tokens", ADMINISTER, "list_tokens", t.TokenListJson),
    route(
        "POST",
        "/tokens",
        ADMINISTER,
        "create_token",
        t.TokenCreatedJson,
        _N,
        t.TokenCreateBody,
        status=201,
    ),
    route("DELETE", "/tokens/{id}", ADMINISTER, "revoke_token", t.Done, t.TokenParams),
    # certificates
    route("GET", "/certificates", ADMINISTER, "list_certificates", tc.CertificateListJson),
    route(
        "POST",
        "/certificates",
        ADMINISTER,
        "make_keys",
        tc.CertificateJson,
        _N,
        tc.CertificateMakeBody,
        status=201,
    ),
    route(
        "POST",
        "/users/{name}/certificates",
        ADMINISTER,
        "import_certificate",
        tc.CertificateJson,
        t.UserParams,
        tc.CertificateImportBody,
        status=201,
    ),
    route(
        "POST",
        "/trust",
        ADMINISTER,
        "trust_certificate",
        tc.CertificateJson,
        _N,
        tc.CertificateTrustBody,
        status=201,
    ),
    route("GET", "/machine-keys", ADMINISTER, "export_keys", tc.MachineKeysJson),
    route(
        "DELETE",
        "/certificates/{id}",
        ADMINISTER,
        "remove_certificate",
        t.Done,
        tc.CertificateParams,
    ),
    # the queue manager
    route("GET", "/transactions", LOOK, "list_transactions", t.TransactionListJson),
    route(
        "POST",
        "/transactions/{id}/commit",
        OPERATE,
        "commit_transaction",
        t.Done,
        t.TransactionParams,
    ),
    route(
        "POST",
        "/transactions/{id}/abort",
        OPERATE,
        "abort_transaction",
        t.Done,
        t.TransactionParams,
    ),
    route("GET", "/damage", LOOK, "list_damage", tst.DamageListJson),
    route(
        "POST",
        "/damage/accept",
        OPERATE,
        "accept_damage",
        t.Done,
        _N,
        tst.DamageAcceptBody,
    ),
    route("GET", "/peers", ADMINISTER, "list_peers", t2.PeerListJson),
    route(
        "POST",
        "/peers",
        ADMINISTER,
        "add_peer",
        t2.PeerAddedJson,
        _N,
        t2.PeerAddBody,
        status=201,
    ),
    route("DELETE", "/peers/{name}", ADMINISTER, "remove_peer", t.Done, t2.PeerParams),
    # the directory
    route("GET", "/directory", LOOK, "show_directory", Document),
    route(
        "POST",
        "/directory",
        ADMINISTER,
        "import_directory",
        td.DirectoryChangeJson,
        _N,
        td.DirectoryImportBody,
    ),
    route(
        "POST",
        "/directory/remove",
        ADMINISTER,
        "remove_from_directory",
        td.DirectoryChangeJson,
        _N,
        td.DirectoryRemoveBody,
    ),
    route(
        "POST",
        "/directory/refresh",
        OPERATE,
        "refresh_directory",
        t.DirectoryStatusJson,
    ),
    route("GET", "/directory/route", LOOK, "show_route", td.RouteJson, td.RouteParams),
    *DIRECTORY_ROUTES,
    route("POST", "/offline", OPERATE, "take_offline", t.OnlineJson),
    route("POST", "/online", OPERATE, "bring_online", t.OnlineJson),
    route(
        "POST",
        "/backup",
        ADMINISTER,
        "make_backup",
        t.BackupJson,
        _N,
        t.BackupBody,
    ),
    *JOB_ROUTES,
)
