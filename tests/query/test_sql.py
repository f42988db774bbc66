"""`marey.open` and results of queries."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import marey
import pytest
from marey.run import Result, Run
from paths import DATA
from programs import marey_stdout, run_marey, run_well
from run_programs import COUNTS, record_in

SPANS = sum(COUNTS.values())
BY_PATH = "SELECT path, count(*) AS count FROM spans GROUP BY path ORDER BY path"

# Rows by the million, and by the trillion.
MANY = "raw.spans AS a, raw.spans AS b, raw.spans AS c"
ENDLESS = (
    f"SELECT max(a.thread_id + f.thread_id) FROM {MANY}, raw.spans d, raw.spans e, raw.spans f"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_in(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def run(path: Path) -> Iterator[Run]:
    with marey.open(path) as opened:
        yield opened


@pytest.mark.parametrize("columns", ["start_nanos", "start_nanos, path", "path, start_nanos, name"])
def test_rows_stay_in_order_on_several_threads(columns: str) -> None:
    """Columns are computed after the sort, for more rows than a batch has."""
    trace = DATA / "kineto" / "a100-nccl.json.gz"
    with marey.open(trace, threads=4) as many:
        times = many.sql(f"SELECT {columns} FROM spans ORDER BY start_nanos").column("start_nanos")
    assert len(times) > 2 * 8_192
    assert times == sorted(times)


# Answers


def test_a_result_has_rows_and_columns(run: Run) -> None:
    result = run.sql(BY_PATH)
    expected = sorted(COUNTS.items())
    assert result.columns == ["path", "count"]
    assert result.rows() == list(result) == expected
    assert len(result) == len(expected)
    assert result.column("count") == [count for _, count in expected]
    assert not result.was_cut


def test_an_unknown_column_is_a_key_error(run: Run) -> None:
    with pytest.raises(KeyError, match="no column is called 'pth'; the columns are path, count"):
        run.sql(BY_PATH).column("pth")


def test_values_of_every_type_are_converted(run: Run) -> None:
    values: dict[str, Any] = {
        "1": 1,
        "-9223372036854775808": -(2**63),
        "CAST(18446744073709551615 AS BIGINT UNSIGNED)": 2**64 - 1,
        "CAST(3 AS SMALLINT)": 3,
        "0.5": 0.5,
        "CAST(0.5 AS REAL)": 0.5,
        "true": True,
        "'é\U0001f600'": "é\U0001f600",
        "NULL": None,
        "CAST(NULL AS BIGINT)": None,
        "X'00FF'": b"\x00\xff",
        "[1, NULL, 3]": [1, None, 3],
        "[['a'], []]": [["a"], []],
        "{'a': 1, 'b': ['x']}": {"a": 1, "b": ["x"]},
        "DATE '2024-02-29'": "2024-02-29",
        "CAST(1.50 AS DECIMAL(5, 2))": "1.50",
    }
    columns = ", ".join(f"{sql} AS c{at}" for at, sql in enumerate(values))
    [row] = run.sql(f"SELECT {columns}")
    assert list(row) == list(values.values())
    assert list(map(type, row)) == list(map(type, values.values()))


def test_rows_of_several_batches_are_read(run: Run) -> None:
    result = run.sql("SELECT a.start_nanos AS start FROM raw.spans AS a, raw.spans AS b ORDER BY 1")
    assert len(result) == len(result.rows()) == SPANS**2 > 8192
    assert result.column("start") == sorted(result.column("start"))


def test_a_result_may_be_empty(run: Run) -> None:
    result = run.sql("SELECT name, start_nanos FROM spans WHERE name = 'nobody'")
    assert (len(result), result.rows(), result.column("name")) == (0, [], [])
    assert repr(result) == "name  start_nanos"


def test_max_rows_limits_the_rows(run: Run) -> None:
    ordered = "SELECT path FROM spans ORDER BY path"
    cut, whole = run.sql(ordered, max_rows=3), run.sql(ordered, max_rows=SPANS)
    assert cut.rows() == [("load",)] * 3
    assert cut.was_cut
    assert len(whole) == SPANS
    assert not whole.was_cut


def test_results_outlive_the_run(path: Path) -> None:
    with marey.open(path) as run:
        result = run.sql(BY_PATH)
    del run
    assert dict(result) == COUNTS


# How they look


def test_the_repr_of_a_result_is_the_table_of_the_cli(run: Run, path: Path) -> None:
    query = "SELECT path, count(*) AS n, NULL AS nothing, avg(1.5) FROM spans GROUP BY 1 ORDER BY 1"
    assert repr(run.sql(query)) == marey_stdout("query", path, query).rstrip("\n")


def test_the_repr_of_a_long_result_is_truncated(run: Run) -> None:
    lines = repr(run.sql("SELECT name FROM spans")).splitlines()
    assert len(lines) == 102
    assert lines[-1] == f"… {SPANS - 100} more rows"


class Page(HTMLParser):
    """The texts of a page's table; fails if the page has anything else."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.caption = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("style", "table", "caption", "tr", "th", "td")
        assert {name for name, _ in attrs} <= {"class"}
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["caption"]:
            self.caption += data
        elif self._open[-1:] in (["th"], ["td"]):
            self.rows[-1][-1] += data


