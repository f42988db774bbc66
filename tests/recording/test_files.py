"""Profile files: content, readers, atomic replacement, and names."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import marey
import pytest
from profiles import Node, counts, losses, profile_names, record_scope, tree, walk
from programs import Live, inside, run_program, run_well

RANK_VARS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def record(name: str = "x", output_format: str = "") -> None:
    """Records a small profile: metrics of every kind at several levels."""
    session = marey.start(name)
    with marey.scope("a", {"flops": 1.5, "wait (ns)(exc)": 10, "note": "é"}):
        for _ in range(3):
            record_scope("b", {"flops": 2.0, "tokens": 5, "sizes": [1, 2]})
        with marey.scope("c", {"tokens": 1}), marey.scope("d", {"flops": 0.25}):
            pass
    record_scope("e")
    marey.finalize(session, output_format)


# Readers


def viewed(*arguments: str) -> str:
    """Returns the output of Proton's viewer."""
    viewer = pytest.importorskip("triton.profiler.viewer")
    pytest.importorskip("hatchet")
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setattr(sys, "argv", ["proton-viewer", *arguments])
        viewer.main()
    return out.getvalue()


def test_protons_viewer_sums_our_metrics() -> None:
    record()
    lines = viewed("-m", "flops", "x.hatchet").splitlines()
    shown = [line.lstrip(" │├└─") for line in lines if line]
    assert shown == ["7.750 ROOT", "7.750 a", "6.000 b", "0.250 c", "0.250 d", "nan e"]


def test_protons_viewer_lists_and_sorts() -> None:
    record()
    listed = viewed("--list", "x.hatchet")
    inclusive, _, exclusive = listed.partition("exclusive")
    assert "- flops" in inclusive
    assert "- tokens" in inclusive
    assert "- wait" in exclusive
    assert "- wall_total" in exclusive
    by_tokens = viewed("-m", "tokens", "--print-sorted", "x.hatchet")
    assert by_tokens.index("Sorted kernels") < by_tokens.rindex("a ") < by_tokens.rindex("b ")
    assert viewed("-m", "wall_count", "x.hatchet").splitlines()[0].endswith("ROOT")


def test_protons_viewer_survives_a_profile_without_metrics() -> None:
    with marey.profile("bare"):
        record_scope("only times")
    assert "1.000 only times" in viewed("-m", "wall_count", "bare.hatchet")


def test_hatchet_reads_the_file() -> None:
    hatchet = pytest.importorskip("hatchet")
    record()
    frame = hatchet.GraphFrame.from_literal(json.loads(Path("x.hatchet").read_text())[:1])
    assert sorted(frame.dataframe["name"]) == ["ROOT", "a", "b", "c", "d", "e"]
    by_name = frame.dataframe.set_index("name")
    assert by_name["wall_count"]["b"] == 3
    assert (by_name["flops"]["b"], by_name["tokens"]["b"]) == (6.0, 15)


# Formats


def test_the_json_framing_is_protons() -> None:
    """Byte for byte: four spaces, sorted keys; only marey's own key is on one line."""
    record()
    text = Path("x.hatchet").read_text()
    root, devices = json.loads(text)
    extras: list[Any] = []

    def without_extras(node: Node) -> Node:
        children = [without_extras(child) for child in node["children"]]
        extras.append(node["marey"])
        return {**node, "children": children, "marey": f"extra {len(extras) - 1}"}

    expected = json.dumps(
        [without_extras(root), devices], indent=4, sort_keys=True, ensure_ascii=False
    )
    for number, extra in enumerate(extras):
        one_line = json.dumps(extra, sort_keys=True, ensure_ascii=False)
        expected = expected.replace(f'"extra {number}"', one_line)
    assert text == f"\n{expected}\n"


