//! Scopes, states and operators of one thread, and unmatched exits.

use crate::harness::{Fixture, enter, exit, profile_of, scope};
use crate::profile::Profile;
use marey_record::{ContextSource, Format, NodeKind, SessionOptions, api};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn nested_scopes_make_a_tree() {
    let (_fixture, session) = Fixture::with_session();
    for _ in 0..3 {
        scope("a", || {
            scope("b", || scope("a", || ()));
            scope("c", || ());
        });
    }
    scope("b", || ());
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("a", 3), ("a/b", 3), ("a/b/a", 3), ("a/c", 3), ("b", 1)]);
    assert_eq!(profile.losses(), []);
}

#[test]
fn exclusive_time_excludes_inner_scopes() {
    let (_fixture, session) = Fixture::with_session();
    scope("outer", || {
        scope("inner", busy);
        busy();
        scope("inner", busy);
    });
    let profile = profile_of(session);
    let (outer, inner) = (
        profile.number("outer", "wall_total (ns)"),
        profile.number("outer/inner", "wall_total (ns)"),
    );
    assert_eq!(profile.number("outer", "wall_self (ns)"), outer - inner);
    assert_eq!(profile.number("outer/inner", "wall_self (ns)"), inner);
    assert!(outer - inner >= BUSY_NANOS && inner >= 2 * BUSY_NANOS);
}

const BUSY_NANOS: u64 = 200_000;

fn busy() {
    let start = std::time::Instant::now();
    while start.elapsed().as_nanos() < u128::from(BUSY_NANOS) {}
}

#[test]
fn an_open_scope_is_shown_with_its_time_so_far() {
    let (_fixture, session) = Fixture::with_session();
    scope("closed", || {
        enter("open");
        busy();
        let profile = profile_of(session);
        assert_eq!(profile.counts(), [("closed", 0), ("closed/open", 0)]);
        assert_eq!(profile.number("closed/open", "wall_open"), 1);
        assert!(profile.number("closed/open", "wall_total (ns)") >= BUSY_NANOS);
        exit("open");
    });
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("closed", 1), ("closed/open", 1)]);
    assert!(profile.metric("closed/open", "wall_open").is_null());
}

#[test]
fn every_scope_has_a_unique_id() {
    let (_fixture, _session) = Fixture::with_session();
    let (a, b) = (enter("a"), enter("b"));
    assert!(a != 0 && b != 0 && a != b);
    assert_eq!(api::innermost_name_id(), api::intern("b"));
    assert_eq!(api::exit(0), b);
    assert_eq!(exit("a"), a);
    assert_eq!(api::innermost_name_id(), 0);
}

#[test]
fn nothing_is_recorded_without_a_session() {
    let _exclusive = Fixture::begin();
    assert_eq!(enter("nothing"), 0);
    assert_eq!(exit("nothing"), 0);
    api::enter_state(api::intern("nothing"));
    assert!(!api::exit_state());
    assert_eq!(api::innermost_name_id(), 0);
}

#[test]
fn states_nest_below_their_scope() {
    let (_fixture, session) = Fixture::with_session();
    let operate = |name: &str| {
        let name = api::intern(name);
        api::enter_operator(name);
        api::exit_operator(name);
    };
    scope("a", || {
        api::enter_state(api::intern("outer"));
        operate("in outer");
        api::enter_state(api::intern("inner"));
        operate("in inner");
        assert!(api::exit_state());
        operate("in outer again");
        assert!(api::exit_state());
        assert!(!api::exit_state());
        operate("in none");
    });
    let profile = profile_of(session);
    assert_eq!(
        profile.counts(),
        [
            ("a", 1),
            ("a/in none", 1),
            ("a/inner", 1),
            ("a/inner/in inner", 1),
            ("a/outer", 1),
            ("a/outer/in outer", 1),
            ("a/outer/in outer again", 1),
        ]
    );
    assert_eq!((profile.kind("a/outer"), profile.kind("a/in none")), ("state", "operator"));
}

