"""`marey hang`: which rank of a job the others wait for, in gloo jobs of eight processes."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import replay
from hanging_jobs import ODD, PROGRAM, RANKS, Launcher, RankError
from programs import Live, Outcome, inside, marey_as_nobody, marey_command, until

pytest.importorskip("torch")

ATTEMPTS = 20
# Result by which the double of the driver does not return from a call.
NEVER_RETURNS = -(2**31)


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "gpu_hangs").write_text(f"fail cuStreamSynchronize {NEVER_RETURNS}\n")
    with inside(folder):
        live = Live(PROGRAM, DOUBLE=str(replay.library() or ""))
    with live as program:
        yield Launcher(program, folder / "dumps")


def has_ended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def run_hang(*arguments: str) -> Outcome:
    return marey_command("hang", "--interval", "0.2", *arguments)


def judge(pid: int, cause: str, *options: str) -> dict[str, Any]:
    """Judges a job again until its ranks have come to where they hang."""

    def is_reached(job: dict[str, Any]) -> bool:
        others = [member for index, member in enumerate(job["members"]) if index not in job["odd"]]
        arrived = all(member["place"]["kind"] == "collective" for member in others)
        return bool(job["cause"] == cause and arrived)

    return judge_until(is_reached, str(pid), *options)


def judge_until(is_reached: Callable[[dict[str, Any]], bool], *arguments: str) -> dict[str, Any]:
    for _ in range(ATTEMPTS):
        done = run_hang("--json", *arguments)
        assert done.exit_code == 0, done.stderr
        job: dict[str, Any] = json.loads(done.stdout)
        if is_reached(job):
            return job
    raise AssertionError(job["sentence"], job)


def line(comment: str) -> int:
    """Returns the number of the program's line with a comment."""
    lines = PROGRAM.splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {comment}"))


def place(function: str, comment: str) -> str:
    return f"`{function}` (program.py:{line(comment)})"


def pattern(*parts: str) -> str:
    """Returns a pattern of a sentence, whose times are not known."""
    at_least = r" for at least \d+ s"
    return "".join(re.escape(part).replace("TIME", at_least) for part in parts)


OTHERS = f"; the other 7 ranks wait in {place('all_reduce', 'of the step')}TIME."


def test_a_dead_rank_is_named(launcher: Launcher) -> None:
    with launcher.job("dies") as pids:
        job = judge(launcher.pid, "dead_rank")
    assert (job["absent"], job["ended"]) == ([ODD], [{"host": None, "pid": pids[ODD]}])
    assert [member["pid"] for member in job["members"]] == pids[:ODD] + pids[ODD + 1 :]
    expected = f"Rank {ODD} has ended: process {pids[ODD]} is a zombie; the other 7 ranks wait in "
    assert job["sentence"].startswith(expected + "`init_process_group` (program.py:")


def test_an_exception_of_a_rank_fails_the_test_of_its_job(launcher: Launcher) -> None:
    with pytest.raises(RankError, match="ZeroDivisionError"), launcher.job("saves", hosts=0):
        pass  # fails before the job hangs
    with pytest.raises(RankError, match="ValueError: of the"), launcher.job("raises") as pids:
        until(lambda: has_ended(pids[ODD]))
    launcher.dumps.rename("moved")
    with pytest.raises(RankError, match="FileNotFoundError"), launcher.job("saves"):
        launcher.dump_collectives()
    Path("moved").rename(launcher.dumps)


def test_a_slow_rank_is_named(launcher: Launcher) -> None:
    with launcher.job("computes") as pids:
        job = judge(launcher.pid, "slow_rank")
    assert job["odd"] == [ODD]
    assert job["members"][ODD]["state"] == "runs"
    assert job["sentence"].startswith(f"Rank {ODD} (process {pids[ODD]}) ")
    assert re.search(pattern(OTHERS) + "$", job["sentence"])
    assert "in `computes` (program.py:" in job["sentence"]


def test_ranks_in_collectives_that_do_not_match_are_named(launcher: Launcher) -> None:
    with launcher.job("synchronizes") as pids:
        judge(launcher.pid, "mismatched_collective")
        launcher.dump_collectives()
        job = judge(launcher.pid, "mismatched_collective", "--flight-recorder", str(launcher.dumps))
    assert job["odd"] == [ODD]
    first = f"Rank {ODD} (process {pids[ODD]}) waits in {place('barrier', 'the others reduce')}TIME"
    assert re.match(pattern(first, OTHERS), job["sentence"])
    names = {last["rank"]: last["name"] for last in job["collectives"]}
    assert names == {rank: "barrier" if rank == ODD else "all_reduce" for rank in range(RANKS)}
    assert re.search(rf"By the flight recorder, .*rank {ODD} is at `barrier` 2 of", job["sentence"])


