//! Filters, and nodes that are left out.

use marey_query::graph::{ColumnOperator, Filter, FilterError, Threshold};

use crate::{STEP, graph, show};

#[test]
fn patterns_have_pythons_syntax() {
    let graph = graph("ROOT\n  f<float>\n    leaf n=1\n  a[b] n=1\n  a&~b n=1\n  x] n=1\n");
    for (pattern, name) in [
        (r"\w\<float\>", "f<float>"),
        (r"a[[]b", "a[b]"),
        (r"[a-z[]+b\]\Z", "a[b]"),
        (r"a[&&~]{2}b", "a&~b"),
        (r"x[]]", "x]"),
        (r"x[^]a]|x\]", "x]"),
        (r"(?P<first>a)\[", "a[b]"),
    ] {
        let include = Filter { include: Some(pattern.into()), ..Filter::default() };
        let filtered = graph.filter(&include, "").unwrap();
        assert_eq!(&*filtered.nodes()[1].name, name, "{pattern}");
        assert!(filtered.nodes().len() <= 3, "{pattern}");
    }
}

#[test]
fn filters_recompute_sums_of_metrics_and_keep_derived_values() {
    let mut graph = graph(STEP);
    graph.derive(&["time/%"]).unwrap();
    let filtered = |filter: Filter| {
        let remaining = graph.filter(&filter, "time(ns) (inc)").unwrap();
        show(&remaining, &["time(ns) (inc)", "time/% (inc)"])
    };
    assert_eq!(
        filtered(Filter { include: Some("for".into()), ..Filter::default() }),
        "ROOT 41 100.0\n  step 41 100.0\n    forward 41 41.0\n      add 10 10.0\n      matmul 30 30.0\n"
    );
    assert_eq!(
        filtered(Filter { exclude: Some("ackward|matmul".into()), ..Filter::default() }),
        "ROOT 11 100.0\n  step 11 100.0\n    backward - 59.0\n    forward 11 41.0\n      add 10 10.0\n"
    );
    let reaching = |threshold| Filter { threshold: Some(threshold), ..Filter::default() };
    let large = "ROOT 60 100.0\n  step 60 100.0\n    backward 59 59.0\n      matmul 59 59.0\n    forward 1 41.0\n";
    assert_eq!(filtered(reaching(Threshold::Value(41.0))), large);
    assert_eq!(filtered(reaching(Threshold::Percent(41.0))), large);
}

#[test]
fn empty_results_and_bad_patterns_are_errors() {
    let graph = graph(STEP);
    let failure = |include: Option<&str>, exclude: Option<&str>, threshold| {
        let filter = Filter {
            include: include.map(Into::into),
            exclude: exclude.map(Into::into),
            threshold,
        };
        graph.filter(&filter, "time(ns) (inc)").unwrap_err()
    };
    assert_eq!(
        failure(Some("tep"), None, None).to_string(),
        "nothing is left of the profile: no name matches `tep`"
    );
    assert!(failure(None, Some("ROOT"), None).to_string().contains("matches every root"));
    assert!(matches!(failure(None, None, Some(Threshold::Value(1e9))), FilterError::Empty { .. }));
    assert!(matches!(failure(Some("("), None, None), FilterError::Pattern { .. }));
    assert!(
        graph
            .filter(&Filter { include: Some(r"(?!f)\w+ward".into()), ..Filter::default() }, "")
            .is_ok()
    );
}

#[test]
fn squashing_reattaches_children_and_merges_siblings_of_one_name() {
    let graph = graph(STEP);
    let is_kept: Vec<bool> = graph
        .nodes()
        .iter()
        .map(|node| !matches!(&*node.name, "step" | "forward" | "backward"))
        .collect();
    assert_eq!(
        show(&graph.squash(&is_kept), &["time(ns)", "count"]),
        "ROOT 0 0\n  add 10 1\n  matmul 89 9\n"
    );
    let is_kept: Vec<bool> = graph.nodes().iter().map(|node| node.depth >= 2).collect();
    let forest = graph.squash(&is_kept);
    assert_eq!(forest.children(None).count(), 2);
}

#[test]
fn siblings_of_one_name_stay_separate_until_a_filter() {
    let text = "
ROOT n=0
  x n=1
  x n=2
    y n=4
";
    let twins = graph(text);
    assert_eq!(show(&twins, &["n (inc)"]), "ROOT 7\n  x 1\n  x 6\n    y 4\n");
    let with_itself = twins.combine(&twins, ColumnOperator::Subtract, None);
    assert_eq!(with_itself.numbers("n (inc)").unwrap(), [0.0; 4]);
    let filter = Filter { include: Some("x".into()), ..Filter::default() };
    assert_eq!(show(&twins.filter(&filter, "").unwrap(), &["n (inc)"]), "ROOT 7\n  x 7\n    y 4\n");
}

#[test]
fn a_percentage_refers_to_the_largest_total() {
    assert_eq!(Threshold::Value(3.0).limit([5.0]).to_bits(), 3.0_f64.to_bits());
    let limit = Threshold::Percent(5.0).limit([f64::NAN, 200.0, 100.0]);
    assert_eq!(limit.to_bits(), 10.0_f64.to_bits());
    assert!(Threshold::Percent(5.0).limit([]).is_nan());
}

#[test]
fn a_node_is_kept_if_it_reaches_the_limit_in_one_column() {
    let graph = graph("ROOT\n  a x=1\n    b x=9\n  c x=1 y=8\n  d y=2\n");
    let columns = ["x".to_owned(), "y".to_owned()];
    let filtered = graph.filter_any(&columns, 8.0, "x").unwrap();
    assert_eq!(show(&filtered, &[]), "ROOT\n  a\n    b\n  c\n");
    let empty = graph.filter_any(&columns, 10.0, "x").map(|_| ());
    assert_eq!(empty, Err(FilterError::Empty { condition: "no x reaches 10".into() }));
    assert!(matches!(graph.filter_any(&["z".into()], 1.0, "z"), Err(FilterError::Metric(_))));
}