#[test]
fn a_state_around_a_scope_takes_the_scope_s_metrics() {
    use marey_model::metric::MetricValue;
    let (_fixture, session) = Fixture::with_session();
    let items = api::intern_metric("items").unwrap();
    api::enter_state(api::intern("warm"));
    scope("a", || api::add_metrics(&[(items, MetricValue::Int(3))]).unwrap());
    api::exit_state();
    let profile = profile_of(session);
    assert_eq!(profile.metric("a/warm", "items"), 3);
    assert!(profile.metric("a", "items").is_null());
}

#[test]
fn operators_inside_an_operator_are_not_recorded() {
    let (_fixture, session) = Fixture::with_session();
    let (outer, inner) = (api::intern("outer"), api::intern("inner"));
    let id = api::enter_operator(outer);
    assert_eq!(api::enter_operator(inner), 0);
    assert_eq!(api::exit_operator(inner), 0);
    assert_eq!(api::exit_operator(outer), id);
    assert_eq!(profile_of(session).counts(), [("outer", 1)]);
}

#[test]
fn an_unmatched_exit_is_counted_and_changes_nothing() {
    let (_fixture, session) = Fixture::with_session();
    assert_eq!(exit("nobody"), 0);
    scope("a", || assert_eq!(exit("nobody"), 0));
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("a", 1)]);
    assert_eq!(profile.losses(), [("unmatched_exits", 2)]);
}

#[test]
fn an_exit_ends_inner_scopes() {
    let (_fixture, session) = Fixture::with_session();
    for name in ["a", "b", "c"] {
        enter(name);
    }
    assert_ne!(exit("a"), 0);
    assert_eq!(exit("c"), 0);
    scope("d", || ());
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("a", 1), ("a/b", 1), ("a/b/c", 1), ("d", 1)]);
    assert_eq!(profile.losses(), [("unclosed_scopes", 2), ("unmatched_exits", 1)]);
}

#[test]
fn kinds_distinguish_nodes_of_one_name() {
    let (_fixture, session) = Fixture::with_session();
    let name = api::intern("layer");
    for kind in [NodeKind::Scope, NodeKind::Module, NodeKind::Module] {
        api::enter(name, kind);
        api::exit(name);
    }
    let document = api::get_data(session, 0, marey_record::Format::Hatchet).unwrap();
    let root: serde_json::Value = serde_json::from_slice(&document).unwrap();
    let children = root[0]["children"].as_array().unwrap();
    let seen: Vec<_> = children
        .iter()
        .map(|child| (child["marey"]["kind"].as_str().unwrap(), &child["metrics"]["wall_count"]))
        .collect();
    assert_eq!(seen, [("scope", &1.into()), ("module", &2.into())]);
}

/// A fake provider of Python frames: `main`, then `step`.
extern "C" fn two_frames() -> u32 {
    let (root, _) = api::frame_root();
    let main = api::frame_child(root, api::intern("train.py:9@<module>"));
    api::frame_child(main, api::intern("train.py:3@step"))
}

#[test]
fn a_python_session_and_a_scope_session_coexist() {
    let fixture = Fixture::begin();
    let shadow = fixture.start("shadow");
    let options =
        SessionOptions { context: ContextSource::Python, ..fixture.options("python-frames") };
    let python = api::start(&options).unwrap();
    api::set_frame_provider(two_frames);
    scope("a", || scope("b", || ()));
    assert_eq!(profile_of(shadow).counts(), [("a", 1), ("a/b", 1)]);
    let profile = profile_of(python);
    let step = "train.py:9@<module>/train.py:3@step";
    assert_eq!(
        profile.counts(),
        [
            ("train.py:9@<module>", 0),
            (step, 0),
            (&*format!("{step}/a"), 1),
            (&*format!("{step}/b"), 1),
        ]
    );
    assert_eq!(profile.kind(step), "frame");
    assert_eq!(api::context_source(python).unwrap(), ContextSource::Python);
}

/// The maximum depth of scopes: `serde_json`, which reads the files here, supports about 60.
const MAX_DEPTH: usize = 50;

