//! Rings: traces that keep only their last records.

use crate::endpoint::ask_self;
use crate::harness::{
    Fixture, Subprocess, fork, report_ready, scope, subprocess_part, wait_for_end_of_stdin,
    wait_until_ready,
};
use crate::spool::Spool;
use marey_model::endpoint::Request;
use marey_model::loss::LossCause;
use marey_model::spool::{SessionEvent, join_ring};
use marey_record::{Error, Format, SessionId, SessionOptions, api};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The number of records that the rings of these tests keep.
const RECORDS: usize = 1000;
/// The scopes between two checkpoints, at which a full segment ends.
const BURST: usize = 100;
const ENV: [(&str, &str); 2] = [("MAREY_RING_RECORDS", "1000"), ("MAREY_SYSTEM_METRICS_SECS", "0")];

fn start(folder: &Path) -> SessionId {
    let name = folder.join("run");
    api::start(&options(&name)).unwrap()
}

fn options(name: &Path) -> SessionOptions {
    let format = Format::Run;
    SessionOptions { format, is_ring: true, ..SessionOptions::named(name.to_str().unwrap()) }
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
    const TEST: &str = "rings::a_ring_has_exactly_the_last_records_also_after_sigkill";
    if let Some((part, folder)) = subprocess_part() {
        let session = start(&folder);
        let count: usize = part.split_once(' ').unwrap().1.parse().unwrap();
        record(0..count);
        if part.starts_with("killed") {
            report_ready();
            wait_for_end_of_stdin();
        }
        api::finalize(session, None).unwrap();
        return;
    }
    for (part, count) in [("ends", 700), ("ends", 9170), ("killed", 5400)] {
        let fixture = Fixture::begin();
        let part = format!("{part} {count}");
        let subprocess = Subprocess::new(TEST, &part, &fixture);
        let run = fixture.path("run.marey");
        if part.starts_with("killed") {
            let mut child = subprocess.spawn(&ENV);
            let out = wait_until_ready(&mut child);
            // While it runs, a reader has the same.
            assert!(!check_last(&run, count).has_end);
            child.kill().unwrap();
            child.wait().unwrap();
            drop(out);
            assert!(!check_last(&run, count).has_end);
        } else {
            subprocess.run(&ENV);
            assert!(check_last(&run, count).has_end);
        }
        let files = segments(&run);
        let bytes: u64 = files.iter().map(|path| path.metadata().unwrap().len()).sum();
        assert!(files.len() <= 8 && bytes < 64_000, "{files:?}: {bytes} B");
    }
}

