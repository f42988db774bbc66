"""The HTML report in a browser: rendering, interaction, and escaping of names."""

from __future__ import annotations

import copy
import functools
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from analyses import host_span, write
from browser import Browser, Page
from programs import marey_stdout

Report = dict[str, Any]

# A missing value is shown as a dash.
NONE = "\u2013"

NASTY = (
    "</script><img src=x onerror='window.ran=1'>",
    "<script>window.ran=1</script>",
    "<!--<script>",
    "\u202eevil\u202c <b>bold</b>",
    "שלום עולם",
    "🔥👩‍👩‍👧 kernel",
    "{{js}} {{json}} $& $1",
    "javascript:window.ran=1",
    "\u2028line\u2029\u0000\ud83d",
    "k" * 10_000,
    "__proto__",
    "",
)


def report() -> Report:
    """A report with two ranks of six steps, 40 kernels, a small flame graph and a memory chart."""
    ms = 1_000_000
    steps = [
        {
            "rank": rank,
            "number": number,
            "start_nanos": str(1_700_000_000_000_000_000 + number),
            "duration_nanos": 10 * ms * (3 if number == 5 else 1),
            "is_outlier": number == 5,
            "compute_nanos": 5 * ms,
            "exposed_communication_nanos": 2 * ms,
            "memory_only_nanos": 0,
            "idle_nanos": 3 * ms * (1 if number < 5 else 8),
        }
        for rank in (0, 1)
        for number in range(6)
    ]
    rows = [
        [f"kernel {n}", n + 1, (n * 7 % 40 + 1) * ms, None if n == 3 else n / 10, 0]
        for n in range(40)
    ]
    names = ("name", "count", "total_nanos", "device_percent", "device")
    flame: list[tuple[str, str, int, float]]
    flame = [("step", "step", -1, 100), ("forward", "scope", 0, 60), ("backward", "scope", 0, 30)]
    flame += [
        ("aten::mm", "operator", 1, 40),
        ("aten::mm", "operator", 2, 20),
        ("tiny", "operator", 2, 0.01),
    ]
    evidence = {"sql": "SELECT 1 < 2", "columns": ["gap_nanos", "gaps"], "row": [1234567, 89]}
    return {
        "version": 1,
        "marey": "0.1.0",
        "title": "train.marey",
        "path": "runs/train.marey",
        "created": "2026-11-21T10:00:00Z",
        "summary": [{"name": "step_count", "label": "Steps", "value": 6, "text": "6"}],
        "warnings": ["3 events were lost"],
        "findings": [
            {
                "rule": "memory_leak",
                "title": "Memory grows",
                "subject": "rank 1",
                "severity": "high",
                "impact_nanos": 4.0 * ms,
                "is_per_step": True,
                "impact_percent": 40.0,
                "gain_nanos": None,
                "confidence": "likely",
                "rank": 1,
                "description": "It grows.",
                "hint": "Keep less.",
                "overlaps": [
                    {"finding": 7, "rule": "launch_bound", "subject": "device 0", "nanos": 1.5 * ms}
                ],
                "evidence": evidence,
            }
        ],
        "tables": [
            {
                "name": "kernels",
                "title": "Kernels by device time",
                "doc": "A row for each name.",
                "sql": "SELECT * FROM kernel_summary",
                "columns": [{"name": name, "doc": f"the {name}"} for name in names],
                "rows": rows,
                "was_cut": False,
            }
        ],
        "charts": {
            "steps": steps,
            "devices": [
                {
                    "rank": rank,
                    "device": 0,
                    "compute_nanos": 30 * ms,
                    "exposed_communication_nanos": 12 * ms,
                    "memory_only_nanos": 0,
                    "idle_nanos": 38 * ms,
                    "window_nanos": 80 * ms,
                }
                for rank in (0, 1)
            ],
            "memory": [
                {
                    "rank": rank,
                    "device": 0,
                    "time_nanos": n * ms,
                    "allocated_bytes": 1_000_000_000 + n * 1_000_000,
                }
                for rank in (0, 1)
                for n in range(5_000)
            ],
            "flame": [
                {
                    "name": name,
                    "kind": kind,
                    "depth": 1,
                    "parent": parent,
                    "total_nanos": total * ms,
                    "self_nanos": 1,
                    "count": 3,
                }
                for name, kind, parent, total in flame
            ],
        },
    }


