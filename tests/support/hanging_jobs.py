"""Gloo jobs of eight processes in which one rank does not do what the others do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from programs import Live

RANKS = 8
ODD = 3

# Starts a job for each line that names a cause, of ranks that are forked after the import. Prints
# a JSON object for each line that it reads, with the exception of a rank if there was one, which
# ends the job.
PROGRAM = """
import json, os, select, signal, sys, threading, traceback

os.environ.update(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", TORCH_FR_BUFFER_SIZE="100")
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

RANKS, ODD = 8, 3
never, _writer = os.pipe()

def dies():
    os._exit(1)

def raises():
    raise ValueError("of the rank")

def computes():
    total = 0
    while True:
        total += 1

def synchronizes():
    dist.barrier()  # the others reduce

def saves():
    lock, is_locked = threading.Lock(), threading.Event()

    def checkpoint():
        with lock:
            is_locked.set()
            os.read(never, 1)  # of the thread

    threading.Thread(target=checkpoint, name="checkpoint", daemon=True).start()
    is_locked.wait()
    with lock:  # of the rank
        pass

class Samples(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return os.read(never, 1)  # of the worker

def loads():
    for _ in DataLoader(Samples(), num_workers=1, multiprocessing_context="fork"):
        pass

def mixes_groups():
    return other  # the others reduce in the default group, at the same line

def stops():
    os.kill(os.getpid(), signal.SIGSTOP)

def awaits_the_gpu():
    import ctypes

    os.environ["MAREY_REPLAY"] = os.path.abspath("gpu_hangs")
    ctypes.CDLL(os.environ["DOUBLE"]).cuStreamSynchronize(None)  # of the GPU

def tell(ready, failure):
    os.write(ready, json.dumps(failure).encode() + b"\\n")  # less than PIPE_BUF, so at once

def run_well(ready, function, *arguments):
    # Tells an exception, which ends the rank.
    try:
        function(*arguments)
    except BaseException:
        tell(ready, traceback.format_exc()[-2000:])
        os._exit(1)

def run_rank(rank, cause, hosts, store, ready, dump, records):
    global other
    local_ranks = RANKS // hosts
    host, local_rank = divmod(rank, local_ranks)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(local_rank), WORLD_SIZE=str(RANKS))
    # Each host of the test has a port of its own, by which its ranks are found.
    os.environ.update(LOCAL_WORLD_SIZE=str(local_ranks), MASTER_ADDR="localhost")
    os.environ.update(MASTER_PORT=str(1 + host))

    def dump_collectives():
        os.read(dump, 1)
        with open(f"dumps/rank_{rank}", "wb") as file:
            file.write(torch._C._distributed_c10d._dump_fr_trace())
        tell(ready, None)

    dumper = (ready, dump_collectives)
    threading.Thread(target=run_well, args=dumper, name="dump", daemon=True).start()
    if records:
        import marey.torch

        marey.start(f"rank{rank}-{os.getpid()}", data="trace")
        marey.torch.enable()
    if cause == "dies":
        tell(ready, None)
        if rank == ODD:
            dies()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    gradients = torch.ones(4)
    group = None
    if cause == "mixes_groups":
        other = dist.new_group()
    dist.all_reduce(gradients)
    tell(ready, None)
    if rank == ODD:
        group = globals()[cause]()
    dist.all_reduce(gradients, group=group)  # of the step

def answer(failure, **facts):
    print(json.dumps({"failure": failure, **facts}), flush=True)

def wait_for_ranks(told):
    # Returns the exception of a rank, None once all have told that there is none.
    failures = (json.loads(told.readline()) for _ in range(RANKS))
    return next(filter(None, failures), None)

def failure_so_far(told):
    while select.select([told], [], [], 0)[0]:
        failure = json.loads(told.readline())
        if failure is not None:
            return failure

for number, line in enumerate(sys.stdin):
    (cause, hosts, records), store = line.split(), os.path.abspath(f"store-{number}")
    (ready, ready_writer), (dump, dump_writer) = os.pipe(), os.pipe()
    pids = []
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            arguments = (rank, cause, int(hosts), store, ready_writer, dump, records == "True")
            run_well(ready_writer, run_rank, *arguments)
            os._exit(0)
        pids.append(pid)
        os.setpgid(pid, pids[0])
    told = open(ready, "rb", buffering=0)
    failure = wait_for_ranks(told)
    if failure is None:
        answer(None, ranks=pids)
    while failure is None and sys.stdin.readline() == "dump\\n":
        os.write(dump_writer, b"." * RANKS)
        failure = wait_for_ranks(told)
        if failure is None:
            answer(None)
    # Before the ranks are ended, which closes connections of those that are ended last.
    failure = failure or failure_so_far(told)
    os.killpg(pids[0], signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, 0)
    answer(failure)
"""


class RankError(Exception):
    """An exception of a rank, with its traceback."""


class Launcher:
    """A process that starts jobs."""

    def __init__(self, program: Live, dumps: Path) -> None:
        """Takes the running program, and the folder in its directory for dumps of its ranks."""
        self.program = program
        self.dumps = dumps
        dumps.mkdir()
        self.pid = program.process.pid
        self._is_job_alive = False

    @contextmanager
    def job(self, cause: str, hosts: int = 1, *, records: bool = False) -> Iterator[list[int]]:
        """Runs a job, as on some hosts, with the processes of its ranks.

        Raises:
            RankError: A rank has raised an exception, before or in the `with` statement.
        """
        self._is_job_alive = True
        ranks: list[int] = self._ask(f"{cause} {hosts} {records}")["ranks"]
        try:
            yield ranks
        finally:
            if self._is_job_alive:
                self._ask("end")
                self._is_job_alive = False

    def dump_collectives(self) -> None:
        self._ask("dump")

    def _ask(self, line: str) -> dict[str, Any]:
        self.program.write_line(line)
        answer: dict[str, Any] = json.loads(self.program.read_line())
        if answer["failure"] is not None:
            self._is_job_alive = False
            raise RankError(answer["failure"])
        return answer
