"""Memory accesses of kernels: PTX that Triton compiles here, compared with Triton 3.6's plugin."""

from __future__ import annotations

import functools
import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from paths import SUPPORT
from programs import run_command

pytest.importorskip("triton")

MEM_SPACES = [sys.executable, "-m", "marey", "triton", "mem-spaces"]
RUN = [sys.executable, "-m", "marey", "run", "-i", "print-mem-spaces"]

KERNELS = SUPPORT / "mem_space_kernels.py"
NAMES = ("add", "softmax", "matmul", "histogram", "tiles", "stack", "calls")
ARCHITECTURES = (80, 90, 100)


@dataclass(frozen=True)
class Access:
    """An access in the engine's output; positions are lines of a file, innermost first."""

    kernel: str
    operation: str
    space: str | None
    source: str | None
    width: str
    count: int
    instruction: str
    places: tuple[str, ...]


def compiled(directory: Path, architecture: int, names: Iterable[str], **env: str) -> str:
    """Compiles kernels into a directory; returns stderr."""
    env = {"TRITON_CACHE_DIR": str(directory / "cache"), **env}
    program = (sys.executable, str(KERNELS), str(architecture), *names)
    done = run_command(*program, cwd=directory, **env)
    assert done.exit_code == 0, done.stderr
    return done.stderr


def accesses(*files: Path) -> list[Access]:
    done = run_command(*MEM_SPACES, "--json", *map(str, files))
    assert done.exit_code == 0, done.stderr
    return [
        Access(
            function["name"],
            access["operation"],
            access["space"],
            access["source"],
            access["width"],
            access["count"],
            access["instruction"],
            tuple(
                f"{Path(place['file']).name}:{place['line']}:{place['column']}"
                for place in access["places"]
            ),
        )
        for module in json.loads(done.stdout)
        for function in module["functions"]
        for access in function["accesses"]
    ]


@functools.cache
def line(code: str) -> str:
    """Returns `file:line` of the only line of the kernels that contains this code."""
    lines = KERNELS.read_text().splitlines()
    (number,) = (number for number, text in enumerate(lines, 1) if code in text)
    return f"{KERNELS.name}:{number}"


