"""NVTX annotations become scopes: of the package `nvtx`, and of C libraries."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from pathlib import Path

import pytest
from profiles import counts, find, losses, metrics, profile_names, tree
from programs import run_command, run_marey, run_program, run_well

SOURCE = Path(__file__).parent / "c" / "nvtx_library.c"


@pytest.fixture(autouse=True)
def _unset_injection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsets the variable, which sessions of this process have set for child processes."""
    for name in ("NVTX_INJECTION64_PATH", "MAREY_NVTX"):
        monkeypatch.delenv(name, raising=False)


def build_library(name: str = "annotated") -> Path:
    """Builds a shared library with its own copy of NVTX."""
    if shutil.which("cc") is None:
        pytest.skip("there is no cc here")
    files = importlib.metadata.files("nvidia-nvtx") or []
    header = next(file for file in files if file.match("nvtx3/nvToolsExt.h"))
    include = Path(str(header.locate())).parent.parent
    output = Path(f"{name}.so").absolute()
    options = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", f"-I{include}"]
    done = run_command("cc", *options, SOURCE, "-o", output, "-ldl")
    assert done.exit_code == 0, done.stderr
    return output


def test_the_nvtx_package_records_ranges_marks_domains_and_payloads() -> None:
    run_well("""
        import marey, nvtx, threading

        marey.start("p")

        @nvtx.annotate(color="red", category="a category")
        def train():
            for step in range(3):
                with nvtx.annotate("step", domain="lib", payload=step):
                    nvtx.push_range("forward")
                    with marey.scope("own"):
                        nvtx.mark("here", payload=0.5)
                    nvtx.pop_range()

        train()
        first = nvtx.start_range("first")
        second = nvtx.start_range("second", domain="lib", payload=2.5)
        nvtx.end_range(first)
        thread = threading.Thread(target=nvtx.end_range, args=[second])
        thread.start()
        thread.join()
        nvtx.mark("outside")
        nvtx.end_range(first)
        marey.finalize()
    """)
    root = tree("p.hatchet")
    assert counts(root) == {
        "train": 1,
        "train/lib::step": 3,
        "train/lib::step/forward": 3,
        "train/lib::step/forward/own": 3,
        "train/lib::step/forward/own/here": 3,
        "first": 1,
        "lib::second": 1,
        "outside": 1,
    }
    assert metrics(find(root, "train/lib::step")) == {"payload": 0 + 1 + 2}
    mark = find(root, "train/lib::step/forward/own/here")
    assert metrics(mark) == {"payload": 1.5}
    assert (mark["marey"]["kind"], mark["metrics"]["wall_total (ns)"]) == ("mark", 0)
    assert metrics(find(root, "lib::second")) == {"payload": 2.5}
    assert metrics(find(root, "first")) == {}
    assert losses(tree("p.hatchet")) == {}


def test_c_libraries_and_the_nvtx_package_record_into_one_session() -> None:
    one, two = build_library("one"), build_library("two")
    levels = run_well(f"""
        import ctypes, marey, nvtx

        one, two = ctypes.CDLL({str(one)!r}), ctypes.CDLL({str(two)!r})
        for library in (one, two):
            library.start.restype = ctypes.c_uint64
            library.end.argtypes = [ctypes.c_uint64]
        marey.start("p")
        levels = [one.push(b"a"), two.push(b"b"), one.push_wide()]
        with nvtx.annotate("package"):
            two.mark(b"mark")
        levels += [one.pop(), one.pop(), two.pop(), two.pop()]
        ranges = [one.start(b"r"), two.start(b"r")]
        assert len({{0, *ranges}}) == 3
        two.end(ranges[0])
        one.end(ranges[1])
        one.overlap()
        marey.finalize()
        print(levels)
    """)
    assert json.loads(levels) == [0, 1, 2, 2, 1, 0, -1]
    root = tree("p.hatchet")
    assert counts(root) == {
        "a": 1,
        "a/b": 1,
        "a/b/wïde": 1,
        "a/b/wïde/package": 1,
        "a/b/wïde/package/mark": 1,
        "r": 2,
        "first::kept": 1,
        "first::kept/second::text": 1,
    }
    assert metrics(find(root, "first::kept")) == {"payload": -7}
    assert metrics(find(root, "first::kept/second::text")) == {"payload": 0.5}
    assert losses(tree("p.hatchet")) == {"unmatched_exits": 1}


