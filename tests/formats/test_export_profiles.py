"""Exported profiles, parsed by Google's protobuf library and an XML parser."""

from __future__ import annotations

import gzip
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from paths import RUNS
from programs import marey_stdout

RUN = RUNS / "version-1.marey"

# The published schema: the fields of each message with number and type, `*` before repeated ones.
SCHEMA = {
    "ValueType": "type 1 int64, unit 2 int64",
    "Label": "key 1 int64, str 2 int64, num 3 int64, num_unit 4 int64",
    "Sample": "location_id 1 *uint64, value 2 *int64, label 3 *Label",
    "Mapping": "id 1 uint64, memory_start 2 uint64, memory_limit 3 uint64, file_offset 4 uint64,"
    "filename 5 int64, build_id 6 int64, has_functions 7 bool, has_filenames 8 bool,"
    "has_line_numbers 9 bool, has_inline_frames 10 bool",
    "Line": "function_id 1 uint64, line 2 int64, column 3 int64",
    "Location": "id 1 uint64, mapping_id 2 uint64, address 3 uint64, line 4 *Line,is_folded 5 bool",
    "Function": "id 1 uint64, name 2 int64, system_name 3 int64, filename 4 int64,"
    "start_line 5 int64",
    "Profile": "sample_type 1 *ValueType, sample 2 *Sample, mapping 3 *Mapping,"
    "location 4 *Location, function 5 *Function, string_table 6 *string, drop_frames 7 int64,"
    "keep_frames 8 int64, time_nanos 9 int64, duration_nanos 10 int64,"
    "period_type 11 ValueType, period 12 int64, comment 13 *int64,"
    "default_sample_type 14 int64, doc_url 15 int64",
}


def profile_class() -> Any:
    """Returns the message class that Google's library creates from the schema."""
    descriptors = pytest.importorskip("google.protobuf.descriptor_pb2")
    pools = pytest.importorskip("google.protobuf.descriptor_pool")
    factory = pytest.importorskip("google.protobuf.message_factory")
    file = descriptors.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for field in fields.split(","):
            key, number, kind = field.split()
            label = "LABEL_REPEATED" if kind.startswith("*") else "LABEL_OPTIONAL"
            entry = message.field.add(name=key, number=int(number))
            entry.label = descriptors.FieldDescriptorProto.Label.Value(label)
            kind = kind.lstrip("*")
            if kind in SCHEMA:
                entry.type_name = f".p.{kind}"
            else:
                word = f"TYPE_{kind.upper()}"
                entry.type = descriptors.FieldDescriptorProto.Type.Value(word)
    pool = pools.DescriptorPool()
    pool.Add(file)
    return factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))


def exported(source: Path, folder: Path) -> Any:
    """Exports a run or file as pprof and parses it."""
    path = folder / "out.pb.gz"
    marey_stdout("export", source, "--format", "pprof", "-o", path)
    return profile_class().FromString(gzip.decompress(path.read_bytes()))


def texts(profile: Any, position: int) -> str:
    text: str = profile.string_table[position]
    return text


def types(profile: Any) -> list[str]:
    return [f"{texts(profile, t.type)}/{texts(profile, t.unit)}" for t in profile.sample_type]


def stacks(profile: Any) -> Counter[tuple[Any, ...]]:
    """Counts stacks with their values and labels; ids are resolved."""
    functions = {entry.id: entry for entry in profile.function}
    mappings = {entry.id: texts(profile, entry.filename) for entry in profile.mapping}
    places = {}
    for location in profile.location:
        lines = tuple(
            (
                texts(profile, functions[line.function_id].name),
                texts(profile, functions[line.function_id].system_name),
                texts(profile, functions[line.function_id].filename),
                functions[line.function_id].start_line,
                line.line,
                line.column,
            )
            for line in location.line
        )
        mapping = mappings.get(location.mapping_id, "")
        places[location.id] = (location.address, mapping, location.is_folded, lines)
    return Counter(
        (
            tuple(places[id] for id in sample.location_id),
            tuple(sample.value),
            tuple(sorted(labels(profile, sample))),
        )
        for sample in profile.sample
    )


def labels(profile: Any, sample: Any) -> list[tuple[str, str, int, str]]:
    return [
        (
            texts(profile, label.key),
            texts(profile, label.str),
            label.num,
            texts(profile, label.num_unit),
        )
        for label in sample.label
    ]