#[test]
fn a_ring_is_bounded_in_bytes() {
    const TEST: &str = "rings::a_ring_is_bounded_in_bytes";
    if let Some((_, folder)) = subprocess_part() {
        let session = start(&folder);
        record(0..40_000);
        api::finalize(session, None).unwrap();
        return;
    }
    let fixture = Fixture::begin();
    let env = [("MAREY_RING_BYTES", "65536"), ("MAREY_RING_RECORDS", "1000000")];
    Subprocess::new(TEST, "run", &fixture).run(&[&env[..], &ENV[1..]].concat());
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
    const TEST: &str = "rings::a_ring_of_seconds_keeps_what_ended_in_them";
    const SECS: f64 = 1.0;
    if let Some((_, folder)) = subprocess_part() {
        let begin = Instant::now();
        let session = start(&folder);
        let first = segments(&folder.join("run.marey")).remove(0);
        let mut ends = Vec::new();
        // A segment lasts a second, and is kept for one after that.
        while first.exists() {
            assert!(begin.elapsed() < Duration::from_secs(30), "the first segment is kept");
            scope(&name_of(ends.len()), || ());
            ends.push(Instant::now());
            api::write_checkpoints();
        }
        assert!(begin.elapsed().as_secs_f64() > 2.0 * SECS);
        let last = *ends.last().unwrap();
        let within = |secs: f64| {
            ends.iter().filter(|end| (last - **end).as_secs_f64() <= secs).count().to_string()
        };
        // The last record of all is the end of the session.
        let bounds = [within(0.8 * SECS), within(1.05 * SECS), ends.len().to_string()];
        fs::write(folder.join("bounds"), bounds.join(" ")).unwrap();
        api::finalize(session, None).unwrap();
        return;
    }
    let fixture = Fixture::begin();
    let env = [("MAREY_RING_SECONDS", "1"), ("MAREY_RING_RECORDS", "1")];
    Subprocess::new(TEST, "run", &fixture).run(&[&env[..], &ENV[1..]].concat());
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
    const TEST: &str = "rings::open_scopes_and_phases_are_known_although_their_segments_are_gone";
    if let Some((_, folder)) = subprocess_part() {
        let session = start(&folder);
        crate::harness::enter("outer");
        api::advance_phase(session).unwrap();
        record(0..5000);
        report_ready();
        wait_for_end_of_stdin();
        return;
    }
    let fixture = Fixture::begin();
    let mut child = Subprocess::new(TEST, "run", &fixture).spawn(&ENV);
    let out = wait_until_ready(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(out);
    let spool = joined(&fixture.path("run.marey"));
    assert_eq!(spool.threads[&0].open, ["outer"]);
    let paths = spool.exited_paths(0, 0);
    assert!(paths.len() == RECORDS && paths.iter().all(|path| path.starts_with("outer/work ")));
    assert_eq!(spool.events, [(0, SessionEvent::Started), (0, SessionEvent::Phase(1))]);
}

#[test]
fn a_signal_saves_the_ring_as_a_run_and_recording_goes_on() {
    const TEST: &str = "rings::a_signal_saves_the_ring_as_a_run_and_recording_goes_on";
    if let Some((_, folder)) = subprocess_part() {
        let session = start(&folder);
        record(0..3000);
        // SAFETY: sends a signal to this process, which has a handler for it.
        #[expect(unsafe_code, reason = "std has no signals")]
        unsafe {
            libc::raise(libc::SIGUSR1);
        }
        // The lock on the recording directory is not the saved run's: it is complete when its last
        // segment is there, which the finalized session waits for by ending the thread that saves.
        let deadline = Instant::now() + Duration::from_secs(30);
        while !folder.join("run.1.marey/spool").exists()
            || segments(&folder.join("run.1.marey")).len()
                < segments(&folder.join("run.marey")).len() - 1
        {
            assert!(Instant::now() < deadline, "the ring was not saved");
            std::thread::yield_now();
        }
        record(3000..6000);
        api::finalize(session, None).unwrap();
        return;
    }
    let fixture = Fixture::begin();
    Subprocess::new(TEST, "run", &fixture).run(&ENV);
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
    const TEST: &str = "rings::a_ring_goes_on_when_its_files_can_be_written_again";
    if let Some((_, folder)) = subprocess_part() {
        let session = start(&folder);
        record(0..500);
        limit_files(0);
        record(500..1000);
        let newest = || segments(&folder.join("run.marey")).pop().unwrap();
        let failed = newest();
        let deadline = Instant::now() + Duration::from_secs(30);
        while newest() == failed {
            assert!(Instant::now() < deadline, "the ring does not go on");
            api::write_checkpoints();
        }
        limit_files(libc::RLIM_INFINITY);
        let failed = newest();
        while newest() == failed {
            assert!(Instant::now() < deadline, "the ring does not go on");
            api::write_checkpoints();
        }
        record(1000..5000);
        api::finalize(session, None).unwrap();
        return;
    }
    let fixture = Fixture::begin();
    Subprocess::new(TEST, "run", &fixture).run(&ENV);
    let spool = joined(&fixture.path("run.marey"));
    assert_eq!(spool.exited_paths(0, 0), (4000..5000).map(name_of).collect::<Vec<_>>());
    assert!(spool.loss_count(LossCause::Spool) > 0);
}

#[test]
fn a_ring_is_saved_with_its_last_records_or_not_at_all() {
    const TEST: &str = "rings::a_ring_is_saved_with_its_last_records_or_not_at_all";
    if let Some((part, folder)) = subprocess_part() {
        let session = start(&folder);
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
            let deadline = Instant::now() + Duration::from_secs(30);
            while let Err(refusal) = ask_self(&Request::Save) {
                assert!(Instant::now() < deadline, "{refusal}");
            }
        } else {
            let run = folder.join("run.marey");
            fs::rename(&run, folder.join("moved")).unwrap();
            File::create(&run).unwrap();
            let refusal = ask_self(&Request::Save).unwrap_err();
            assert!(refusal.starts_with("cannot create"), "{refusal}");
            fs::remove_file(&run).unwrap();
            fs::rename(folder.join("moved"), &run).unwrap();
            ask_self(&Request::Save).unwrap();
        }
        api::finalize(session, None).unwrap();
        return;
    }
    for (part, count) in [("moved", 500), ("full", 500), ("child", 0)] {
        let fixture = Fixture::begin();
        Subprocess::new(TEST, part, &fixture).run(&ENV);
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
    const TEST: &str = "rings::the_child_of_a_fork_has_a_ring_of_its_own";
    if let Some((_, folder)) = subprocess_part() {
        let session = start(&folder);
        record(0..2000);
        let child = fork(|| {
            record(0..3000);
            let ended = api::live_sessions().into_iter().map(|id| api::finalize(id, None));
            i32::from(ended.collect::<Result<Vec<_>, _>>().is_err())
        });
        assert_eq!(child, 0);
        record(2000..4000);
        api::finalize(session, None).unwrap();
        return;
    }
    let fixture = Fixture::begin();
    let parent = Subprocess::new(TEST, "run", &fixture).run(&ENV);
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
    let chrome = SessionOptions { format: Format::ChromeTrace, ..options(&fixture.path("ring")) };
    assert!(matches!(api::start(&chrome), Err(Error::RingFormat)));
    let ring = api::start(&options(&fixture.path("ring"))).unwrap();
    let trace = SessionOptions { is_ring: false, ..options(&fixture.path("trace")) };
    assert!(matches!(api::start(&trace), Err(Error::RingBesideTrace)));
    assert!(matches!(api::finalize(ring, Some(Format::ChromeTrace)), Err(Error::RingFormat)));
    scope("work", || ());
    api::discard(ring).unwrap();
    assert_eq!(fixture.files(), [""; 0]);
}
