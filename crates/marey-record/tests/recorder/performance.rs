//! Performance counters of scopes, with events that the kernel counts on every machine.

use crate::harness::{Fixture, fork, profile_of, scope};
use marey_record::api;
use marey_record::perf::PerfError;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts events until dropped.
struct Counting;

impl Counting {
    fn begin(events: &[&str]) -> Self {
        api::set_performance_events(events).unwrap();
        Self
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        api::set_performance_events(&[]).unwrap();
    }
}

const PAGE_BYTES: usize = 4096;

/// Writes to this many pages for the first time, with a page fault each.
#[expect(unsafe_code, reason = "std has no mmap(2)")]
fn touch_pages(pages: usize) {
    // SAFETY: a new mapping, which nobody else uses, written within its bounds and unmapped once.
    unsafe {
        let bytes = pages * PAGE_BYTES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let memory = libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        for page in 0..pages {
            memory.cast::<u8>().add(page * PAGE_BYTES).write_volatile(1);
        }
        libc::munmap(memory, bytes);
    }
}

#[test]
fn each_scope_has_the_events_that_happened_in_itself() {
    let (_fixture, session) = Fixture::with_session();
    let counting = Counting::begin(&["page_faults", "task-clock"]);
    for _ in 0..3 {
        scope("outer", || {
            touch_pages(10);
            scope("inner", || touch_pages(100));
            touch_pages(10);
        });
    }
    drop(counting);
    scope("outer", || scope("uncounted", || touch_pages(1000)));

    let profile = profile_of(session);
    let faults = |path| profile.metric(path, "page_faults").as_i64();
    let (outer, inner) = (faults("outer").unwrap(), faults("outer/inner").unwrap());
    assert!((60..300).contains(&outer), "{outer} page faults outside of the inner scope");
    assert!((300..400).contains(&inner), "{inner} page faults in the inner scope");
    assert!(profile.metric("outer/inner", "task_clock").as_i64().unwrap() > 0);
    assert_eq!(faults("outer/uncounted"), None);
    assert!(profile.losses().is_empty(), "{:?}", profile.losses());
}

#[test]
fn events_that_cannot_be_counted_are_refused_one_by_one() {
    let (_fixture, session) = Fixture::with_session();
    let requested = ["cycels", "page-faults", "r", "task_clock"];
    let results = api::set_possible_performance_events(&requested);
    let counting = Counting;
    scope("work", || touch_pages(100));
    drop(counting);
    assert!(matches!(results[..], [
        Err(PerfError::Unknown(_)),
        Ok(faults),
        Err(PerfError::Unknown(_)),
        Ok(clock),
    ] if Some(faults) == api::intern_metric("page_faults")
        && Some(clock) == api::intern_metric("task_clock")));
    let profile = profile_of(session);
    assert!(profile.number("work", "page_faults") >= 100);
    assert!(profile.number("work", "task_clock") > 0);
}

#[test]
fn more_events_than_a_group_has_are_refused() {
    let _fixture = Fixture::begin();
    let results = api::set_possible_performance_events(&["page_faults"; 9]);
    drop(Counting);
    assert!(matches!(results[8], Err(PerfError::TooMany(9))));
    assert!(results[..8].iter().all(Result::is_ok));
}

#[test]
fn each_thread_counts_for_itself() {
    let (_fixture, session) = Fixture::with_session();
    let counting = Counting::begin(&["page_faults"]);
    std::thread::scope(|threads| {
        threads.spawn(|| scope("thread", || scope("many", || touch_pages(500))));
        threads.spawn(|| scope("thread", || scope("few", || touch_pages(1))));
    });
    drop(counting);
    let profile = profile_of(session);
    assert!(profile.metric("thread/many", "page_faults").as_i64().unwrap() >= 500);
    assert!(profile.metric("thread/few", "page_faults").as_i64().unwrap() < 100);
}

#[test]
fn a_scope_that_was_open_before_has_no_count() {
    let (_fixture, session) = Fixture::with_session();
    let mut counting = None;
    scope("outer", || {
        counting = Some(Counting::begin(&["page_faults"]));
        scope("inner", || touch_pages(10));
    });
    drop(counting);
    let profile = profile_of(session);
    assert!(profile.metric("outer", "page_faults").is_null());
    assert!(profile.metric("outer/inner", "page_faults").as_i64().unwrap() >= 10);
}

#[test]
fn scopes_that_were_open_when_the_events_changed_have_no_count() {
    let (_fixture, session) = Fixture::with_session();
    let mut counting = vec![Counting::begin(&["page_faults"])];
    scope("outer", || {
        scope("middle", || {
            touch_pages(100);
            counting.push(Counting::begin(&["task-clock"]));
            scope("inner", || touch_pages(100));
        });
    });
    drop(counting);
    let profile = profile_of(session);
    for open in ["outer", "outer/middle"] {
        assert!(profile.metric(open, "task_clock").is_null(), "{open} counts page faults as time");
        assert!(profile.metric(open, "page_faults").is_null(), "{open}");
    }
    assert!(profile.metric("outer/middle/inner", "task_clock").as_i64().unwrap() > 0);
    assert!(profile.losses().is_empty(), "{:?}", profile.losses());
}

#[test]
fn events_that_cannot_be_counted_leave_the_previous_ones() {
    let (_fixture, session) = Fixture::with_session();
    let counting = Counting::begin(&["page_faults"]);
    let unknown = api::set_performance_events(&["page_faults", "cycle"]);
    assert!(matches!(unknown, Err(PerfError::Unknown(_))), "{unknown:?}");
    let too_many = api::set_performance_events(&["page_faults"; 9]);
    assert!(matches!(too_many, Err(PerfError::TooMany(9))), "{too_many:?}");
    // No processor counts a raw event with all bits set.
    let refused = api::set_performance_events(&["rffffffffffffffff"]).unwrap_err().to_string();
    let expected = "performance event `rffffffffffffffff` cannot be counted: ";
    assert!(refused.starts_with(expected), "{refused}");

    scope("still", || touch_pages(10));
    drop(counting);
    assert!(profile_of(session).metric("still", "page_faults").as_i64().unwrap() >= 10);
}

static SESSION: AtomicU32 = AtomicU32::new(0);

#[test]
fn a_forked_child_counts_for_itself() {
    let fixture = Fixture::begin();
    SESSION.store(fixture.start("fork"), Ordering::Relaxed);
    let counting = Counting::begin(&["page_faults"]);
    scope("parent", || touch_pages(1));
    let status = fork(|| {
        scope("child", || touch_pages(500));
        let profile = profile_of(SESSION.load(Ordering::Relaxed));
        i32::from(profile.metric("child", "page_faults").as_i64() < Some(500))
    });
    assert_eq!(status, 0);
    drop(counting);
}
