"""`posthouse job`: from submitting to history, and a queue server that runs commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Posthouse

COUNTER = ("job", "server", "run", "COUNTER", "--enrol", "--poll", "0.05", "--retry", "0")


@pytest.fixture
def queue(ph: Posthouse, request: pytest.FixtureRequest) -> str:
    """A job queue of the test's own."""
    name = request.node.name.removeprefix("test_").upper()[:40]
    made = ph("job", "queue", "create", name)
    assert made.code == 0, made.err
    return name


def submit(ph: Posthouse, queue: str, *options: str, data: bytes = b"one\ntwo\n") -> int:
    done = ph("job", "submit", queue, "-", *options, "--json", stdin=data)
    assert done.code == 0, done.err
    return int(done.value["number"])


def test_jobs_are_held_moved_changed_and_removed(ph: Posthouse, queue: str) -> None:
    first = submit(ph, queue, "--description", "first", "--type", "7")
    second = submit(ph, queue, "--hold", "--at", "2030-01-31T12:00:00")
    listed = ph("job", "list", queue, "--json").lines
    assert [(one["number"], one["position"]) for one in listed] == [(first, 1), (second, 2)]
    assert listed[1]["target_time"] == "2030-01-31T12:00:00Z"
    assert ph("job", "move", queue, str(second), "1").code == 0
    assert [one["number"] for one in ph("job", "list", queue, "--json").lines] == [second, first]
    assert ph("job", "hold", queue, str(first), "--operator", "--json").value["flags"] == [
        "operator_hold"
    ]
    assert ph("job", "release", queue, str(first), "--operator", "--json").value["flags"] == []
    changed = ph("job", "change", queue, str(second), "--at", "now", "--restart", "--json").value
    assert (changed["target_time"], changed["flags"]) == (None, ["restart", "user_hold"])
    assert ph("job", "change", queue, str(second)).code == 2
    assert ph("job", "remove", queue, str(second)).code == 0
    assert "held" not in ph("job", "list", queue).out
    assert ph("job", "show", queue, str(second)).err.startswith("ERR_NO_Q_JOB (0x000089D5)")


def test_a_command_services_jobs(ph: Posthouse, queue: str) -> None:
    number = submit(ph, queue)
    done = ph(*COUNTER, "--queue", queue, "--jobs", "1", "--json", "--", "wc", "-l")
    assert done.value == {"finished": 1, "failed": 0}, done.err
    (row,) = ph("job", "history", queue, "--json").lines
    assert (row["number"], row["outcome"], row["result"]) == (number, "finished", "2")
    assert ph("job", "watch", queue, str(number)).out == f"job {number}: finished: 2\n"


def test_a_failed_command_obeys_the_restart_flag(ph: Posthouse, queue: str) -> None:
    kept, lost = submit(ph, queue, "--restart"), submit(ph, queue)
    script = 'echo "1/2 half" > $POSTHOUSE_JOB_PROGRESS; echo no >&2; exit 3'
    words = (*COUNTER, "--queue", queue, "--jobs", "1", "--", "sh", "-c", script)
    assert ph(*words).code == 1
    assert [one["number"] for one in ph("job", "list", queue, "--json").lines] == [kept, lost]
    assert "last failure  exit code 3. no" in ph("job", "show", queue, str(kept)).out
    ph("job", "hold", queue, str(kept))
    assert ph(*words).code == 1
    (row,) = ph("job", "history", queue, "--json").lines
    assert (row["number"], row["outcome"], row["result"]) == (lost, "failed", "exit code 3. no")
    assert ph("job", "watch", queue, str(lost)).code == 1


