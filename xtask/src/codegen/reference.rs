//! Reference pages in Markdown.

use marey_model::counter::{DeviceCounter, SystemCounter};
use marey_model::loss::LossCause;
use marey_model::table::{Table, stored, view};
use marey_model::{env, gpu_time, rank, setting, wall};

/// Returns the content of `docs/reference/environment.md`.
pub(super) fn environment() -> String {
    let variables =
        env::ALL.map(|variable| [code(variable.name), cell(variable.default), cell(variable.doc)]);
    let rank = rank::RANK_VARS.map(code).join(", ");
    page(
        "Environment variables",
        "marey reads these variables when it starts.",
        "env.rs",
        &table(["Variable", "Default", "Effect"], &variables),
    ) + &format!(
        "\nThe rank of a process in a distributed job is the value of the first of these variables\n\
         that contains a number: {rank}.\n\
         It becomes part of the names of the process's files.\n"
    )
}

/// Returns the content of `docs/reference/settings.md`.
pub(super) fn settings() -> String {
    let rows = setting::ALL.map(|declared| {
        let aliases = declared.aliases.iter().map(|alias| format!(", also {}", code(alias)));
        [
            code(declared.key) + &aliases.collect::<String>(),
            cell(&declared.describe_values()),
            code(&declared.format(declared.default)),
            declared.env.map(code).unwrap_or_default(),
            cell(declared.doc),
        ]
    });
    page(
        "Settings",
        "`marey config PID` shows and changes these settings of a process that records. A variable of the environment sets\n\
         the value with which the process begins; a value that the setting cannot have is ignored.",
        "setting.rs",
        &table(["Setting", "Values", "Default", "Variable", "Effect"], &rows),
    )
}

/// Returns the content of `docs/reference/counters.md`.
pub(super) fn counters() -> String {
    let rows: Vec<_> = DeviceCounter::ALL
        .iter()
        .map(|counter| [code(counter.name()), cell(counter.doc())])
        .collect();
    let system_rows: Vec<_> = SystemCounter::ALL
        .iter()
        .map(|counter| [code(counter.name()), cell(counter.doc())])
        .collect();
    page(
        "Counters",
        "The rows of `counters` that marey samples by itself, while a trace records.\n\n\
         ## Counters of devices\n\n\
         A trace samples these counters of every NVIDIA device that the process uses (before it uses any: of every visible\n\
         device) through NVML every 100 ms (`MAREY_NVML_PERIOD_MS`), as rows of `counters`. Counters that a device does not\n\
         support are missing. Counters marked (GPM) need a device of the Hopper generation or later, and are averages since\n\
         the previous reading. `device` is the CUDA device number, as for kernels, not the number in nvidia-smi: with\n\
         `CUDA_VISIBLE_DEVICES=3` the device is 0. Flags are 0 or 1, so their average is a share of time:\n\n\
         ```sql\n\
         SELECT device, name, avg(value) AS share FROM counters\n\
         WHERE name LIKE 'gpu_throttle%' GROUP BY device, name HAVING max(value) > 0\n\
         ```",
        "counter.rs",
        &table(["Name", "Meaning"], &rows),
    ) + "\n## Counters of the process\n\n\
         A trace samples these counters every second (`MAREY_SYSTEM_METRICS_SECS`, or `marey config PID system.interval=0.1`), on\n\
         Linux, without a `device`. Rates are averages since the previous reading, so the first rows come after one\n\
         interval; the child of a fork has rows once it has recorded something itself. A counter that the kernel does not\n\
         provide is missing.\n\n\
         ```sql\n\
         SELECT name, avg(value) AS mean, max(value) AS peak FROM counters\n\
         WHERE name LIKE 'process%' OR name LIKE 'thread_cpu%' GROUP BY name ORDER BY name\n\
         ```\n\n"
        + &table(["Name", "Meaning"], &system_rows)
}

/// Returns the content of `docs/reference/losses.md`.
pub(super) fn losses() -> String {
    let rows = LossCause::ALL.map(|cause| [code(cause.as_str()), cell(cause.doc())]);
    page(
        "Losses",
        "Every lost event is counted. Each cause has a counter under `losses` on the root of a\n\
         `.hatchet` file and a line in every report; a missing counter is zero.",
        "loss.rs",
        &table(["Key", "Meaning"], &rows),
    )
}