/// A program: it enters one of four names, or exits the innermost scope.
fn programs() -> impl Strategy<Value = Vec<Option<u8>>> {
    let actions = prop::collection::vec(prop::option::weighted(0.55, 0_u8..4), 0..200);
    actions.prop_map(|mut actions| {
        let mut depth = 0_usize;
        actions.retain(|action| {
            depth = if action.is_some() { depth + 1 } else { depth.saturating_sub(1) };
            let is_too_deep = depth > MAX_DEPTH;
            depth = depth.min(MAX_DEPTH);
            !is_too_deep
        });
        actions
    })
}

/// Returns the expected counts of a program, and the scopes that it leaves open.
fn expected_counts(program: &[Option<u8>]) -> (BTreeMap<String, u64>, Vec<String>) {
    let (mut counts, mut stack) = (BTreeMap::new(), Vec::<String>::new());
    for action in program {
        match action {
            Some(name) => {
                let path = stack.last().map_or(format!("n{name}"), |top| format!("{top}/n{name}"));
                counts.entry(path.clone()).or_insert(0);
                stack.push(path);
            }
            None => {
                if let Some(path) = stack.pop() {
                    *counts.get_mut(&path).unwrap() += 1;
                }
            }
        }
    }
    let entered = |path: &String| counts[path] > 0 || stack.contains(path);
    let shown = counts.keys().filter(|path| entered(path)).cloned().collect::<Vec<_>>();
    (shown.into_iter().map(|path| (path.clone(), counts[&path])).collect(), stack)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn any_program_yields_the_tree_of_its_scopes(program in programs()) {
        let (_fixture, session) = Fixture::with_session();
        for action in &program {
            match action {
                Some(name) => prop_assert_ne!(enter(&format!("n{name}")), 0),
                None => { api::exit(0); }
            }
        }
        let (counts, stack) = expected_counts(&program);
        prop_assert_eq!(api::stack_depth(session).unwrap() as usize, stack.len());
        let profile: Profile = profile_of(session);
        let seen: BTreeMap<_, _> =
            profile.counts().into_iter().map(|(path, count)| (path.to_owned(), count)).collect();
        prop_assert_eq!(seen, counts);
    }
}

/// An operation between scopes that are entered repeatedly.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Enter(usize, NodeKind),
    /// Exits the innermost scope.
    Exit,
    /// Exits only the scope this many levels below the innermost one.
    ExitBelow(usize),
    EnterState,
    ExitState,
    /// Activates or deactivates another session.
    OtherSession,
    OtherPhase,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let kinds = prop_oneof![4 => Just(NodeKind::Scope), 1 => Just(NodeKind::Module)];
    let operation = prop_oneof![
        60 => (0..3_usize, kinds).prop_map(|(name, kind)| Operation::Enter(name, kind)),
        60 => Just(Operation::Exit),
        6 => (1..3_usize).prop_map(Operation::ExitBelow),
        2 => Just(Operation::EnterState),
        2 => Just(Operation::ExitState),
        1 => Just(Operation::OtherSession),
        1 => Just(Operation::OtherPhase),
    ];
    prop::collection::vec(operation, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Cached links must not be used when they no longer apply.
    #[test]
    fn scopes_are_found_again_after_any_operations(operations in operations()) {
        const NAMES: [&str; 3] = ["a", "b", "c"];
        const MAX_OPEN_SCOPES: usize = 8;
        let fixture = Fixture::begin();
        let (session, other) = (fixture.start("again"), fixture.start("other"));
        let mut is_other_active = true;
        let (mut open, mut states) = (Vec::<(u64, String, usize)>::new(), Vec::new());
        let mut expected = BTreeMap::<String, u64>::new();
        let mut count = |path: String, by| *expected.entry(path).or_insert(0) += by;
        for &operation in &operations {
            let parent = open.last().map_or("", |(_, path, _)| path);
            match operation {
                Operation::Enter(..) if open.len() == MAX_OPEN_SCOPES => {}
                Operation::Enter(name, kind) => {
                    // Names differ by kind, so that each path is one node.
                    let text = format!("{}{}", kind.as_str(), NAMES[name]);
                    let path = if parent.is_empty() { text.clone() } else { format!("{parent}/{text}") };
                    let id = api::enter(api::intern(&text), kind);
                    count(path.clone(), 0);
                    open.push((id, path, api::intern(&text) as usize));
                }
                Operation::Exit => {
                    if let Some((id, path, name)) = open.pop() {
                        prop_assert_eq!(api::exit(name as u32), id);
                        count(path, 1);
                    }
                }
                Operation::ExitBelow(below) => {
                    if let Some(index) = open.len().checked_sub(below + 1) {
                        let (id, path, _) = open.remove(index);
                        prop_assert!(api::exit_only(id));
                        count(path, 1);
                    }
                }
                Operation::EnterState => {
                    let path = if parent.is_empty() { "s".to_owned() } else { format!("{parent}/s") };
                    api::enter_state(api::intern("s"));
                    count(path.clone(), 0);
                    states.push(path);
                }
                Operation::ExitState => {
                    prop_assert_eq!(api::exit_state(), !states.is_empty());
                    if let Some(path) = states.pop() {
                        count(path, 1);
                    }
                }
                Operation::OtherSession if is_other_active => {
                    api::deactivate(other).unwrap();
                    is_other_active = false;
                }
                Operation::OtherSession => {
                    api::activate(other).unwrap();
                    is_other_active = true;
                }
                Operation::OtherPhase => {
                    api::advance_phase(other).unwrap();
                }
            }
        }
        let profile = profile_of(session);
        let mut seen: BTreeMap<_, _> =
            profile.counts().into_iter().map(|(path, count)| (path.to_owned(), count)).collect();
        // A state without data has no node: it is listed in its parent.
        for (path, node) in &profile.nodes {
            for state in node["marey"]["states"].as_array().into_iter().flatten() {
                let path = if path.is_empty() { "s".to_owned() } else { format!("{path}/s") };
                seen.insert(path, state["metrics"]["wall_count"].as_u64().unwrap_or(0));
            }
        }
        // In a process that runs several tests, an open scope would keep the slots of its sessions.
        for (id, ..) in open.drain(..).rev() {
            api::exit_only(id);
        }
        expected.retain(|path, count| *count > 0 || seen.contains_key(path));
        prop_assert_eq!(seen, expected);
    }
}

