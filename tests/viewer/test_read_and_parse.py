"""`marey.read`, `marey.parse` and `marey.viewer`, compared with Triton's viewer."""

from __future__ import annotations

import inspect
import itertools
import json
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import marey
import marey as proton
import pytest
from marey import _engine
from marey.graph import Graph
from paths import TESTS
from programs import run_command, run_well
from viewer_graphs import NAMES, PAIRS, TIME, assert_same_columns, graph_of, node, path, read

pytest.importorskip("pandas")

DERIVED = {
    "cpu": ["cpu_time/ms", "avg_cpu_time/us", "tokens", "loss/%", "lr", "lr/%"],
    "frames": ["time/s", "avg_time/ns", "time/%", "count"],
    "hip": ["time/ms", "util", "flop16/s", "tflop8/s", "gbyte/s", "bytes/%"],
    "kernels": ["time/ms", "flop/s", "tflop16/s", "gflop64/s", "tbyte/s", "util", "time/%"],
    "metadata": ["time/us", "count/%"],
    "negative": ["bytes", "byte/s", "util", "drift/%"],
    "optimized": ["util", "avg_time/s", "flop32/s"],
    "samples": ["num_samples", "stalled_wait/%", "time/ms"],
}


@pytest.fixture
def triton() -> Any:
    """Triton's viewer."""
    return pytest.importorskip("triton.profiler.viewer")


# Read and parse.


@pytest.mark.parametrize("name", NAMES)
def test_read_matches_triton(name: str, triton: Any) -> None:
    ours, *rest = marey.read(str(path(name)))
    theirs, *wanted = triton.read(path(name))
    assert rest == wanted
    mine, their = ours.dataframe, theirs.dataframe
    assert mine.index.name == their.index.name == "node"
    assert [str(node) for node in mine.index] == [str(node) for node in their.index]
    assert mine.columns[0] == "name"
    assert {**mine.dtypes} == {**their.dtypes}
    numbers = [label for label in their if their[label].dtype != object]
    assert_same_columns(ours, theirs, numbers)
    for label in {*their} - {*numbers}:
        assert mine[label].isna().tolist() == their[label].isna().tolist()
        assert mine[label].dropna().tolist() == their[label].dropna().tolist()


@pytest.mark.parametrize("name", NAMES)
def test_parse_matches_triton(name: str, triton: Any) -> None:
    ours, labels = marey.parse(DERIVED[name], path(name))
    theirs, wanted = triton.parse(DERIVED[name], path(name))
    assert labels == wanted
    assert_same_columns(ours, theirs, labels)
    for depth, expand in itertools.product((1, 3, 100), (True, False)):
        shown: dict[str, Any] = {"depth": depth, "expand_name": expand, "render_header": False}
        assert ours.tree(labels, **shown) == theirs.tree(labels, **shown)


FILTERS: list[dict[str, Any]] = [
    {"include": ".*gemm.*"},
    {"include": "step|warm"},
    {"include": "layer k"},
    {"exclude": ".*layer.*"},
    {"exclude": "gemm_64"},
    {"threshold": 0.1},
    {"threshold": 0},
    {"include": "step", "exclude": ".*fp8"},
    {"include": "step", "threshold": 0.05},
    {"include": "", "exclude": ""},
]


@pytest.mark.parametrize("conditions", FILTERS, ids=str)
def test_filters_match_triton(conditions: dict[str, Any], triton: Any) -> None:
    for name in ("kernels", "optimized"):
        metrics = ["time/ms", "util", "bytes", "count"]
        try:
            theirs, _ = triton.parse(metrics, path(name), **conditions)
        except triton.ht.graphframe.EmptyFilter:
            with pytest.raises(marey.EmptyFilter, match="nothing is left"):
                marey.parse(metrics, path(name), **conditions)
            continue
        ours, labels = marey.parse(metrics, path(name), **conditions)
        assert_same_columns(ours, theirs, labels)
        assert ours.tree(labels) == theirs.tree(labels, render_header=False)


def test_viewer_functions_have_tritons_parameters(triton: Any) -> None:
    compared = 0
    for name in marey.viewer.__all__:
        ours, theirs = getattr(marey.viewer, name), getattr(triton, name)
        if inspect.isfunction(theirs):
            parameters = [[*inspect.signature(each).parameters] for each in (ours, theirs)]
            assert parameters[0] == parameters[1], name
            compared += 1
    assert compared == 15


