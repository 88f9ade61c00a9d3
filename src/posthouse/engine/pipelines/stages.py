"""Staged writes: many messages are appended as they come, pending, and published as one commit.

An upload appends its messages in portions and becomes a stage at its end, by one record. A publish
names the stages that count; one CHANGE record gives all their messages lookup ids, ends
the other stages of the batch and notes how far the query has come. So after a crash a stage is
there or not, a batch is published or not, and a second publish of a batch finds that it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import compress, islice, pairwise
from math import inf

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import Accepting, OpenedQueues, OpenTransactions
from posthouse.engine.ledger.records import (
    FLAG_FIRST,
    FLAG_LAST,
    KEPT,
    TABLE_QUERY,
    TABLE_STAGE,
    Change,
    Publish,
    Row,
)
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.messages.admission import Admission, check_protection
from posthouse.engine.messages.enqueue import destination_name
from posthouse.engine.messages.room import Room
from posthouse.engine.pipelines.stage import (
    ASKING,
    TRANSACTIONAL,
    UNSIGNED,
    BatchSignature,
    PublishResult,
    Query,
    Stage,
    StagedRun,
    StageKey,
    StagePart,
    StageTarget,
    Upload,
    asking,
    check_key,
    check_query,
    decode_query,
    decode_stage,
    encode,
)
from posthouse.engine.pipelines.stage_reach import StageReach
from posthouse.engine.pipelines.stage_refusals import (
    ASKING_MAX,
    BatchDiffers,
    BatchPast,
    StageMissing,
    TooManyAsk,
)
from posthouse.engine.queues.open_queues import QueueAccessType, QueueShareMode
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import (
    AccessDenied,
    InsufficientResources,
    InvalidParameter,
    OperationCancelled,
    QueueDeleted,
    UnsupportedFormatNameOperation,
)
from posthouse.model.names import FormatName, PathName, parse_name
from posthouse.security.access import Caller
from posthouse.wire.packet.batch import StagedBatch
from posthouse.wire.packet.packet_fields import TRANSACTION

TARGETS_MAX = 10_000  # of one stage
_SEND = QueueAccessType.SEND


class Stages:
    """All stages, the uploads under way, and how far each query has published."""

    published_batches: int  # since the start
    published_messages: int

    def __init__(
        self,
        core: Ledger,
        admission: Admission,
        opening: OpenedQueues,
        sending: Accepting,
        transfer: MachineTransfer,
        transactions: OpenTransactions,
        expand: Callable[[FormatName], FormatName],
    ) -> None:
        self.core = core
        self._admission = admission
        self._opening = opening
        self._sending = sending
        self._transfer = transfer
        self._transactions = transactions
        self._expand = expand
        self._reach = StageReach(core, opening)
        self.stages: dict[StageKey, Stage] = {}
        self.queries: dict[str, Query] = {}
        self.uploads: set[Upload] = set()
        self.published_batches = self.published_messages = 0
        self._keys_of: dict[str, set[StageKey]] = {}
        self._owners_of: dict[str, Counter[bytes]] = {}  # how many stages each has of a query
        self._stages_of: Counter[bytes] = Counter()  # how many each user has
        self._queries_of: Counter[bytes] = Counter()  # the same for what has published
        self._due_utc: int | None = None
        self._query_due_utc: int | None = None

    def listed(self, caller: Caller) -> list[tuple[StageKey, Stage]]:
        """Return what the caller may see: all, their own, or what a narrow token reaches."""
        if caller.is_administrator and caller.scopes is None:
            return list(self.stages.items())
        own = [one for one in self.stages.items() if one[1].owner == caller.sid]
        return [one for one in own if self._reach.reaches(caller, one[1].parts)]

    def load(self) -> None:
        """Everything the store kept. A stage of which records were given up is gone."""
        core, change = self.core, Change()
        for name, value in core.state.of_table(TABLE_QUERY):
            self._know(name.decode(), decode_query(value))
        for packed, value in core.state.of_table(TABLE_STAGE):
            key, stage = StageKey.unpack(packed), decode_stage(value)
            self._add(key, stage)
            for part in stage.parts:
                self._reserve(part.queue, part.size)
            if not all(core.state.pending.holds(part.number, part.count) for part in stage.parts):
                core.event("stage_incomplete", query=key.query, batch=key.batch)
                self._drop(key, change)
        core.effects.commit(change)

    def runs(self) -> Iterator[tuple[int, int]]:
        """First number and count of all messages that are staged."""
        for stage in self.stages.values():
            for part in stage.parts:
                yield part.number, part.count

    def __len__(self) -> int:
        return len(self.stages)

    @property
    def messages(self) -> int:
        """How many messages wait for their batches."""
        return sum(stage.messages for stage in self.stages.values())

    @property
    def size(self) -> int:
        """Bytes of their packets."""
        return sum(stage.size for stage in self.stages.values())

    # -- writing a stage

    def begin(
        self, key: StageKey, caller: Caller, signature: BatchSignature = UNSIGNED
    ) -> Upload | None:
        """Begins an upload of this stage; None if its batch is published already.

        If only the messages can show that, the stage is written, and `publish` decides.
        """
        check_key(key)
        self._check_owners(key.query, caller)
        self._check_reach(key.query, caller)
        if self._is_published(key.query, key.batch, signature):
            return None
        self._check_room(caller.sid)
        upload = Upload(key, caller)
        self.uploads.add(upload)
        return upload

    def _is_published(self, query: str, batch: int, signature: BatchSignature) -> bool:
        """Whether this batch is the last one that its query published; refused if it is another.

        Spark repeats its last batch only: a lower number is that of a checkpoint begun again.
        """
        known = self.queries.get(query)
        if known is None or batch > known.batch:
            return False
        if batch < known.batch:
            raise BatchPast(query, batch, known.batch)
        same = known.is_same(signature)
        if same is False:
            raise BatchDiffers(query, batch, known.difference(signature))
        return bool(same)

    def _check_room(self, user: bytes) -> None:
        """There is an end to stages, and an earlier one to those of one user."""
        settings, under_way = self.core.settings, self.uploads
        if len(self.stages) + len(under_way) >= settings.limits.stages_max:
            raise InsufficientResources(
                "too many stages wait for their batches",
                "Discard those of dead queries, or raise [limits] stages_max.",
            )
        own = self._stages_of[user] + sum(one.caller.sid == user for one in under_way)
        if own >= settings.limits.stages_per_user:
            raise InsufficientResources(
                f"{own} stages of this user wait for their batches, which is the limit for one "
                "user",
                "Discard those of dead queries, write with fewer partitions, or raise [limits] "
                "stages_per_user.",
            )

    def _check_queries(self, user: bytes) -> None:
        """Limit the queries whose last batch is kept, which outlive their stages."""
        settings, own = self.core.settings, self._queries_of[user]
        if (
            len(self.queries) >= settings.limits.stages_max
            or own >= settings.limits.stages_per_user
        ):
            raise InsufficientResources(
                f"the published batches of {len(self.queries)} queries are kept, {own} of them of "
                "this user, which is the limit",
                "Forget queries that are finished (posthouse stage forget QUERY), or raise "
                "[limits] stages_max and stages_per_user.",
            )

    def target(self, upload: Upload, name: str) -> StageTarget:
        """Opens a queue that messages of the stage go to, as for any sender."""
        self._check_open(upload)
        if len(upload.opened) >= TARGETS_MAX:
            raise InsufficientResources(f"a stage has at most {TARGETS_MAX} destinations")
        parsed = parse_name(name)
        if not isinstance(parsed, PathName):
            parsed = self._expand(parsed)
        descriptor = self._opening.open(
            parsed, _SEND, QueueShareMode.DENY_NONE, upload.caller, upload
        )
        if descriptor.nested:
            self._opening.close(descriptor)
            raise UnsupportedFormatNameOperation("a row goes to one queue, not to a list")
        queue, definition = descriptor.target(), descriptor.target().definition
        upload.opened[queue.number] = descriptor
        outgoing = queue.outgoing is not None
        if not outgoing:
            check_protection(queue, False, False)  # messages of a batch are neither
        return StageTarget(
            queue.number,
            destination_name(self.core, descriptor),
            outgoing,
            definition.transactional and not outgoing,
        )

    def check_answers(self, upload: Upload, name: str) -> None:
        """A queue for acknowledgments, which the writer must be allowed to write to themselves."""
        self._opening.check_answer_queue(parse_name(name), upload.caller)

    def reserve(self, count: int) -> tuple[int, list[int]]:
        """The first of this many numbers in a row, and as many ordinals."""
        return self.core.message_numbers.run(count).start, self.core.ordinals.run(count)

    def append(self, upload: Upload, runs: list[StagedRun]) -> None:
        """A portion of a stage: all of it, or a refusal and nothing of it."""
        self._check_open(upload)
        core, room = self.core, Room()
        asks = sum(asking(run.rows).count(1) for run in runs if run.kind & ASKING)
        if upload.asking + asks > ASKING_MAX:
            raise TooManyAsk(ASKING_MAX)
        for run in runs:
            queue = self._opening.check(upload.opened[run.queue], _SEND)
            batch = StagedBatch([record[3] for record in run.records], run.size)
            transactional = bool(batch.head.user_flags & TRANSACTION)
            self._admission.admit(queue, batch, 0, transactional, room)
        upload.asking += asks
        for run in runs:
            count = len(run.records)
            core.state.arrive_pending(run.number, run.rows)
            core.effects.records += run.records
            self._reserve(run.queue, run.size)
            upload.parts.append(StagePart(run.queue, run.number, count, run.size, run.kind))
            upload.messages += count
            upload.size += run.size

    def finish(self, upload: Upload) -> Stage:
        """The stage is whole. It takes the place of one with the same key."""
        self._check_open(upload)
        core, change, key = self.core, Change(), upload.key
        if key in self.stages:
            self._reach.check(key.query, upload.caller, self.stages[key].parts)
            self._drop(key, change)
        stage = Stage(core.utc, upload.caller.sid, upload.messages, upload.size, upload.parts)
        self._add(key, stage)
        core.define(TABLE_STAGE, key.pack(), encode(stage), change)
        self._close(upload)
        core.commit(change)
        return stage

    def abort(self, upload: Upload) -> None:
        """The stage will never be whole: what there is of it is gone."""
        if upload.ended:
            return
        change = Change()
        self._drop_parts(upload.parts, change)
        self._close(upload)
        self.core.commit(change)

    def _close(self, upload: Upload) -> None:
        upload.ended = True
        self.uploads.discard(upload)
        self._opening.close_of(upload)

    def _check_open(self, upload: Upload) -> None:
        if upload.ended:
            raise OperationCancelled("this stage is no longer being written")

    # -- publishing

    def publish(
        self,
        query: str,
        batch: int,
        chosen: list[tuple[int, int]],
        caller: Caller,
        signature: BatchSignature = UNSIGNED,
    ) -> PublishResult:
        """All messages of these stages (partition, attempt) become available, in one commit.

        Everything is checked first. A batch that was published before is left as it is.
        """
        keys = [StageKey(query, batch, *one) for one in chosen]
        for key in keys or [StageKey(query, batch, 0, 0)]:
            check_key(key)
        self._check_owners(query, caller)
        known, change = self.queries.get(query), Change()
        self._check_reach(query, caller)
        same = self._is_published(query, batch, signature)
        if known is not None and batch == known.batch:
            if not same:
                self._check_again(query, known, keys)
            self._drop_up_to(query, batch, change)
            self.core.commit(change)
            return PublishResult(known.messages, True)
        if known is None:
            self._check_queries(caller.sid)
        stages = self._chosen(keys, caller)
        parts = [part for stage in stages for part in stage.parts]
        marked = [(p.queue, at) for at, p in enumerate(parts) if p.kind & TRANSACTIONAL]
        first, last = dict(reversed(marked)), dict(marked)
        for at, part in enumerate(parts):
            self._publish(part, first.get(part.queue) == at, last.get(part.queue) == at, change)
        messages = sum(stage.messages for stage in stages)
        for key in keys:
            self._forget(key, change)
        self._drop_up_to(query, batch, change)
        queues = [] if known is None else known.queues
        if queues is not None or caller.scopes is None:
            queues = self._reach.living(part.queue for part in parts) or queues
        done = Query(batch, caller.sid, self.core.utc, messages, *signature, queues=queues)
        self._note(query, done, change)
        self.published_batches += 1
        self.published_messages += messages
        self.core.commit(change)
        return PublishResult(messages, False)

    def _check_again(self, query: str, known: Query, keys: list[StageKey]) -> None:
        """Checks a repeated batch that only its messages identify: it must have as many as the
        first.

        If the stages are gone, the publish itself is repeated: the first one removed them.
        """
        again = [self.stages[key].messages for key in keys if key in self.stages]
        messages = sum(again)
        if again and messages != known.messages:
            why = f"it has {messages} messages, and the published one has {known.messages}"
            raise BatchDiffers(query, known.batch, why)

    def _chosen(self, keys: list[StageKey], caller: Caller) -> list[Stage]:
        if len({key.partition for key in keys}) < len(keys):
            raise InvalidParameter("a partition is named twice; one attempt of each counts")
        missing = [key for key in keys if key not in self.stages]
        if missing:
            _, batch, partition, attempt = missing[0]
            raise StageMissing(
                f"of batch {batch} the stage of partition {partition}, attempt {attempt} is "
                "unknown or has expired, so nothing was published"
            )
        stages = [self.stages[key] for key in keys]
        parts = [part for stage in stages for part in stage.parts]
        for number in dict.fromkeys(part.queue for part in parts):
            queue = self.core.queues.get(number)
            if queue is None or queue.deleted:
                raise QueueDeleted("a queue that messages of this batch go to was deleted")
            self._opening.require(queue, caller, _SEND)
        if sum(self._asking(part).count(1) for part in parts) > ASKING_MAX:
            raise TooManyAsk(ASKING_MAX)
        return stages

    def _publish(self, part: StagePart, first: bool, last: bool, change: Change) -> None:
        """Decision 43: the first and the last to a queue are marked, so these go apart.

        Those whose time is over go with the others: the next turns end them, some in each.
        """
        core, count = self.core, part.count
        queue, transactional = core.queues[part.queue], bool(part.kind & TRANSACTIONAL)
        self._transactions.release(queue, part.size)
        cuts, asks = {0, int(first), count - int(last), count}, self._asking(part)
        for at in compress(range(count), asks):
            cuts.update((at, at + 1))
        for start, end in pairwise(sorted(cuts)):
            flags = FLAG_FIRST if first and not start else 0
            flags |= FLAG_LAST if last and end == count else 0
            ids, place = core.lookup_ids.run(end - start), 0
            if transactional and queue.outgoing is not None:
                sequences = self._transfer.sequences
                place = sequences.number(queue, ids.start, end - start, change).number
            number = part.number + start
            run = Publish(number, end - start, ids.start, core.utc, place, flags)
            if asks and asks[start]:
                self._deliver(queue, run, change)
            else:
                core.publish(run, change)
        self._announce(queue, part)

    def _deliver(self, queue: Queue, run: Publish, change: Change) -> None:
        """One message whose arrival has consequences."""
        core = self.core
        old = core.state.table.get(run.number)
        assert old is not None
        row: Row = old._replace(
            lookup_id=run.lookup_id,
            arrived=run.arrived,
            last_move=run.place,
            flags=old.flags | run.flags,
        )
        core.settle(run.number, row, KEPT, change)
        self._sending.arrived(queue, range(run.number, run.number + 1), row, b"", change)

    def _asking(self, part: StagePart) -> bytes:
        """A byte for each message: 1 where its arrival has consequences; empty: nowhere."""
        if not part.kind & ASKING:
            return b""
        return asking(self.core.state.table.packed(part.number, part.count))

    def _announce(self, queue: Queue, part: StagePart) -> None:
        """No reader that waits takes more than one of them, and none whose time is over."""
        core = self.core
        if queue.outgoing is not None:
            core.effects.active.add(queue.number)
        if queue.waiters:
            expiries = core.state.table.run_expiries(part.number, part.count)
            in_time = (part.number + at for at, due in enumerate(expiries) if due > core.utc)
            for number in islice(in_time, len(queue.waiters)):
                core.announce(queue, number)

    # -- dropping

    def discard(self, query: str, batch: int | None, caller: Caller) -> int:
        """Drops the stages of a batch, or of a whole query; how many there were."""
        check_query(query)
        self._check_owners(query, caller)
        keys = [k for k in self._keys_of.get(query, ()) if batch is None or k.batch == batch]
        self._reach.check(query, caller, (p for k in keys for p in self.stages[k].parts))
        change = Change()
        for key in keys:
            self._drop(key, change)
        self.core.commit(change)
        return len(keys)

    def progress(self, query: str, caller: Caller) -> tuple[Query | None, int]:
        """How far a query has published, and how many stages it has."""
        check_query(query)
        self._check_owners(query, caller)
        self._check_reach(query, caller)
        return self.queries.get(query), len(self._keys_of.get(query, ()))

    def forget_query(self, query: str, caller: Caller) -> bool:
        """Forgets how far a query has published, and its stages; False: it was not known."""
        if (known := self.queries.get(query)) is not None:
            self._reach.check(query, caller, (), known.queues)
        self.discard(query, None, caller)
        if known is None:
            return False
        self._unknow(query)
        self.core.define(TABLE_QUERY, query.encode(), None)
        return True

    def _drop_up_to(self, query: str, batch: int, change: Change) -> None:
        for key in [key for key in self._keys_of.get(query, ()) if key.batch <= batch]:
            self._drop(key, change)

    def _drop(self, key: StageKey, change: Change) -> None:
        """A stage is gone with its messages."""
        self._drop_parts(self.stages[key].parts, change)
        self._forget(key, change)

    def _drop_parts(self, parts: Iterable[StagePart], change: Change) -> None:
        for part in parts:
            self.core.drop(part.number, part.count, change)
            self._transactions.release(self.core.queues.get(part.queue), part.size)

    def _forget(self, key: StageKey, change: Change) -> None:
        """Removes a stage; the caller decides what happens to its messages."""
        stage = self.stages.pop(key)
        keys, owners = self._keys_of[key.query], self._owners_of[key.query]
        keys.discard(key)
        for counts in (owners, self._stages_of):
            counts[stage.owner] -= 1
            if not counts[stage.owner]:
                del counts[stage.owner]
        if not keys:
            del self._keys_of[key.query], self._owners_of[key.query]
        self.core.define(TABLE_STAGE, key.pack(), None, change)

    # -- shared

    def _add(self, key: StageKey, stage: Stage) -> None:
        self.stages[key] = stage
        self._keys_of.setdefault(key.query, set()).add(key)
        self._owners_of.setdefault(key.query, Counter())[stage.owner] += 1
        self._stages_of[stage.owner] += 1
        due = stage.created + self.core.settings.limits.stage_expiry_s
        self._due_utc = due if self._due_utc is None else min(self._due_utc, due)
        self.core.deadlines.note_utc(due)

    def _note(self, query: str, known: Query, change: Change) -> None:
        if query in self.queries:
            self._unknow(query)
        self._know(query, known)
        self.core.define(TABLE_QUERY, query.encode(), encode(known), change)

    def _know(self, query: str, known: Query) -> None:
        self.queries[query] = known
        self._queries_of[known.owner] += 1
        due = known.published + self.core.settings.limits.query_expiry_s
        self._query_due_utc = min(self._query_due_utc or due, due)
        self.core.deadlines.note_utc(due)

    def _unknow(self, query: str) -> None:
        owner = self.queries.pop(query).owner
        self._queries_of[owner] -= 1
        if not self._queries_of[owner]:
            del self._queries_of[owner]

    def _reserve(self, number: int, size: int) -> None:
        """Staged messages count against quotas, as those of open transactions do."""
        self.core.reserved += size
        queue = self.core.queues.get(number)
        if queue is not None:
            queue.reserved += size

    def _check_owners(self, query: str, caller: Caller) -> None:
        """A query belongs to the user who began it, and to administrators."""
        if caller.is_administrator and caller.scopes is None:
            return
        known = self.queries.get(query)
        owners = self._owners_of.get(query, Counter()).keys()
        if owners - {caller.sid} or (known is not None and known.owner != caller.sid):
            raise AccessDenied(f"the query {query} belongs to another user")

    def _check_reach(self, query: str, caller: Caller) -> None:
        # Where the record of an older version has no queues, a pipeline that ran before goes on.
        known = self.queries.get(query)
        parts = (part for key in self._keys_of.get(query, ()) for part in self.stages[key].parts)
        self._reach.check(query, caller, parts, (known.queues if known else None) or ())

    # -- the clock

    def expire(self) -> None:
        """Drops stages whose batch was never published, and queries that are long over."""
        utc = self.core.utc
        stages = self._due_utc is not None and utc >= self._due_utc
        queries = self._query_due_utc is not None and utc >= self._query_due_utc
        if not stages and not queries:
            return
        change = Change()
        if stages:
            self._expire_stages(change)
        if queries:
            self._expire_queries(change)
        self.core.commit(change)

    def _expire_stages(self, change: Change) -> None:
        core, expiry_s = self.core, self.core.settings.limits.stage_expiry_s
        for key, stage in list(self.stages.items()):
            if stage.created + expiry_s <= core.utc:
                core.event(
                    "stage_expired", query=key.query, batch=key.batch, partition=key.partition
                )
                self._drop(key, change)
        created = [stage.created for stage in self.stages.values()]
        self._due_utc = min(created) + expiry_s if created else None

    def _expire_queries(self, change: Change) -> None:
        """Those with stages are looked at again when these are gone, or a day later."""
        core, expiry_s = self.core, self.core.settings.limits.query_expiry_s
        for query, known in list(self.queries.items()):
            if known.published + expiry_s <= core.utc and query not in self._keys_of:
                self._unknow(query)
                core.define(TABLE_QUERY, query.encode(), None, change)
        dues = [known.published + expiry_s for known in self.queries.values()]
        again = core.utc + core.settings.limits.stage_expiry_s
        self._query_due_utc = max(min(dues), again) if dues else None

    def next_deadline_utc(self) -> float:
        """The second in which the next stage expires, or the next query is over."""
        dues = self._due_utc, self._query_due_utc
        return min((due for due in dues if due is not None), default=inf)
