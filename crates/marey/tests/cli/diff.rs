//! `marey view --diff-profile`.

use insta::assert_snapshot;

use crate::{AFTER, BEFORE, Folder, json, printed, refusal, stdout};

const OTHER: &str = r#"[{"frame": {"name": "ROOT"}, "metrics": {"time (us)": 0}, "children": [
    {"frame": {"name": "gemm"}, "metrics": {"time (us)": 8, "note": "x"}, "children": []}]}, {}]"#;

#[test]
fn a_table_has_both_values_the_difference_and_the_ratio() {
    assert_snapshot!(
        printed(&Folder::before_and_after().view("--diff-profile before.hatchet after.hatchet")),
        @r"
    before = before.hatchet
    after = after.hatchet
    time before    after  difference  ratio  count before  after  difference  ratio   change  name
        8.80 µs  7.70 µs    -1.10 µs  0.88×             7      7           0  1.00×           ROOT
        8.00 µs  5.00 µs    -3.00 µs  0.62×             4      4           0  1.00×           ├─ gemm
                  700 ns     +700 ns                           2          +2           added  ├─ new
         500 ns  2.00 µs    +1.50 µs  4.00×             1      1           0  1.00×           ├─ copy
         300 ns              -300 ns                    2                 -2         removed  └─ old
    "
    );
}

#[test]
fn lines_have_the_difference_and_mark_nodes_of_one_side() {
    let folder = Folder::before_and_after();
    assert_snapshot!(folder.view("-m time,count -diff before.hatchet after.hatchet"), @r"
    exit code: 0
    --- stdout ---
    -1100.000 0.000 ROOT
    ├─ 1500.000 0.000 copy
    ├─ -3000.000 0.000 gemm
    ├─ 700.000 2.000 new ◀ 
    └─ nan nan old ▶ 

    --- stderr ---
    ");
    let other = folder.view("-m time,count after.hatchet -diff=before.hatchet");
    assert_eq!(other, folder.view("-m time,count --diff-profile before.hatchet after.hatchet"));
}

#[test]
fn a_node_above_the_threshold_on_one_side_is_shown() {
    let folder = Folder::before_and_after();
    let output = folder.view("-t 10% --layout table -m time -diff before.hatchet after.hatchet");
    assert_snapshot!(output, @r"
    exit code: 0
    --- stdout ---
    before = before.hatchet
    after = after.hatchet
    time before    after  difference  ratio  change  name
        8.80 µs  7.70 µs    -1.10 µs  0.88×          ROOT
        8.00 µs  5.00 µs    -3.00 µs  0.62×          ├─ gemm
         500 ns  2.00 µs    +1.50 µs  4.00×          └─ copy
    --- stderr ---
    nodes hidden by --threshold: 2
    ");
}

#[test]
fn sorting_by_value_puts_the_largest_slowdown_first() {
    let folder = Folder::before_and_after();
    let output = folder.view("--sort value --diff-profile before.hatchet after.hatchet");
    let names: Vec<&str> =
        output.lines().filter_map(|line| line.split_once("─ ")).map(|(_, name)| name).collect();
    assert_eq!(names, ["copy", "new", "old", "gemm"]);
}

#[test]
fn json_and_csv_have_the_four_values_and_the_change() {
    let folder = Folder::before_and_after();
    let line = "--json -m time --diff-profile before.hatchet after.hatchet";
    let document = json(&folder.view(line));
    assert_eq!(
        (&document["file"], &document["before"]),
        (&"after.hatchet".into(), &"before.hatchet".into())
    );
    let nodes = document["nodes"].as_array().unwrap();
    let found = |name: &str| nodes.iter().find(|node| node["name"] == name).unwrap();
    assert_snapshot!(found("gemm"), @r#"{"change":null,"depth":1,"id":2,"kind":null,"metrics":{"time (ns) (inc)":{"after":5000.0,"before":8000.0,"difference":-3000.0,"ratio":0.625}},"name":"gemm","parent":0}"#);
    assert_snapshot!(found("new"), @r#"{"change":"added","depth":1,"id":3,"kind":null,"metrics":{"time (ns) (inc)":{"after":700.0,"before":null,"difference":700.0,"ratio":null}},"name":"new","parent":0}"#);
    assert_snapshot!(found("old"), @r#"{"change":"removed","depth":1,"id":4,"kind":null,"metrics":{"time (ns) (inc)":{"after":null,"before":300.0,"difference":-300.0,"ratio":null}},"name":"old","parent":0}"#);
    assert_snapshot!(
        printed(&folder.view("--csv -m time --diff-profile before.hatchet after.hatchet")),
        @r"
    file,id,parent,depth,name,kind,change,time (ns) (inc) before,time (ns) (inc) after,time (ns) (inc) difference,time (ns) (inc) ratio
    after.hatchet,0,,0,ROOT,,,8800.0,7700.0,-1100.0,0.875
    after.hatchet,2,0,1,gemm,,,8000.0,5000.0,-3000.0,0.625
    after.hatchet,3,0,1,new,,added,,700.0,700.0,
    after.hatchet,1,0,1,copy,,,500.0,2000.0,1500.0,4.0
    after.hatchet,4,0,1,old,,removed,300.0,,-300.0,
    "
    );
}

#[test]
fn both_sides_must_have_the_same_metric() {
    let folder = Folder::new(&[("a.hatchet", AFTER), ("b.hatchet", OTHER)]);
    assert_snapshot!(refusal(&folder.view("-m count -diff b.hatchet a.hatchet")), @r"
    error: `b.hatchet` has no metric `count`
    hint: available: `time`, `note`, `total`, `self`
    ");
    assert_snapshot!(refusal(&folder.view("-m time -diff b.hatchet a.hatchet")), @r"
    error: `b.hatchet` has `time (us) (inc)` where `a.hatchet` has `time (ns) (inc)`
    hint: request times in one unit, such as `time/ms`
    ");
    assert_snapshot!(
        refusal(&folder.view("-diff b.hatchet a.hatchet")),
        @"error: `a.hatchet` and `b.hatchet` have no metric in common"
    );
    assert_eq!(
        stdout(&folder.view("-m time/us -diff b.hatchet a.hatchet -i gemm")),
        "-0.300 ROOT\n└─ -3.000 gemm\n\n"
    );
    assert_snapshot!(
        refusal(&folder.view("-m note --layout table -diff b.hatchet b.hatchet")),
        @"error: `b.hatchet`: `note` is not a number"
    );
}

#[test]
fn diff_takes_exactly_one_readable_file() {
    let folder = Folder::new(&[("a.hatchet", AFTER), ("b.hatchet", BEFORE)]);
    assert_snapshot!(
        refusal(&folder.view("--diff-profile a.hatchet b.hatchet a.hatchet")),
        @"error: --diff-profile takes exactly one other file"
    );
    assert_snapshot!(
        refusal(&folder.view("--diff-profile absent.hatchet a.hatchet")),
        @"error: cannot read `absent.hatchet`: No such file or directory (os error 2)"
    );
    assert_snapshot!(
        refusal(&folder.view("-m time -i new --diff-profile b.hatchet a.hatchet")),
        @"error: the filters remove all nodes of `b.hatchet`: no name matches `new`"
    );
}