def at(access: Access, depth: int = 0) -> str:
    """Returns `file:line` of a position."""
    return access.places[depth].rpartition(":")[0]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the PTX of every kernel."""
    folder = tmp_path_factory.mktemp(f"sm_{request.param}")
    compiled(folder, request.param, NAMES)
    return folder


def architecture(folder: Path) -> int:
    target = re.search(r"^\.target sm_(\d+)", (folder / "add.ptx").read_text(), re.MULTILINE)
    assert target is not None
    return int(target[1])


@pytest.mark.parametrize("name", NAMES)
def test_every_instruction_is_counted_once(folder: Path, name: str) -> None:
    text = (folder / f"{name}.ptx").read_text()
    opcodes = re.findall(r"^\s*(?:@!?%\w+\s+)?([a-z]\w*(?:\.[\w:]+)+)\s", text, re.MULTILINE)
    for words in (
        ("ld",), ("st",), ("atom",), ("red",), ("ldmatrix",), ("stmatrix",), ("mma",),
        ("wgmma", "mma_async"), ("tcgen05", "mma"), ("tcgen05", "ld"), ("tcgen05", "st"),
    ):  # fmt: skip
        written = [opcode.split(".") for opcode in opcodes]
        expected = sum(
            opcode[: len(words)] == [*words] and opcode[len(words)] != "param" for opcode in written
        )
        found = accesses_of(folder, name)
        assert sum(a.count for a in found if a.instruction == ".".join(words)) == expected, words


@functools.cache
def accesses_of(folder: Path, name: str) -> list[Access]:
    return accesses(folder / f"{name}.ptx")


def test_loads_and_stores_have_their_source_lines(folder: Path) -> None:
    load, store = line("total = tl.load(x"), line("tl.store(out + offsets")
    assert [
        (at(a), a.space, a.operation, a.width, a.count) for a in accesses_of(folder, "add")
    ] == [
        (load, "GLOBAL", "LOAD", "4x32", 2),
        (load, "GLOBAL", "LOAD", "4x32", 2),
        (store, "GLOBAL", "STORE", "4x32", 2),
    ]


def test_inlined_lines_have_their_callers(folder: Path) -> None:
    shared = [a for a in accesses_of(folder, "softmax") if a.space == "SHARED"]
    assert {a.operation for a in shared} == {"LOAD", "STORE"}
    assert all(a.places[0].startswith("standard.py:") for a in shared)
    assert {tuple(at(a, depth) for depth in range(1, len(a.places))) for a in shared} == {
        (line("return tl.max("), line("powers = tl.exp(")),
        (line("tl.store(out + row"),),
    }
    loads = [a for a in accesses_of(folder, "stack") if a.operation == "LOAD"]
    # The load's text has several lines, which newer Triton takes for lines of the file.
    assert [[at(a, depth) for depth in range(len(a.places))] for a in loads] == [
        [line("return tl.load("), line("first = taken(")],
        [line("return tl.load("), line("second = taken(")],
    ]


def test_tensor_core_and_async_copy_instructions_are_distinguished(folder: Path) -> None:
    found = accesses_of(folder, "matmul")
    (mma,) = (a for a in found if a.operation == "MMA")
    assert (at(mma), mma.instruction, mma.space) == (
        line("tl.dot("),
        *{80: ("mma", None), 90: ("wgmma.mma_async", "SHARED"), 100: ("tcgen05.mma", "TENSOR")}[
            architecture(folder)
        ],
    )
    copies = [(at(a), a.source, a.space, a.width) for a in found if a.operation == "COPY"]
    assert copies == [
        (line("left = tl.load("), "GLOBAL", "SHARED", "16 B"),
        (line("right = tl.load("), "GLOBAL", "SHARED", "16 B"),
    ]


def test_bulk_copies_and_reductions_are_recognised(folder: Path) -> None:
    found = {(at(a), a.operation, a.source, a.space) for a in accesses_of(folder, "tiles")}
    load, store, add = (line(code) for code in ("left.load(", "right.store(", "right.atomic_add("))
    if architecture(folder) == 80:
        assert {(load, "LOAD", None, "GLOBAL"), (store, "STORE", None, "GLOBAL")} < found
    else:
        assert {
            (load, "COPY", "GLOBAL", "SHARED"),
            (store, "COPY", "SHARED", "GLOBAL"),
            (add, "REDUCE", "SHARED", "GLOBAL"),
        } < found


def test_atomics_local_memory_and_calls_are_recognised(folder: Path) -> None:
    atomics = [a for a in accesses_of(folder, "histogram") if a.operation == "ATOMIC"]
    assert [at(a) for a in atomics] == [
        line(f"tl.atomic_{name}(") for name in ("add", "max", "cas")
    ]
    local = [a for a in accesses_of(folder, "stack") if a.space == "LOCAL"]
    assert {(at(a), a.operation) for a in local} == {(line("tl.device_print("), "STORE")}
    called = accesses_of(folder, "calls")
    assert [(at(a), a.operation) for a in called if "doubled" in a.kernel] == [
        (line("tl.store(x, tl.load(x)"), "LOAD"),
        (line("tl.store(x, tl.load(x)"), "STORE"),
    ]


# --- beside the plugin of Triton 3.6 -------------------------------------------------------------

SPACES = {"FLAT": "GENERIC", "CONSTANT": "CONSTANT", "SCRATCH": "LOCAL"}


@pytest.fixture(scope="module")
def reference(triton_36: str) -> dict[str, str]:
    """The environment in which Triton 3.6 prints memory spaces."""
    plugin = Path(triton_36, "triton", "instrumentation", "libPrintLoadStoreMemSpaces.so")
    return {
        "PYTHONPATH": triton_36,
        "LLVM_PASS_PLUGIN_PATH": str(plugin),
        "TRITON_ALWAYS_COMPILE": "1",
        "TRITON_DISABLE_LINE_INFO": "0",
    }


@pytest.mark.parametrize("target", ARCHITECTURES)
def test_every_line_of_the_plugin_is_found(
    target: int, reference: dict[str, str], tmp_path: Path
) -> None:
    # The plugin crashes on stores without a place, as `device_print` makes them.
    names = [name for name in NAMES if name != "stack"]
    said = compiled(tmp_path, target, names, **reference)
    printed = {
        (kernel, place, SPACES.get(space, space), operation)
        for kernel, place, space, operation in re.findall(
            r"^\d+ +(\S+) +(\S+:\d+:\d+) +([A-Z]+) +(LOAD|STORE)$", said, re.MULTILINE
        )
    }
    assert {kernel for kernel, *_ in printed} >= {"softmax", "matmul", "histogram"}
    found = accesses(*(tmp_path / f"{name}.ptx" for name in names))
    ours = {(a.kernel, a.places[0], a.space, a.operation) for a in found}
    assert printed <= ours
    # Triton loads global memory in assembly, which the plugin does not read.
    assert not any(space == "GLOBAL" for _, _, space, _ in printed)
    assert {"LOAD", "STORE"} <= {
        operation for kernel, _, space, operation in ours if (kernel, space) == ("add", "GLOBAL")
    }


# --- marey run -----------------------------------------------------------------------------------


def write(source: str) -> str:
    """Writes a program that can compile the kernels."""
    head = f"import sys\nsys.path.append({str(KERNELS.parent)!r})\n"
    Path("program.py").write_text(head + textwrap.dedent(source))
    return "program.py"


def rows(stderr: str) -> Counter[tuple[str, ...]]:
    """Returns kernel, position, memory and operation of each row of the table."""
    found = re.findall(r"^ +\d+  (\S+) +(\S+) +(\S+) +([A-Z]+) ", stderr, re.MULTILINE)
    return Counter(found)


def test_a_run_shows_the_kernels_of_the_program() -> None:
    program = write(
        """
        import atexit, os, mem_space_kernels
        atexit.register(print, "last")
        mem_space_kernels.compile_ptx("add", 90)
        print("compiled", sys.argv[1:])
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        sys.exit(3)
        """,
    )
    own_tmp = Path("tmp").absolute()
    own_tmp.mkdir()
    done = run_command(*RUN, program, "-i", "x", TMPDIR=str(own_tmp))
    assert (done.exit_code, done.stdout) == (3, "compiled ['-i', 'x']\nlast\nlast\n")
    load, store = line("total = tl.load(x"), line("tl.store(out + offsets")
    assert {
        (kernel, place.rpartition(":")[0], *rest) for kernel, place, *rest in rows(done.stderr)
    } == {
        ("add", load, "GLOBAL", "LOAD"),
        ("add", store, "GLOBAL", "STORE"),
    }
    assert sum(rows(done.stderr).values()) == 3
    # The fork shows nothing and leaves the files to the program.
    assert re.findall(r"^marey: .*", done.stderr, re.MULTILINE) == [
        "marey: memory spaces of the Triton kernels that the program compiled:"
    ]
    assert list(own_tmp.iterdir()) == []
    assert sorted(path.name for path in Path().iterdir()) == ["program.py", "tmp"]


def test_the_cache_of_the_user_is_neither_read_nor_written(
    triton_path: str,
) -> None:
    cache = Path("cache").absolute()
    program = write("import mem_space_kernels\nmem_space_kernels.compile_ptx('add', 90)\n")

    def state() -> dict[Path, tuple[int, bytes]]:
        files = (path for path in cache.rglob("*") if path.is_file())
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    env = {"TRITON_CACHE_DIR": str(cache)}
    if triton_path:
        env["PYTHONPATH"] = triton_path
    assert run_command(sys.executable, program, **env).exit_code == 0
    before = state()
    assert any(path.suffix == ".ptx" for path in before)
    done = run_command(*RUN, program, **env, TRITON_STORE_BINARY_ONLY="1")
    assert sum(rows(done.stderr).values()) == 3, done.stderr
    assert state() == before


def test_kernels_of_child_processes_are_shown() -> None:
    program = write(
        f"""
        import subprocess
        subprocess.run([sys.executable, {str(KERNELS)!r}, "90", "histogram"], check=True)
        """,
    )
    done = run_command(*RUN, program)
    assert {kernel for kernel, *_ in rows(done.stderr)} == {"histogram"}, done.stderr


def test_the_programs_exception_is_unchanged() -> None:
    program = write("def fail():\n    raise KeyError('x')\nfail()\n")
    plain = run_command(sys.executable, program)
    shown = run_command(*RUN, program)
    ours = [text for text in shown.stderr.splitlines(True) if text.startswith("marey: ")]
    assert shown.stderr == plain.stderr + "".join(ours)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert ours == [
        "marey: the program compiled no Triton kernel, so there are no memory spaces to show\n"
    ]


def test_without_triton_the_program_is_not_run() -> None:
    program = write("print('ran')")
    without = f"""
    import sys
    sys.modules["triton"] = None
    sys.argv[:] = ["marey", "run", "-i", "print-mem-spaces", {program!r}]
    from marey._cli import main
    main()
    """
    done = run_command(sys.executable, "-c", textwrap.dedent(without))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "error: --instrument print-mem-spaces needs Triton",
        f"hint: {sys.executable} -m pip install triton",
    ]


def test_a_command_is_refused() -> None:
    done = run_command(*RUN, "--", "echo", "x")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "takes a Python script or module, not a command" in done.stderr


# --- marey triton mem-spaces ---------------------------------------------------------------------

SMALL = """
.version 8.7
.target sm_90a
.visible .entry k(.param .u64 p) {
    ld.global.b32 %r1, [%rd1];
}
"""


def test_files_folders_and_stdin_are_read() -> None:
    folder = Path("cache", "HASH")
    folder.mkdir(parents=True)
    (folder / "k.ptx").write_text(SMALL)
    (folder / "loop").symlink_to(folder.parent.absolute())
    for path in (folder / "k.ptx", folder.parent):
        done = run_command(*MEM_SPACES, path)
        assert done.exit_code == 0
        assert [text.split() for text in done.stdout.splitlines()[1:]] == [
            ["0", "k", "-", "GLOBAL", "LOAD", "32", "1", "ld"]
        ]
        assert (
            done.stderr == "no source lines for kernels compiled with TRITON_DISABLE_LINE_INFO=1\n"
        )
    piped = run_command(*MEM_SPACES, "-", stdin=SMALL)
    assert piped.stdout == done.stdout


def test_unreadable_files_are_reported_and_the_others_shown() -> None:
    Path("k.ptx").write_text(SMALL)
    Path("cut.ptx").write_text(SMALL[:80])
    Path("k.amdgcn").write_text('\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n')
    Path("empty").mkdir()
    Path("amd").mkdir()
    Path("amd", "k.amdgcn").write_text("")
    files = ("cut.ptx", "k.amdgcn", "none.ptx", "empty", "amd", "k.ptx")
    done = run_command(*MEM_SPACES, *files, "--json")
    assert done.exit_code == 2
    (module,) = json.loads(done.stdout)
    assert (module["file"], module["target"]) == ("k.ptx", "sm_90a")
    assert [text for text in done.stderr.splitlines() if text.startswith("error: ")] == [
        "error: `cut.ptx`: it ends in line 5, inside `k`",
        "error: `k.amdgcn`: it is AMD assembly (`.amdgcn_target`); only PTX is read",
        "error: `none.ptx`: it cannot be read: No such file or directory (os error 2)",
        "error: `empty` contains no .ptx files",
        "error: `amd` contains no .ptx files, only AMD assembly (.amdgcn), which is not supported",
    ]


def test_control_characters_in_names_are_escaped() -> None:
    Path("k.ptx").write_text(SMALL.replace("entry k", "entry \x1b[31mk"))
    done = run_command(*MEM_SPACES, "k.ptx")
    assert "\x1b" not in done.stdout
    assert "\\u{1b}[31mk" in done.stdout
