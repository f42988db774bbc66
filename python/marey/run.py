"""Opening runs, SQL queries over them, import and export of other formats: `marey.open`.

    run = marey.open("train.marey")  # or "trace.json.gz", or any other format that marey reads
    run.sql("SELECT name, total_nanos FROM top ORDER BY total_nanos DESC LIMIT 10")
    run.export("train.pftrace")

A result is passed without a copy to every library that reads Arrow: pandas, Polars, pyarrow,
DuckDB. None of them is required.
"""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _collect, _engine, _warning

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["SECTIONS", "Result", "Run", "import_files", "open"]

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

_ALL_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, description
FROM information_schema.columns WHERE table_schema = 'main'
ORDER BY table_name, ordinal_position
"""

SECTIONS: tuple[str, ...] = tuple(name for name, _ in _engine.sections())
"""Names of the sections of a report, for `Run.section`."""

# Number of rows that `repr` and a notebook show.
_MAX_SHOWN_ROWS = 100


def open(
    path: _Path,
    *,
    memory_limit: int | None = None,
    threads: int | None = None,
) -> Run:
    """Opens a run, and collects its spools first if necessary.

    If the directory is not writable, the part that has been collected is opened, with a warning. A
    file of another format is imported into temporary files; a warning lists the losses.

    Args:
        path: The folder ``NAME.marey``, a file written by `marey pack`, or a file of another
            format, compressed or not; the format is detected from the content. Also a pipe from
            which such a file can be read.
        memory_limit: Largest size in bytes of a query's memory, and of a result. If not given, the
            value of ``MAREY_MEMORY_LIMIT``, else 2 GiB.
        threads: Number of threads for queries; one per core if not given.

    Raises:
        FileNotFoundError: The path does not exist; another `OSError` if it cannot be read.
        UnreadableRun: It is neither a valid run nor a file of a known format; a `ValueError`.
    """
    absolute = os.path.abspath(os.fsdecode(path))
    if _engine.needs_collecting(absolute):
        _collect.collect(absolute)
    run = _engine.Run.open(absolute, memory_limit, threads)
    if uncollected := run.uncollected_bytes():
        _warning.warn(
            f"{absolute}: {uncollected:,} bytes of spools are not collected:"
            " the directory is not writable"
        )
    for warning in run.warnings():
        _warning.warn(warning)
    return Run(run)


def import_files(files: _Path | Iterable[_Path], out: _Path) -> None:
    """Imports files of other formats into one run, such as the traces of all ranks of a job.

    The clocks of several files are aligned on the ends of the collectives that they share. A
    warning lists the losses.

    Args:
        files: A path, or several paths.
        out: The folder of the new run, which must not exist.

    Raises:
        FileExistsError: `out` exists; another `OSError` if a file cannot be read or written.
        UnreadableRun: A file has no usable content; a `ValueError`.
        ValueError: `files` is empty.
    """
    files = [files] if isinstance(files, (str, bytes, os.PathLike)) else files
    paths = [os.fsdecode(file) for file in files]
    if not paths:
        raise ValueError("there are no files to import")
    for warning in _engine.import_files(paths, os.fsdecode(out)):
        _warning.warn(warning)


class Run:
    """An open run, made by `open`. Several threads may use it at the same time.

    The tables are a snapshot from the time when the run was opened.
    """

    def __init__(self, run: _engine.Run) -> None:
        """Use `open`."""
        self._run: _engine.Run | None = run

    @property
    def path(self) -> str:
        """Absolute path of the folder or file."""
        path: str = self.info()["path"]
        return path

    @property
    def tables(self) -> list[str]:
        """Names of the tables and views. `schema` describes them."""
        return self._engine_run().tables()

    def schema(self, table: str | None = None) -> Result:
        """The columns of a table, or of all tables, with their types and descriptions.

        Raises:
            QueryError: The table does not exist.
        """
        run = self._engine_run()
        if table is None:
            return Result(run.sql(_ALL_COLUMNS))
        parts = (part.replace('"', '""') for part in table.split("."))
        quoted = ".".join(f'"{part}"' for part in parts)
        return Result(run.sql(f"DESCRIBE {quoted}"))

    def sql(self, query: str, *, max_rows: int | None = None) -> Result:
        """Runs a read-only SQL query and returns its rows. Ctrl-C cancels the query.

        Args:
            query: One SQL statement over `tables`. The schema ``raw`` has the stored tables.
            max_rows: Largest number of rows to return; `Result.was_cut` is true if the query has
                more.

        Raises:
            QueryError: The query is invalid, or exceeds ``memory_limit``; a `ValueError`.
            UnreadableRun: The run is damaged.
        """
        return Result(self._engine_run().sql(query, max_rows))

    def findings(self, thresholds: Mapping[str, float] | None = None) -> Result:
        """Applies all rules and returns their findings, one a row, the most important first.

        Times are in nanoseconds per training step, or of the whole recording if it has no steps:
        ``impact_nanos`` is the time that the problem costs, ``gain_nanos`` the most that a remedy
        can save. ``severity`` is high, medium or low; ``confidence`` is measured, likely or
        possible. ``evidence_sql`` is the query behind the finding, and ``evidence`` its row as
        JSON. `docs/reference/rules.md` describes the rules.

        Args:
            thresholds: Thresholds that replace the defaults, such as
                ``{"hot_operation.medium_percent": 20}``; `marey analyze --rules` lists them.

        Raises:
            ValueError: A threshold does not exist.
        """
        return Result(self._engine_run().findings(list((thresholds or {}).items())))

    def breakdown(self, *, by_step: bool = False) -> Result:
        """The time of each device by category: computation, communication, copies, and idle.

        Args:
            by_step: Return a row for each training step and device, instead of one for each device.
        """
        if by_step:
            return self.sql("SELECT * FROM gpu_time_by_step ORDER BY rank, start_nanos, device")
        return self.sql("SELECT * FROM gpu_time ORDER BY rank, device")

    def section(self, name: str, *, max_rows: int | None = None) -> Result:
        """A section of the report of `marey analyze`; `SECTIONS` lists their names.

        Raises:
            ValueError: The section does not exist.
        """
        queries = dict(_engine.sections())
        if name not in queries:
            raise ValueError(f"no section {name!r}; the sections are {', '.join(queries)}")
        return self.sql(queries[name], max_rows=max_rows)

    def info(self) -> dict[str, Any]:
        """The metadata of the run: processes, rows and bytes of the tables, losses.

        Keys that end in ``_nanos`` are timestamps in nanoseconds since 1970, except in the
        ``overhead`` of a process, where they are durations that recording cost the process.
        """
        return self._engine_run().info()

    def export(
        self,
        path: _Path,
        *,
        format: str | None = None,
        start: int | str | None = None,
        end: int | str | None = None,
        steps: SupportsIndex | tuple[SupportsIndex, SupportsIndex] | None = None,
        ranks: Iterable[SupportsIndex] | None = None,
    ) -> list[str]:
        """Writes the run as files of another format, and returns their paths.

        Existing files are replaced. A warning lists the data that the format cannot represent.

        Args:
            path: The file, which is compressed if its name ends with ``.gz``; or a folder, in which
                the file gets the default name of its format. With ``kineto`` each rank has a file.
            format: ``kineto``, ``chrome-trace``, ``perfetto``, ``speedscope``, ``pprof``,
                ``collapsed``, ``svg``, ``csv``, ``json``, ``hatchet``, ``hatchet-msgpack`` or
                ``tensorboard``. If not given, the format is inferred from the file name.
            start: Skip everything that ends before this time: nanoseconds since 1970, or a time
                since the start of the run such as ``"1.5s"`` or ``"200ms"``.
            end: Skip everything that begins at this time or later.
            steps: Export the time of these training steps, the first and the last, both included.
                Excludes ``start`` and ``end``.
            ranks: Export only these ranks.

        Raises:
            CannotExport: The run has no such data, or the path cannot be written; a `ValueError`.
            ValueError: The format is unknown, or a time, step or rank is invalid.
        """
        if steps is not None and not (start is None and end is None):
            raise ValueError("steps and start/end both select a time window: pass only one of them")
        paths, losses = self._engine_run().export(
            os.fsdecode(path),
            format,
            None if start is None else str(start),
            None if end is None else str(end),
            None if steps is None else _index_range(steps),
            None if ranks is None else [_checked_index("rank", rank) for rank in ranks],
        )
        for warning in losses:
            _warning.warn(warning)
        return paths

    def close(self) -> None:
        """Closes the files and ends the threads of the run. Results stay valid."""
        self._run = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._run is None:
            return "<marey.run.Run: closed>"
        info = self.info()
        rows = sum(table["rows"] for table in info["tables"].values())
        return f"<marey.run.Run: {info['path']}, {len(info['processes'])} processes, {rows:,} rows>"

    def _repr_html_(self) -> str:
        from . import _notebook

        tables = [(name, *sizes.values()) for name, sizes in self.info()["tables"].items()]
        return _notebook.table_html(["table", "rows", "bytes"], tables, len(tables))

    def _engine_run(self) -> _engine.Run:
        if self._run is None:
            raise ValueError("the run is closed")
        return self._run


class Result:
    """The rows of a query, in memory. They can be read any number of times.

    A result implements Arrow's PyCapsule stream interface, so other libraries accept it directly:
    ``pyarrow.table(result)``, ``polars.DataFrame(result)``, or its variable name in a DuckDB query.

    Values are `int`, `float`, `bool`, `str`, `bytes`, `list`, `dict` and `None`. Values of other
    SQL types, such as dates, are converted to `str`.
    """

    def __init__(self, answer: _engine.Answer) -> None:
        """Use `Run.sql`."""
        self._answer = answer

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._answer.columns()

    @property
    def was_cut(self) -> bool:
        """Whether there were more rows than the query's ``max_rows``."""
        return self._answer.was_cut()

    def column(self, name: str) -> list[Any]:
        """The values of a column.

        Raises:
            KeyError: No column, or more than one, has this name.
        """
        columns = self.columns
        if columns.count(name) == 1:
            return self._answer.column(columns.index(name))
        problem = "several columns are" if name in columns else "no column is"
        raise KeyError(f"{problem} called {name!r}; the columns are {', '.join(columns)}")

    def rows(self) -> list[tuple[Any, ...]]:
        """All rows."""
        return list(self)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for number in range(self._answer.batch_count()):
            yield from zip(*self._answer.batch(number), strict=True)

    def __len__(self) -> int:
        return len(self._answer)

    def to_pyarrow(self) -> pyarrow.Table:
        """The rows as a `pyarrow.Table`."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a `polars.DataFrame`."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a `pandas.DataFrame`, converted by pyarrow if it is installed."""
        import pandas

        try:
            import pyarrow
        except ImportError:
            columns = self.columns
            values = {index: self._answer.column(index) for index in range(len(columns))}
            return pandas.DataFrame(values).set_axis(columns, axis="columns")
        return pyarrow.table(self).to_pandas()

    def __arrow_c_schema__(self) -> object:
        """The column types as an Arrow schema capsule."""
        return self._answer.arrow_schema()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream capsule, cast to ``requested_schema`` if given."""
        return self._answer.arrow_stream(requested_schema)

    def __repr__(self) -> str:
        text = self._answer.text(_MAX_SHOWN_ROWS, _terminal_columns())
        hidden = len(self) - _MAX_SHOWN_ROWS
        return f"{text}… {hidden:,} more rows" if hidden > 0 else text.rstrip("\n")

    def _repr_html_(self) -> str:
        from . import _notebook

        shown = list(itertools.islice(self, _MAX_SHOWN_ROWS))
        return _notebook.table_html(self.columns, shown, len(self))


def _index_range(steps: SupportsIndex | tuple[SupportsIndex, SupportsIndex]) -> tuple[int, int]:
    first, last = steps if isinstance(steps, tuple) else (steps, steps)
    return _checked_index("step", first), _checked_index("step", last)


def _checked_index(subject: str, number: SupportsIndex) -> int:
    """Returns a step or rank as an `int`; `subject` names it in the error message."""
    index = operator.index(number)
    if not 0 <= index < 1 << 32:
        raise ValueError(f"there is no {subject} {index}")
    return index


def _terminal_columns() -> int | None:
    """Returns the width of the terminal, or `None` if stdout is not a terminal."""
    try:
        return os.get_terminal_size(1).columns or None
    except OSError:
        return None
