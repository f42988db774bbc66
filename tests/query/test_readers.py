"""Other libraries read the files of a run and its results, without code of marey."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import marey
import pytest
from marey.run import Run
from run_programs import COUNTS, record_in

duckdb = pytest.importorskip("duckdb")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SUMS = """
    SELECT c.depth, s.text, count(*) AS count, CAST(sum(p.duration_nanos) AS BIGINT) AS total
    FROM {spans} AS p JOIN {contexts} AS c ON p.context_id = c.id JOIN {strings} AS s
    ON c.name_id = s.id GROUP BY 1, 2 ORDER BY 1, 2
"""
TABLES = ("spans", "contexts", "strings")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_in(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def run(path: Path) -> Iterator[Run]:
    with marey.open(path) as opened:
        yield opened


@pytest.fixture
def sums(run: Run) -> list[tuple[Any, ...]]:
    """The expected values: depth, name, count and time of the spans of each path."""
    rows = run.sql(SUMS.format(**{table: f"raw.{table}" for table in TABLES})).rows()
    assert sum(row[2] for row in rows) == sum(COUNTS.values())
    assert min(row[3] for row in rows) > 0
    return rows


# The files


def test_duckdb_reads_the_files(path: Path, sums: list[tuple[Any, ...]]) -> None:
    files = {table: f"read_parquet('{path}/tables/{table}/*.parquet')" for table in TABLES}
    assert duckdb.sql(SUMS.format(**files)).fetchall() == sums


def test_pandas_reads_the_files(path: Path, sums: list[tuple[Any, ...]]) -> None:
    spans, contexts, strings = (pandas.read_parquet(path / "tables" / table) for table in TABLES)
    joined = spans.drop(columns="name_id").merge(contexts, left_on="context_id", right_on="id")
    joined = joined.merge(strings, left_on="name_id", right_on="id")
    found = joined.groupby(["depth", "text"])["duration_nanos"].agg(["count", "sum"])
    assert list(found.reset_index().itertuples(index=False, name=None)) == sums


def test_polars_reads_the_files(path: Path, sums: list[tuple[Any, ...]]) -> None:
    spans, contexts, strings = (
        polars.scan_parquet(path / "tables" / table / "*.parquet") for table in TABLES
    )
    joined = spans.drop("name_id").join(contexts, left_on="context_id", right_on="id")
    joined = joined.join(strings, left_on="name_id", right_on="id")
    time = polars.col("duration_nanos")
    found = joined.group_by("depth", "text").agg(time.count().alias("count"), time.sum())
    assert found.sort("depth", "text").collect().rows() == sums


def test_every_file_has_the_declared_columns(run: Run, path: Path) -> None:
    for table, sizes in run.info()["tables"].items():
        found = parquet.read_table(path / "tables" / table)
        assert found.num_rows == sizes["rows"]
        assert found.column_names == run.sql(f"SELECT * FROM raw.{table} LIMIT 0").columns


# The answers

QUERY = """
    SELECT name, rank, duration_nanos, 0.5 AS half, is_open, thread_id, [1, 2] AS numbers,
    X'00' AS bytes FROM spans ORDER BY start_nanos
"""


def test_pyarrow_reads_a_result(run: Run) -> None:
    result = run.sql(QUERY)
    table = result.to_pyarrow()
    assert list(zip(*table.to_pydict().values(), strict=True)) == result.rows()
    assert table.column_names == result.columns
    assert table.schema == pyarrow.schema(result)  # by `__arrow_c_schema__`
    assert table.schema.field("name").type == pyarrow.string()
    assert table == pyarrow.table(result)  # as often as is wanted
    assert pyarrow.RecordBatchReader.from_stream(result).read_all() == table


def test_a_requested_schema_is_applied(run: Run) -> None:
    result = run.sql("SELECT name, thread_id FROM spans")
    wanted = pyarrow.schema([("name", pyarrow.string_view()), ("thread_id", pyarrow.int64())])
    table = pyarrow.table(result, schema=wanted)
    assert table.schema == wanted
    assert list(zip(*table.to_pydict().values(), strict=True)) == result.rows()
    with pytest.raises(ValueError, match=r"`name` of type .* cannot become"):
        pyarrow.table(
            result, schema=wanted.set(0, pyarrow.field("name", pyarrow.struct([wanted.field(1)])))
        )
    with pytest.raises(ValueError, match="the requested schema must have 2 columns, not 1"):
        pyarrow.table(result, schema=wanted.remove(0))
    with pytest.raises(ValueError, match="Capsule"):
        result.__arrow_c_stream__(result.__arrow_c_stream__())


def test_polars_reads_a_result(run: Run) -> None:
    result = run.sql(QUERY)
    frame = result.to_polars()
    assert frame.columns == result.columns
    assert [tuple(row) for row in frame.iter_rows()] == result.rows()
    assert frame.equals(polars.DataFrame(result))


def test_pandas_reads_a_result(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run.sql("SELECT name, rank, duration_nanos FROM spans ORDER BY start_nanos")
    frame = result.to_pandas()
    assert list(frame.columns) == result.columns
    assert list(frame["name"]) == result.column("name")
    assert frame["duration_nanos"].dtype == "int64"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    plain = result.to_pandas()
    pandas.testing.assert_frame_equal(plain, frame, check_dtype=False)


def test_duckdb_reads_a_result(run: Run) -> None:
    answer = run.sql("SELECT path, duration_nanos FROM spans")
    query = "SELECT path, count(*) FROM answer GROUP BY path ORDER BY path"
    assert dict(duckdb.sql(query).fetchall()) == COUNTS
    assert dict(duckdb.sql(query).fetchall()) == COUNTS
    assert len(answer) == sum(COUNTS.values())


def test_a_result_without_rows_has_column_types(run: Run) -> None:
    result = run.sql("SELECT name, duration_nanos FROM spans WHERE name = 'nobody'")
    assert result.to_pyarrow().schema.types == [pyarrow.string(), pyarrow.int64()]
    assert result.to_polars().schema == {"name": polars.String, "duration_nanos": polars.Int64}
    assert list(result.to_pandas().columns) == ["name", "duration_nanos"]


def test_arrow_data_outlives_the_result(path: Path) -> None:
    with marey.open(path) as run:
        table = pyarrow.table(run.sql("SELECT name FROM spans"))
        unread = run.sql("SELECT 1").__arrow_c_stream__()
    del run
    assert sorted({*table.column("name").to_pylist()}) == [
        "backward",
        "forward",
        "layer",
        "load",
        "step",
    ]
    del unread