def test_nothing_of_a_job_reaches_a_shell_or_the_environment(
    ph: Posthouse, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "hush")
    canary = tmp_path / "canary"
    evil = f"$(touch {canary})"[:49]
    submit(ph, queue, "--description", evil, data=f"; touch {canary}\n".encode())
    show = 'env; echo "$POSTHOUSE_JOB_FILE $1"; cat "$POSTHOUSE_JOB"'
    command = ("--", "sh", "-c", show, "sh", "{file}")
    done = ph(*COUNTER, "--queue", queue, "--jobs", "1", *command)
    assert done.code == 0, done.err
    assert not canary.exists()
    (row,) = ph("job", "history", queue, "--json").lines
    environment, _, known = row["result"].partition("{")
    assert "SECRET_OF_THE_SERVER" not in environment
    assert "touch" not in environment
    assert evil in known
    path = environment.split()[-1]
    assert environment.split()[-2] == path
    assert not Path(path).exists()  # its folder is gone


def test_output_of_a_command_reaches_no_terminal_raw(ph: Posthouse, queue: str) -> None:
    submit(ph, queue)
    words = ("--", "printf", "a\\033[2Jb")
    assert ph(*COUNTER, "--queue", queue, "--jobs", "1", *words).code == 0
    assert "\x1b" not in ph("job", "history", queue).out


def test_queues_are_stopped_opened_and_deleted(ph: Posthouse, queue: str) -> None:
    stopped = ph("job", "queue", "set", queue, "--status", "no_new_jobs", "--json").value
    assert stopped["status"] == ["no_new_jobs"]
    refused = ph("job", "submit", queue, "-", stdin=b"x")
    assert (refused.code, refused.err.split(" ")[0]) == (1, "ERR_Q_HALTED")
    assert ph("job", "queue", "set", queue, "--status", "open").out == f"{queue}: open\n"
    allowed = ph("job", "queue", "allow", queue, "code-users", "SUPERVISOR")
    assert allowed.out == f"Q_CODE_USERS of {queue}: SUPERVISOR\n"
    assert ph("job", "queue", "deny", queue, "code-users", "SUPERVISOR").code == 0
    assert ph("job", "queue", "allow", queue, "nobody", "SUPERVISOR").code == 2
    assert queue in ph("job", "queue", "list").out
    assert "SYS:SYSTEM" in ph("job", "queue", "show", queue).out
    assert ph("job", "queue", "delete", queue).code == 0
    assert ph("job", "queue", "show", queue).err.startswith("ERR_NO_QUEUE")


def test_a_job_goes_to_another_queue(ph: Posthouse, queue: str) -> None:
    ph("job", "queue", "create", "ELSEWHERE")
    moved = ph("job", "transfer", queue, str(submit(ph, queue)), "ELSEWHERE", "--json").value
    assert [one["number"] for one in ph("job", "list", "ELSEWHERE", "--json").lines] == [
        moved["number"]
    ]


def test_messages_submit_jobs_and_ends_of_jobs_send_messages(ph: Posthouse, queue: str) -> None:
    for name in ("requests", "ends"):
        ph("queue", "create", f"./private$/{name}")
    bound = ("--submit-from", "./private$/requests", "--response-queue", "./private$/ends")
    assert ph("job", "queue", "set", queue, *bound).code == 0
    ph("send", "./private$/requests", "--body", "a\nb\nc\n", "--label", "by message")
    (job,) = ph("job", "list", queue, "--json").lines
    assert (job["description"], job["owner"]) == ("by message", "SUPERVISOR")
    assert ph(*COUNTER, "--queue", queue, "--jobs", "1", "--", "wc", "-l").code == 0
    told = ph("receive", "./private$/ends", "--timeout", "5", "--json").value
    assert told["label"] == f"job {job['number']} finished"
    assert '"result":"3"' in told["body_text"]


def test_tables_have_types_by_word_and_the_front_of_results(ph: Posthouse, queue: str) -> None:
    number = submit(ph, queue, "--type", "sql")
    assert " sql " in ph("job", "list", queue).out
    assert "type          sql" in ph("job", "show", queue, str(number)).out
    words = ("--queue", queue, "--jobs", "1", "--", "sh", "-c", "printf %0200d 0")
    assert "Finished 1 job; 0 failed." in ph(*COUNTER, *words).out
    assert ph("job", "history", queue).out.splitlines()[-1].rstrip().endswith("0" * 20 + "...")
    (row,) = ph("job", "history", queue, "--json").lines
    assert row["result"] == "0" * 200
