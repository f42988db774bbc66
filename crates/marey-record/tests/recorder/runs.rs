//! The run directory: ownership, errors, and other users.

use crate::harness::{
    Fixture, StopFlag, Subprocess, options, run_in_subprocess, scope, start, start_trace,
};
use crate::spool::{Spool, spool_of};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_record::{Format, api};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Records a run with one scope.
fn record(path: &Path) {
    let session = start(path, Format::Run);
    scope("a", || ());
    api::finalize(session, None).unwrap();
}

#[test]
fn polling_the_lock_does_not_cost_the_next_run_its_name() {
    const RUNS: usize = 200;
    let fixture = Fixture::begin();
    let (path, lock) = (fixture.path("trace"), fixture.path("trace.marey/.recording"));
    let stop = StopFlag::default();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.is_set() {
                // A successful attempt holds the lock until the file is dropped.
                drop(File::open(&lock).map(|file| file.try_lock()));
            }
        });
        let _stop_guard = stop.guard();
        (0..RUNS).for_each(|_| record(&path));
    });
    assert_eq!(fixture.files().len(), RUNS);
}

#[test]
fn a_file_in_place_of_the_directory_is_an_error() {
    let fixture = Fixture::begin();
    File::create(fixture.path("trace.marey")).unwrap();
    let options = options(fixture.path("trace"), Format::Run);
    let error = api::start(&options).unwrap_err().to_string();
    assert!(error.contains("trace.marey"), "{error}");
}

#[test]
fn a_link_in_place_of_the_lock_is_not_followed() {
    let fixture = Fixture::begin();
    fs::create_dir(fixture.path("trace.marey")).unwrap();
    symlink(fixture.path("elsewhere"), fixture.path("trace.marey/.recording")).unwrap();
    assert!(api::start(&options(fixture.path("trace"), Format::Run)).is_err());
    assert_eq!(fixture.files(), ["trace.marey"]);
}

#[test]
fn an_earlier_run_that_cannot_be_moved_is_joined() {
    let Some(subprocess) = Subprocess::of(|_| {
        drop_privileges();
        record(Path::new("trace"));
    }) else {
        return;
    };
    let fixture = Fixture::begin();
    let set_mode = |mode| fs::set_permissions(fixture.path("."), Permissions::from_mode(mode));
    for mode in [0o777, 0o555] {
        set_mode(mode).unwrap();
        subprocess.run("run", &fixture, &[]);
    }
    set_mode(0o777).unwrap();
    assert_eq!(fixture.files(), ["trace.marey"]);
    assert_eq!(fixture.path("trace.marey/spool").read_dir().unwrap().count(), 2);
}

/// Permissions of a folder do not apply to root.
#[expect(unsafe_code, reason = "a process drops its privileges by a system call")]
fn drop_privileges() {
    const NOBODY_UID: libc::uid_t = 65_534;
    // SAFETY: system calls that take plain numbers.
    unsafe { assert!(libc::geteuid() != 0 || libc::setuid(NOBODY_UID) == 0) };
}

#[test]
fn a_complete_spool_that_is_collected_still_becomes_a_chrome_trace() {
    let fixture = Fixture::begin();
    for number in 0..200 {
        let path = fixture.path(&format!("trace {number}"));
        let session = start_trace(&path);
        scope("a", || ());
        let spool = spool_of(&path);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !Spool::read(&spool).has_end {}
                fs::remove_file(&spool).unwrap();
            });
            api::finalize(session, None).unwrap();
        });
    }
}

#[test]
fn distinct_texts_do_not_fill_the_table_of_names() {
    const TEXTS: usize = 3_600;
    // A table of names would take 3,300 of them.
    let text = |number: usize| format!("{number}{}", "x".repeat(10_000));
    let Some(fixture) = run_in_subprocess(&[("MAREY_TRACE_BUFFER_BYTES", "67108864")], || {
        let session = start("trace", Format::Run);
        let metric = api::intern_metric("prompt").unwrap();
        for number in 0..TEXTS {
            let name = api::intern(&format!("scope {number}"));
            api::enter(name, NodeKind::Scope);
            api::add_metrics(&[(metric, MetricValue::Text(text(number).into()))]).unwrap();
            api::exit(name);
        }
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let spool = Spool::of(fixture.path("trace"));
    assert_eq!(spool.loss_count(LossCause::TraceBuffer), 0);
    let [thread] = spool.threads.values().collect::<Vec<_>>()[..] else { panic!("one thread") };
    assert_eq!(thread.values.len(), TEXTS);
    for (number, (path, _, value)) in thread.values.iter().enumerate() {
        assert_eq!(*path, format!("scope {number}"));
        assert_eq!(*value, MetricValue::Text(text(number).into()));
    }
}