def test_factor_tables_match_triton(triton: Any) -> None:
    for name in marey.viewer.__all__:
        theirs = getattr(triton, name)
        if name.endswith(("_dict", "_metrics")) and not callable(theirs):
            assert getattr(marey.viewer, name) == theirs, name


# As Triton's own tests call theirs.


def database(name: str) -> Any:
    return json.loads(path(name).read_text())


def test_raw_metrics_of_a_database(triton: Any) -> None:
    ours = marey.viewer.get_raw_metrics(database("kernels"))
    theirs = triton.get_raw_metrics(database("kernels"))
    assert ours[1:] == theirs[1:]
    theirs[0].update_inclusive_columns()
    ours[0].update_inclusive_columns()
    assert_same_columns(ours[0], theirs[0], [TIME, "bytes (inc)"])


def test_remove_frames_matches_triton(triton: Any) -> None:
    for name in NAMES:
        if name != "metadata":
            wanted = triton.remove_frames(database(name))
            assert marey.viewer.remove_frames(database(name)) == wanted


def test_no_measurement_is_removed() -> None:
    metadata = node("__proton_launch_metadata:k", {"time (ns)": 1}, node("k", {"time (ns)": 1}))
    lookalike = node("__proton_launch_metadataX", {"time (ns)": 2})
    empty = node("empty", {}, node("nothing", {}))
    # Triton loses it, for all its children go.
    measured = node("measured", {"time (ns)": 3}, metadata, empty)
    root = node("ROOT", {"time (ns)": 0}, metadata, lookalike, empty, measured)
    given = [root, {"CUDA": {}}]
    before = json.dumps(given)
    assert marey.viewer.remove_frames(given) == [
        node("ROOT", {"time (ns)": 0}, lookalike, node("measured", {"time (ns)": 3})),
        {"CUDA": {}},
    ]
    assert json.dumps(given) == before
    assert marey.viewer.remove_frames([metadata]) == []


@pytest.mark.parametrize(
    ("style", "name"),
    [
        ("full", "/home/user/projects/example.py/test.py:1@foo"),
        ("file_function_line", "test.py:1@foo"),
        ("function_line", "1@foo"),
        ("file_function", "test.py@foo"),
        (None, "/home/user/projects/example.py/test.py:1@foo"),
    ],
)
def test_frames_are_formatted(style: str | None, name: str, triton: Any) -> None:
    root = node("ROOT", {}, node("/home/user/projects/example.py/test.py:1@foo", {"time (ns)": 1}))
    graph, *_ = marey.viewer.get_raw_metrics([root])
    graph = marey.viewer.format_frames(graph, style)
    assert (graph.dataframe["name"] == name).sum() == 1
    ours = marey.viewer.format_frames(read("frames"), style)
    theirs = triton.format_frames(triton.read(path("frames"))[0], style)
    assert ours.dataframe["name"].tolist() == theirs.dataframe["name"].tolist()


def test_derived_metrics_of_a_database_and_the_order_of_kernels(triton: Any) -> None:
    def top(viewer: Any) -> list[str]:
        graph, inclusive, exclusive, devices = viewer.get_raw_metrics(database("kernels"))
        graph = viewer.format_frames(graph, None)
        graph.update_inclusive_columns()
        metrics = ["time/s", "time/ms", "time/us", "time/ns"]
        labels = viewer.derive_metrics(graph, metrics, inclusive, exclusive, devices)
        assert labels == ["time/s (inc)", "time/ms (inc)", "time/us (inc)", "time/ns (inc)"]
        graph = viewer.filter_frames(graph, None, None, None, labels[0])
        by_time = graph.dataframe.sort_values(by=[labels[0]], ascending=False)
        return [*by_time.iloc[0:5]["name"].values]

    assert top(marey.viewer) == top(triton)


def test_utilisation_depends_on_the_device() -> None:
    graph, inclusive, exclusive, devices = marey.read(path("kernels"))
    graph.derive("util")
    first = graph.column("util")
    for device in devices["CUDA"].values():
        device["num_sms"] //= 2
        device["memory_clock_rate"] //= 2
    marey.viewer.derive_metrics(graph, ["util"], inclusive, exclusive, devices)
    pairs = zip(graph.column("util"), first, strict=True)
    ratios = [round(now / was, 3) for now, was in pairs if was > 0]
    assert min(ratios) > 1
    assert max(ratios) == 2  # those that were bound by what is now halved


