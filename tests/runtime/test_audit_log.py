"""The audit log on disk: durable, bounded, found again after crashes."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from posthouse.api.audit import AuditParams
from posthouse.protocols.handlers.audit_trail import Act
from posthouse.runtime.audit import log as audit_log
from posthouse.runtime.audit.file import UNWRITTEN_MAX
from posthouse.runtime.audit.log import (
    ALIKE_MAX,
    SIGN_IN_NETWORKS_MAX,
    SIGN_INS_ALIKE_MAX,
    SIGN_INS_MAX,
    USER_REFUSALS_MAX,
    AuditLog,
)
from posthouse.runtime.audit.settings import AuditSettings

ACT = Act("alice", "operate", "0" * 16, "127.0.0.1", "purge_queue", {"queue": "x" * 300})


def opened(folder: Path, **options: Any) -> AuditLog:
    """A log whose callers are called in its thread."""
    settings = AuditSettings(**{k: v for k, v in options.items() if k != "now"})
    now = {"now": options["now"]} if "now" in options else {}
    return AuditLog(folder / "audit.log", settings, lambda call: call(), **now)


def fill(log: AuditLog, count: int) -> None:
    for _ in range(count):
        log.end(ACT, "done", "", {}, lambda: None)
        log._thread.submit(lambda: None).result()


def seqs(log: AuditLog, **params: Any) -> list[int]:
    return [entry.seq for entry in log.page(AuditParams(**params), lambda entry: True).entries]


def test_it_is_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    log = opened(tmp_path, size_max=64 << 10, files_kept=2)
    fill(log, 1000)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["audit.log", "audit.log.1", "audit.log.2"]
    assert all(path.stat().st_size <= 64 << 10 for path in tmp_path.iterdir())
    newest = seqs(log, limit=1000)
    assert newest == list(range(1000, 1000 - len(newest), -1))
    assert len(newest) > 200
    page = log.page(AuditParams(after=newest[-1] + 10, limit=1000), lambda entry: True)
    assert [entry.seq for entry in page.entries] == list(range(newest[-1] + 11, 1001))
    log.close()
    assert opened(tmp_path, size_max=64 << 10, files_kept=2)._seq == 1000


def test_old_files_go_with_their_days(tmp_path: Path) -> None:
    moment = [datetime(2026, 1, 1, tzinfo=UTC)]
    log = opened(tmp_path, days_kept=30, now=lambda: moment[0])
    fill(log, 2)
    moment[0] += timedelta(days=31)
    fill(log, 1)
    assert (tmp_path / "audit.log.1").exists()
    moment[0] = datetime.now(UTC) + timedelta(days=62)
    fill(log, 1)
    assert [entry["seq"] for entry in _entries(tmp_path / "audit.log")] == [4]
    assert not (tmp_path / "audit.log.2").exists()


def _entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_half_a_line_of_a_crash_goes_and_the_numbers_go_on(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 3)
    log.close()
    with (tmp_path / "audit.log").open("ab") as file:
        file.write(b'{"seq": 4, "time": "2026')
    log = opened(tmp_path)
    fill(log, 1)
    assert [entry["seq"] for entry in _entries(tmp_path / "audit.log")] == [1, 2, 3, 4]


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(b"nonsense\n\xff\xfe\n[[[[\n{}\n" + b"[" * 100_000 + b"\n")
    log = opened(tmp_path)
    fill(log, 1)
    assert seqs(log) == [1]
    assert seqs(log, user="alice") == [1]


def test_what_waits_for_the_disk_is_bounded(tmp_path: Path) -> None:
    told: list[str] = []
    log = AuditLog(
        tmp_path / "in" / "audit.log",
        AuditSettings(),
        lambda call: call(),
        lambda event, details: told.append(event),
    )
    (tmp_path / "in").rename(tmp_path / "away")
    fill(log, UNWRITTEN_MAX + 5)
    assert log.unwritten == UNWRITTEN_MAX + 5
    (tmp_path / "away").rename(tmp_path / "in")
    fill(log, 1)
    assert told == ["audit_not_written", "audit_written"]
    entries = _entries(tmp_path / "in" / "audit.log")
    assert [entry["seq"] for entry in entries] == list(range(6, UNWRITTEN_MAX + 7))


KILLED = """
import os, sys
from pathlib import Path
from posthouse.protocols.handlers.audit_trail import Act
from posthouse.runtime.audit.log import AuditLog
from posthouse.runtime.audit.settings import AuditSettings
log = AuditLog(Path(sys.argv[1]), AuditSettings(), lambda call: call())
def answered():
    os.write(1, b"answered")
    os.kill(os.getpid(), 9)