def test_ranks_that_record_are_asked_for_their_last_collective(launcher: Launcher) -> None:
    with launcher.job("mixes_groups", records=True) as pids:
        job = judge(launcher.pid, "mismatched_collective")
    assert job["odd"] == [ODD]
    where = place("all_reduce", "of the step")
    first = f"Rank {ODD} (process {pids[ODD]}) waits in {where}TIME"
    assert re.match(pattern(first, OTHERS[:-1]), job["sentence"])
    assert [last["rank"] for last in job["collectives"]] == list(range(RANKS))
    assert {last["name"] for last in job["collectives"]} == {"all_reduce"}
    groups = {last["group"] for last in job["collectives"] if last["rank"] != ODD}
    assert len(groups) == 1
    assert job["collectives"][ODD]["group"] not in groups


def test_a_rank_that_waits_for_a_lock_is_named_with_its_threads(launcher: Launcher) -> None:
    with launcher.job("saves") as pids:
        job = judge(launcher.pid, "lock")
    assert job["odd"] == [ODD]
    first = f"Rank {ODD} (process {pids[ODD]}) waits for a lock (futex) in "
    first += f"{place('saves', 'of the rank')}TIME"
    assert re.fullmatch(pattern(first, OTHERS), job["sentence"])
    threads = {thread["name"]: thread for thread in job["members"][ODD]["other_threads"]}
    assert threads["checkpoint"]["frames"][0]["line"] == line("of the thread")


def test_the_worker_that_a_data_loader_waits_for_is_named(launcher: Launcher) -> None:
    with launcher.job("loads") as pids:
        job = judge(launcher.pid, "data_loader")
    assert (job["odd"], len(job["members"])) == ([ODD], RANKS)
    (worker,) = job["members"][ODD]["children"]
    expected = f"Rank {ODD} (process {pids[ODD]}) waits for its data loader in `loads` "
    assert job["sentence"].startswith(expected)
    expected = f"; its worker process {worker['pid']} waits for data (read on pipe:"
    assert expected in job["sentence"]
    assert f"__getitem__` (program.py:{line('of the worker')})" in job["sentence"]


def test_a_rank_that_waits_for_the_gpu_is_named(launcher: Launcher) -> None:
    if replay.library() is None:
        pytest.skip("there is no double of the driver")
    if sys.version_info >= (3, 14):
        pytest.skip("some builds run Python code in functions without symbols")
    with launcher.job("awaits_the_gpu") as pids:
        job = judge(launcher.pid, "gpu_wait", "--native")
    assert job["odd"] == [ODD]
    assert job["members"][ODD]["place"] == {"kind": "gpu", "name": "cuStreamSynchronize"}
    first = f"Rank {ODD} (process {pids[ODD]}) waits for the GPU (`cuStreamSynchronize`) in "
    first += f"{place('awaits_the_gpu', 'of the GPU')}TIME"
    assert re.fullmatch(pattern(first, OTHERS), job["sentence"])


# Runs the command of host `node1` on this one, with the port of its ranks. Hangs for `node2`, and
# refuses the others.
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
if [ "$2" = node2 ]; then
    exec sleep 1000
fi
if [ "$2" != node1 ]; then
    echo "ssh: connect to host $2 port 22: Connection refused" >&2
    exit 255
fi
exec sh -c "$(echo "$3" | sed s/localhost:2/localhost:1/)"
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marey = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m marey "$@"\n'
    for name, text in [("ssh", SSH), ("marey", marey)]:
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