@functools.cache
def page() -> str:
    """The page of a small run."""
    with tempfile.TemporaryDirectory() as folder:
        trace = write(Path(folder) / "trace.json", [host_span("op", 0, 10)])
        return marey_stdout("analyze", trace, "-f", "html")


def rendered(given: Report) -> str:
    """Returns the page with its report replaced."""
    before, rest = page().split('id="report">', 1)
    _, after = rest.split("</script>", 1)
    content = json.dumps(given).replace("<", "\\u003c")
    return f'{before}id="report">{content}</script>{after}'


def opened(browser: Browser, given: Report, width: int = 1200, dark: bool = False) -> Page:
    path = Path("report.html")
    path.write_text(rendered(given))
    return browser.page(path, width, dark=dark)


def check_quiet(page: Page) -> None:
    """Checks that there were no errors and no requests, and that no script in the data ran."""
    assert page.errors == []
    assert [url for url in page.requests if not url.endswith("/report.html")] == []
    assert page.count(".failed") == 0
    assert page.evaluate("window.ran") is None


def first_cells(page: Page, column: int) -> list[str]:
    return page.texts(f"#section-kernels tbody tr td:nth-child({column})")


def test_every_section_is_rendered(browser: Browser) -> None:
    page = opened(browser, report())
    check_quiet(page)
    titles = ["Findings", "Steps", "Device time", "Kernels by device time", "Memory", "Flame graph"]
    assert page.texts("h2") == titles
    assert page.texts("nav a") == titles
    assert page.count(".step-bar") == 12
    assert page.count(".step-bar .compute") == 12
    assert page.count(".step-bar .memory") == 0
    assert page.count(".step-bar .outlier") == 2
    assert page.count(".device-bar") == 2
    assert page.count(".kernel-bar") == 15
    assert page.count(".memory-line") == 2
    # The leak is of rank 1.
    assert page.count("line.trend") == 1
    keys = page.texts("#section-memory .legend li")
    assert keys == [
        "rank 0, device 0: peak 6.00 GB",
        "rank 1, device 0: peak 6.00 GB, grows 1.00 GB/s (dashed)",
    ]
    assert page.texts(".finding .badge") == ["▲ High"]
    assert page.texts(".finding dd") == ["4.00 ms per step40.0 %", NONE, "likely"]
    assert page.texts(".finding .overlaps") == [
        "Overlaps in time with: launch_bound of device 0 (up to 1.50 ms per step)"
    ]
    assert page.evaluate("document.title") == "train.marey · marey report"


def test_step_bars_are_proportional_to_durations(browser: Browser) -> None:
    page = opened(browser, report())
    outlines = "[...document.querySelectorAll('.step-bar .outline')].slice(0, 6)"
    heights = page.evaluate(f"{outlines}.map((one) => Number(one.getAttribute('height')))")
    assert heights == pytest.approx([112 / 3] * 5 + [112])
    part = "document.querySelector('.step-bar .communication').getAttribute('height')"
    assert float(page.evaluate(part)) == pytest.approx(112 / 3 / 5)


def test_steps_show_details_by_mouse_and_keyboard(browser: Browser) -> None:
    page = opened(browser, report())
    page.hover(".step-bar")
    told = page.texts("#tip div")
    assert told == [
        "Step 0",
        "Duration: 10.0 ms",
        "Compute: 5.00 ms (50.0 %)",
        "Exposed communication: 2.00 ms (20.0 %)",
        "Idle: 3.00 ms (30.0 %)",
    ]
    page.evaluate("document.querySelector('.step-bar').focus()")
    page.press("End")
    assert page.texts("#tip div")[0] == "Step 5, outlier"
    page.press("ArrowLeft")
    assert page.texts("#tip div")[0] == "Step 4"
    # One stop of the Tab key for all bars of a rank.
    assert page.count(".step-bar[tabindex='0']") == 2
    check_quiet(page)