def test_msgpack_and_json_have_the_same_content() -> None:
    msgpack = pytest.importorskip("msgpack")
    session = marey.start("x")
    values = {"big": 2**62, "negative": -5, "f": 0.5, "text": "x" * 40, "v": [1] * 20}
    with marey.scope("a", values):
        for number in range(20):
            record_scope(f"child {number} " + "n" * number * 300, {"v": [0.5, -1.5]})
    packed = msgpack.unpackb(marey.data.get_msgpack(session))
    assert without_moment(packed) == without_moment(marey.data.get(session))
    assert list(packed[0]) == ["frame", "metrics", "marey", "children"]
    marey.finalize(session, "hatchet_msgpack")
    stored = msgpack.unpackb(Path("x.hatchet_msgpack").read_bytes())
    assert [stored[0]["children"], stored[1]] == [packed[0]["children"], {}]
    assert stored[0]["marey"]["process"]["complete"] is True


def without_moment(document: Any) -> Any:
    """Returns the document without the values that differ from one read to the next."""
    document[0]["marey"]["process"].pop("duration_nanos")
    document[0]["marey"].pop("overhead")
    return document


def test_the_root_describes_the_process() -> None:
    with marey.profile("x"):
        for _ in range(1000):
            record_scope("s")
    own = tree("x.hatchet")["marey"]
    assert (own["kind"], own["version"]) == ("root", 1)
    overhead, process = own["overhead"], own["process"]
    assert overhead["events"] >= 2000
    assert 1 < overhead["scope_nanos"] < 100_000
    assert overhead["recording_nanos"] == pytest.approx(
        overhead["events"] * overhead["scope_nanos"] / 2, rel=0.01
    )
    assert overhead["flushing_nanos"] > 0
    assert process["pid"] == os.getpid()
    assert process["host"] == os.uname().nodename
    assert process["complete"] is True
    assert 0 < process["duration_nanos"] < 60 * 10**9
    assert set(own["losses"]) == set(marey._names.LOSS_CAUSES)
    assert not any(own["losses"].values())


def wait_for_end(thread: threading.Thread) -> None:
    """Waits for the end of a thread in the system, which comes shortly after `join` returns."""
    while Path(f"/proc/self/task/{thread.native_id}").exists():
        pass


def test_losses_are_counted() -> None:
    with marey.profile("x"):
        marey.enter_scope("forgotten")
        with marey.scope("outer"):
            marey.enter_scope("never left")
        marey.scope("not entered").__exit__(None, None, None)
        thread = threading.Thread(target=marey.enter_scope, args=("of a thread",))
        thread.start()
        thread.join()
        wait_for_end(thread)
    assert losses(tree("x.hatchet")) == {"unclosed_scopes": 2, "unmatched_exits": 1}


def test_nodes_beyond_the_limit_are_counted() -> None:
    source = """
        import marey
        marey.start("x")
        for number in range(100):
            with marey.scope(f"s{number}"):
                pass
        """
    run_well(source, MAREY_MAX_NODES="50")
    root = tree("x.hatchet")
    assert sum(counts(root).values()) == 100
    assert counts(root)["<lost>"] == root["marey"]["losses"]["nodes"] > 40


# Names


def test_missing_directories_are_created() -> None:
    record("a/b/c")
    assert profile_names(directory="a/b") == ["c.hatchet"]


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/1").exists(), reason="needs /proc")
def test_an_unwritable_path_is_in_the_error() -> None:
    for name, part in (("/proc/none/x", "/proc/none"), ("file/x", "file")):
        Path("file").write_text("not a directory")
        session = marey.start(name)
        with pytest.raises(OSError, match=part):
            marey.finalize(session)
        assert session not in marey._native.sessions()
    assert not list(Path().glob(".*.tmp"))


def test_a_name_is_relative_to_where_the_session_began() -> None:
    session = marey.start("x")
    Path("elsewhere").mkdir()
    with inside("elsewhere"):
        assert marey.start("x") != session
        assert marey.start(Path.cwd().parent / "x") == session
        marey.finalize()
    assert (profile_names(), profile_names(directory="elsewhere")) == (["x.hatchet"], ["x.hatchet"])


@pytest.mark.parametrize("name", ["-", ""])
def test_a_dash_writes_to_standard_output(name: str) -> None:
    source = f"""
        import marey
        marey.start({name!r})
        with marey.scope("s"):
            pass
        marey.finalize()
        """
    out = run_well(source, MAREY_CHECKPOINT_SECS="0.01", RANK="3")
    assert [child["frame"]["name"] for child in json.loads(out)[0]["children"]] == ["s"]
    assert profile_names("") == ["program.py"]


