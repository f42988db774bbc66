//! Output for programs: JSON and CSV.

use std::process::{Command, Stdio};

use insta::assert_snapshot;
use serde_json::Value;

use crate::{AFTER, Folder, json, marey, printed, refusal, stdout, transcript, view};

#[test]
fn json_has_the_requested_metrics() {
    assert_snapshot!(
        printed(&view("--json -d 1 -m wall_total,tokens train.hatchet")),
        @r#"{"file":"train.hatchet","process":{"pid":4242,"rank":3,"host":"node7","argv":["train.py","--steps","100"],"start_unix_nanos":1785000000000000000,"duration_nanos":78000000000,"complete":true},"overhead":{"events":40302,"scope_nanos":200.5,"recording_nanos":8060400,"flushing_nanos":1200000},"losses":{"nodes":0,"unmatched_exits":3},"devices":[],"hidden_nodes":5,"nodes":[{"id":0,"parent":null,"depth":0,"name":"ROOT","kind":"root","metrics":{"tokens (inc)":409600}}]}"#
    );
}

#[test]
fn json_has_all_metrics_by_default() {
    let output = view("--json minimal.hatchet minimal.hatchet_msgpack");
    let documents: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for document in &documents {
        assert_eq!(document["nodes"][2]["metrics"]["device_type"], "CUDA");
        assert_eq!(document["nodes"][2]["metrics"]["time (ns) (inc)"], 1000);
        assert_eq!(document["nodes"][2]["parent"], 1);
        assert_eq!(document["nodes"][2].get("change"), None);
        assert_eq!(document["devices"][0]["num_sms"], 132);
    }
    assert_eq!(documents[1]["file"], "minimal.hatchet_msgpack");
    assert!(output.ends_with("--- stderr ---\n"), "{output}");
}

#[test]
fn csv_quotes_what_needs_it_and_names_the_file() {
    let content = br#"[{"frame": {"name": "ROOT"}, "metrics": {}, "children": [
        {"frame": {"name": "a, \"b\"\n"}, "metrics": {"note": "x,y", "shape": [8, 128], "loss": 0.5},
         "children": []}]}]"#;
    let folder =
        Folder::new(&[("n.hatchet", &content[..]), ("runs/after.hatchet", AFTER.as_bytes())]);
    assert_snapshot!(printed(&folder.view("--csv n.hatchet runs/after.hatchet")), @r#"
    file,id,parent,depth,name,kind,note,shape,loss,time (ns) (inc),count (inc)
    n.hatchet,0,,0,ROOT,,,,,,
    n.hatchet,1,0,1,"a, ""b""
    ",,"x,y","[8, 128]",0.5,,
    runs/after.hatchet,0,,0,ROOT,,,,,7700,7
    runs/after.hatchet,2,0,1,gemm,,,,,5000,4
    runs/after.hatchet,3,0,1,new,,,,,700,2
    runs/after.hatchet,1,0,1,copy,,,,,2000,1
    "#);
}

#[test]
fn filters_apply_to_rows() {
    let folder = Folder::before_and_after();
    let line = "--csv -m time/us,count --sort value -t 1 -f function_line after.hatchet";
    assert_snapshot!(printed(&folder.view(line)), @r"
    file,id,parent,depth,name,kind,time/us (inc),count (inc)
    after.hatchet,0,,0,ROOT,,7.700000000000001,5
    after.hatchet,2,0,1,gemm,,5.000000000000001,4
    after.hatchet,1,0,1,copy,,2.0000000000000004,1
    ");
}

#[test]
fn a_metric_requested_twice_is_one_column() {
    let folder = Folder::before_and_after();
    let once = folder.view("--json -m time after.hatchet");
    assert_eq!(folder.view("--json -m time,Time,time after.hatchet"), once);
    let of_two = |metrics: &str, form: &str| {
        folder.view(&format!("{form} -m {metrics} --diff-profile before.hatchet after.hatchet"))
    };
    for form in ["--json", "--csv"] {
        assert_eq!(of_two("time,Time,count", form), of_two("time,count", form));
    }
}

#[test]
fn json_writes_infinity_as_text_and_nan_as_null() {
    let content = br#"[{"frame": {"name": "ROOT"}, "metrics": {"x": 0}, "children": [
        {"frame": {"name": "a"}, "metrics": {"x": Infinity, "l": [0.5, -Infinity, NaN]}, "children": []},
        {"frame": {"name": "b"}, "metrics": {"x": NaN, "y": 1}, "children": []}]}]"#;
    let folder = Folder::new(&[("f.hatchet", content)]);
    let document = json(&folder.view("--json f.hatchet"));
    let metrics: Vec<String> = document["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["metrics"].to_string())
        .collect();
    assert_eq!(
        metrics,
        [
            r#"{"x (inc)":"Infinity"}"#,
            r#"{"l":[0.5,"-Infinity",null],"x (inc)":"Infinity"}"#,
            r#"{"y":1}"#
        ]
    );
    let document = json(&folder.view("--json -m x -diff f.hatchet f.hatchet"));
    let of_root = &document["nodes"][0]["metrics"]["x (inc)"];
    assert_eq!(
        of_root.to_string(),
        r#"{"after":"Infinity","before":"Infinity","difference":null,"ratio":null}"#
    );
}