def test_a_notebook_shows_a_table(run: Run) -> None:
    page = Page(run.sql(BY_PATH)._repr_html_())
    assert page.rows == [["path", "count"], *([path, str(n)] for path, n in sorted(COUNTS.items()))]
    assert page.caption == ""


def test_html_in_values_is_escaped(run: Run) -> None:
    hostile = "</td></table><script>alert(1)</script>\x1b[31m"
    page = Page(run.sql(f"SELECT '{hostile}' AS \"<b>\", NULL AS x")._repr_html_())
    assert page.rows == [["<b>", "x"], [hostile.replace("\x1b", "\\x1b"), "null"]]


def test_a_notebook_reports_hidden_rows(run: Run) -> None:
    page = Page(run.sql("SELECT name FROM spans")._repr_html_())
    assert len(page.rows) == 101
    assert page.caption == f"the first 100 of {SPANS} rows"


def test_a_run_shows_its_tables(run: Run, path: Path) -> None:
    assert repr(run).startswith(f"<marey.run.Run: {path}, 1 processes, ")
    page = Page(run._repr_html_())
    assert ["spans", str(SPANS)] in [row[:2] for row in page.rows]


# Metadata of a run


def test_tables_and_columns_are_described(run: Run) -> None:
    views = {"spans", "flame", "top", "steps", "counters", "kernels"}
    assert views | {"strings", "contexts", "processes", "threads", "losses"} <= {*run.tables}
    described = {(table, column) for table, column, *_ in run.schema()}
    assert {table for table, _ in described} == {*run.tables}
    for name in run.tables:
        result = run.schema(name)
        columns = result.column("column_name")
        assert columns == run.sql(f"SELECT * FROM {name} LIMIT 0").columns
        assert {(name, column) for column in columns} <= described
        assert all(text.endswith(".") for text in result.column("description"))
    assert "sessions" in run.schema("raw.spans").column("column_name")


def test_info_is_the_manifest(run: Run, path: Path) -> None:
    info = run.info()
    assert run.path == info["path"] == str(path)
    assert info["is_pack"] is False
    assert info["writer"] == f"marey {marey.__version__}"
    [process] = info["processes"]
    assert process["is_complete"] is True
    assert process["argv"][-1].endswith("program.py")
    assert process["start_nanos"] < process["end_nanos"]
    overhead = process["overhead"]
    assert overhead["events"] >= 2 * SPANS
    assert 0 < overhead["scope_nanos"] < overhead["recording_nanos"]
    assert overhead["flushing_nanos"] > 0
    assert info["tables"]["spans"]["rows"] == SPANS
    on_disk = sum(part.stat().st_size for part in path.glob("tables/spans/*"))
    assert info["tables"]["spans"]["bytes"] == on_disk
    assert (info["losses"], info["torn_bytes"]) == ({}, 0)


