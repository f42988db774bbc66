//! The libcupti of the installed wheels, without a device.

use std::path::PathBuf;
use std::process::Command;

use marey_gpu::cupti::driver::Driver;
use marey_gpu::cupti::library::{Rejection, examine, open, search_locations};
use marey_gpu::cupti::search::{Hints, Origin};
use marey_gpu::cupti::unavailable::StartStep;

/// Returns the package search path of the interpreter that the tests use.
#[expect(clippy::disallowed_methods, reason = "no other thread sets variables in this test")]
fn python_paths() -> Vec<PathBuf> {
    let python = std::env::var_os("MAREY_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let script = "import sys; print('\\n'.join(sys.path))";
    let output = Command::new(python).args(["-c", script]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().filter(|line| !line.is_empty()).map(PathBuf::from).collect()
}

#[test]
fn the_library_of_a_wheel_is_usable_except_for_the_missing_device() {
    let hints = Hints { python_paths: python_paths(), ..Hints::default() };
    let locations = search_locations(&hints);
    if !locations.iter().any(|location| matches!(location.origin, Origin::Wheel | Origin::Triton)) {
        eprintln!(
            "skipped: the interpreter has no wheel with libcupti; set MAREY_TEST_PYTHON to another one"
        );
        return;
    }
    let candidates: Vec<_> = locations.iter().filter_map(examine).collect();
    for candidate in &candidates {
        assert!(!matches!(candidate, Err(Rejection::Incomplete(_))), "{candidate:?}");
        let exists = candidate.as_ref().is_ok_and(|loaded| loaded.path.is_file());
        assert!(exists || candidate.is_err(), "{candidate:?}");
    }
    let mut usable = candidates.iter().flatten();

    match (Driver::get(), open(&hints)) {
        (Ok(_), Ok(library)) => {
            let first = usable.next().expect("one is usable");
            assert_eq!(Some(library.api_version), first.library.as_ref().map(|it| it.api_version));
        }
        (Err(no_driver), Err(refusal)) => {
            assert_eq!(no_driver, refusal);
            assert!(refusal.step() < StartStep::Library, "{refusal}");
            assert!(!refusal.hint().is_empty());
            assert!(usable.all(|loaded| loaded.library.is_none()), "queried without a driver");
        }
        other => panic!("a driver without libcupti, or libcupti without a driver: {other:?}"),
    }
}