def test_tables_can_be_sorted_and_filtered(browser: Browser) -> None:
    page = opened(browser, report())
    kernels = "#section-kernels th:nth-child({}) button"
    page.click(kernels.format(3))
    assert first_cells(page, 3)[:2] == ["40.0 ms", "39.0 ms"]
    assert page.count("th[aria-sort='descending']") == 1
    page.click(kernels.format(3))
    assert first_cells(page, 3)[:2] == ["1.00 ms", "2.00 ms"]
    page.click(kernels.format(1))
    assert first_cells(page, 1)[:3] == ["kernel 0", "kernel 1", "kernel 2"]
    # What is not known comes last, up and down.
    for _ in range(2):
        page.click(kernels.format(4))
        assert first_cells(page, 4)[-1] == NONE
    page.click("#section-kernels input")
    page.write("kernel 39")
    # Each word somewhere in the row, as it is shown: 39.0 ms, 39 times, and the name.
    assert first_cells(page, 1) == ["kernel 34", "kernel 38", "kernel 39"]
    assert page.texts("#section-kernels .count") == ["3 of 40 rows"]
    title = "document.querySelector('#section-kernels td:nth-child(3)').title"
    assert page.evaluate(title) == "39,000,000 ns"
    check_quiet(page)


def test_long_tables_are_paged(browser: Browser) -> None:
    given = report()
    table = given["tables"][0]
    table["rows"] = [[f"kernel {n}", n, n, 1.0, 0] for n in range(1000)]
    table["was_cut"] = True
    page = opened(browser, given)
    assert len(first_cells(page, 1)) == 50
    assert page.texts("#section-kernels .count") == ["1,000 of 1,000 rows, truncated"]
    page.click("#section-kernels .more")
    assert len(first_cells(page, 1)) == 1000


def test_the_flame_graph_zooms_and_searches(browser: Browser) -> None:
    page = opened(browser, report())

    def widths() -> dict[str, float]:
        found = page.evaluate(
            "[...document.querySelectorAll('.node')].map((one) =>"
            " [one.dataset.at, Number(one.querySelector('rect').getAttribute('width'))])"
        )
        return {at: width + 0.5 for at, width in found}

    # `tiny` is a ten thousandth: not drawn.
    everything = widths()
    assert sorted(everything) == ["-1", "0", "1", "2", "3", "4"]
    assert everything["1"] == pytest.approx(0.6 * everything["0"], abs=0.1)
    page.click(".node[data-at='2']")
    zoomed = widths()
    assert sorted(zoomed) == ["-1", "0", "2", "4"]
    assert zoomed["2"] == zoomed["0"] == everything["0"]
    assert zoomed["4"] == pytest.approx(everything["0"] * 2 / 3, abs=0.1)
    assert page.texts(".node-details")[0].startswith(
        "backward · Kind: scope · Total: 30.0 ms (30.0 % of all"
    )
    page.press("Escape")
    assert sorted(widths()) == ["-1", "0", "1", "2", "3", "4"]
    page.press("Escape")
    page.press("ArrowDown")
    page.press("ArrowDown")
    page.press("ArrowRight")
    page.press("Enter")
    assert sorted(widths()) == ["-1", "0", "2", "4"]
    page.click("#section-flame .tools button")
    page.click("#section-flame input")
    page.write("MM")
    assert page.texts("#section-flame .count") == ["2 nodes, 60.0 % of the time"]
    assert page.count(".node.match") == 2
    check_quiet(page)


def test_a_flame_graph_of_5000_nodes_renders_only_visible_nodes(browser: Browser) -> None:
    given = report()
    given["charts"]["flame"] = [
        {
            "name": f"aten::op_{n}",
            "kind": "operator",
            "depth": 1,
            "parent": (n - 1) // 3,
            "total_nanos": 3_000_000 / (n + 1),
            "self_nanos": 1,
            "count": 1,
        }
        for n in range(5_000)
    ]
    given["charts"]["flame"][0]["parent"] = -1
    page = opened(browser, given)
    drawn = page.count(".node")
    assert 100 < drawn < 5_000
    check_quiet(page)


