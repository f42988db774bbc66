//! `information_schema`, SHOW and DESCRIBE.

use marey_model::table::{stored, view};

use crate::run::TestRun;

#[test]
fn every_declared_column_is_described() {
    let run = TestRun::new();
    for (schema, tables) in [("raw", stored::ALL), ("main", view::ALL)] {
        for table in tables {
            let columns = run.rows(&format!(
                "SELECT column_name, data_type, is_nullable, description FROM information_schema.columns \
                 WHERE table_schema = '{schema}' AND table_name = '{}' ORDER BY ordinal_position",
                table.name
            ));
            let declared: Vec<_> = table
                .columns
                .iter()
                .map(|column| {
                    format!(
                        "{} | {} | {} | {}",
                        column.name,
                        column.kind.as_str(),
                        column.is_nullable,
                        column.doc
                    )
                })
                .collect();
            assert_eq!(columns, declared, "{}", table.name);
        }
    }
}

#[test]
fn show_and_describe_query_the_information_schema() {
    let run = TestRun::new();
    let tables = run.rows("SHOW TABLES");
    assert!(
        tables.iter().any(|row| row.starts_with("main | spans | VIEW | Intervals on host threads")),
        "{tables:?}"
    );
    assert!(tables.iter().any(|row| row.starts_with("raw | spans | BASE TABLE | ")), "{tables:?}");
    assert_eq!(run.rows("DESCRIBE strings"), run.rows("SHOW COLUMNS FROM strings"));
    assert_eq!(
        run.rows("DESCRIBE raw.strings"),
        ["id | UINTEGER | false | Id of the text, from 0.", "text | VARCHAR | false | The text."]
    );
    assert_eq!(run.rows("DESCRIBE spans").len(), view::SPANS.columns.len());
}

#[test]
fn functions_are_documented_with_examples_that_run() {
    let run = TestRun::new();
    let sql = "SELECT name, kind, description <> '' AND syntax <> '', example FROM information_schema.functions \
        WHERE section = 'marey' ORDER BY name";
    let ours = run.rows(sql);
    assert_eq!(ours.len(), 26, "{ours:?}");
    for row in ours {
        let [name, _, is_described, example] =
            row.splitn(4, " | ").collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(is_described, "true", "{name}");
        assert!(example.contains(name), "{name}: {example}");
        run.rows(example);
    }
}

/// Plans each view twice; without optimisation some take a tenth of a second.
#[test]
fn the_definition_of_a_view_gives_its_rows() {
    let run = TestRun::new();
    let views = run.rows(
        "SELECT concat(table_schema, '.', table_name) FROM information_schema.views \
         WHERE table_schema <> 'python'",
    );
    assert_eq!(views.len(), view::ALL.len() + 3, "{views:?}");
    for view in views {
        let sql = run.value(&format!(
            "SELECT view_definition FROM information_schema.views \
             WHERE concat(table_schema, '.', table_name) = '{view}'"
        ));
        let rows = run.sorted_rows(&format!("SELECT * FROM {view}"));
        assert_eq!(run.sorted_rows(&sql), rows, "{view}");
    }
}

#[test]
fn names_for_completion_are_complete() {
    let run = TestRun::new();
    let names = run.database.names().unwrap();
    let spans = names.tables.iter().find(|table| table.name == "spans").unwrap();
    assert_eq!((spans.schema, spans.columns[0]), ("main", "name"));
    for name in ["union_nanos", "arg", "name", "quantile", "self_nanos", "sum", "generate_series"] {
        assert!(names.functions.iter().any(|function| function == name), "{name}");
    }
    assert!(names.keywords.contains(&"SELECT"));
    assert!(names.tables.iter().any(|table| table.schema == "raw" && table.name == "spans"));
}