@pytest.mark.usefixtures("ssh")
def test_ranks_of_other_hosts_are_asked_by_ssh(launcher: Launcher) -> None:
    with launcher.job("saves", hosts=2) as pids:
        options = ("--hosts", "node1,node3")
        job = judge(pids[-1], "lock", *options)
        printed = run_hang(str(pids[-1]), *options)
        of_hosts = run_hang("--job", "localhost:2", "--hosts", "node1", "--json")
        of_host = run_hang("--job", "localhost:2", "--json")
    assert [member["pid"] for member in job["members"]] == pids
    hosts = [member["host"] for member in job["members"]]
    assert hosts == ["node1"] * (RANKS // 2) + [None] * (RANKS // 2)
    first = f"Rank {ODD} (process {pids[ODD]} on node1) waits for a lock (futex) in "
    first += f"{place('saves', 'of the rank')}TIME"
    expected = pattern(first, OTHERS, " Host node3 has not answered.")
    assert re.fullmatch(expected, job["sentence"])
    refusal = "ssh: connect to host node3 port 22: Connection refused"
    assert job["hosts"] == [
        {"name": "node1", "problem": None},
        {"name": "node3", "problem": refusal},
    ]
    assert printed.exit_code == 0
    assert f"warning: host node3 has not answered: {refusal}\n" in printed.stderr
    assert [member["pid"] for member in json.loads(of_hosts.stdout)["members"]] == pids[:4]
    assert [member["pid"] for member in json.loads(of_host.stdout)["members"]] == pids[4:]


@pytest.mark.usefixtures("ssh")
def test_a_host_whose_ssh_hangs_is_named_and_the_others_are_judged(launcher: Launcher) -> None:
    with launcher.job("saves", hosts=2) as pids:
        job = judge(pids[0], "lock", "--hosts", "node2,node3", "--host-timeout", "0.5")
    assert [member["pid"] for member in job["members"]] == pids[: RANKS // 2]
    problems = {host["name"]: host["problem"] for host in job["hosts"]}
    assert problems["node2"] == "no answer within 0.9 s"
    assert problems["node3"].endswith("Connection refused")
    assert job["sentence"].startswith(f"Rank {ODD} (process {pids[ODD]}) waits for a lock")
    assert " Host node2 has not answered." in job["sentence"]


@pytest.mark.usefixtures("ssh")
def test_a_dead_rank_of_another_host_is_named_with_the_host(launcher: Launcher) -> None:
    with launcher.job("dies", hosts=2) as pids:
        job = judge_until(
            lambda job: bool(job["ended"]), "--job", "localhost:2", "--hosts", "node1"
        )
    assert job["ended"] == [{"host": "node1", "pid": pids[ODD]}]
    expected = f"Rank {ODD} has ended: process {pids[ODD]} on node1 is a zombie; the other 3 ranks "
    assert job["sentence"].startswith(expected)


@pytest.mark.usefixtures("ssh")
def test_a_host_or_job_that_is_not_there_is_an_error() -> None:
    for options, message in [
        (("--job", "nowhere:1"), "no process is a rank of the job `nowhere:1`"),
        (("--job", "nowhere:1", "--hosts", "node3"), "host node3 has not answered: ssh: connect"),
        (("--job", "nowhere:1", "--hosts=-oX"), "`-oX` is not the name of a host"),
        ((str(os.getpid()), "--hosts", "node1"), "the ranks have no MASTER_ADDR and MASTER_PORT"),
    ]:
        done = run_hang(*options)
        assert (done.exit_code, done.stdout) == (2, ""), options
        assert f"error: {message}" in done.stderr


def test_a_stopped_rank_is_named_and_one_rank_stands_for_its_job(launcher: Launcher) -> None:
    with launcher.job("stops") as pids:
        judge(launcher.pid, "stopped_rank")
        job = judge(pids[0], "stopped_rank")
    assert (job["odd"], len(job["members"])) == ([ODD], RANKS)
    expected = f"Rank {ODD} (process {pids[ODD]}) is stopped by a debugger or a signal in `stops`"
    assert job["sentence"].startswith(expected)


def test_the_text_has_the_sentence_and_the_stacks_of_groups(launcher: Launcher) -> None:
    with launcher.job("saves"):
        judge(launcher.pid, "lock")
        done = run_hang(str(launcher.pid))
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"Rank {ODD} (process ")
    assert lines[1:3] == ["", "7 ranks (0-2, 4-7): waits for a lock (futex)"]
    assert any(text.endswith(f"program.py:{line('of the step')})") for text in lines)
    assert any(text.startswith("checkpoint (") for text in lines)


def test_a_process_without_a_rank_is_judged_alone() -> None:
    source = """
    import os, sys
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    """
    with Live(source) as program:
        pid = int(program.read_line())
        job = judge_until(lambda job: bool(job["cause"] == "io"), str(pid))
    assert job["sentence"].startswith(f"Process {pid} waits for data (read on pipe:")


def test_a_folder_without_dumps_is_an_error(tmp_path: Path) -> None:
    done = run_hang(str(os.getpid()), "--flight-recorder", str(tmp_path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "has no dumps of a flight recorder" in done.stderr


def test_a_job_that_the_system_forbids_to_read_is_refused_with_the_remedy() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    done = marey_as_nobody("hang", os.getpid(), "--interval", "0.01")
    assert done.exit_code == 2
    error = f"error: process {os.getpid()} cannot be read: the system does not allow it\n"
    assert error in done.stderr
    assert "--cap-add SYS_PTRACE" in done.stderr
