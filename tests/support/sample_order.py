"""One message for tests of filters."""

from __future__ import annotations

from posthouse.model.message_json import MessageJson, TransactionJson

ORDER = MessageJson(
    id="00000000-0000-0000-0000-000000000001\\7",
    lookup_id=42,
    queue="ALPHA\\private$\\orders",
    label='Order "7"',
    body=b"<order/>",
    body_text="<order/>",
    body_type=0,
    body_size=8,
    priority=5,
    class_="normal",
    class_code=0,
    delivery="recoverable",
    correlation_id="00" * 20,
    sent_time="2026-01-31T12:00:00Z",
    arrived_time="2026-01-31T12:00:01Z",
    source_queue_manager="00000000-0000-0000-0000-000000000001",
    destination="DIRECT=OS:ALPHA\\private$\\orders",
    admin_queue="",
    response_queue="",
    acknowledge=["pos-arrival", "neg-receive"],
    journal=["negative"],
    app_specific=16,
    connector_type="",
    trace="",
    time_to_be_received=None,
    authenticated=True,
    encrypted=False,
    sender="S-1-5-32-544",
    extension=b"",
    transaction=TransactionJson(1, True, True),
    abort_count=2,
    move_count=0,
)
