"""`prometheus`: the text format, read by a parser of its grammar."""

from __future__ import annotations

import re

import pytest
from marey.metrics import MetricsCollector, prometheus

# From the description of the text format, version 0.0.4.
SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'\{(?P<labels>(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\} '
    r"(?P<value>[-+]?(?:[0-9.]+(?:e[-+]?[0-9]+)?|Inf)|NaN)"
)
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"')

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> Samples:
    """Returns the samples by name and labels; each must be unique and belong to its family."""
    assert text.endswith("\n")
    found: Samples = {}
    family = kind = ""
    seen: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in seen
            seen.add(family)
        elif line.startswith("# TYPE "):
            assert line.split()[2] == family
            kind = line.split()[3]
            assert kind in ("counter", "gauge", "summary")
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            suffixes = ("", "_sum", "_count") if kind == "summary" else ("",)
            assert match["name"] in {family + suffix for suffix in suffixes}
            labels = frozenset(
                (name, re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], value))
                for name, value in LABEL.findall(match["labels"])
            )
            key = (match["name"], labels)
            assert key not in found
            found[key] = float(match["value"])
    return found


def sample(samples: Samples, metric: str, /, **labels: str) -> float:
    return samples[metric, frozenset(labels.items())]


def test_times_values_and_memory_are_exposed() -> None:
    collector = MetricsCollector("training")
    for number in (1, 2, 3):
        collector.record("loss", number / 10)
        with collector.measure_time("step"):
            sum(range(1000))
    samples = parse(prometheus(collector))
    figures = collector.aggregate()["timing"]["step"]
    labels = {"collector": "training", "name": "step"}
    assert sample(samples, "marey_time_seconds_count", **labels) == 3
    assert sample(samples, "marey_time_seconds_sum", **labels) == pytest.approx(
        figures.total / 1000
    )
    median = sample(samples, "marey_time_seconds", quantile="0.5", **labels)
    assert median == pytest.approx(figures.p50 / 1000)
    loss = {"collector": "training", "name": "loss"}
    assert sample(samples, "marey_value", **loss) == 0.3
    assert sample(samples, "marey_values_total", **loss) == 3
    assert sample(samples, "marey_memory_bytes", memory="host", kind="allocated") > 1e6


def test_any_name_is_a_label() -> None:
    name = 'a "b"\\c\nd {e="f"} \ud83d é'
    collector = MetricsCollector(name)
    collector.record(name, 1)
    text = prometheus(collector)
    expected = name.encode("utf-8", "backslashreplace").decode()
    assert sample(parse(text), "marey_value", collector=expected, name=expected) == 1
    text.encode()


def test_equal_names_of_collectors_are_numbered() -> None:
    first, second = MetricsCollector("same"), MetricsCollector("same")
    first.record("loss", 1)
    second.record("loss", 2)
    samples = parse(prometheus(first, second))
    assert sample(samples, "marey_value", collector="same", name="loss") == 1
    assert sample(samples, "marey_value", collector="same-2", name="loss") == 2


def test_without_arguments_all_living_collectors_are_exposed() -> None:
    kept = MetricsCollector("kept alive")
    kept.record("loss", 1)
    gone = MetricsCollector("gone")
    gone.record("loss", 1)
    del gone
    text = prometheus()
    assert 'collector="kept alive"' in text
    assert 'collector="gone"' not in text


def test_an_empty_collector_exposes_memory_alone() -> None:
    assert {name for name, _ in parse(prometheus(MetricsCollector()))} == {"marey_memory_bytes"}
