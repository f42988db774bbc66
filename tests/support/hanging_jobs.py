"""Gloo jobs of eight processes in which one rank does not do what the others do."""

from __future__ import annotations

from programs import Live

RANKS = 8
ODD = 3

# Starts a job for each line that names a cause, of ranks that are forked after the import.
PROGRAM = """
import os, signal, sys, threading

os.environ.update(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", TORCH_FR_BUFFER_SIZE="100")
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

RANKS, ODD = 8, 3
never, _writer = os.pipe()

def dies():
    os._exit(1)

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
        os.write(ready, b".")

    threading.Thread(target=dump_collectives, name="dump", daemon=True).start()
    if records:
        import marey.torch

        marey.start(f"rank{rank}-{os.getpid()}", data="trace")
        marey.torch.enable()
    if cause == "dies":
        os.write(ready, b".")
        if rank == ODD:
            dies()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    gradients = torch.ones(4)
    group = None
    if cause == "mixes_groups":
        other = dist.new_group()
    dist.all_reduce(gradients)
    os.write(ready, b".")
    if rank == ODD:
        group = globals()[cause]()
    dist.all_reduce(gradients, group=group)  # of the step

for number, line in enumerate(sys.stdin):
    (cause, hosts, records), store = line.split(), os.path.abspath(f"store-{number}")
    (ready, ready_writer), (dump, dump_writer) = os.pipe(), os.pipe()
    pids = []
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            try:
                run_rank(rank, cause, int(hosts), store, ready_writer, dump, records == "True")
            finally:
                os._exit(1)
        pids.append(pid)
        os.setpgid(pid, pids[0])
    for _ in pids:
        os.read(ready, 1)
    print(*pids, flush=True)
    for line in sys.stdin:
        if line == "end\\n":
            break
        os.write(dump_writer, b"." * RANKS)
        for _ in pids:
            os.read(ready, 1)
        print("dumped", flush=True)
    os.killpg(pids[0], signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, 0)
    print("ended", flush=True)
"""


class Launcher:
    """A process that starts jobs."""

    def __init__(self, program: Live) -> None:
        self.program = program
        self.pid = program.process.pid
        self.ranks: list[int] = []

    def start(self, cause: str, hosts: int = 1, *, records: bool = False) -> list[int]:
        """Starts a job, as on some hosts; returns the processes of its ranks."""
        self.program.write_line(f"{cause} {hosts} {records}")
        self.ranks = [int(pid) for pid in self.program.read_line().split()]
        return self.ranks

    def dump_collectives(self) -> None:
        self.program.write_line("dump")
        assert self.program.read_line() == "dumped"

    def end(self) -> None:
        self.program.write_line("end")
        assert self.program.read_line() == "ended"
        self.ranks = []
