//! Files: published whole, under a name that nobody else has.

use crate::harness::{
    Over, Role, Turn, part, scope, tell_ready, wait_for_end_of_stdin, wait_until_ready,
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
    let turn = Turn::begin();
    let session = turn.start("new folder/plain");
    scope("a", || ());
    let path = turn.path("new folder/plain.hatchet");
    assert_eq!(api::finalize(session, None).unwrap(), [path.as_path()]);
    let profile = turn.read("new folder/plain.hatchet");
    assert_eq!(profile.counts(), [("a", 1)]);
    assert_eq!(profile.about()["process"]["complete"], true);
    assert_eq!(turn.files(), ["new folder"]);
}

#[test]
fn the_format_says_the_extension() {
    let turn = Turn::begin();
    let options = SessionOptions { format: Format::HatchetMsgpack, ..turn.options("packed") };
    for (format, file) in
        [(None, "packed.hatchet_msgpack"), (Some(Format::Hatchet), "packed.hatchet")]
    {
        let session = api::start(&options).unwrap();
        assert_eq!(api::finalize(session, format).unwrap(), [turn.path(file)]);
    }
}

#[test]
fn a_session_writes_over_the_file_of_an_earlier_one_of_its_process() {
    let turn = Turn::begin();
    for name in ["first", "second"] {
        let session = turn.start("again");
        scope(name, || ());
        api::finalize(session, None).unwrap();
    }
    assert_eq!(turn.files(), ["again.hatchet"]);
    assert_eq!(turn.read("again.hatchet").counts(), [("second", 1)]);
}

#[test]
fn a_session_that_recorded_nothing_may_be_quiet() {
    let turn = Turn::begin();
    let options = SessionOptions { quiet_if_empty: true, ..turn.options("quiet") };
    assert!(api::finalize(api::start(&options).unwrap(), None).unwrap().is_empty());
    let told_later = turn.start("told later");
    api::set_quiet_if_empty(told_later).unwrap();
    api::write_checkpoints();
    assert!(api::finalize(told_later, None).unwrap().is_empty());
    assert_eq!(turn.files(), [""; 0]);
    assert_eq!(api::finalize(turn.start("loud"), None).unwrap().len(), 1);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_that_names_it() {
    let turn = Turn::begin();
    std::fs::write(turn.path("file"), "").unwrap();
    let session = turn.start("file/inside");
    api::write_checkpoints();
    let error = api::finalize(session, None).unwrap_err().to_string();
    let folder = turn.path("file");
    assert!(error.starts_with(&format!("cannot create {}: ", folder.display())), "{error}");
    assert_eq!(api::alive(), [] as [u32; 0]);
}

#[test]
fn a_file_is_whole_at_every_moment() {
    const CHECKPOINTS: u32 = 200;
    let turn = Turn::begin();
    let session = turn.start("whole");
    for number in 0..50 {
        scope(&format!("scope {number}"), || ());
    }
    api::write_checkpoints();
    let test = Over::default();
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let mut looks = 0;
            while !test.is_over() {
                assert_eq!(turn.read("whole.hatchet").paths().len(), 50);
                looks += 1;
            }
            looks
        });
        let course = test.course();
        for _ in 0..CHECKPOINTS {
            api::write_checkpoints();
        }
        drop(course);
        assert!(reader.join().unwrap() > 0);
    });
    assert_eq!(turn.read("whole.hatchet").losses(), []);
    api::finalize(session, None).unwrap();
    assert_eq!(turn.files(), ["whole.hatchet"]);
}

fn start_in(folder: &Path, name: &str) -> u32 {
    let path = folder.join(name);
    api::start(&SessionOptions::named(path.to_str().unwrap())).unwrap()
}

#[test]
fn the_file_of_an_earlier_process_is_moved_aside() {
    const TEST: &str = "files::the_file_of_an_earlier_process_is_moved_aside";
    if let Some((name, folder)) = part() {
        let session = start_in(&folder, "run");
        scope(&name, || ());
        api::finalize(session, None).unwrap();
        return;
    }
    let turn = Turn::begin();
    for name in ["first", "second", "third"] {
        Role::new(TEST, name, &turn).run(&[]);
    }
    assert_eq!(turn.files(), ["run.1.hatchet", "run.2.hatchet", "run.hatchet"]);
    for (file, name) in
        [("run.1.hatchet", "first"), ("run.2.hatchet", "second"), ("run.hatchet", "third")]
    {
        assert_eq!(turn.read(file).counts(), [(name, 1)]);
    }
}

#[test]
fn the_file_of_a_process_that_runs_is_left_alone() {
    const TEST: &str = "files::the_file_of_a_process_that_runs_is_left_alone";
    if let Some((_, folder)) = part() {
        let session = start_in(&folder, "shared");
        scope("owner", || ());
        api::write_checkpoints();
        tell_ready();
        wait_for_end_of_stdin();
        scope("owner", || ());
        api::finalize(session, None).unwrap();
        return;
    }
    let turn = Turn::begin();
    let mut owner = Role::new(TEST, "owner", &turn).spawn(&[]);
    let _out = wait_until_ready(&mut owner);
    let session = turn.start("shared");
    scope("guest", || ());
    let guest = format!("shared.{}.hatchet", std::process::id());
    assert_eq!(api::finalize(session, None).unwrap(), [turn.path(&guest)]);
    assert_eq!(turn.read("shared.hatchet").counts(), [("owner", 1)]);
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
    assert_eq!(turn.read("shared.hatchet").counts(), [("owner", 2)]);
    assert_eq!(turn.read(&guest).counts(), [("guest", 1)]);
    assert_eq!(turn.files().len(), 2);
}

