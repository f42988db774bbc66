//! Launches of tasks are attributed to the innermost scope of the task on the thread.

use crate::devices::{kernel, launch, report};
use crate::harness::{Fixture, RequestThread, on_thread, profile_of, scope};
use crate::profile::Profile;
use marey_record::api::TaskReceiver;
use marey_record::{Detached, NodeKind, api};
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::null;
use std::sync::Arc;

thread_local! {
    /// The innermost scope of the task that this thread runs.
    static RUNNING: RefCell<Option<Arc<Detached>>> = const { RefCell::new(None) };
}

#[expect(unsafe_code, reason = "the receiver is a C function")]
extern "C" fn provide_task(receive: TaskReceiver, receiver: *mut c_void) {
    let scope = RUNNING.with_borrow(Clone::clone);
    // SAFETY: the receiver belongs to the function, and the scope lives until the function returns.
    unsafe { receive(receiver, scope.as_ref().map_or(null(), Arc::as_ptr)) };
}

/// Resumes a task that is in this scope.
fn resume(task: Option<&Arc<Detached>>) {
    RUNNING.set(task.cloned());
}

fn enter(name: &str) -> Arc<Detached> {
    let parent = RUNNING.with_borrow(Clone::clone);
    let entered = api::enter_in_task(parent, api::intern(name), NodeKind::Scope).unwrap();
    resume(Some(&entered));
    entered
}

fn begin_with_tasks() -> Fixture {
    let fixture = Fixture::begin();
    api::set_task_provider(provide_task);
    resume(None);
    fixture
}

/// Reports a kernel for every launch up to this correlation id.
fn report_all(last: u32) {
    let kernels: Vec<_> = (1..=last).map(|number| kernel(number, "k", number.into())).collect();
    report(&kernels);
}

fn times(profile: &Profile) -> Vec<(&str, u64)> {
    let kernels = profile.nodes.iter().filter(|(path, _)| path.ends_with('k'));
    kernels
        .filter_map(|(path, node)| Some((path.as_str(), node["metrics"]["time (ns)"].as_u64()?)))
        .collect()
}

#[test]
fn launches_of_interleaved_tasks_are_in_their_scopes() {
    let fixture = begin_with_tasks();
    let session = fixture.start("tasks");
    scope("loop", || {
        launch(1);
        let a = enter("a");
        resume(None);
        let b = enter("b");
        resume(Some(&a));
        launch(2);
        resume(Some(&b));
        launch(4);
        let inner = enter("inner");
        launch(8);
        resume(Some(&a));
        launch(16);
        a.exit();
        resume(Some(&inner));
        inner.exit();
        resume(Some(&b));
        launch(32);
        b.exit();
        // A task that began in a scope stays in it after the scope was left.
        resume(Some(&a));
        launch(64);
        resume(None);
        launch(128);
    });
    report_all(128);
    assert_eq!(
        times(&profile_of(session)),
        [("loop/a/k", 82), ("loop/b/inner/k", 8), ("loop/b/k", 36), ("loop/k", 129)]
    );
}

#[test]
fn a_later_scope_of_the_thread_is_inside_the_task_s_scope() {
    let fixture = begin_with_tasks();
    let session = fixture.start("both");
    let task = enter("task");
    scope("range", || {
        launch(1);
        let inner = enter("inner");
        launch(2);
        resume(Some(&task));
        inner.exit();
        launch(4);
    });
    launch(8);
    // A training step is marey's and does not count: the task stays in its own scope.
    api::step_begin();
    launch(16);
    task.exit();
    resume(None);
    launch(32);
    report_all(32);
    assert_eq!(
        times(&profile_of(session)),
        [("range/k", 5), ("step/k", 32), ("task/inner/k", 2), ("task/k", 24)]
    );
}

#[test]
fn a_task_that_moves_to_another_thread_keeps_its_scopes() {
    let fixture = begin_with_tasks();
    let session = fixture.start("handed over");
    scope("main", || {
        let (a, b) = (enter("a"), enter("b"));
        on_thread("executor", move || {
            for (number, task) in (1..).zip([&a, &b, &b, &a]) {
                resume(Some(task));
                launch(number);
            }
            resume(Some(&b));
            let own = enter("own");
            launch(5);
            own.exit();
            resume(None);
            launch(6);
        });
    });
    resume(None);
    report_all(6);
    assert_eq!(
        times(&profile_of(session)),
        [("k", 6), ("main/a/b/k", 5), ("main/a/b/own/k", 5), ("main/a/k", 5)]
    );
}

#[test]
fn a_task_of_an_older_recording_is_ignored() {
    let fixture = begin_with_tasks();
    let first = fixture.start("first");
    let _old = enter("old");
    api::discard(first).unwrap();
    let second = fixture.start("second");
    scope("new", || launch(1));
    resume(None);
    report_all(1);
    assert_eq!(times(&profile_of(second)), [("new/k", 1)]);
}

#[test]
fn an_autograd_thread_follows_the_main_thread_into_its_task() {
    let fixture = begin_with_tasks();
    let session = fixture.start("autograd");
    let thread = RequestThread::start("pt_autograd_0", launch);
    let backward = |number| thread.request(number);
    scope("loop", || {
        let a = enter("a");
        resume(None);
        let b = enter("b");
        backward(1);
        // Another task resumes, which its launches show.
        resume(Some(&a));
        launch(2);
        backward(4);
        let inner = enter("inner");
        backward(8);
        resume(Some(&a));
        inner.exit();
        backward(16);
        resume(None);
        launch(32);
        backward(64);
        resume(Some(&b));
        launch(128);
        // The thread is in a later scope of the main thread's own stack.
        scope("range", || backward(256));
        b.exit();
        resume(None);
        backward(512);
    });
    thread.end();
    report_all(512);
    assert_eq!(
        times(&profile_of(session)),
        [
            ("loop/a/inner/k", 8),
            ("loop/a/k", 2 + 4 + 16),
            ("loop/b/k", 1 + 128),
            ("loop/k", 32 + 64 + 512),
            ("loop/range/k", 256),
        ]
    );
}