def test_the_flame_graph_renders_deep_and_odd_trees(browser: Browser) -> None:
    given = report()
    node = {"kind": "scope", "depth": 1, "self_nanos": 0, "count": 1}
    chain = [{**node, "name": f"n{n}", "parent": n - 1, "total_nanos": 1000} for n in range(3_000)]
    # A parent behind its child, one that is shorter than what is in it, and one without time.
    chain += [{**node, "name": "behind", "parent": 9_999, "total_nanos": 500}]
    chain += [{**node, "name": "longer", "parent": 3_000, "total_nanos": 900}]
    chain += [{**node, "name": "zero", "parent": -1, "total_nanos": 0}]
    given["charts"]["flame"] = chain
    page = opened(browser, given)
    check_quiet(page)
    # And the row of all.
    assert page.count(".node") == 3_000 + 2 + 1
    boxes = page.evaluate(
        "[3000, 3001].map((at) => { const box = document.querySelector(`[data-at='${at}'] rect`);"
        " return ['x', 'width'].map((name) => box.getAttribute(name)); })"
    )
    assert boxes[0] == boxes[1]


def test_names_are_not_interpreted_as_markup(browser: Browser) -> None:
    given = report()
    finding = given["findings"][0]
    given["findings"] = [
        {
            **finding,
            "title": name,
            "subject": name,
            "description": name,
            "hint": name,
            "severity": name or "low",
            "confidence": name,
            "rule": name,
            "overlaps": [{"finding": 0, "rule": name, "subject": name, "nanos": 1.0}],
            "evidence": {"sql": name, "columns": [name], "row": [name]},
        }
        for name in NASTY
    ]
    table = given["tables"][0]
    table["rows"] = [[name, 1, 2_000_000, 3.0, name] for name in NASTY]
    table["doc"] = table["sql"] = NASTY[0]
    table["title"] = NASTY[1]
    given["tables"].append({**copy.deepcopy(table), "name": NASTY[0]})
    given["warnings"] = list(NASTY)
    given["summary"] = [{"name": "x", "label": name, "value": name, "text": name} for name in NASTY]
    given["title"] = given["path"] = given["marey"] = NASTY[0]
    for row, name in zip(given["charts"]["steps"], NASTY, strict=True):
        row["number"] = name
    given["charts"]["devices"][0]["device"] = NASTY[0]
    given["charts"]["memory"][0]["device"] = NASTY[0]
    node = given["charts"]["flame"][0]
    given["charts"]["flame"] = [
        {**node, "name": name, "kind": name, "parent": -1} for name in NASTY
    ]
    page = opened(browser, given)
    for summary in ("#section-findings details summary", "#section-kernels details summary"):
        page.click(summary)
    page.click("#section-findings .more")
    page.hover(".kernel-bar")
    page.hover(".node[data-at='1']")
    check_quiet(page)
    assert page.count("img, b, iframe, a[href^='javascript']") == 0
    assert page.count("script") == 2
    shown = set(page.texts(".finding h3"))
    # A lone surrogate is no character: it is shown as a replacement.
    assert {name for name in NASTY if "\ud83d" not in name} <= shown
    assert page.texts("h1") == [NASTY[0]]
    assert page.evaluate("document.documentElement.scrollWidth") == 1200
    assert page.evaluate("document.documentElement.scrollHeight") < 12_000


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 400])
def test_the_page_fits_the_window_and_has_enough_contrast(
    browser: Browser, width: int, dark: bool
) -> None:
    page = opened(browser, report(), width, dark)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    colours = page.evaluate(
        "['html', '.doc', '.badge', '.count', '.facts small'].map((one) => {"
        " const style = getComputedStyle(document.querySelector(one)); return style.color; })"
        ".concat(getComputedStyle(document.documentElement).backgroundColor)"
    )
    shades = [luminance(colour) for colour in colours]
    for shade in shades[:-1]:
        light, dim = max(shade, shades[-1]), min(shade, shades[-1])
        assert (light + 0.05) / (dim + 0.05) > 4.5
    assert (shades[-1] < 0.1) == dark
    page.resize(700)
    page.settle()
    assert page.evaluate("document.documentElement.scrollWidth") == 700
    check_quiet(page)