const WIDE: usize = 20_000;

/// Returns a profile of many nodes with one metric each, whose full table would be quadratic.
fn wide(is_inclusive: bool) -> String {
    let nodes: Vec<String> = (0..WIDE)
        .map(|at| {
            format!(
                r#"{{"frame": {{"name": "k{at}"}}, "metrics": {{"m{at}": 1}}, "children": []}}"#
            )
        })
        .collect();
    let marks: Vec<String> = (0..WIDE).map(|at| format!(r#""m{at}": 0"#)).collect();
    let marks = if is_inclusive { marks.join(",") } else { String::new() };
    let nodes = nodes.join(",");
    format!(r#"[{{"frame": {{"name": "ROOT"}}, "metrics": {{{marks}}}, "children": [{nodes}]}}]"#)
}

/// Runs `marey view` with 1.5 GB of memory, half of the size of a full table.
fn view_in_little_memory(folder: &Folder, line: &str) -> String {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v 1500000 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_marey"), "view"])
        .args(line.split_whitespace())
        .current_dir(folder.0.path());
    transcript(&mut command)
}

#[test]
fn memory_is_proportional_to_the_file_with_many_metrics() {
    let folder = Folder::new(&[("wide.hatchet", wide(false)), ("summed.hatchet", wide(true))]);
    let view = |line: &str| view_in_little_memory(&folder, line);

    for (file, label, on_root) in [("wide.hatchet", "m7", 0), ("summed.hatchet", "m7 (inc)", WIDE)]
    {
        let document = json(&view(&format!("--json {file}")));
        let nodes = document["nodes"].as_array().unwrap();
        let metrics = |at: usize| nodes[at]["metrics"].as_object().unwrap();
        assert_eq!((nodes.len(), metrics(0).len()), (WIDE + 1, on_root));
        let node = nodes.iter().find(|node| node["name"] == "k7").unwrap();
        assert_eq!(node["metrics"], serde_json::json!({ label: 1 }));
    }

    let table = view("-d 1 wide.hatchet");
    assert_eq!(
        stdout(&table),
        "wide.hatchet\nm0  m1  m2  m3  m4  m5  m6  m7  name\n                                ROOT\n"
    );
    assert!(table.contains("\n19,992 more metrics: see --list\n"), "{table}");
    let compared = view("-d 1 --diff-profile wide.hatchet wide.hatchet");
    assert!(compared.contains("\n19,992 more metrics: see --list\n"), "{compared}");

    assert_snapshot!(refusal(&view("--csv wide.hatchet")), @r"
    error: 20,000 columns for 20,001 nodes are 400,020,000 cells
    hint: select metrics with --metrics
    ");
    assert_snapshot!(refusal(&view("--json --diff-profile wide.hatchet wide.hatchet")), @r"
    error: 80,000 columns for 20,001 nodes are 1,600,080,000 cells
    hint: select metrics with --metrics
    ");
    assert_snapshot!(refusal(&view("-m nope wide.hatchet")), @r"
    error: `wide.hatchet` has no metric `nope`
    hint: available: `m0`, `m1`, `m2`, `m3`, `m4`, `m5`, `m6`, `m7`, `m8`, `m9`, `m10`, `m11`, `m12`, `m13`, `m14`, `m15`, `m16`, `m17`, `m18`, `m19` and 19,980 more: see --list
    ");
    let chosen = view("--csv -m m7,m8 -i ROOT -d 1 wide.hatchet");
    assert_eq!(
        stdout(&chosen),
        "file,id,parent,depth,name,kind,m7,m8\nwide.hatchet,0,,0,ROOT,,,\n"
    );
}

#[test]
fn only_the_host_can_be_recorded() {
    let entries = json(&view("--list-backends --json"));
    let entries = entries.as_array().unwrap();
    let can_start = |entry: &&Value| entry["can_start"] == true;
    assert_eq!(entries.len(), 6);
    assert_eq!(entries.iter().filter(can_start).count(), 1);
    assert_eq!(entries[0]["backend"], Value::Null);
    assert_eq!(entries[0]["can_start"], true);
    assert!(stdout(&view("--list-backends")).contains("\nroctracer "));
}

#[test]
fn a_closed_pipe_is_no_error() {
    // More than a pipe's buffer, so the program still writes when the reader closes the pipe.
    let child = format!(
        r#"{{"frame": {{"name": "{}"}}, "metrics": {{"n": 1}}, "children": []}}"#,
        "x".repeat(1000)
    );
    let children = vec![child; 1000].join(",");
    let content =
        format!(r#"[{{"frame": {{"name": "ROOT"}}, "metrics": {{}}, "children": [{children}]}}]"#);
    let folder = Folder::new(&[("wide.hatchet", content)]);
    for options in ["", "-m n", "--json", "--csv"] {
        let mut command = marey(&format!("view wide.hatchet {options}"));
        command.current_dir(folder.0.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{options}");
    }
}
