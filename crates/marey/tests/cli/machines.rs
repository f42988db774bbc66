//! Answers for programs: JSON and CSV.

use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::Value;

use crate::{AFTER, Folder, marey, stdout, view};

#[test]
fn json_has_the_metrics_asked_for() {
    assert_snapshot!(view("--json -d 1 -m wall_total,tokens train.hatchet"), @r#"
    exit code: 0
    --- stdout ---
    {"file":"train.hatchet","process":{"pid":4242,"rank":3,"host":"node7","argv":["train.py","--steps","100"],"start_unix_nanos":1785000000000000000,"duration_nanos":78000000000,"complete":true},"overhead":{"events":40302,"scope_nanos":200.5,"recording_nanos":8060400,"flushing_nanos":1200000},"losses":{"nodes":0,"unmatched_exits":3},"devices":[],"hidden_nodes":5,"nodes":[{"id":0,"parent":null,"depth":0,"name":"ROOT","kind":"root","metrics":{"tokens (inc)":409600}}]}
    --- stderr ---
    "#);
}

#[test]
fn json_has_everything_unless_asked_otherwise() {
    let all = view("--json minimal.hatchet minimal.hatchet_msgpack");
    let documents: Vec<Value> =
        stdout(&all).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for document in &documents {
        assert_eq!(document["nodes"][2]["metrics"]["device_type"], "CUDA");
        assert_eq!(document["nodes"][2]["metrics"]["time (ns) (inc)"], 1000);
        assert_eq!(document["nodes"][2]["parent"], 1);
        assert_eq!(document["nodes"][2].get("change"), None);
        assert_eq!(document["devices"][0]["num_sms"], 132);
    }
    assert_eq!(documents[1]["file"], "minimal.hatchet_msgpack");
    assert!(all.ends_with("--- stderr ---\n"), "{all}");
}

#[test]
fn csv_quotes_what_needs_it_and_names_the_file() {
    let content = br#"[{"frame": {"name": "ROOT"}, "metrics": {}, "children": [
        {"frame": {"name": "a, \"b\"\n"}, "metrics": {"note": "x,y", "shape": [8, 128], "loss": 0.5},
         "children": []}]}]"#;
    let folder =
        Folder::new(&[("n.hatchet", &content[..]), ("runs/after.hatchet", AFTER.as_bytes())]);
    assert_snapshot!(folder.view("--csv n.hatchet runs/after.hatchet"), @r#"
    exit code: 0
    --- stdout ---
    file,id,parent,depth,name,kind,note,shape,loss,time (ns) (inc),count (inc)
    n.hatchet,0,,0,ROOT,,,,,,
    n.hatchet,1,0,1,"a, ""b""
    ",,"x,y","[8, 128]",0.5,,
    runs/after.hatchet,0,,0,ROOT,,,,,7700,7
    runs/after.hatchet,2,0,1,gemm,,,,,5000,4
    runs/after.hatchet,3,0,1,new,,,,,700,2
    runs/after.hatchet,1,0,1,copy,,,,,2000,1
    --- stderr ---
    "#);
}

#[test]
fn rows_go_by_the_filters() {
    let folder = Folder::before_and_after();
    assert_snapshot!(
        folder.view("--csv -m time/us,count --sort value -t 1 -f function_line after.hatchet"),
        @r"
    exit code: 0
    --- stdout ---
    file,id,parent,depth,name,kind,time/us (inc),count (inc)
    after.hatchet,0,,0,ROOT,,7.700000000000001,5
    after.hatchet,2,0,1,gemm,,5.000000000000001,4
    after.hatchet,1,0,1,copy,,2.0000000000000004,1
    --- stderr ---
    "
    );
}

#[test]
fn only_the_host_can_be_recorded() {
    let list = view("--list-backends --json");
    let entries: Value = serde_json::from_str(stdout(&list)).unwrap();
    let entries = entries.as_array().unwrap();
    let can_start = |entry: &&Value| entry["can_start"] == true;
    assert_eq!(entries.len(), 6);
    assert_eq!(entries.iter().filter(can_start).count(), 1);
    assert_eq!(entries[0]["backend"], Value::Null);
    assert_eq!(entries[0]["can_start"], true);
    assert!(stdout(&view("--list-backends")).contains("\nroctracer "));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    // More than a pipe holds, so the program still writes when the reader leaves.
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
