//! `marey schema`.

use insta::assert_snapshot;
use marey_model::table::{stored, view};

use crate::{json, printed, refusal, run, stdout};

#[test]
fn the_list_has_every_table_once_by_its_query_name() {
    let output = run("schema");
    let lines = stdout(&output).lines().filter(|line| line.starts_with(' '));
    let names: Vec<_> = lines.map(|line| line.split_whitespace().next().unwrap()).collect();
    for view in view::ALL {
        assert!(names.contains(&view.name), "{output}");
    }
    for table in stored::ALL {
        assert!(names.contains(&format!("raw.{}", table.name).as_str()), "{output}");
        assert_eq!(names.iter().filter(|name| **name == table.name).count(), 1, "{output}");
    }
}

#[test]
fn a_table_has_a_line_for_each_column() {
    assert_snapshot!(printed(&run("schema steps")), @r"
    steps: Training steps.
      number          UINTEGER        Step number in the process, from 0.
      start_nanos     BIGINT          Start time.
      end_nanos       BIGINT          End time.
      duration_nanos  BIGINT          Duration.
      path            VARCHAR         Path of names from the root, its own included, separated by `/`.
      thread          VARCHAR         Thread name; may be empty.
      pid             BIGINT          Process id in the operating system.
      rank            BIGINT or null  Rank of the process in a distributed job.
      process_id      UINTEGER        Process (`processes.id`).
      thread_id       UINTEGER        Thread (`threads.id`).
      context_id      UINTEGER        Context node (`contexts.id`).
    ");
    let raw = run("schema raw.steps");
    assert!(raw.contains("\nraw.steps: ") && raw.lines().count() == 10, "{raw}");
    assert_snapshot!(refusal(&run("schema stesp")), @r"
    error: there is no table `stesp`
    hint: did you mean one of steps, step_summary, step_times?
    ");
    let raw = run("schema raw.metric");
    assert!(raw.contains("hint: did you mean one of raw.metrics, "), "{raw}");
    let unlike = run("schema zzz");
    assert!(unlike.contains("hint: the tables are spans, flame, top, "), "{unlike}");
}

#[test]
fn json_output_is_complete() {
    let all_tables = json(&run("schema --json"));
    let in_raw = all_tables.as_array().unwrap().iter().filter(|table| table["schema"] == "raw");
    assert_eq!(in_raw.count(), stored::ALL.len());
    let one_table = json(&run("schema spans --json"));
    assert_eq!(one_table.as_array().unwrap().len(), 1);
    assert_eq!(one_table[0]["is_view"], true);
    let rank = one_table[0]["columns"].as_array().unwrap().iter().find(|it| it["name"] == "rank");
    let rank = rank.unwrap();
    assert_eq!((&rank["type"], &rank["is_nullable"]), (&"BIGINT".into(), &true.into()));
}

#[test]
fn help_of_schema() {
    assert_snapshot!(printed(&run("schema --help")), @r"
    Describe the tables and columns of runs

    Usage: marey schema [OPTIONS] [TABLE]

    Arguments:
      [TABLE]  Table to describe, such as `spans` or `raw.spans` [default: list all]

    Options:
          --json  Print a JSON array with the columns of each table
      -h, --help  Print help

    Examples:
      marey schema                List all tables
      marey schema spans          List the columns of a table
      marey schema --json         Print everything for programs
    ");
}