@pytest.mark.parametrize("variable", RANK_VARS)
def test_the_rank_is_in_the_name(variable: str) -> None:
    source = """
        import marey
        marey.start("x"), marey.start("y_rank_3"), marey.start("z_rank_1")
        """
    environment = {**dict.fromkeys(RANK_VARS, ""), variable: "3"}
    run_well(source, **environment)
    assert profile_names() == ["x.rank3.hatchet", "y_rank_3.hatchet", "z_rank_1.rank3.hatchet"]
    assert tree("x.rank3.hatchet")["marey"]["process"]["rank"] == 3


def test_the_file_of_an_earlier_run_is_renamed() -> None:
    source = """
        import marey, sys
        marey.start("x")
        with marey.scope(sys.stdin.read()):
            pass
        """
    for name in ("first", "second", "third"):
        assert run_program(source, stdin=name).exit_code == 0
    assert {path: list(counts(tree(path))) for path in profile_names()} == {
        "x.1.hatchet": ["first"],
        "x.2.hatchet": ["second"],
        "x.hatchet": ["third"],
    }


def test_a_process_overwrites_its_own_file() -> None:
    record()
    record()
    assert profile_names() == ["x.hatchet"]
    assert counts(tree("x.hatchet"))["a/b"] == 3


HELD = """
    import marey, sys
    session = marey.start("x")
    with marey.scope(sys.argv[0] and str(marey._native.sessions())):
        pass
    marey._native.checkpoint()
    print("written")
    input()
    marey.finalize()
    """


def test_two_live_processes_keep_their_files() -> None:
    with Live(HELD) as first:
        assert first.read_line() == "written"
        with Live(HELD) as second:
            assert second.read_line() == "written"
            first.write_line()
            second.write_line()
            assert (first.end().exit_code, second.end().exit_code) == (0, 0)
        pids = [first.process.pid, second.process.pid]
    names = ["x.hatchet", f"x.{pids[1]}.hatchet"]
    assert profile_names() == sorted(names)
    assert [tree(name)["marey"]["process"]["pid"] for name in names] == pids


def test_files_are_replaced_atomically() -> None:
    """Reads in a loop while another process writes checkpoints in a loop."""
    source = """
        import marey, threading
        marey.start("x")
        stop = threading.Event()
        def work():
            number = 0
            while not stop.is_set():
                number += 1
                with marey.scope(f"s{number % 200}", {"m": number}):
                    pass
        thread = threading.Thread(target=work)
        thread.start()
        print("ready")
        input()
        stop.set()
        thread.join()
        """
    inodes: set[tuple[int, int]] = set()
    with Live(source, MAREY_CHECKPOINT_SECS="0.01") as program:
        assert program.read_line() == "ready"
        while len(inodes) < 25:
            with contextlib.suppress(FileNotFoundError), open("x.hatchet") as file:
                inodes.add((os.fstat(file.fileno()).st_ino, os.fstat(file.fileno()).st_mtime_ns))
                assert len(json.load(file)) == 2
        program.write_line()
        assert program.end().exit_code == 0
    assert tree("x.hatchet")["marey"]["process"]["complete"] is True
    assert profile_names("") == ["program.py", "x.hatchet"]


def test_the_file_of_a_deep_tree_grows_linearly() -> None:
    with marey.profile("x"):
        for _ in range(2000):
            marey.enter_scope("deep")
        for _ in range(2000):
            marey.exit_scope()
    text = Path("x.hatchet").read_text()
    assert text.count('"name": "deep"') == text.count('"wall_count": 1,') == 2000
    assert text.count("{") == text.count("}")
    assert len(text) < 2000 * 10_000


def test_nodes_have_their_kinds() -> None:
    with marey.profile("x"), marey.scope("scope"), marey.state("state"):
        marey.enter_scope("operator", triton_op=True)
        marey.exit_scope(triton_op=True)
    kinds = {path: node["marey"]["kind"] for path, node in walk(tree("x.hatchet"))}
    assert set(kinds.values()) == {"scope", "state", "operator"}
    assert all(path.endswith(kind) for path, kind in kinds.items())