def foreign_profile() -> Any:
    """Makes a profile that uses every field of the schema, with Google's library."""
    profile = profile_class()()
    table = [""]

    def text(value: str) -> int:
        if value not in table:
            table.append(value)
        return table.index(value)

    profile.sample_type.add(type=text("samples"), unit=text("count"))
    profile.sample_type.add(type=text("cpu"), unit=text("nanoseconds"))
    profile.mapping.add(
        id=3,
        memory_start=4096,
        memory_limit=8192,
        filename=text("/lib/libc.so"),
        build_id=text("b"),
    )
    profile.function.add(
        id=5, name=text("größe(int)"), system_name=text("_Z5"), filename=text("g.cc"), start_line=2
    )
    profile.function.add(id=6, name=text("main"))
    inlined = profile.location.add(id=8, mapping_id=3, address=2**64 - 1)
    inlined.line.add(function_id=5, line=7, column=9)
    inlined.line.add(function_id=6, line=40)
    profile.location.add(id=9, address=0x1234, is_folded=True)
    sample = profile.sample.add(location_id=[9, 8], value=[1, 10**9])
    sample.label.add(key=text("request"), str=text("a;b"))
    sample.label.add(key=text("bytes"), num=4096, num_unit=text("bytes"))
    sample.label.add(key=text("thread"), str=text("worker"))
    sample.label.add(key=text("tid"), num=42)
    profile.sample.add(location_id=[8], value=[2, -5])
    profile.time_nanos = 1_700_000_000_000_000_001
    profile.duration_nanos = 10**9
    profile.period_type.type = text("cpu")
    profile.period_type.unit = text("nanoseconds")
    profile.period = 10_000_000
    profile.comment.append(text("a comment"))
    profile.drop_frames = text("_start")
    profile.default_sample_type = text("cpu")
    profile.doc_url = text("https://example.com")
    profile.string_table.extend(table)
    return profile


def test_a_pprof_round_trip_keeps_everything(tmp_path: Path) -> None:
    profile = foreign_profile()
    (tmp_path / "in.pb").write_bytes(profile.SerializeToString())
    marey_stdout("import", tmp_path / "in.pb", "-o", tmp_path / "run.marey")
    again = exported(tmp_path / "run.marey", tmp_path)
    assert types(again) == types(profile)
    assert stacks(again) == stacks(profile)
    for number in ("time_nanos", "duration_nanos", "period"):
        assert getattr(again, number) == getattr(profile, number)
    for position in ("drop_frames", "keep_frames", "default_sample_type", "doc_url"):
        assert texts(again, getattr(again, position)) == texts(profile, getattr(profile, position))
    assert [texts(again, comment) for comment in again.comment] == ["a comment"]
    assert [texts(again, mapping.build_id) for mapping in again.mapping] == ["b"]


def test_a_recorded_run_becomes_a_profile_of_times(tmp_path: Path) -> None:
    profile = exported(RUN, tmp_path)
    assert types(profile) == ["spans/count", "time/nanoseconds"]
    times = {
        "/".join(lines[0][0] for _, _, _, lines in reversed(stack)): values[1]
        for stack, values, _ in stacks(profile)
    }
    # The view `flame` has the same values.
    assert times["batch/attention/step/Linear"] == 578_840
    assert times["batch/step/backward"] == 702_223


def test_a_flame_graph_is_valid_xml(tmp_path: Path) -> None:
    hostile = 'a<b>&"]]>\x01;outer: \u2028 größe 3\nother 1\n'
    (tmp_path / "in.txt").write_text(f"{'x' * 300} 4\n{hostile}", encoding="utf-8")
    marey_stdout("import", tmp_path / "in.txt", "-o", tmp_path / "run.marey")
    marey_stdout("export", tmp_path / "run.marey", "--format", "svg", "-o", tmp_path / "out.svg")
    svg = ElementTree.parse(tmp_path / "out.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    widths = {}
    for frame in svg.iter(f"{space}g"):
        title, rect = frame.find(f"{space}title"), frame.find(f"{space}rect")
        assert title is not None
        assert title.text is not None
        assert rect is not None
        widths[title.text.rpartition("\n")[0]] = float(rect.attrib["width"])
    assert widths == {
        "all": 1200,
        "x" * 300: 600,
        'a<b>&"]]>\ufffd': 450,
        "outer: \u2028 größe": 450,
        "other": 150,
    }