def test_minimum_times_match_triton(triton: Any) -> None:
    numpy = pytest.importorskip("numpy")
    for name in ("kernels", "hip"):
        frame, devices = read(name).dataframe, marey.read(path(name))[3]
        for function in ("get_min_time_flops", "get_min_time_bytes"):
            ours = getattr(marey.viewer, function)(frame, devices)
            theirs = getattr(triton, function)(frame, devices)
            assert ours.columns.tolist() == ["min_time"]
            assert ours.index.equals(frame.index)
            numpy.testing.assert_array_equal(ours.to_numpy(), theirs.to_numpy())


def test_minimum_times_of_devices_unknown_to_triton() -> None:
    frame = read("kernels").dataframe
    devices = marey.read(path("kernels"))[3]
    without_bytes = frame.drop(columns="bytes")
    least = marey.viewer.get_min_time_bytes(without_bytes, devices)
    assert least[frame["device_id"].isna()]["min_time"].eq(0).all()
    assert least[frame["device_id"].notna()]["min_time"].isna().all()
    devices["CUDA"]["0"]["arch"] = "13"
    with pytest.warns(UserWarning, match="not '13'|not \"13\""):
        least = marey.viewer.get_min_time_flops(frame, devices)
    of_unknown = (frame["device_id"] == "0") & (frame["flops16"] > 0)
    assert of_unknown.any()
    assert least[of_unknown]["min_time"].isna().all()
    assert least[frame["device_id"] == "1"]["min_time"].notna().all()
    del devices["CUDA"]["1"]["num_sms"], devices["CUDA"]["1"]["memory_clock_rate"]
    of_incomplete = (frame["device_id"] == "1") & (frame["flops16"] > 0)
    assert of_incomplete.any()
    devices["CUDA"]["0"]["arch"] = "89"
    with pytest.warns(UserWarning, match="number of multiprocessors is NaN"):
        least = marey.viewer.get_min_time_flops(frame, devices)
    assert least[of_incomplete]["min_time"].isna().all()
    with pytest.warns(UserWarning, match="a clock of NaN"):
        least = marey.viewer.get_min_time_bytes(frame, devices)
    assert least[frame["device_id"] == "1"]["min_time"].isna().all()
    nowhere = marey.viewer.get_min_time_flops(frame.drop(columns="device_id"), devices)
    assert nowhere["min_time"].eq(0).all()


def test_metrics_are_matched_without_case_and_unit() -> None:
    match = marey.viewer.match_available_metrics
    assert match("TIME", ["time (ns)"], ["name"]) == [TIME]
    assert match(["time (ns)", "Lr"], ["time (ns)"], ["name", "lr"]) == [TIME, "lr"]
    with pytest.raises(RuntimeError, match=r"Metric x is not found.*\(there are `time`, `name`\)"):
        match(["time", "x"], ["time (ns)"], ["name"])