#[test]
fn ranks_write_files_of_their_own() {
    const TEST: &str = "files::ranks_write_files_of_their_own";
    if let Some((name, folder)) = part() {
        start_in(&folder, &name);
        scope("a", || ());
        // The file is written as the process ends.
        return;
    }
    let turn = Turn::begin();
    let role = Role::new(TEST, "run", &turn);
    role.run(&[("RANK", "3")]);
    role.run(&[("RANK", ""), ("SLURM_PROCID", "12")]);
    Role::new(TEST, "run_rank_5", &turn).run(&[("PMI_RANK", "5")]);
    assert_eq!(turn.files(), ["run.rank12.hatchet", "run.rank3.hatchet", "run_rank_5.hatchet"]);
    for (file, rank) in
        [("run.rank12.hatchet", 12), ("run.rank3.hatchet", 3), ("run_rank_5.hatchet", 5)]
    {
        let profile = turn.read(file);
        assert_eq!(profile.counts(), [("a", 1)]);
        assert_eq!(profile.about()["process"]["rank"], rank);
        assert_eq!(profile.about()["process"]["complete"], true);
    }
}

#[test]
fn a_signal_that_ends_the_process_loses_little() {
    const TEST: &str = "files::a_signal_that_ends_the_process_loses_little";
    if let Some((_, folder)) = part() {
        start_in(&folder, "signal");
        scope("before", || ());
        api::write_checkpoints();
        scope("after", || ());
        tell_ready();
        wait_for_end_of_stdin();
        return;
    }
    for (signal, number, counts) in
        [("-TERM", 15, &[("after", 1), ("before", 1)][..]), ("-KILL", 9, &[("before", 1)][..])]
    {
        let turn = Turn::begin();
        let mut child = Role::new(TEST, signal, &turn).spawn(&[("MAREY_CHECKPOINT_SECS", "0")]);
        let _out = wait_until_ready(&mut child);
        let pid = child.id().to_string();
        let kill = std::process::Command::new("kill").args([signal, &pid]).status();
        assert!(kill.unwrap().success());
        assert_eq!(child.wait().unwrap().signal(), Some(number));
        let profile = turn.read("signal.hatchet");
        assert_eq!(profile.counts(), counts);
        assert_eq!(profile.about()["process"]["complete"], signal == "-TERM");
    }
}

#[test]
fn checkpoints_are_written_by_themselves() {
    const TEST: &str = "files::checkpoints_are_written_by_themselves";
    if let Some((_, folder)) = part() {
        start_in(&folder, "background");
        scope("a", || ());
        let file = folder.join("background.hatchet");
        // Every checkpoint is whole, and one of the first holds the scope.
        while !std::fs::read(&file).is_ok_and(|bytes| Profile::parse(&bytes).paths() == ["a"]) {
            std::thread::yield_now();
        }
        return;
    }
    let turn = Turn::begin();
    Role::new(TEST, "run", &turn).run(&[("MAREY_CHECKPOINT_SECS", "0.001")]);
    assert_eq!(turn.files(), ["background.hatchet"]);
}

#[test]
fn a_full_tree_counts_what_it_could_not_keep() {
    const TEST: &str = "files::a_full_tree_counts_what_it_could_not_keep";
    if let Some((_, folder)) = part() {
        start_in(&folder, "full");
        for number in 0..100 {
            scope(&format!("scope {number}"), || scope("inside", || ()));
        }
        return;
    }
    let turn = Turn::begin();
    Role::new(TEST, "run", &turn).run(&[("MAREY_MAX_NODES", "12")]);
    let profile = turn.read("full.hatchet");
    let counts = profile.counts();
    assert_eq!(counts.iter().map(|&(_, count)| count).sum::<u64>(), 200);
    // Two of the twelve are roots.
    assert_eq!(counts.len(), 11);
    let lost = profile.number("<lost>", "wall_count");
    assert_eq!((lost, profile.losses()), (190, vec![("nodes", 190)]));
}

/// The number of the descriptor by which this process has a file open.
fn descriptor_of(path: &Path) -> RawFd {
    let file = std::fs::metadata(path).unwrap().ino();
    let is_ours = |number: &RawFd| {
        std::fs::metadata(format!("/proc/self/fd/{number}")).is_ok_and(|open| open.ino() == file)
    };
    (3..1024).find(is_ours).unwrap()
}

#[test]
#[expect(unsafe_code, reason = "as programs do that close what they find, and open files")]
fn a_program_that_takes_our_descriptor_for_a_file_of_its_own_keeps_that() {
    let turn = Turn::begin();
    let session = turn.start("profile");
    scope("a", || ());
    api::write_checkpoints();
    let taken = descriptor_of(&turn.path("profile.hatchet"));
    let own_path = turn.path("own");
    let own = File::create(&own_path).unwrap();
    // SAFETY: the recorder's descriptor is closed and becomes another one of the program's file.
    assert_eq!(unsafe { libc::dup2(own.as_raw_fd(), taken) }, taken);
    api::write_checkpoints();
    api::write_checkpoints();
    api::finalize(session, None).unwrap();
    let still = std::fs::read_link(format!("/proc/self/fd/{taken}")).unwrap();
    assert_eq!(still, own_path.canonicalize().unwrap());
    // SAFETY: the program's own, made above.
    assert_eq!(unsafe { libc::close(taken) }, 0);
    assert_eq!(turn.read("profile.hatchet").counts(), [("a", 1)]);
    assert_eq!(turn.files(), ["own", "profile.hatchet"]);
}
