//! Files: complete at every moment, under a name of their own.

use crate::harness::{
    Fixture, StopFlag, Subprocess, report_ready, run_in_subprocess, scope, start,
    wait_for_end_of_stdin, wait_until, wait_until_ready,
};
use crate::profile::Profile;
use marey_record::{Format, SessionOptions, api};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

#[test]
fn finalize_writes_the_file_and_returns_its_path() {
    let fixture = Fixture::begin();
    let session = fixture.start("new folder/plain");
    scope("a", || ());
    let path = fixture.path("new folder/plain.hatchet");
    assert_eq!(api::finalize(session, None).unwrap(), [path.as_path()]);
    let profile = fixture.read("new folder/plain.hatchet");
    assert_eq!(profile.counts(), [("a", 1)]);
    assert_eq!(profile.metadata()["process"]["complete"], true);
    assert_eq!(fixture.files(), ["new folder"]);
}

#[test]
fn the_format_determines_the_extension() {
    let fixture = Fixture::begin();
    let options = SessionOptions { format: Format::HatchetMsgpack, ..fixture.options("packed") };
    for (format, file) in
        [(None, "packed.hatchet_msgpack"), (Some(Format::Hatchet), "packed.hatchet")]
    {
        let session = api::start(&options).unwrap();
        assert_eq!(api::finalize(session, format).unwrap(), [fixture.path(file)]);
    }
}

#[test]
fn a_session_overwrites_the_file_of_an_earlier_one_of_its_process() {
    let fixture = Fixture::begin();
    for name in ["first", "second"] {
        let session = fixture.start("again");
        scope(name, || ());
        api::finalize(session, None).unwrap();
    }
    assert_eq!(fixture.files(), ["again.hatchet"]);
    assert_eq!(fixture.read("again.hatchet").counts(), [("second", 1)]);
}

#[test]
fn an_empty_session_may_write_no_file() {
    let fixture = Fixture::begin();
    let options = SessionOptions { quiet_if_empty: true, ..fixture.options("quiet") };
    assert!(api::finalize(api::start(&options).unwrap(), None).unwrap().is_empty());
    let set_later = fixture.start("set later");
    api::set_quiet_if_empty(set_later).unwrap();
    api::write_checkpoints();
    assert!(api::finalize(set_later, None).unwrap().is_empty());
    assert_eq!(fixture.files(), [""; 0]);
    assert_eq!(api::finalize(fixture.start("loud"), None).unwrap().len(), 1);
}

#[test]
fn an_unwritable_file_is_an_error_that_names_it() {
    let fixture = Fixture::begin();
    std::fs::write(fixture.path("file"), "").unwrap();
    let session = fixture.start("file/inside");
    api::write_checkpoints();
    let error = api::finalize(session, None).unwrap_err().to_string();
    let folder = fixture.path("file");
    assert!(error.starts_with(&format!("cannot create {}: ", folder.display())), "{error}");
    assert_eq!(api::live_sessions(), [] as [u32; 0]);
}

#[test]
fn a_file_is_complete_at_every_moment() {
    const CHECKPOINTS: u32 = 200;
    let fixture = Fixture::begin();
    let session = fixture.start("checkpoints");
    for number in 0..50 {
        scope(&format!("scope {number}"), || ());
    }
    api::write_checkpoints();
    let stop = StopFlag::default();
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let mut reads = 0;
            while !stop.is_set() {
                assert_eq!(fixture.read("checkpoints.hatchet").paths().len(), 50);
                reads += 1;
            }
            reads
        });
        let guard = stop.guard();
        for _ in 0..CHECKPOINTS {
            api::write_checkpoints();
        }
        drop(guard);
        assert!(reader.join().unwrap() > 0);
    });
    assert_eq!(fixture.read("checkpoints.hatchet").losses(), []);
    api::finalize(session, None).unwrap();
    assert_eq!(fixture.files(), ["checkpoints.hatchet"]);
}

