"""The HTML page of `Reporter`, in a browser: rendering, sorting, and escaping of names."""

from __future__ import annotations

from pathlib import Path

from browser import Browser, Page
from marey.metrics import MetricsCollector, Reporter

NASTY = (
    "</script><img src=x onerror='window.ran=1'>",
    "<script>window.ran=1</script>",
    "</title></svg><b>bold</b>",
    "\u202eevil\u202c",
    "שלום 🔥",
    "\u2028line\u0000\ud83d",
    "k" * 10_000,
    "&amp; 'quoted' \"twice\"",
)


def trained(slowness: int = 1) -> MetricsCollector:
    collector = MetricsCollector("training")
    for number in range(40):
        collector.record("batch_size", 4)
        with collector.measure_time("iteration"):
            with collector.measure_time("forward"):
                sum(range(500))
            with collector.measure_time("backward"):
                sum(range(5000 * slowness))
        collector.record("loss", 1 / (number + 1))
    return collector


def opened(browser: Browser, reporter: Reporter) -> Page:
    return browser.page(Path(reporter.save_html("report.html")).absolute())


def column(page: Page, table: int, index: int) -> list[str]:
    cells = f"section table tbody tr td:nth-child({index})"
    source = f"[...document.querySelectorAll('table')][{table}].querySelectorAll('{cells}')"
    return list(page.evaluate(f"[...{source}].map((cell) => cell.textContent)"))


def test_the_page_has_charts_tables_timeline_and_comparison(browser: Browser) -> None:
    page = opened(browser, Reporter(trained(), baseline=trained(slowness=4)))
    assert page.texts("h2") == [
        "Summary",
        "Self time",
        "Times in milliseconds",
        "Values",
        "Charts",
        "Timeline of the latest 2,000 times",
        "Comparison",
    ]
    assert page.count("svg.bars rect") == 3
    assert page.count("figure.line polyline") == 5
    assert page.count("svg.timeline rect") == 120
    assert page.count("svg.changes rect.less") >= 1
    assert "Speedup of iteration" in page.evaluate("document.body.textContent")
    assert page.errors == []
    assert [request for request in page.requests if not request.startswith("file:")] == []
    page.screenshot(Path("report.png"), is_full=True)


def test_a_click_sorts_a_table_by_number(browser: Browser) -> None:
    page = opened(browser, Reporter(trained()))
    assert column(page, 0, 1) == ["iteration", "forward", "backward"]
    page.click("table th:nth-child(3) button")
    assert column(page, 0, 1) == ["iteration", "backward", "forward"]
    page.click("table th:nth-child(3) button")
    assert column(page, 0, 1) == ["forward", "backward", "iteration"]
    page.click("table th:nth-child(1) button")
    assert column(page, 0, 1) == ["iteration", "forward", "backward"]
    assert page.errors == []


def test_names_are_text(browser: Browser) -> None:
    collector = MetricsCollector(NASTY[0])
    for name in NASTY:
        collector.record(name, 1.0)
        with collector.measure_time(name):
            pass
    page = opened(browser, Reporter(collector, baseline=collector))
    assert page.evaluate("window.ran") is None
    assert page.count("img, b, section script") == 0
    assert page.count("svg.timeline rect") == len(NASTY)
    assert "<script>window.ran=1</script>" in column(page, 0, 1)
    assert page.errors == []


def test_the_page_fits_a_narrow_window_and_a_dark_one(browser: Browser) -> None:
    path = Path(Reporter(trained()).save_html("report.html")).absolute()
    page = browser.page(path, width=400, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert ink == "rgb(232, 232, 232)"


def test_an_empty_collector_has_a_page(browser: Browser) -> None:
    page = opened(browser, Reporter(MetricsCollector()))
    assert page.texts("h2") == ["Summary"]
    assert page.errors == []