def test_popping_a_range_from_before_the_session_leaves_no_scope() -> None:
    run_well("""
        import marey, nvtx

        marey.start("first")
        nvtx.push_range("of the first")
        marey.finalize()
        nvtx.push_range("of none")
        marey.start("p")
        with marey.scope("a"):
            nvtx.pop_range()
            nvtx.push_range("b")
            nvtx.pop_range()
            nvtx.pop_range()
            with marey.scope("c"):
                pass
        marey.finalize()
    """)
    assert counts(tree("p.hatchet")) == {"a": 1, "a/b": 1, "a/c": 1}
    assert losses(tree("p.hatchet")) == {}


def test_in_a_trace_ranges_are_spans_and_marks_are_instants() -> None:
    run_well("""
        import marey, nvtx

        marey.start("p", data="trace")
        with nvtx.annotate("outer", payload=3):
            with nvtx.annotate("inner", domain="lib"):
                nvtx.mark("mark", payload=7)
        range_id = nvtx.start_range("range")
        nvtx.end_range(range_id)
        marey.finalize()
    """)
    events = json.loads(Path("p.chrome_trace").read_text())["traceEvents"]
    found = [
        (event["ph"], "/".join(event["args"]["call_stack"]), event["args"].get("metrics"))
        for event in events
        if event["ph"] != "M"
    ]
    assert found == [
        ("i", "ROOT/outer/lib::inner/mark", {"payload (exc)": "7"}),
        ("X", "ROOT/outer/lib::inner", None),
        ("X", "ROOT/outer", {"payload (exc)": "3"}),
        ("X", "ROOT/range", None),
    ]


def test_marey_run_records_nvtx_in_children() -> None:
    annotated = "import nvtx\nwith nvtx.annotate('{}'): pass\n"
    Path("child.py").write_text(annotated.format("child"))
    Path("parent.py").write_text(
        "import subprocess, sys\n"
        + annotated.format("parent")
        + "subprocess.run([sys.executable, 'child.py'], check=True)\n"
    )
    run_marey("run", "-o", "out/", "parent.py")
    profiles = [counts(tree(f"out/{name}")) for name in profile_names(directory="out")]
    assert sorted(profiles, key=str) == [{"child": 1}, {"parent": 1}]


def test_an_existing_injection_library_is_kept() -> None:
    program = """
        import marey, nvtx, os
        marey.start("p")
        with nvtx.annotate("a"):
            pass
        marey.finalize()
        print(os.environ.get("NVTX_INJECTION64_PATH"))
    """
    for env, expected in [
        ({"NVTX_INJECTION64_PATH": "/no/such.so"}, "/no/such.so"),
        ({"MAREY_NVTX": "0"}, "None"),
        ({"MAREY_DISABLE": "1"}, "None"),
    ]:
        done = run_program(program, **env)
        assert (done.exit_code, done.stdout) == (0, f"{expected}\n"), done.stderr
    assert counts(tree("p.hatchet")) == {}


def test_an_injection_library_set_by_c_code_is_kept() -> None:
    """`os.environ` does not show what a C library has set."""
    found = run_well("""
        import ctypes, marey
        libc = ctypes.CDLL(None)
        libc.setenv(b"NVTX_INJECTION64_PATH", b"/a/tool.so", 1)
        marey.start("p")
        libc.getenv.restype = ctypes.c_char_p
        print(libc.getenv(b"NVTX_INJECTION64_PATH").decode())
    """)
    assert found == "/a/tool.so\n"


def test_marey_nvtx_0_disables_an_inherited_variable() -> None:
    library = run_well("from marey import _native; print(_native.library_path())").strip()
    env = {"NVTX_INJECTION64_PATH": library, "MAREY_NVTX": "0"}
    run_well("import marey, nvtx; marey.start('p'); nvtx.mark('m'); marey.finalize()", **env)
    assert counts(tree("p.hatchet")) == {}


def test_open_ranges_of_ended_threads_and_forks_are_harmless() -> None:
    library = build_library()
    run_well(f"""
        import ctypes, marey, os, threading

        library = ctypes.CDLL({str(library)!r})
        marey.start("p")
        library.push(b"outer")
        thread = threading.Thread(target=library.push, args=[b"never popped"])
        thread.start()
        thread.join()
        pid = os.fork()
        library.push(b"inner")
        library.pop()
        library.pop()
        if pid:
            assert os.waitpid(pid, 0)[1] == 0
        marey.finalize()
    """)
    assert counts(tree("p.hatchet")) == {"outer": 1, "outer/never popped": 1, "outer/inner": 1}
    assert losses(tree("p.hatchet")) == {"unclosed_scopes": 1}
    [child] = Path(".").glob("p.*.hatchet")
    assert counts(tree(child))["outer/inner"] == 1
