"""The JUnit XML of `marey check`, parsed by an XML parser."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from analyses import Event, host_span, step, write
from programs import marey_command

NASTY = """a"b'&<c>]]>\x1b\u202e"""


def training(folder: Path, name: str, micros: int) -> Path:
    """Makes a trace of twelve steps of this many microseconds, plus or minus one."""
    events: list[Event] = []
    for number in range(12):
        start = number * 10_000
        events += [step(number, start, micros + number % 3), host_span("op", start + 1, 50)]
    return write(folder / name, events)


def check(folder: Path, *conditions: str) -> tuple[int, ElementTree.Element]:
    """Returns exit code and XML for a run that is 20 % slower than the baseline."""
    before = training(folder, f"before {NASTY}.json", 1_000)
    after = training(folder, f"after {NASTY}.json", 1_200)
    options = [f"--fail-on={condition}" for condition in conditions]
    xml = folder / "j.xml"
    done = marey_command("check", after, "--baseline", before, *options, "--junit", xml)
    return done.exit_code, ElementTree.parse(xml).getroot()


@pytest.mark.parametrize(
    ("conditions", "exit_code", "counts"),
    [
        (["step_time.p50>+30%"], 0, ("1", "0", "0")),
        (["step_time.p50>+30%", "step_time.p50>+3%"], 1, ("2", "1", "0")),
        (["step_time.p99>+3%", "step_time.p50>+30%"], 3, ("2", "0", "1")),
        (["step_time.p99>+3%", "gpu_memory.peak>1GB", "step_time>1ms"], 1, ("3", "1", "2")),
    ],
)
def test_the_xml_has_the_counts_that_servers_read(
    tmp_path: Path, conditions: list[str], exit_code: int, counts: tuple[str, str, str]
) -> None:
    returned, root = check(tmp_path, *conditions)
    assert returned == exit_code
    (suite,) = root
    assert tuple(suite.attrib[name] for name in ("tests", "failures", "skipped")) == counts
    cases = suite.findall("testcase")
    assert [case.attrib["name"] for case in cases] == conditions
    assert len(suite.findall("testcase/failure")) == int(counts[1])
    assert len(suite.findall("testcase/skipped")) == int(counts[2])


def test_names_are_escaped_for_xml(tmp_path: Path) -> None:
    _, root = check(tmp_path, "step_time.p50>+3%")
    named = {
        one.attrib["name"]: one.attrib["value"] for one in root.findall("*/properties/property")
    }
    told = NASTY.replace("\x1b", "")
    assert named["before"].endswith(f"before {told}.json")
    assert named["after"].endswith(f"after {told}.json")
