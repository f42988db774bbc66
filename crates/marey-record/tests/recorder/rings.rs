//! Rings: traces that keep only their last records.

use crate::endpoint::ask_self;
use crate::harness::{
    Fixture, Subprocess, enter, finalize_all, fork, report_ready, run_and_kill, run_in_subprocess,
    scope, wait_for_end_of_stdin, wait_until,
};
use crate::spool::Spool;
use marey_model::endpoint::Request;
use marey_model::loss::LossCause;
use marey_model::spool::{SessionEvent, join_ring};
use marey_record::{Error, Format, SessionId, SessionOptions, api};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The number of records that the rings of these tests keep.
const RECORDS: usize = 1000;
/// The scopes between two checkpoints, at which a full segment ends.
const BURST: usize = 100;
const ENV: [(&str, &str); 2] = [("MAREY_RING_RECORDS", "1000"), ("MAREY_SYSTEM_METRICS_SECS", "0")];

/// Starts the ring of a subprocess.
fn start() -> SessionId {
    api::start(&options("run")).unwrap()
}

fn options(path: impl AsRef<Path>) -> SessionOptions {
    SessionOptions { is_ring: true, ..crate::harness::options(path, Format::Run) }
}

/// Records scopes with these numbers. Names repeat, as in a program.
fn record(numbers: std::ops::Range<usize>) {
    for number in numbers {
        scope(&name_of(number), || ());
        if (number + 1) % BURST == 0 {
            api::write_checkpoints();
        }
    }
}

fn name_of(number: usize) -> String {
    format!("work {}", number % 97)
}