#[test]
fn an_exit_by_an_unknown_name_does_nothing() {
    let (_fixture, session) = Fixture::with_session();
    for _ in 0..4 {
        assert_eq!(api::exit(u32::MAX), 0);
        enter("open");
        assert_eq!(api::exit(u32::MAX), 0);
        assert_ne!(exit("open"), 0);
    }
    assert_eq!(profile_of(session).counts(), [("open", 4)]);
}

#[test]
fn a_kind_is_part_of_a_scope_s_identity() {
    let (_fixture, session) = Fixture::with_session();
    let name = api::intern("same");
    for _ in 0..4 {
        for kind in [NodeKind::Scope, NodeKind::Module, NodeKind::Operator] {
            api::enter(name, kind);
            api::exit(name);
        }
        // An unknown kind means a plain scope.
        api::enter_kind(name, 77);
        api::exit(name);
    }
    let document = api::get_data(session, 0, Format::Hatchet).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    let children = document[0]["children"].as_array().unwrap();
    let seen: BTreeMap<_, _> = children
        .iter()
        .map(|child| (child["marey"]["kind"].as_str(), child["metrics"]["wall_count"].as_u64()))
        .collect();
    let expected = [("module", 4), ("operator", 4), ("scope", 8)];
    assert_eq!(seen, expected.map(|(kind, count)| (Some(kind), Some(count))).into());
}

#[test]
fn a_launch_hook_s_operator_is_recorded_inside_a_framework_s() {
    let (_fixture, session) = Fixture::with_session();
    let (framework, launched) = (api::intern("aten::mm"), api::intern("kernel"));
    for _ in 0..4 {
        api::enter_in_current_task(framework, NodeKind::Operator);
        api::enter_in_current_task(framework, NodeKind::Operator);
        api::enter_operator(launched);
        // Only operators of launch hooks do not nest.
        api::enter_operator(launched);
        api::exit_operator(launched);
        api::exit_operator(launched);
        api::exit(framework);
        api::exit(framework);
    }
    assert_eq!(
        profile_of(session).counts(),
        [("aten::mm", 4), ("aten::mm/aten::mm", 4), ("aten::mm/aten::mm/kernel", 4)]
    );
}
