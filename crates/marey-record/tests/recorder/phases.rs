//! Phases: advance, complete, clear.

use crate::devices::{kernel, launch, report};
use crate::harness::{
    Fixture, enter, exit, grown_kib, options, phase_profile, run_in_subprocess, scope, start,
};
use marey_record::{Format, SessionId, SessionOptions, api};
use std::ops::Range;

#[test]
fn a_phase_contains_the_scopes_that_ended_in_it() {
    let (_fixture, session) = Fixture::with_session();
    scope("first", || ());
    enter("across");
    assert_eq!(api::advance_phase(session).unwrap(), 1);
    exit("across");
    scope("second", || ());
    assert_eq!(api::advance_phase(session).unwrap(), 2);
    assert_eq!(phase_profile(session, 0).counts(), [("first", 1)]);
    assert_eq!(phase_profile(session, 1).counts(), [("across", 1), ("second", 1)]);
    assert_eq!(phase_profile(session, 2).counts(), []);
}

#[test]
fn a_phase_is_complete_once_the_next_has_begun() {
    let (_fixture, session) = Fixture::with_session();
    assert!(!api::is_phase_complete(session, 0).unwrap());
    api::advance_phase(session).unwrap();
    assert!(api::is_phase_complete(session, 0).unwrap());
    assert!(!api::is_phase_complete(session, 1).unwrap());
    assert!(!api::is_phase_complete(session, 9).unwrap());
}

#[test]
fn a_cleared_phase_has_no_data() {
    let (_fixture, session) = Fixture::with_session();
    for name in ["a", "b", "c", "d"] {
        scope(name, || ());
        api::advance_phase(session).unwrap();
    }
    let error_text =
        |phase| api::get_data(session, phase, Format::Hatchet).unwrap_err().to_string();
    api::clear_phases(session, 2..=2).unwrap();
    assert_eq!(error_text(2), "Phase 2 has no data.");
    assert_eq!(phase_profile(session, 1).counts(), [("b", 1)]);
    api::clear_phases(session, 0..=1).unwrap();
    assert_eq!(error_text(0), "Phase 0 has no data.");
    assert_eq!(error_text(1), "Phase 1 has no data.");
    assert_eq!(error_text(5), "Phase 5 has no data.");
    assert_eq!(phase_profile(session, 3).counts(), [("d", 1)]);
}

#[test]
fn clearing_the_open_phase_restarts_it() {
    let (_fixture, session) = Fixture::with_session();
    enter("open");
    scope("dropped", || ());
    api::clear_phases(session, 0..=0).unwrap();
    scope("kept", || ());
    exit("open");
    assert_eq!(phase_profile(session, 0).counts(), [("open", 1), ("open/kept", 1)]);
    assert!(!api::is_phase_complete(session, 0).unwrap());
}

#[test]
fn each_phase_is_written_to_its_own_file() {
    let fixture = Fixture::begin();
    let session = fixture.start("parts");
    for name in ["a", "b"] {
        scope(name, || ());
        api::advance_phase(session).unwrap();
    }
    api::clear_phases(session, 0..=0).unwrap();
    scope("c", || ());
    let paths = api::finalize(session, None).unwrap();
    assert_eq!(paths, [fixture.path("parts.part_1.hatchet"), fixture.path("parts.part_2.hatchet")]);
    assert_eq!(fixture.read("parts.part_1.hatchet").counts(), [("b", 1)]);
    assert_eq!(fixture.read("parts.part_2.hatchet").counts(), [("c", 1)]);
}

#[test]
fn phases_may_be_written_when_they_close() {
    let fixture = Fixture::begin();
    let options = SessionOptions { flush_phases: true, ..fixture.options("flushed") };
    let session = api::start(&options).unwrap();
    scope("a", || ());
    api::advance_phase(session).unwrap();
    let [first] = &*fixture.files() else { panic!("{:?}", fixture.files()) };
    assert_eq!(fixture.read(first).counts(), [("a", 1)]);
    scope("b", || ());
    assert_eq!(api::finalize(session, None).unwrap(), [fixture.path("flushed.part_1.hatchet")]);
    assert_eq!(fixture.files(), [first.as_str(), "flushed.part_1.hatchet"]);
}