def test_a_pack_has_the_results_of_its_folder(run: Run, path: Path, tmp_path: Path) -> None:
    pack = tmp_path / "one file"
    run_marey("pack", path, "-o", pack)
    with marey.open(pack) as packed:
        assert packed.info()["is_pack"] is True
        for query in (BY_PATH, "SELECT * FROM raw.spans", "SELECT * FROM flame ORDER BY path"):
            assert packed.sql(query).rows() == run.sql(query).rows()


# Errors


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT nme FROM spans", "nme.*name"),
        ("SELECT * FROM span", "span.*spans"),
        ("SELECT sqare(1)", "sqare"),
        ("SELEC 1", "line 1|SELEC"),
        ("", "no statement"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("SELECT 1 / 0", "zero"),
    ],
)
def test_invalid_queries_are_errors(run: Run, query: str, message: str) -> None:
    with pytest.raises(marey.QueryError, match=message) as raised:
        run.sql(query)
    assert isinstance(raised.value, marey.MareyError)
    assert isinstance(raised.value, ValueError)
    assert "\n" not in str(raised.value)


def test_an_unknown_table_has_no_schema(run: Run) -> None:
    with pytest.raises(marey.QueryError, match="spanns"):
        run.schema("spanns")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (x INT)",
        "CREATE VIEW v AS SELECT 1",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        "DROP TABLE spans",
        "DROP VIEW spans",
        "INSERT INTO raw.spans SELECT * FROM raw.spans",
        "UPDATE raw.spans SET phase = 1",
        "DELETE FROM raw.spans",
        "COPY (SELECT 1) TO 'out.csv'",
        "COPY raw.spans TO 'out.parquet'",
        "SET datafusion.execution.batch_size = 1",
        "PREPARE p AS SELECT 1",
        "EXPLAIN ANALYZE INSERT INTO raw.spans SELECT * FROM raw.spans",
    ],
)
def test_queries_cannot_write(run: Run, statement: str) -> None:
    with pytest.raises(marey.QueryError, match="read only"):
        run.sql(statement)
    assert os.listdir() == []
    assert dict(run.sql(BY_PATH)) == COUNTS


@pytest.mark.parametrize(
    "source",
    [
        "'/etc/passwd'",
        '"/etc/passwd"',
        "'file:///etc/passwd'",
        "read_csv('/etc/passwd')",
        "read_parquet('{part}')",
        "parquet_metadata('{part}')",
        "'{part}'",
    ],
)
def test_queries_cannot_read_other_files(run: Run, path: Path, source: str) -> None:
    part = next(path.glob("tables/spans/*.parquet"))
    with pytest.raises(marey.QueryError):
        run.sql(f"SELECT * FROM {source.format(part=part)}")


def test_the_memory_limit_applies_to_queries(path: Path) -> None:
    window = f"SELECT max(a.start_nanos + c.start_nanos) OVER () FROM {MANY}"
    error = pytest.raises(marey.QueryError, match=r"16 MiB of memory.*memory_limit")
    with marey.open(path, memory_limit=16 << 20) as run, error:
        run.sql(window)


def test_the_memory_limit_applies_to_results(path: Path) -> None:
    query = f"SELECT a.start_nanos + c.start_nanos AS sum FROM {MANY}"
    with marey.open(path, memory_limit=8 << 20) as run:
        with pytest.raises(marey.QueryError, match=r"answer takes more than 8 MiB.*memory_limit"):
            run.sql(query)
        assert len(run.sql(query, max_rows=1000)) == 1000


