//! The run directory: whose it is, where it cannot be had, and who else is at it.

use crate::harness::{Over, Role, Turn, part, scope};
use crate::spool::{Spool, spool_of};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_record::{Format, SessionId, SessionOptions, api};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn start(path: &Path, format: Format) -> Result<SessionId, marey_record::Error> {
    api::start(&SessionOptions { format, ..SessionOptions::named(path.to_str().unwrap()) })
}

/// Records a run with one scope.
fn record(path: &Path) {
    let session = start(path, Format::Run).unwrap();
    scope("a", || ());
    api::finalize(session, None).unwrap();
}

#[test]
fn who_asks_whether_a_run_is_recorded_does_not_keep_the_next_one_from_its_name() {
    const RUNS: usize = 200;
    let turn = Turn::begin();
    let (path, lock) = (turn.path("trace"), turn.path("trace.marey/.recording"));
    let over = Over::default();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.is_over() {
                // Whoever finds the lock free holds it until it is dropped.
                drop(File::open(&lock).map(|file| file.try_lock()));
            }
        });
        let _course = over.course();
        (0..RUNS).for_each(|_| record(&path));
    });
    assert_eq!(turn.files().len(), RUNS);
}

#[test]
fn a_file_in_place_of_the_directory_is_told_of() {
    let turn = Turn::begin();
    File::create(turn.path("trace.marey")).unwrap();
    let error = start(&turn.path("trace"), Format::Run).unwrap_err().to_string();
    assert!(error.contains("trace.marey"), "{error}");
}

#[test]
fn a_link_in_place_of_the_lock_is_not_followed() {
    let turn = Turn::begin();
    fs::create_dir(turn.path("trace.marey")).unwrap();
    symlink(turn.path("elsewhere"), turn.path("trace.marey/.recording")).unwrap();
    assert!(start(&turn.path("trace"), Format::Run).is_err());
    assert_eq!(turn.files(), ["trace.marey"]);
}

#[test]
fn an_earlier_run_that_cannot_be_moved_is_joined() {
    const TEST: &str = "runs::an_earlier_run_that_cannot_be_moved_is_joined";
    if let Some((_, folder)) = part() {
        be_an_ordinary_user();
        return record(&folder.join("trace"));
    }
    let turn = Turn::begin();
    let set_mode = |mode| fs::set_permissions(turn.path("."), Permissions::from_mode(mode));
    for mode in [0o777, 0o555] {
        set_mode(mode).unwrap();
        Role::new(TEST, "run", &turn).run(&[]);
    }
    set_mode(0o777).unwrap();
    assert_eq!(turn.files(), ["trace.marey"]);
    assert_eq!(turn.path("trace.marey/spool").read_dir().unwrap().count(), 2);
}

/// The rights of a folder do not hold for root.
#[expect(unsafe_code, reason = "a process gives up its rights by a system call")]
fn be_an_ordinary_user() {
    const NOBODY: libc::uid_t = 65_534;
    // SAFETY: system calls that take plain numbers.
    unsafe { assert!(libc::geteuid() != 0 || libc::setuid(NOBODY) == 0) };
}

#[test]
fn a_spool_that_is_taken_away_once_it_is_complete_still_becomes_a_chrome_trace() {
    let turn = Turn::begin();
    for at in 0..200 {
        let path = turn.path(&format!("trace {at}"));
        let session = start(&path, Format::ChromeTrace).unwrap();
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
fn distinct_texts_cost_neither_each_other_nor_names() {
    const TEST: &str = "runs::distinct_texts_cost_neither_each_other_nor_names";
    const TEXTS: usize = 3_600;
    // A table of names would hold 3,300 of them.
    let text = |at: usize| format!("{at}{}", "x".repeat(10_000));
    if let Some((_, folder)) = part() {
        let session = start(&folder.join("trace"), Format::Run).unwrap();
        let metric = api::intern_metric("prompt").unwrap();
        for at in 0..TEXTS {
            let name = api::intern(&format!("scope {at}"));
            api::enter(name, NodeKind::Scope);
            api::add_metrics(&[(metric, MetricValue::Text(text(at).into()))]).unwrap();
            api::exit(name);
        }
        api::finalize(session, None).unwrap();
        return;
    }
    let turn = Turn::begin();
    Role::new(TEST, "run", &turn).run(&[("MAREY_TRACE_BUFFER_BYTES", "67108864")]);
    let spool = Spool::read(&spool_of(&turn.path("trace")));
    assert_eq!(spool.lost(LossCause::TraceBuffer), 0);
    let [thread] = spool.threads.values().collect::<Vec<_>>()[..] else { panic!("one thread") };
    assert_eq!(thread.values.len(), TEXTS);
    for (at, (path, _, value)) in thread.values.iter().enumerate() {
        assert_eq!(*path, format!("scope {at}"));
        assert_eq!(*value, MetricValue::Text(text(at).into()));
    }
}
