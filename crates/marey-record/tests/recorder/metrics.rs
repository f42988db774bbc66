//! User metrics: their nodes and their sums.

use crate::harness::{Fixture, profile_of, scope};
use marey_model::metric::MetricValue::{self, Float, Floats, Int, Ints, Text};
use marey_record::{NodeKind, api};
use serde_json::json;

fn add(name: &str, value: MetricValue) -> Result<(), String> {
    let number = api::intern_metric(name).unwrap();
    api::add_metrics(&[(number, value)]).map_err(|error| error.to_string())
}

#[test]
fn values_are_summed_on_their_scope() {
    let (_fixture, session) = Fixture::with_session();
    for _ in 0..3 {
        scope("a", || {
            add("count of a", Int(2)).unwrap();
            add("ratio", Float(0.5)).unwrap();
            add("shape", Ints(vec![1, -1])).unwrap();
            add("weights", Floats(vec![0.25])).unwrap();
            scope("b", || add("count of b", Int(1)).unwrap());
        });
    }
    let profile = profile_of(session);
    assert_eq!(profile.metric("a", "count of a"), 6);
    assert_eq!(profile.metric("a", "ratio"), 1.5);
    assert_eq!(profile.metric("a", "shape"), &json!([3, -3]));
    assert_eq!(profile.metric("a", "weights"), &json!([0.75]));
    assert_eq!(profile.metric("a/b", "count of b"), 3);
    assert!(profile.metric("a", "count of b").is_null());
}

#[test]
fn a_suffix_sets_the_aggregation_and_is_not_in_the_key() {
    let (_fixture, session) = Fixture::with_session();
    for value in [1, 10] {
        scope("a", || {
            add("rolled (inc)", Int(value)).unwrap();
            add("own (ns)(exc)", Int(value)).unwrap();
            add("last (pty)", Int(value)).unwrap();
            add("label", Text(format!("run {value}").into())).unwrap();
            add("shape (pty)", Ints(vec![value; value as usize])).unwrap();
        });
    }
    let profile = profile_of(session);
    assert_eq!(profile.metric("a", "rolled"), 11);
    assert_eq!(profile.metric("a", "own (ns)"), 11);
    assert_eq!(profile.metric("a", "last"), 10);
    assert_eq!(profile.metric("a", "label"), "run 10");
    assert_eq!(profile.metric("a", "shape"), &json!(vec![10; 10]));
    // Readers roll up the metrics that the root has.
    let root_metrics = profile.nodes[""]["metrics"].as_object().unwrap();
    assert_eq!(root_metrics, json!({"rolled": 0}).as_object().unwrap());
}

#[test]
fn a_value_of_another_type_or_length_is_refused() {
    let (_fixture, session) = Fixture::with_session();
    scope("a", || {
        add("m", Float(1.0)).unwrap();
        add("v", Ints(vec![1, 2])).unwrap();
        assert_eq!(
            add("m", Int(1)).unwrap_err(),
            "Metric value type mismatch for valueId 0 (m): current=double, new=int64_t"
        );
        assert_eq!(
            add("v", Ints(vec![1])).unwrap_err(),
            "Metric vector size mismatch for valueId 0 (v): current=2, new=1"
        );
        // Another scope may have another type.
        scope("b", || add("m", Int(1)).unwrap());
    });
    let profile = profile_of(session);
    assert_eq!((profile.metric("a", "m"), profile.metric("a/b", "m")), (&json!(1.0), &json!(1)));
    assert_eq!(profile.metric("a", "v"), &json!([1, 2]));
    assert_eq!(profile.losses(), [("metrics_refused", 2)]);
}

#[test]
fn a_value_outside_of_any_scope_is_added_to_the_root() {
    let (_fixture, session) = Fixture::with_session();
    add("at root", Int(7)).unwrap();
    assert_eq!(profile_of(session).metric("", "at root"), 7);
    api::enter_state(api::intern("state"));
    add("in state", Int(8)).unwrap();
    api::exit_state();
    assert_eq!(profile_of(session).metric("state", "in state"), 8);
}

#[test]
fn an_inactive_session_records_no_value() {
    let fixture = Fixture::begin();
    let (on, off) = (fixture.start("on"), fixture.start("off"));
    scope("a", || {
        api::deactivate(off).unwrap();
        add("m", Int(1)).unwrap();
        api::activate(off).unwrap();
    });
    assert_eq!(profile_of(on).metric("a", "m"), 1);
    assert!(profile_of(off).metric("a", "m").is_null());
}

#[test]
fn threads_add_to_one_sum() {
    let (_fixture, session) = Fixture::with_session();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                scope("a", || {
                    add("m", Int(1)).unwrap();
                    add("v", Floats(vec![0.5, 1.0])).unwrap();
                });
            });
        }
    });
    let profile = profile_of(session);
    assert_eq!(profile.metric("a", "m"), 4);
    assert_eq!(profile.metric("a", "v"), &json!([2.0, 4.0]));
}

#[test]
fn costs_of_sampled_calls_are_extrapolated_to_all_calls() {
    let (_fixture, session) = Fixture::with_session();
    let operators = ["sampled", "all", "unknown"].map(api::intern);
    let metric = |name: &str| api::intern_metric(name).unwrap();
    let (calls, flops, bytes) = (metric("sampled_calls (exc)"), metric("flops32"), metric("bytes"));
    for call in 0..4 {
        for operator in operators {
            api::enter(operator, NodeKind::Operator);
            if call == 1 || api::name(operator).as_ref() == "all" {
                let cost = [(calls, 1.0), (flops, 24.0), (bytes, 8.0)];
                let is_known = api::name(operator).as_ref() != "unknown";
                let call = api::record_inputs(operator, 0).unwrap();
                api::add_to_operator(call, &cost[..if is_known { 3 } else { 1 }]);
            }
            api::exit(operator);
        }
    }
    let profile = profile_of(session);
    for (operator, sampled_calls) in
        [("sampled", json!(1.0)), ("all", json!(null)), ("unknown", json!(null))]
    {
        assert_eq!(*profile.metric(operator, "sampled_calls"), sampled_calls, "{operator}");
    }
    for operator in ["sampled", "all"] {
        assert_eq!(*profile.metric(operator, "flops32"), json!(96.0));
        assert_eq!(*profile.metric(operator, "bytes"), json!(32.0));
    }
}