@pytest.mark.parametrize("print_sorted", [False, True])
@pytest.mark.parametrize("name", ["frames", "kernels", "negative"])
def test_printed_trees_match_triton(
    name: str, print_sorted: bool, triton: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from viewers import difference

    metrics = ["time/ms", "bytes"] if name != "frames" else ["time/ms", "count"]
    printed = []
    for viewer in (triton, marey.viewer):
        graph, labels = viewer.parse(metrics, path(name))
        viewer.print_tree(graph, labels, 4, "function_line", print_sorted)
        viewer.emit_warnings(graph, labels)
        printed.append(capsys.readouterr().out)
    wanted, shown = printed
    assert difference(shown, wanted) == ""
    assert ("Warning: Negative" in wanted) == (name == "negative")


def test_strings_are_sorted_last(capsys: pytest.CaptureFixture[str]) -> None:
    leaves = [node("a", {"x": "text"}), node("b", {"x": 1}), node("c", {}), node("d", {"x": 2.5})]
    graph = graph_of(node("ROOT", {"n": 0}, *leaves[:2], node("c", {"n": 1}), leaves[3]))
    marey.viewer.print_tree(graph, ["x"], print_sorted=True)
    lines = capsys.readouterr().out.splitlines()
    listed = lines[lines.index("Sorted kernels by metric x") + 1 :]
    assert [line.split() for line in listed] == [
        ["d", "2.5"],
        ["b", "1.0"],
        ["a", "text"],
        ["c", "nan"],
    ]
    marey.viewer.print_tree(graph, ["n (inc)"], print_sorted=True)
    assert "ROOT" in capsys.readouterr().out


def test_a_tree_without_metrics_shows_names(capsys: pytest.CaptureFixture[str]) -> None:
    graph, labels = marey.parse([], path("kernels"), include="step", threshold=0.0)
    assert labels == []
    marey.viewer.print_tree(graph, labels, 2)
    assert capsys.readouterr().out == "ROOT\n└─ step 1\n\n"
    with pytest.raises(ValueError, match="needs a metric"):
        marey.viewer.print_tree(graph, labels, print_sorted=True)
    assert capsys.readouterr().out == ""


def test_listed_metrics_match_triton(triton: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        triton.show_metrics(path(name))
        wanted = capsys.readouterr().out
        marey.viewer.show_metrics(path(name))
        assert capsys.readouterr().out == wanted


def test_subtracting_a_profile_matches_triton(triton: Any) -> None:
    metrics, conditions = ["time/ms", "util", "count"], ("step", None, 0.01)
    for ours, theirs in PAIRS:
        graphs = []
        for viewer in (triton, marey.viewer):
            graph, labels = viewer.parse(metrics, path(ours), *conditions)
            other = path(theirs)
            graphs.append(viewer.apply_diff_profile(graph, labels, other, metrics, *conditions))
        assert_same_columns(graphs[1], graphs[0], labels)
        assert graphs[1].tree(labels) == graphs[0].tree(labels, render_header=False)


# Errors.


def test_a_bad_file_is_named_with_place_and_reason(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        marey.read(tmp_path / "absent.hatchet")
    assert missing.value.filename == str(tmp_path / "absent.hatchet")
    with pytest.raises(IsADirectoryError):
        marey.read(tmp_path)
    bad = tmp_path / "bad.hatchet"
    bad.write_text('[{"frame": {"name": "ROOT"}, "metrics": {"time": x')
    with pytest.raises(marey.UnreadableProfile) as error:
        marey.read(bad)
    assert isinstance(error.value, ValueError)
    assert str(bad) in str(error.value)
    assert "byte 49" in str(error.value)
    with pytest.raises(marey.UnreadableProfile, match="byte 0"):
        Graph.parse(b"\xc1")


def test_every_damaged_file_gives_one_error_line() -> None:
    hostile = [*(TESTS / "hostile").glob("*.hatchet*")]
    assert len(hostile) > 50
    for file in hostile:
        with pytest.raises(marey.UnreadableProfile) as error:
            marey.read(file)
        message = str(error.value)
        assert message.startswith(f"cannot read `{file}`: "), message
        assert len(message.splitlines()) == 1


def test_an_unknown_metric_names_the_nearest_one() -> None:
    with pytest.raises(RuntimeError) as error:
        marey.parse(["tokenz"], path("kernels"))
    assert str(error.value) == (
        "Metric tokenz is not found. Use the --list flag to list available metrics"
        " (did you mean `tokens`?)"
    )
    with pytest.raises(marey.UnknownMetric, match=r"\(there are `bytes`, .* and \d+ more\)$"):
        marey.parse("qqq", path("kernels"))
    with pytest.raises(marey.UnknownMetric, match=r"\(there are `note`\)$"):
        graph_of(node("ROOT", {}, node("a", {"note": "x"}))).derive("qqq")
    with pytest.raises(ValueError, match="Unsupported unit"):
        marey.parse(["count/ms"], path("kernels"))
    with pytest.raises(TypeError, match="device_id is not a number"):
        marey.parse(["device_id/%"], path("kernels"))
    with pytest.raises(ValueError, match="pattern"):
        marey.parse(["time"], path("kernels"), include="(")
    with pytest.raises(KeyError):
        read("kernels").column("nothing")
    with pytest.raises(ValueError, match="format"):
        read("kernels").style_names("short")


def test_an_unknown_architecture_warns_and_gives_nan() -> None:
    graph, *_, devices = marey.read(path("kernels"))
    devices["CUDA"]["0"]["arch"] = "13"
    graph.device_info = devices
    with pytest.warns(UserWarning, match="device 0 is unknown"):
        graph.derive("util")
    of_unknown = graph.dataframe[graph.dataframe["device_id"] == "0"]
    assert of_unknown["util"].isna().any()
    assert graph.dataframe["util"].notna().any()


def test_warnings_point_at_the_callers_line(tmp_path: Path) -> None:
    frame, (*_, devices) = read("kernels").dataframe, marey.read(path("kernels"))
    devices["CUDA"]["0"]["arch"] = "13"
    unknown = tmp_path / "unknown.hatchet"
    unknown.write_text(path("kernels").read_text().replace('"arch": "89"', '"arch": "13"'))
    for call in (
        lambda: marey.parse(["util"], unknown),
        lambda: marey.read(unknown)[0].derive("util"),
        lambda: marey.viewer.get_min_time_flops(frame, devices),
        lambda: marey.max_flops("CUDA", "13", 16, 1, 1.0),
        lambda: marey.specs.flops_by_device["CUDA"]["75"](16),
        lambda: marey.max_bps("HIP", "gfx1100", -1, 1.0),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert caught
        assert {each.filename for each in caught} == {__file__}


def test_a_width_may_be_a_whole_float() -> None:
    asked = ("CUDA", "90", 16.0, 132, 1.98)
    assert marey.max_flops(*asked) == marey.max_flops("CUDA", "90", 16, 132, 1.98)
    for width in (16.5, 4, -8, float("nan"), 2**70):
        with pytest.warns(UserWarning, match=r"bits, not of"):
            assert marey.max_flops("CUDA", "90", width, 132, 1.98) != 0


# The package.


def test_lazy_names_are_listed_and_importable() -> None:
    for name in ("graph", "max_bps", "max_flops", "parse", "read", "specs", "viewer"):
        assert name in marey.__all__
        assert name in dir(marey)
    assert (proton.read, proton.parse) == (marey.viewer.read, marey.viewer.parse)
    assert proton.max_flops is marey.specs.max_flops


WITHOUT_PANDAS = """
    import sys

    class Blocker:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {"numpy", "pandas", "hatchet", "triton", "torch"}:
                raise ImportError(f"{name} is not there")

    sys.meta_path.insert(0, Blocker())
    import marey

    assert "marey._engine" not in sys.modules
    assert "marey.viewer" not in sys.modules
    graph, inclusive, exclusive, devices = marey.read(sys.argv[1] if len(sys.argv) > 1 else PATH)
    other, labels = marey.parse(["time/ms", "util"], PATH, include="step", threshold=0.01)
    print(graph.tree())
    print((graph - other).tree(), graph.diff(other, "count").tree())
    print(len(graph.filter(lambda row: row["depth"] < 2)), len(graph.copy().squash()))
    print(graph.show_metric_columns(), repr(graph), graph.column("bytes (inc)")[0])
    assert "<details" in graph._repr_html_()
    assert graph.to_hatchet().lstrip().startswith("[")
    marey.viewer.print_tree(other, labels, print_sorted=True)
    try:
        graph.dataframe
    except ImportError as error:
        print(error)
    """


def test_only_the_frame_needs_pandas() -> None:
    printed = run_well(WITHOUT_PANDAS.replace("PATH", repr(str(path("kernels")))))
    assert printed.startswith("1593580.000 ROOT\n")
    assert printed.endswith("pandas is not there\n")


def test_every_engine_function_has_a_docstring() -> None:
    functions = [each for each in vars(_engine).values() if inspect.isbuiltin(each)]
    methods = [each for name, each in vars(_engine.Graph).items() if not name.startswith("__")]
    assert len(functions) == 7
    assert len(methods) > 25
    for each in [*functions, *methods]:
        assert (each.__doc__ or "").strip().endswith("."), each


def test_the_viewers_command_runs() -> None:
    (script,) = entry_points(group="console_scripts", name="marey-viewer")
    assert script.value == "marey._cli:viewer"
    run = "from marey._cli import viewer; viewer()"
    done = run_command(sys.executable, "-c", run, "-m", "time/ms", "-d", 1, path("kernels"))
    assert done == (0, "1.594 ROOT\n\n", "nodes hidden by --depth: 19\n")
    main = "from marey import viewer; viewer.main()"
    failed = run_command(sys.executable, "-c", main, "-m", "time", "absent.hatchet")
    assert failed.exit_code == 2
    assert failed.stderr.startswith("error: cannot read `absent.hatchet`")
