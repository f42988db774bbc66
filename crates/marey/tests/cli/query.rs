//! `marey query` without its prompt, which `tests/query/test_prompt.py` covers.

use std::fs;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int64Type, UInt32Type};
use arrow::ipc::reader::{FileReader, StreamReader};
use insta::assert_snapshot;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::{Folder, kill, printed, refusal, run, stdout, transcript};

const STEPS: &str = "SELECT number, duration_nanos, path FROM steps ORDER BY number";

#[test]
fn rows_are_a_table_by_default() {
    let folder = Folder::with_run();
    assert_snapshot!(printed(&folder.query(STEPS, "")), @r"
    number  duration_nanos  path
         0         1000000  train/step
         1         2000000  train/step
         2         3000000  train/step
    ");
    // The first query has collected the run.
    assert_eq!(folder.query(STEPS, ""), folder.query(STEPS, "-f table"));
    assert_snapshot!(
        printed(&folder.query("SELECT * FROM steps WHERE number > 5", "")),
        @"number  start_nanos  end_nanos  duration_nanos  path  thread  pid  rank  process_id  thread_id  context_id"
    );
}

#[test]
fn null_is_an_empty_cell_or_null() {
    const NOTHING: &str = "SELECT name, text, value, 0.0 / 0 AS share FROM counters LIMIT 1";
    let folder = Folder::with_run();
    assert_snapshot!(stdout(&folder.query(NOTHING, "")), @r"
    name    text   value  share
    tokens  null  4096.0    NaN
    ");
    assert_snapshot!(stdout(&folder.query(NOTHING, "-f csv")), @r"
    name,text,value,share
    tokens,,4096.0,NaN
    ");
    assert_snapshot!(stdout(&folder.query(NOTHING, "-f json")), @r#"[{"name":"tokens","text":null,"value":4096.0,"share":null}]"#);
    assert_snapshot!(stdout(&folder.query(NOTHING, "-f jsonl")), @r#"{"name":"tokens","text":null,"value":4096.0,"share":null}"#);
}

#[test]
fn an_empty_result_has_its_columns() {
    const NONE: &str = "SELECT number, path FROM steps WHERE number > 5";
    let folder = Folder::with_run();
    assert_eq!(stdout(&folder.query(NONE, "-f csv")), "number,path\n");
    assert_eq!(stdout(&folder.query(NONE, "-f json")), "[]\n");
    assert_eq!(stdout(&folder.query(NONE, "-f jsonl")), "");
    for (suffix, read) in READERS {
        folder.query(NONE, &format!("-o none.{suffix}"));
        let (rows, batch) = read(&folder, &format!("none.{suffix}"));
        assert_eq!((rows, batch.schema().field(1).name().as_str()), (0, "path"), "{suffix}");
    }
}

type Reader = fn(&Folder, &str) -> (usize, RecordBatch);

const READERS: [(&str, Reader); 2] = [
    ("arrow", |folder, name| {
        let reader = FileReader::try_new(File::open(folder.path(name)).unwrap(), None).unwrap();
        let schema = reader.schema();
        let batches: Vec<_> = reader.map(Result::unwrap).collect();
        let batch = concat_batches(&schema, &batches).unwrap();
        (batch.num_rows(), batch)
    }),
    ("parquet", |folder, name| {
        let file = File::open(folder.path(name)).unwrap();
        let reader = ParquetRecordBatchReader::try_new(file, 1024).unwrap();
        let schema = arrow::array::RecordBatchReader::schema(&reader);
        let batches: Vec<_> = reader.map(Result::unwrap).collect();
        let batch = concat_batches(&schema, &batches).unwrap();
        (batch.num_rows(), batch)
    }),
];

#[test]
fn files_are_in_the_format_of_their_suffix_and_read_back() {
    let folder = Folder::with_run();
    for (suffix, read) in READERS {
        let output = folder.query(STEPS, &format!("-o steps.{suffix}"));
        assert_eq!(output, "exit code: 0\n--- stdout ---\n--- stderr ---\n");
        let (_, batch) = read(&folder, &format!("steps.{suffix}"));
        assert_eq!(batch.column(0).as_primitive::<UInt32Type>().values(), &[0, 1, 2], "{suffix}");
        let nanos = batch.column(1).as_primitive::<Int64Type>().values();
        assert_eq!(nanos, &[1_000_000, 2_000_000, 3_000_000], "{suffix}");
    }
    folder.query(STEPS, "-o steps.csv");
    let csv = fs::read_to_string(folder.path("steps.csv")).unwrap();
    assert_eq!(csv, stdout(&folder.query(STEPS, "-f csv")));
    folder.query(STEPS, "-o steps.dat -f jsonl");
    let jsonl = fs::read_to_string(folder.path("steps.dat")).unwrap();
    assert_eq!(jsonl, stdout(&folder.query(STEPS, "-f jsonl")));
    assert_snapshot!(refusal(&folder.query(STEPS, "-o steps.dat")), @r"
    error: the suffix of `steps.dat` does not imply a format
    hint: choose one with -f: table, csv, json, jsonl, arrow or parquet
    ");
}

#[test]
fn arrow_into_a_pipe_is_a_stream() {
    let folder = Folder::with_run();
    let output = folder.marey("query train.marey -f arrow").arg(STEPS).output().unwrap();
    let reader = StreamReader::try_new(&*output.stdout, None).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
}

#[test]
fn an_output_file_appears_when_it_is_complete() {
    let folder = Folder::with_run();
    let files = || {
        let entries = fs::read_dir(folder.path("out")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    fs::create_dir(folder.path("out")).unwrap();
    fs::write(folder.path("out/steps.csv"), "before").unwrap();
    fs::set_permissions(folder.path("out/steps.csv"), PermissionsExt::from_mode(0o600)).unwrap();

    let divided = "SELECT 1 / (number - 2) FROM steps ORDER BY number";
    assert_snapshot!(
        refusal(&folder.query(divided, "-o out/steps.csv")),
        @"error: a number was divided by zero"
    );
    assert_eq!(fs::read_to_string(folder.path("out/steps.csv")).unwrap(), "before");
    assert_eq!(files(), ["steps.csv"]);

    std::os::unix::fs::symlink("steps.csv", folder.path("out/link.csv")).unwrap();
    folder.query("SELECT 1 AS x", "-o out/link.csv");
    assert_eq!(fs::read_to_string(folder.path("out/steps.csv")).unwrap(), "x\n1\n");
    assert!(folder.path("out/link.csv").is_symlink());

    assert_snapshot!(
        refusal(&folder.query(STEPS, "-o absent/steps.csv")),
        @"error: cannot write `absent/steps.csv`: No such file or directory (os error 2)"
    );
    assert_snapshot!(
        refusal(&folder.query(STEPS, "-f csv -o out")),
        @"error: cannot write `out`: is a directory"
    );
    assert_eq!(stdout(&folder.query("SELECT 1 AS x", "-f csv -o /dev/stdout")), "x\n1\n");
}

#[test]
fn a_query_may_begin_with_a_comment_and_options_still_follow() {
    let folder = Folder::with_run();
    let mut command = folder.marey("query train.marey");
    let answer = transcript(command.args(["-- how many\nSELECT 1 AS one", "-f", "csv"]));
    assert_eq!(stdout(&answer), "one\n1\n");
}

#[test]
fn the_query_is_read_from_stdin() {
    let folder = Folder::with_run();
    for line in ["query train.marey -f csv -", "query train.marey -f csv"] {
        let mut child = folder.marey(line);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"SELECT count(*) AS n\nFROM spans;\n").unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, b"n\n7\n", "{line}");
    }
    let mut empty = folder.marey("query train.marey");
    assert_snapshot!(
        refusal(&transcript(empty.stdin(Stdio::null()))),
        @"error: stdin is empty, expected a query"
    );
}

#[test]
fn rows_beyond_the_limit_are_cut_with_a_warning() {
    let folder = Folder::with_run();
    assert_snapshot!(folder.query("SELECT number FROM steps ORDER BY 1", "--max-rows 2"), @r"
    exit code: 0
    --- stdout ---
    number
         0
         1
    --- stderr ---
    warning: output limited to 2 rows; use --max-rows N for more, --max-rows 0 for all
    ");
    let exactly = folder.query("SELECT number FROM steps", "--max-rows 3 -f csv");
    assert!(exactly.ends_with("--- stderr ---\n"), "{exactly}");

    let many_rows_query = "SELECT a.name FROM spans a, spans b, spans c, spans d";
    let lines = |options| folder.query(many_rows_query, options);
    let table = lines("");
    assert_eq!(stdout(&table).lines().count(), 1001);
    assert!(table.contains("output limited to 1,000 rows"), "{table}");
    assert_eq!(stdout(&lines("--max-rows 0")).lines().count(), 7_usize.pow(4) + 1);
    assert_eq!(stdout(&lines("-f csv")).lines().count(), 7_usize.pow(4) + 1);
}

#[test]
fn invalid_queries_are_errors_with_hints() {
    let folder = Folder::with_run();
    assert_snapshot!(refusal(&folder.query("SELECT nam FROM spans", "")), @r"
    error: there is no column `nam`
    hint: did you mean one of name, name_id?
    ");
    assert_snapshot!(refusal(&folder.query("SELECT name FROM span", "")), @r"
    error: there is no table `span`
    hint: did you mean `spans`?
    ");
    assert_snapshot!(refusal(&folder.query("DELETE FROM spans", "")), @r"
    error: marey queries read only: DELETE is refused
    hint: use SELECT, WITH, VALUES, EXPLAIN, SHOW or DESCRIBE
    ");
    let syntax = folder.query("SELECT name,, FROM spans", "");
    assert!(syntax.contains("error: ") && syntax.starts_with("exit code: 2\n"), "{syntax}");
    assert_snapshot!(
        refusal(&run("query absent.marey x")),
        @"error: cannot open `absent.marey`: No such file or directory (os error 2)"
    );
    assert_snapshot!(refusal(&folder.run("train.marey")), @r"
    error: `train.marey` is not a Python program
    hint: to open it, run `marey query train.marey`
    ");
}

#[test]
fn a_query_beyond_the_memory_limit_has_a_hint() {
    let sorted = "SELECT name FROM spans ORDER BY start_nanos, path";
    let output = Folder::with_run().query(sorted, "--memory-limit 1KiB");
    assert!(output.starts_with("exit code: 2\n"), "{output}");
    assert!(output.contains("\nhint: raise it with `--memory-limit`"), "{output}");
}

#[test]
fn invalid_options_are_errors() {
    let folder = Folder::with_run();
    assert_snapshot!(refusal(&folder.query(STEPS, "--memory-limit much")), @r"
    error: invalid value 'much' for '--memory-limit <SIZE>': expected a size such as `2GiB`, `512MiB` or `100000`

    For more information, try '--help'.
    ");
    assert_snapshot!(refusal(&folder.query(STEPS, "-f xml")), @r"
    error: invalid value 'xml' for '--format <FORMAT>'
      [possible values: table, csv, json, jsonl, arrow, parquet]

    For more information, try '--help'.
    ");
    assert!(folder.query(STEPS, "--threads 0").starts_with("exit code: 2\n"));
}

#[test]
fn a_closed_pipe_ends_a_query_quietly() {
    let folder = Folder::with_run();
    for format in ["table", "csv", "json", "jsonl", "arrow", "parquet"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = folder.marey(&format!("query train.marey -f {format}"));
        let output = command.arg(STEPS).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]), "{format}");
    }
}

#[test]
fn ctrl_c_cancels_a_query() {
    let folder = Folder::with_run();
    let endless = "SELECT a.name FROM spans a, spans b, spans c, spans d, spans e, spans f, spans g, \
                   spans h, spans i, spans j, spans k, spans l, spans m, spans n, spans o, spans p";
    let mut command = folder.interruptible("query train.marey -f csv");
    let mut child = command.arg(endless).stdout(Stdio::piped()).spawn().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(rows.next().unwrap().unwrap(), "name");
    kill("-INT", &child);
    // It cannot end before its last rows are read.
    assert!(rows.all(|row| row.is_ok()));
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn help_of_query() {
    assert_snapshot!(printed(&run("query --help")), @r#"
    Query a run with SQL

    Usage: marey query [OPTIONS] <RUN> [SQL]

    Arguments:
      <RUN>  Run to query: a folder `NAME.marey`, a packed run, or a file of another format
      [SQL]  Query to run; `-` reads it from stdin [default: stdin unless it is a terminal, else a
             prompt]

    Options:
      -f, --format <FORMAT>      Output format [default: from the suffix of -o, else table] [possible
                                 values: table, csv, json, jsonl, arrow, parquet]
      -o, --output <FILE>        Write the rows to FILE
          --max-rows <N>         Return at most N rows; 0 for all [default: 1000 as a table, else all]
          --memory-limit <SIZE>  Limit the memory of the query, such as `512MiB` [default:
                                 `MAREY_MEMORY_LIMIT`, else 2GiB]
          --threads <N>          Use N threads [default: one for each core]
      -h, --help                 Print help

    Examples:
      marey query train.marey                              Open a prompt; \? lists its commands
      marey query train.marey "SELECT * FROM top ORDER BY total_nanos DESC LIMIT 10"
      marey query train.marey "SELECT * FROM steps" -o steps.parquet
      marey query train.marey -f csv < slow_steps.sql      Read the query from a file
      marey query train.marey "SELECT name, duration_nanos FROM spans" -f jsonl | jq .
      marey schema                                         List all tables

    Queries cannot modify the run. Times are in nanoseconds since 1970.
    "#);
}