#[test]
fn the_file_of_an_earlier_process_is_moved_aside() {
    let Some(subprocess) = Subprocess::of(|name| {
        let session = start("run", Format::Hatchet);
        scope(name, || ());
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let fixture = Fixture::begin();
    for name in ["first", "second", "third"] {
        subprocess.run(name, &fixture, &[]);
    }
    assert_eq!(fixture.files(), ["run.1.hatchet", "run.2.hatchet", "run.hatchet"]);
    for (file, name) in
        [("run.1.hatchet", "first"), ("run.2.hatchet", "second"), ("run.hatchet", "third")]
    {
        assert_eq!(fixture.read(file).counts(), [(name, 1)]);
    }
}

#[test]
fn the_file_of_a_running_process_is_not_replaced() {
    let Some(subprocess) = Subprocess::of(|_| {
        let session = start("shared", Format::Hatchet);
        scope("owner", || ());
        api::write_checkpoints();
        report_ready();
        wait_for_end_of_stdin();
        scope("owner", || ());
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let fixture = Fixture::begin();
    let mut owner = subprocess.spawn("owner", &fixture, &[]);
    let _out = wait_until_ready(&mut owner);
    let session = fixture.start("shared");
    scope("guest", || ());
    let guest = format!("shared.{}.hatchet", std::process::id());
    assert_eq!(api::finalize(session, None).unwrap(), [fixture.path(&guest)]);
    assert_eq!(fixture.read("shared.hatchet").counts(), [("owner", 1)]);
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
    assert_eq!(fixture.read("shared.hatchet").counts(), [("owner", 2)]);
    assert_eq!(fixture.read(&guest).counts(), [("guest", 1)]);
    assert_eq!(fixture.files().len(), 2);
}

#[test]
fn ranks_write_files_of_their_own() {
    let Some(subprocess) = Subprocess::of(|name| {
        start(name, Format::Hatchet);
        scope("a", || ());
        // The file is written when the process exits.
    }) else {
        return;
    };
    let fixture = Fixture::begin();
    subprocess.run("run", &fixture, &[("RANK", "3")]);
    subprocess.run("run", &fixture, &[("RANK", ""), ("SLURM_PROCID", "12")]);
    subprocess.run("run_rank_5", &fixture, &[("PMI_RANK", "5")]);
    assert_eq!(fixture.files(), ["run.rank12.hatchet", "run.rank3.hatchet", "run_rank_5.hatchet"]);
    for (file, rank) in
        [("run.rank12.hatchet", 12), ("run.rank3.hatchet", 3), ("run_rank_5.hatchet", 5)]
    {
        let profile = fixture.read(file);
        assert_eq!(profile.counts(), [("a", 1)]);
        assert_eq!(profile.metadata()["process"]["rank"], rank);
        assert_eq!(profile.metadata()["process"]["complete"], true);
    }
}

#[test]
fn sigterm_writes_the_files_and_sigkill_leaves_a_checkpoint() {
    let Some(subprocess) = Subprocess::of(|_| {
        start("signal", Format::Hatchet);
        scope("before", || ());
        api::write_checkpoints();
        scope("after", || ());
        report_ready();
        wait_for_end_of_stdin();
    }) else {
        return;
    };
    for (signal, number, counts) in
        [("-TERM", 15, &[("after", 1), ("before", 1)][..]), ("-KILL", 9, &[("before", 1)][..])]
    {
        let fixture = Fixture::begin();
        let mut child = subprocess.spawn(signal, &fixture, &[("MAREY_CHECKPOINT_SECS", "0")]);
        let _out = wait_until_ready(&mut child);
        let pid = child.id().to_string();
        let kill = std::process::Command::new("kill").args([signal, &pid]).status();
        assert!(kill.unwrap().success());
        assert_eq!(child.wait().unwrap().signal(), Some(number));
        let profile = fixture.read("signal.hatchet");
        assert_eq!(profile.counts(), counts);
        assert_eq!(profile.metadata()["process"]["complete"], signal == "-TERM");
    }
}

#[test]
fn checkpoints_are_written_in_the_background() {
    let Some(fixture) = run_in_subprocess(&[("MAREY_CHECKPOINT_SECS", "0.001")], || {
        start("background", Format::Hatchet);
        scope("a", || ());
        // Every checkpoint is complete, and one of the first contains the scope.
        wait_until("no checkpoint has the scope", || {
            let file = std::fs::read("background.hatchet");
            file.is_ok_and(|bytes| Profile::parse(&bytes).paths() == ["a"])
        });
    }) else {
        return;
    };
    assert_eq!(fixture.files(), ["background.hatchet"]);
}

#[test]
fn a_full_tree_counts_dropped_nodes() {
    let Some(fixture) = run_in_subprocess(&[("MAREY_MAX_NODES", "12")], || {
        start("full", Format::Hatchet);
        for number in 0..100 {
            scope(&format!("scope {number}"), || scope("inside", || ()));
        }
    }) else {
        return;
    };
    let profile = fixture.read("full.hatchet");
    let counts = profile.counts();
    assert_eq!(counts.iter().map(|&(_, count)| count).sum::<u64>(), 200);
    // Two of the twelve nodes are roots.
    assert_eq!(counts.len(), 11);
    let lost = profile.number("<lost>", "wall_count");
    assert_eq!((lost, profile.losses()), (190, vec![("nodes", 190)]));
}

/// Returns the descriptor by which this process has a file open.
fn descriptor_of(path: &Path) -> RawFd {
    let file = std::fs::metadata(path).unwrap().ino();
    let is_descriptor_of_file = |number: &RawFd| {
        std::fs::metadata(format!("/proc/self/fd/{number}")).is_ok_and(|open| open.ino() == file)
    };
    (3..1024).find(is_descriptor_of_file).unwrap()
}

#[test]
#[expect(unsafe_code, reason = "as programs do that close what they find, and open files")]
fn a_reused_descriptor_of_the_program_stays_open() {
    let fixture = Fixture::begin();
    let session = fixture.start("profile");
    scope("a", || ());
    api::write_checkpoints();
    let reused = descriptor_of(&fixture.path("profile.hatchet"));
    let program_path = fixture.path("own");
    let program_file = File::create(&program_path).unwrap();
    // SAFETY: the recorder's descriptor is closed and becomes a duplicate of the program's file.
    assert_eq!(unsafe { libc::dup2(program_file.as_raw_fd(), reused) }, reused);
    api::write_checkpoints();
    api::write_checkpoints();
    api::finalize(session, None).unwrap();
    let link_target = std::fs::read_link(format!("/proc/self/fd/{reused}")).unwrap();
    assert_eq!(link_target, program_path.canonicalize().unwrap());
    // SAFETY: the program's own descriptor, made above.
    assert_eq!(unsafe { libc::close(reused) }, 0);
    assert_eq!(fixture.read("profile.hatchet").counts(), [("a", 1)]);
    assert_eq!(fixture.files(), ["own", "profile.hatchet"]);
}