#[test]
fn a_phase_written_when_it_closes_is_freed() {
    const NODES: u32 = 300;
    let Some(fixture) = run_in_subprocess(&[], || {
        let options = options("long", Format::Hatchet);
        let session = api::start(&SessionOptions { flush_phases: true, ..options }).unwrap();
        let names: Vec<_> = (0..NODES).map(|number| format!("scope {number}")).collect();
        let run_phase = || {
            for name in &names {
                scope(name, || ());
            }
            api::advance_phase(session).unwrap();
        };
        // The allocator takes up to a MiB more during the first phases. The nodes of the others would
        // take several.
        (0..60).for_each(|_| run_phase());
        let grown = grown_kib(|| (0..60).for_each(|_| run_phase()));
        assert!(grown < 1024, "{grown} KiB");
        let no_data = api::get_data(session, 3, Format::Hatchet).unwrap_err();
        assert_eq!(no_data.to_string(), "Phase 3 has no data.");
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    assert_eq!(fixture.files().len(), 121);
    assert_eq!(fixture.read("long.part_119.hatchet").counts().len(), NODES as usize);
}

#[test]
fn the_kernels_of_a_phase_written_when_it_closes_are_freed() {
    const KERNELS: u32 = 1000;
    // All of the buffer is in use before the measurement: new pages of it count as memory.
    let environment = [("MAREY_CHECKPOINT_SECS", "0"), ("MAREY_LAUNCH_BUFFER_BYTES", "65536")];
    let Some(fixture) = run_in_subprocess(&environment, || {
        let options = options("long", Format::Hatchet);
        let session = api::start(&SessionOptions { flush_phases: true, ..options }).unwrap();
        let name = |number: u32| format!("kernel {number}");
        let kernels: Vec<_> = (1..=KERNELS).map(|it| kernel(it, &name(it), 5)).collect();
        let run_phase = || {
            for kernel in &kernels {
                launch(kernel.correlation_id);
            }
            report(&kernels);
            api::advance_phase(session).unwrap();
        };
        (0..10).for_each(|_| run_phase());
        let grown = grown_kib(|| (0..30).for_each(|_| run_phase()));
        assert!(grown < 512, "{grown} KiB");
    }) else {
        return;
    };
    let part = fixture.read("long.part_39.hatchet");
    assert_eq!(part.number("kernel 7", "time (ns)"), 5);
}

/// Clears the phase that has just ended, again and again.
fn advance_and_clear(session: SessionId, phases: Range<u32>) {
    for phase in phases {
        assert_eq!(api::advance_phase(session).expect("a phase begins"), phase + 1);
        api::clear_phases(session, phase..=phase).expect("the phase is cleared");
    }
}

#[test]
fn cleared_phases_leave_nothing_behind() {
    const PHASES: u32 = 40_000;
    run_in_subprocess(&[("MAREY_CHECKPOINT_SECS", "0")], || {
        let session = start("long", Format::Hatchet);
        advance_and_clear(session, 0..1000);
        let grown = grown_kib(|| advance_and_clear(session, 1000..PHASES));
        // A start of a phase has 40 bytes.
        assert!(grown < 512, "{grown} KiB");
    });
}

#[test]
fn an_unwritable_phase_does_not_block_other_phases() {
    let fixture = Fixture::begin();
    let session = fixture.start("parts");
    for name in ["a", "b", "c"] {
        scope(name, || ());
        api::advance_phase(session).unwrap();
    }
    let block_file_of_part = |part: u32| {
        let file = format!(".parts.part_{part}.hatchet.{}.tmp", std::process::id());
        std::fs::create_dir(fixture.path(&file)).unwrap();
    };
    block_file_of_part(1);
    api::write_checkpoints();
    assert_eq!(fixture.read("parts.part_0.hatchet").counts(), [("a", 1)]);
    assert_eq!(fixture.read("parts.part_2.hatchet").counts(), [("c", 1)]);
    assert_eq!(fixture.read("parts.part_3.hatchet").metadata()["losses"]["checkpoints_failed"], 0);
    block_file_of_part(0);
    let error = api::finalize(session, None).unwrap_err().to_string();
    assert!(error.contains("parts.part_0.hatchet"), "{error}");
    assert_eq!(fixture.read("parts.part_2.hatchet").metadata()["process"]["complete"], true);
    assert_eq!(fixture.read("parts.part_3.hatchet").metadata()["process"]["complete"], true);
    assert!(!fixture.path("parts.part_1.hatchet").exists());
}