/// Returns the content of `docs/reference/metrics.md`.
pub(super) fn metrics() -> String {
    let walls = wall::ALL.map(|metric| [code(metric.key), cell(metric.doc)]);
    let kernels = gpu_time::ALL.map(|metric| [code(metric.key), cell(metric.doc)]);
    let header = ["Key", "Meaning"];
    page(
        "Metrics that marey adds",
        "Every scope node has these metrics in addition to those that the program records. `(ns)`\n\
         means nanoseconds; metrics without a unit are counts.",
        "wall.rs and gpu_time.rs",
        &table(header, &walls),
    ) + "\nA kernel node, below the node that launched it, has these metrics. The first four are Proton's.\n\n"
        + &table(header, &kernels)
}

/// Returns the content of `docs/reference/schema.md`.
pub(super) fn schema() -> String {
    let intro = format!(
        "The views and tables of a run in SQL, as `marey schema` and `information_schema` list them. Every timestamp\n\
         is in nanoseconds since 1970, on one clock for all processes of the run. This is version {} of\n\
         the schema.",
        stored::SCHEMA_VERSION
    );
    let views = "## Views\n\nQueries name views without a prefix. Views contain names in place of ids, so they need no joins.\n";
    let python = "\n## Views in `python`\n\nViews with the names, columns and units of Probing, so that its queries run as written: `python.torch_trace`.\n";
    let tables = "\n## Tables\n\nStored as one folder of Parquet files each. Queries name them with the prefix \
                  `raw`, as in `raw.spans`,\nor without it if no view has the same name.\n";
    let body = [views.to_owned()]
        .into_iter()
        .chain(view::ALL.iter().map(|table| columns(table)))
        .chain([python.to_owned()])
        .chain(view::PYTHON.iter().map(|table| columns(table)))
        .chain([tables.to_owned()])
        .chain(stored::ALL.iter().map(|table| columns(table)))
        .collect::<String>();
    page("The tables of a run", &intro, "table/", &body)
}

/// Returns the section of a table.
fn columns(declared: &Table) -> String {
    let rows: Vec<_> = declared
        .columns
        .iter()
        .map(|column| {
            let null = if column.is_nullable { ", may be null" } else { "" };
            [code(column.name), format!("{}{null}", column.kind.as_str()), cell(column.doc)]
        })
        .collect();
    let order = declared.sorted_by.map(|column| format!(" Each file is sorted by `{column}`."));
    format!(
        "\n### `{}`\n\n{}{}\n\n{}",
        declared.name,
        declared.doc,
        order.unwrap_or_default(),
        table(["Column", "Type", "Meaning"], &rows)
    )
}

fn page(title: &str, intro: &str, source: &str, body: &str) -> String {
    format!(
        "<!-- Generated by `cargo xtask codegen` from crates/marey-model/src/{source}; do not edit. -->\n\n\
         # {title}\n\n{intro}\n\n{body}"
    )
}

fn table<const COLUMNS: usize>(header: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    let line = |cells: &[String; COLUMNS]| format!("| {} |\n", cells.join(" | "));
    let rule = line(&header.map(|_| "---".to_owned()));
    line(&header.map(str::to_owned)) + &rule + &rows.iter().map(line).collect::<String>()
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Escapes bars, which would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_lines_and_bars_are_escaped() {
        let rows = [[code("a"), cell("x | y")]];
        assert_eq!(
            table(["Key", "Meaning"], &rows),
            "| Key | Meaning |\n| --- | --- |\n| `a` | x \\| y |\n"
        );
    }

    #[test]
    fn every_entry_is_on_its_page() {
        for variable in env::ALL {
            assert!(environment().contains(&format!("| `{}` |", variable.name)));
        }
        for declared in &setting::ALL {
            assert!(settings().contains(&format!("| `{}`", declared.key)));
        }
        for cause in LossCause::ALL {
            assert!(losses().contains(&format!("| `{}` |", cause.as_str())));
        }
        for table in stored::ALL.iter().chain(view::ALL).chain(view::PYTHON) {
            assert!(schema().contains(&format!("### `{}`", table.name)));
        }
        for metric in wall::ALL {
            assert!(metrics().contains(&format!("| `{}` |", metric.key)));
        }
        for metric in gpu_time::ALL {
            assert!(metrics().contains(&format!("| `{}` |", metric.key)));
        }
    }
}