@pytest.mark.parametrize("limit", ["memory_limit", "threads"])
def test_limits_of_zero_are_rejected(path: Path, limit: str) -> None:
    with pytest.raises(ValueError, match=limit):
        marey.open(path, **{limit: 0})


def test_ctrl_c_stops_a_query(path: Path) -> None:
    # The timer counts the time that the process computes: so the query is running by then.
    source = f"""
        import marey, signal
        run = marey.open({str(path)!r})
        signal.signal(signal.SIGPROF, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_PROF, 0.5)
        try:
            run.sql({ENDLESS!r})
        except KeyboardInterrupt:
            print("stopped")
        print(len(run.sql("SELECT * FROM spans WHERE duration_nanos >= 0")))
        """
    assert run_well(source) == f"stopped\n{SPANS}\n"


def test_a_closed_run_raises_an_error(path: Path) -> None:
    run = marey.open(path)
    run.close()
    run.close()
    assert repr(run) == "<marey.run.Run: closed>"
    with pytest.raises(ValueError, match="closed"):
        run.sql("SELECT 1")


def test_missing_and_foreign_paths_are_errors(tmp_path: Path, path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        marey.open(tmp_path / "nowhere.marey")
    with pytest.raises(marey.UnreadableRun, match="a folder"):
        marey.open(tmp_path)
    text = tmp_path / "x.txt"
    text.write_text("neither a run nor a trace")
    with pytest.raises(marey.UnreadableRun, match="no known format"):
        marey.open(text)
    [part] = path.glob("tables/spans/*.parquet")
    with pytest.raises(marey.UnreadableRun, match="Parquet"):
        marey.open(part)


def test_a_damaged_run_is_an_error(tmp_path: Path, path: Path) -> None:
    damaged = Path(shutil.copytree(path, tmp_path / "damaged.marey"))
    [part] = damaged.glob("tables/spans/*.parquet")
    content = part.read_bytes()
    part.write_bytes(content[:-1])
    with pytest.raises(marey.UnreadableRun, match=r"tables/spans/.*instead of"):
        marey.open(damaged)
    part.write_bytes(b"\0" * len(content))
    with marey.open(damaged) as run:
        assert run.sql("SELECT count(*) FROM processes").rows() == [(1,)]
        with pytest.raises(marey.UnreadableRun):
            run.sql("SELECT sum(duration_nanos) FROM raw.spans")


# In the process that asks


def test_a_forked_child_cannot_use_an_open_run(path: Path) -> None:
    source = f"""
        import marey, os
        run = marey.open({str(path)!r})
        child = os.fork()
        if child == 0:
            try:
                run.sql("SELECT 1")
            except RuntimeError as error:
                print(error)
            del run  # without the threads that the parent has
            print(len(marey.open({str(path)!r}).sql("SELECT 1")), flush=True)
        else:
            assert os.waitpid(child, 0)[1] == 0
            print(len(run.sql("SELECT 1")))
        """
    message = "this run was opened by the parent process (open it again after a fork)"
    flag = "-Wignore::DeprecationWarning"  # since 3.12 Python warns of forks beside threads
    assert run_well(source, flag) == f"{message}\n1\n1\n"


def test_submodules_are_imported_on_first_use() -> None:
    source = """
        import sys, marey
        assert "open" in dir(marey)
        assert not {"marey.run", "marey._engine"} & {*sys.modules}
        from marey import *
        assert open is __builtins__.open
        assert marey.open is marey.run.open
        """
    run_well(source)


def test_only_pandas_needs_numpy(path: Path) -> None:
    source = f"""
        import sys, marey
        result = marey.open({str(path)!r}).sql("SELECT * FROM spans")
        repr(result), result._repr_html_(), result.rows(), result.__arrow_c_stream__()
        print({{"numpy", "pandas", "pyarrow", "polars"}} & {{*sys.modules}})
        """
    assert run_well(source) == "set()\n"


def test_sql_returns_a_result(run: Run) -> None:
    assert isinstance(run.sql("SELECT 1"), Result)