def luminance(colour: str) -> float:
    """Returns the relative luminance of WCAG 2."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_sections_without_rows_are_omitted(browser: Browser) -> None:
    given = report()
    given |= {"charts": {}, "tables": [], "findings": [], "warnings": [], "summary": []}
    page = opened(browser, given)
    check_quiet(page)
    assert page.texts("h2") == ["Findings"]
    for part in ("charts", "tables", "warnings", "summary"):
        del given[part]
    check_quiet(opened(browser, given))
    given["charts"] = {"steps": [], "memory": [], "flame": [], "devices": []}
    assert opened(browser, given).texts("h2") == ["Findings"]
    # Without a device a step is a plain bar; without time there is nothing to divide by.
    bare = {"rank": None, "number": 1, "start_nanos": 0, "duration_nanos": 0, "is_outlier": False}
    idle = {"rank": None, "device": 0, "window_nanos": 0, "compute_nanos": 0, "idle_nanos": 0}
    held = {"rank": None, "device": 0, "time_nanos": 0, "allocated_bytes": 0}
    given["charts"] = {"steps": [bare], "devices": [idle], "memory": [held]}
    page = opened(browser, given)
    check_quiet(page)
    assert page.texts("h2") == ["Findings", "Steps", "Device time", "Memory"]
    assert page.count(".step-bar .host") == 1
    assert "NaN" not in page.evaluate("document.getElementById('report-body').innerHTML")


def test_a_section_that_fails_shows_its_error(browser: Browser) -> None:
    given = report()
    given["charts"]["flame"] = [None]
    page = opened(browser, given)
    assert page.count(".failed") == 1
    assert page.count(".kernel-bar") == 15


def test_the_sql_button_copies_the_query(browser: Browser) -> None:
    page = opened(browser, report())
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.click(".finding summary")
    page.click(".finding .copy")
    assert page.evaluate("window.copied") == "SELECT 1 < 2"
    assert page.texts(".finding .copy, #announcement") == ["Copied", "SQL copied"]
    assert page.texts(".pairs td") == ["1.23 ms", "89"]


def test_the_content_security_policy_blocks_other_scripts(browser: Browser) -> None:
    """The policy of the page allows only the script of the page."""
    path = Path("report.html")
    text = rendered(report())
    path.write_text(
        text.replace(
            "</main>", "<img src=x onerror='window.ran=1'><script>window.ran=1</script></main>"
        )
    )
    page = browser.page(path)
    assert page.evaluate("window.ran") is None
    assert len(page.errors) >= 2
    assert page.count(".step-bar") == 12


@pytest.mark.parametrize(
    ("value", "column", "text"),
    [
        (999, "a_nanos", "999 ns"),
        (999_600, "a_nanos", "1.00 ms"),
        (1_234_567, "a_nanos", "1.23 ms"),
        (12_345_678, "a_nanos", "12.3 ms"),
        (-1_500, "a_nanos", "-1.50 µs"),
        (5e12, "a_nanos", "5,000 s"),
        (1_700_000_000_123_456_789, "a_nanos", "2023-11-14 22:13:20.123 UTC"),
        ("1700000000123456789", "a_nanos", "2023-11-14 22:13:20.123 UTC"),
        (1_250_000, "a_bytes", "1.25 MB"),
        (0, "a_bytes", "0 B"),
        (2e9, "bytes_per_second", "2.00 GB/s"),
        (12.345, "a_percent", "12.3 %"),
        (0.01, "a_percent", "< 0.1 %"),
        (1234567, "count", "1,234,567"),
        (1234567, "pid", "1234567"),
        (0.5, "ratio", "0.500"),
        (1234.5, "ratio", "1,235"),
        (None, "count", NONE),
        (True, "was_cut", "yes"),
        ("", "name", ""),
    ],
)
def test_table_cells_are_formatted(browser: Browser, value: object, column: str, text: str) -> None:
    page = next(iter(browser.pages.values()), None) or opened(browser, report())
    assert page.evaluate(f"cell({json.dumps(value)}, {json.dumps(column)})") == text