/// Returns the segments in a run directory, oldest first.
fn segments(run: &Path) -> Vec<PathBuf> {
    let entries = run.join("spool").read_dir().unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Returns the joined segments of a run directory, as a reader of the run has them.
fn joined(run: &Path) -> Spool {
    let path = run.with_extension("joined");
    let joined = join_ring(&segments(run), File::open, File::create(&path).unwrap());
    assert!(joined.unwrap().is_none());
    Spool::read(&path)
}

/// Checks that a run has exactly the last of `count` scopes, and counts the others.
fn check_last(run: &Path, count: usize) -> Spool {
    let spool = joined(run);
    let expected: Vec<_> = (count.saturating_sub(RECORDS)..count).map(name_of).collect();
    assert_eq!(spool.exited_paths(0, 0), expected);
    assert_eq!(spool.loss_count(LossCause::Ring), count.saturating_sub(RECORDS) as u64);
    spool
}

#[test]
fn a_ring_has_exactly_the_last_records_also_after_sigkill() {
    let Some(subprocess) = Subprocess::of(|part| {
        let session = start();
        let count: usize = part.split_once(' ').unwrap().1.parse().unwrap();
        record(0..count);
        if part.starts_with("killed") {
            report_ready();
            wait_for_end_of_stdin();
        }
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    for (part, count) in [("ends", 700), ("ends", 9170), ("killed", 5400)] {
        let fixture = Fixture::begin();
        let part = format!("{part} {count}");
        let run = fixture.path("run.marey");
        if part.starts_with("killed") {
            // While it runs, a reader has the same.
            let check = || assert!(!check_last(&run, count).has_end);
            subprocess.kill(&part, &fixture, &ENV, check);
            assert!(!check_last(&run, count).has_end);
        } else {
            subprocess.run(&part, &fixture, &ENV);
            assert!(check_last(&run, count).has_end);
        }
        let files = segments(&run);
        let bytes: u64 = files.iter().map(|path| path.metadata().unwrap().len()).sum();
        assert!(files.len() <= 8 && bytes < 64_000, "{files:?}: {bytes} B");
    }
}

#[test]
fn a_ring_is_bounded_in_bytes() {
    let env = [("MAREY_RING_BYTES", "65536"), ("MAREY_RING_RECORDS", "1000000"), ENV[1]];
    let Some(fixture) = run_in_subprocess(&env, || {
        let session = start();
        record(0..40_000);
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let run = fixture.path("run.marey");
    let bytes: u64 = segments(&run).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(bytes <= 65_536, "{bytes}");
    let spool = joined(&run);
    let kept = spool.exited_paths(0, 0);
    assert_eq!(kept, (40_000 - kept.len()..40_000).map(name_of).collect::<Vec<_>>());
    assert!(kept.len() > 1000);
    assert_eq!(spool.loss_count(LossCause::Ring), 40_000 - kept.len() as u64);
}

#[test]
fn a_ring_of_seconds_keeps_what_ended_in_them() {
    const SECS: f64 = 1.0;
    let env = [("MAREY_RING_SECONDS", "1"), ("MAREY_RING_RECORDS", "1"), ENV[1]];
    let Some(fixture) = run_in_subprocess(&env, || {
        let begin = Instant::now();
        let session = start();
        let first = segments(Path::new("run.marey")).remove(0);
        let mut ends = Vec::new();
        // A segment lasts a second, and is kept for one after that.
        wait_until("the first segment is kept", || {
            scope(&name_of(ends.len()), || ());
            ends.push(Instant::now());
            api::write_checkpoints();
            !first.exists()
        });
        assert!(begin.elapsed().as_secs_f64() > 2.0 * SECS);
        let last = *ends.last().unwrap();
        let within = |secs: f64| {
            ends.iter().filter(|end| (last - **end).as_secs_f64() <= secs).count().to_string()
        };
        // The last record of all is the end of the session.
        let bounds = [within(0.8 * SECS), within(1.05 * SECS), ends.len().to_string()];
        fs::write("bounds", bounds.join(" ")).unwrap();
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let bounds = fs::read_to_string(fixture.path("bounds")).unwrap();
    let bounds: Vec<usize> = bounds.split(' ').map(|bound| bound.parse().unwrap()).collect();
    let [fewest, most, count] = bounds[..] else { panic!("{bounds:?}") };
    let spool = joined(&fixture.path("run.marey"));
    let kept = spool.exited_paths(0, 0);
    assert_eq!(kept, (count - kept.len()..count).map(name_of).collect::<Vec<_>>());
    assert!((fewest..=most).contains(&kept.len()), "{} of {bounds:?}", kept.len());
    assert_eq!(spool.loss_count(LossCause::Ring), (count - kept.len()) as u64);
}

#[test]
fn open_scopes_and_phases_are_known_although_their_segments_are_gone() {
    let Some(fixture) = run_and_kill(&ENV, || {
        let session = start();
        enter("outer");
        api::advance_phase(session).unwrap();
        record(0..5000);
    }) else {
        return;
    };
    let spool = joined(&fixture.path("run.marey"));
    assert_eq!(spool.threads[&0].open, ["outer"]);
    let paths = spool.exited_paths(0, 0);
    assert!(paths.len() == RECORDS && paths.iter().all(|path| path.starts_with("outer/work ")));
    assert_eq!(spool.events, [(0, SessionEvent::Started), (0, SessionEvent::Phase(1))]);
}

#[test]
fn a_signal_saves_the_ring_as_a_run_and_recording_goes_on() {
    let Some(fixture) = run_in_subprocess(&ENV, || {
        let session = start();
        record(0..3000);
        // SAFETY: sends a signal to this process, which has a handler for it.
        #[expect(unsafe_code, reason = "std has no signals")]
        unsafe {
            libc::raise(libc::SIGUSR1);
        }
        // The lock on the recording directory is not the saved run's: it is complete when its last
        // segment is there, which the finalized session waits for by ending the thread that saves.
        let [saved, run] = ["run.1.marey", "run.marey"].map(Path::new);
        wait_until("the ring was not saved", || {
            saved.join("spool").exists() && segments(saved).len() + 1 >= segments(run).len()
        });
        record(3000..6000);
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    check_last(&fixture.path("run.1.marey"), 3000);
    check_last(&fixture.path("run.marey"), 6000);
}

/// Lets files grow up to so many bytes. A signal tells of a larger one, unless it is ignored.
#[expect(unsafe_code, reason = "std has no limits")]
fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a valid limit.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

#[test]
fn a_ring_goes_on_when_its_files_can_be_written_again() {
    let Some(fixture) = run_in_subprocess(&ENV, || {
        let session = start();
        record(0..500);
        limit_files(0);
        record(500..1000);
        let newest = || segments(Path::new("run.marey")).pop().unwrap();
        let wait_for_next_segment = || {
            let failed = newest();
            wait_until("the ring does not go on", || {
                api::write_checkpoints();
                newest() != failed
            });
        };
        wait_for_next_segment();
        limit_files(libc::RLIM_INFINITY);
        wait_for_next_segment();
        record(1000..5000);
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let spool = joined(&fixture.path("run.marey"));
    assert_eq!(spool.exited_paths(0, 0), (4000..5000).map(name_of).collect::<Vec<_>>());
    assert!(spool.loss_count(LossCause::Spool) > 0);
}

#[test]
fn a_ring_is_saved_with_its_last_records_or_not_at_all() {
    let Some(subprocess) = Subprocess::of(|part| {
        let session = start();
        record(0..500);
        if part == "child" {
            assert_eq!(fork(|| i32::from(ask_self(&Request::Save).is_err())), 0);
        } else if part == "full" {
            limit_files(0);
            record(500..550);
            let refusal = ask_self(&Request::Save).unwrap_err();
            assert!(refusal.starts_with("cannot write"), "{refusal}");
            limit_files(libc::RLIM_INFINITY);
            // The segment that the refusal has begun could not be written either.
            wait_until("the ring is not saved", || ask_self(&Request::Save).is_ok());
        } else {
            fs::rename("run.marey", "moved").unwrap();
            File::create("run.marey").unwrap();
            let refusal = ask_self(&Request::Save).unwrap_err();
            assert!(refusal.starts_with("cannot create"), "{refusal}");
            fs::remove_file("run.marey").unwrap();
            fs::rename("moved", "run.marey").unwrap();
            ask_self(&Request::Save).unwrap();
        }
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    for (part, count) in [("moved", 500), ("full", 500), ("child", 0)] {
        let fixture = Fixture::begin();
        subprocess.run(part, &fixture, &ENV);
        let saved = fixture.path("run.1.marey");
        if count > 0 {
            check_last(&saved, count);
        } else {
            assert_eq!(joined(&saved).span_count(), 0);
        }
        check_last(&fixture.path("run.marey"), 500);
    }
}

#[test]
fn the_child_of_a_fork_has_a_ring_of_its_own() {
    let Some(subprocess) = Subprocess::of(|_| {
        let session = start();
        record(0..2000);
        let child = fork(|| {
            record(0..3000);
            i32::from(!finalize_all())
        });
        assert_eq!(child, 0);
        record(2000..4000);
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let fixture = Fixture::begin();
    let parent = subprocess.run("run", &fixture, &ENV);
    let run = fixture.path("run.marey");
    let is_of_parent = |path: &PathBuf| {
        path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{parent}-"))
    };
    let (of_parent, of_child): (Vec<_>, Vec<_>) =
        segments(&run).into_iter().partition(is_of_parent);
    assert!(!of_parent.is_empty() && !of_child.is_empty());
    for (name, paths, count) in [("parent", of_parent, 4000), ("child", of_child, 3000)] {
        let folder = fixture.path(name);
        fs::create_dir_all(folder.join("spool")).unwrap();
        for path in paths {
            fs::rename(&path, folder.join("spool").join(path.file_name().unwrap())).unwrap();
        }
        check_last(&folder, count);
    }
}

#[test]
fn a_ring_is_a_run_alone_and_not_beside_a_trace() {
    let fixture = Fixture::begin();
    let chrome = SessionOptions { format: Format::ChromeTrace, ..options(fixture.path("ring")) };
    assert!(matches!(api::start(&chrome), Err(Error::RingFormat)));
    let ring = api::start(&options(fixture.path("ring"))).unwrap();
    let trace = SessionOptions { is_ring: false, ..options(fixture.path("trace")) };
    assert!(matches!(api::start(&trace), Err(Error::RingBesideTrace)));
    assert!(matches!(api::finalize(ring, Some(Format::ChromeTrace)), Err(Error::RingFormat)));
    scope("work", || ());
    api::discard(ring).unwrap();
    assert_eq!(fixture.files(), [""; 0]);
}