log.end(Act("a", "r", "t", "l", "purge_queue", {}), "done", "", {}, answered)
log.close()
"""


def test_an_answered_act_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], capture_output=True)
    assert (done.returncode, done.stdout) == (-9, b"answered")
    assert [entry["act"] for entry in _entries(path)] == ["purge_queue"]


def refuse(log: AuditLog, count: int, **act: Any) -> None:
    for number in range(count):
        chosen = ACT._replace(**act, object={"queue": f"{number}" + "x" * 300})
        log.end(chosen, "refused", "MQ_ERROR_ACCESS_DENIED: no", {}, lambda: None)
        log._thread.submit(lambda: None).result()


def test_attempts_push_out_no_act_and_are_bounded(tmp_path: Path) -> None:
    log = opened(tmp_path, size_max=64 << 10, files_kept=2)
    fill(log, 3)
    for number in range(60):
        refuse(log, ALIKE_MAX, act=f"rpc_{number}", user=f"user {number}")
        log.begin(ACT, lambda error: None)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["audit-attempts.log", "audit-attempts.log.1", "audit.log"]
    assert all(path.stat().st_size <= 64 << 10 for path in tmp_path.iterdir())
    assert [entry["seq"] for entry in _entries(tmp_path / "audit.log")] == [1, 2, 3]
    found = seqs(log, limit=1000)
    assert found[-3:] == [3, 2, 1]
    assert found == sorted(found, reverse=True)
    last = log._seq
    assert found[0] == last
    assert seqs(log, after=0, limit=3) == [1, 2, 3]
    assert seqs(log, after=last - 2) == [last - 1, last]
    log.close()
    assert opened(tmp_path)._seq == last


def test_attempts_that_wait_for_the_disk_push_out_no_act_that_waits(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "in" / "audit.log", AuditSettings(), lambda call: call())
    (tmp_path / "in").rename(tmp_path / "away")
    fill(log, 2)
    for number in range(UNWRITTEN_MAX // ALIKE_MAX + 1):
        refuse(log, ALIKE_MAX, user=f"user {number}")
    (tmp_path / "away").rename(tmp_path / "in")
    fill(log, 1)
    entries = _entries(tmp_path / "in" / "audit.log")
    assert [entry["seq"] for entry in entries] == [1, 2, UNWRITTEN_MAX + ALIKE_MAX + 3]


def test_refusals_that_are_alike_are_counted(tmp_path: Path) -> None:
    moment = [datetime(2026, 1, 1, tzinfo=UTC)]
    log = opened(tmp_path, now=lambda: moment[0])
    answered: list[int] = []
    for number in range(ALIKE_MAX + 5):
        log.end(ACT, "refused", f"E: {number}", {}, lambda n=number: answered.append(n))  # type: ignore[misc]
    refuse(log, 1, user="bob")
    refuse(log, 1, act="delete_queue")
    moment[0] += timedelta(minutes=1)
    fill(log, 1)
    assert sorted(answered) == list(range(ALIKE_MAX + 5))
    attempts = _entries(tmp_path / "audit-attempts.log")
    assert len(attempts) == ALIKE_MAX + 3
    assert [one["result"] for one in attempts if one["result"]] == [{"more": 5}]
    counted = attempts[-1]
    assert (counted["user"], counted["act"], counted["object"]) == ("alice", "purge_queue", {})
    refuse(log, ALIKE_MAX + 2)
    log.close()  # what was only counted is written
    assert _entries(tmp_path / "audit-attempts.log")[-1]["result"] == {"more": 2}


def test_kinds_of_refusals_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "REFUSALS_MAX", ALIKE_MAX + 2)
    log = opened(tmp_path, now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    refuse(log, ALIKE_MAX + 7)
    for number in range(10):
        refuse(log, 1, act=f"rpc_{number}")
    assert len(log._refusals._kinds) == 3
    log.close()
    attempts = _entries(tmp_path / "audit-attempts.log")
    assert [one["result"]["more"] for one in attempts if one["result"]] == [7, 8]


def test_refusals_of_one_user_do_not_hide_those_of_others(tmp_path: Path) -> None:
    """Anyone with a token may ask for many things that are refused."""
    log = opened(tmp_path, now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    for number in range(USER_REFUSALS_MAX):
        refuse(log, 2, act=f"act {number}", user="mallory")
    refuse(log, 1, user="bob")
    log.close()
    attempts = _entries(tmp_path / "audit-attempts.log")
    entries = [one["user"] for one in attempts if not one["result"]]
    assert entries.count("mallory") == USER_REFUSALS_MAX
    assert "bob" in entries
    more = [(one["user"], one["result"]["more"]) for one in attempts if one["result"]]
    assert more == [("mallory", USER_REFUSALS_MAX)]


def test_when_all_entries_are_used_up_each_user_is_still_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "REFUSALS_MAX", 3)
    log = opened(tmp_path, now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    for number in range(120):
        refuse(log, 2, user=f"user {number}")
    log.close()
    attempts = _entries(tmp_path / "audit-attempts.log")
    more = {one["user"]: one["result"]["more"] for one in attempts if one["result"]}
    assert len(attempts) == 3 + len(more)
    assert more.pop("user 1") == 1, "its first has an entry"
    assert more.pop("") == 2 * 18, "all that come after a hundred users"
    assert more == {f"user {number}": 2 for number in range(2, 102)}


def test_a_clock_that_is_set_back_mutes_nothing(tmp_path: Path) -> None:
    moment = [datetime(2026, 1, 1, 12, tzinfo=UTC)]
    log = opened(tmp_path, now=lambda: moment[0])
    refuse(log, ALIKE_MAX + 5)
    moment[0] -= timedelta(hours=1)
    refuse(log, ALIKE_MAX)
    attempts = _entries(tmp_path / "audit-attempts.log")
    assert len(attempts) == 2 * ALIKE_MAX + 1
    assert sum(one["result"] == {"more": 5} for one in attempts) == 1
    log.close()


def test_refused_sign_ins_are_bounded_and_push_out_nothing(tmp_path: Path) -> None:
    moment = [datetime(2026, 1, 1, tzinfo=UTC)]
    log = opened(tmp_path, now=lambda: moment[0])
    fill(log, 1)
    refuse(log, 1)
    for number in range(200):  # one address with many names, then many addresses
        log.sign_in_refused("http", f"name {number}", "192.0.2.1", "wrong token")
    for number in range(200):
        log.sign_in_refused("rpc", "root", f"198.51.100.{number}", "wrong password")
    moment[0] += timedelta(minutes=1)
    fill(log, 1)
    assert len(_entries(tmp_path / "audit.log")) == 2
    assert len(_entries(tmp_path / "audit-attempts.log")) == 1
    found = _entries(tmp_path / "audit-sign-ins.log")
    first = found[0]
    assert (first["act"], first["outcome"], first["user"]) == ("sign_in", "refused", "name 0")
    assert (first["address"], first["object"]) == ("192.0.2.1", {"door": "http"})
    lines = [one for one in found if not one["result"]]
    assert len(lines) == SIGN_INS_MAX
    assert sum(one["address"] == "192.0.2.1" for one in lines) == SIGN_INS_ALIKE_MAX
    assert len(lines) + sum(one["result"]["more"] for one in found if one["result"]) == 400
    assert len(found) == SIGN_INS_MAX + 1 + SIGN_IN_NETWORKS_MAX + 1
    assert sum(one["address"] == "" for one in found) == 1
    assert log.page(AuditParams(limit=1000), lambda entry: True).entries[-3].act == "sign_in"
    log.close()


def test_who_is_refused_after_the_end_breaks_nothing(tmp_path: Path) -> None:
    """A password is checked in a thread, which may end after the last entry of a stop."""
    log = opened(tmp_path)
    log.sign_in_refused("http", "ann", "192.0.2.1", "in time")
    log.close()
    log.sign_in_refused("http", "ann", "192.0.2.1", "too late")
    log.sign_in_refused("http", "ann", "192.0.2.1", "too late")
    assert [one["error"] for one in _entries(tmp_path / "audit-sign-ins.log")] == ["in time"]


def test_names_that_are_not_utf_8_are_escaped(tmp_path: Path) -> None:
    log = opened(tmp_path)
    named = Act("al\ud800ice", "", "", "h", "rpc_pa\udfffuse", {"a\ud800": ["b\ud800", 1]})
    answered: list[bool] = []
    log.end(named, "refused", "why\ud800", {}, lambda: answered.append(True))
    log.close()
    (entry,) = _entries(tmp_path / "audit-attempts.log")
    assert answered == [True]
    assert (entry["user"], entry["act"]) == ("al\\ud800ice", "rpc_pa\\udfffuse")
    assert entry["object"] == {"a\\ud800": ["b\\ud800", 1]}
    assert entry["error"] == "why\\ud800"


def test_names_of_strangers_steer_no_terminal(tmp_path: Path) -> None:
    """In the file of acts, of attempts and of refused sign-ins; an operator reads them by tail."""
    log, name = opened(tmp_path), "\x9b2J\u202eè😀\U000e0001\x7f"
    done = Act(name, "", "", "h", "purge_queue", {"queue": name})
    log.end(done, "done", "", {}, lambda: None)
    log.end(done, "refused", name, {}, lambda: None)
    log.sign_in_refused("http", name, "192.0.2.1", "wrong")
    log.close()
    files = sorted(tmp_path.glob("audit*.log"))
    assert len(files) == 3
    for file in files:
        assert not {"\x9b", "\u202e", "\U000e0001", "\x7f"} & set(file.read_text())
        (entry,) = _entries(file)
        assert name in (entry["user"], entry["object"].get("user"))
