//! The libcupti that is used: the first that is found, can be loaded and suits the driver.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use thiserror::Error;

use super::abi::{OLDEST_API, cuda_major, result};
use super::dl::{Loaded, file_of};
use super::driver::Driver;
use super::functions::{Functions, ScopedFunctions};
use super::search::{Hints, Place, Source, major_in_name, places};
use super::unavailable::Unavailable;

/// A libcupti, loaded for good.
#[derive(Debug)]
pub struct Library {
    /// Its file.
    pub path: PathBuf,
    /// How it was found.
    pub source: Source,
    /// What `cuptiGetVersion` gave.
    pub api_version: u32,
    /// Its functions.
    pub functions: Functions,
    /// Those for subscribers beside others, if it has them.
    pub scoped: Option<ScopedFunctions>,
}

/// The first API version whose subscribers can record beside others: that of CUDA 13.3.
const SCOPED_SINCE: u32 = 130_300;

/// What lies at a place, loaded.
#[derive(Debug)]
pub struct Examined {
    /// Its file.
    pub path: PathBuf,
    /// The same in full, where there is a driver: without one libcupti 13.2 overflows the stack when it is
    /// asked for its version.
    pub library: Option<Library>,
}

/// A libcupti that was found and cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its file.
    pub path: PathBuf,
    /// Why not.
    pub refusal: Refusal,
}

/// Why a libcupti cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// There is none.
    #[error("no libcupti.so is there")]
    Missing,
    /// The loader does not take it.
    #[error("it cannot be loaded: {0}")]
    NotLoadable(String),
    /// It lacks a function.
    #[error("it has no `{0}`")]
    Incomplete(&'static str),
    /// It does not tell its version.
    #[error("`cuptiGetVersion` gave {code} ({})", result::name(*.code))]
    NoVersion {
        /// What it gave.
        code: u32,
    },
    /// Its records are of before the ones that we know.
    #[error(
        "its API version is {0}, and the oldest that marey reads is {OLDEST_API}, of CUDA 12.0"
    )]
    TooOld(u32),
    /// The driver does not serve it.
    #[error("it is for CUDA {major}, and the driver for {driver}")]
    NewerThanDriver {
        /// The major version that it is for.
        major: u32,
        /// That of the driver.
        driver: u32,
    },
}

static LIBRARY: OnceLock<Result<Library, Unavailable>> = OnceLock::new();

/// The libcupti of this process, looked for once: what came of it is remembered, because libcupti
/// itself would look for the driver again at each call that fails.
pub fn open(hints: &Hints) -> Result<&'static Library, Unavailable> {
    LIBRARY.get_or_init(|| probe(hints)).as_ref().map_err(Clone::clone)
}

/// Returns the libcupti of this process while the driver starts, on the thread that starts it: most calls
/// of the driver would wait for that start. A failure is not remembered.
pub fn open_within_start(hints: &Hints) -> Option<&'static Library> {
    if LIBRARY.get().is_none() {
        let driver_major = Driver::major_within_start()?;
        let places = places(hints, driver_major);
        let found = choose(places, hints.named.as_deref(), driver_major).ok()?;
        LIBRARY.get_or_init(|| Ok(found));
    }
    opened()
}

/// The libcupti of this process, if it was looked for and found.
pub fn opened() -> Option<&'static Library> {
    LIBRARY.get()?.as_ref().ok()
}

fn probe(hints: &Hints) -> Result<Library, Unavailable> {
    let driver_major = Driver::get()?.cuda_major();
    choose(places(hints, driver_major), hints.named.as_deref(), driver_major)
}

/// Where a libcupti may lie, in the order in which one is taken. Starts the driver.
pub fn listed(hints: &Hints) -> Vec<Place> {
    places(hints, driver_major().unwrap_or(NEWEST_KNOWN_MAJOR))
}

/// What lies at a place, or why it cannot be used; `None` for a name that the loader does not know.
/// Loads it for good, so this is for a process that is not profiled.
pub fn examine(place: &Place) -> Option<Result<Examined, Refusal>> {
    let examined = match driver_major() {
        Some(driver) => load(place, driver)
            .map(|library| Examined { path: library.path.clone(), library: Some(library) }),
        None => load_file(place)
            .and_then(|file| functions_of(file, place))
            .map(|(path, _)| Examined { path, library: None }),
    };
    let is_unknown = matches!(&examined, Err(refusal) if is_unknown(place, refusal));
    (!is_unknown).then_some(examined)
}

fn driver_major() -> Option<u32> {
    Driver::get().ok().map(Driver::cuda_major)
}

/// Up to which version the loader is asked for one where no driver says it.
const NEWEST_KNOWN_MAJOR: u32 = 13;

/// The first that can be used.
fn choose(
    places: Vec<Place>,
    named: Option<&Path>,
    driver_major: u32,
) -> Result<Library, Unavailable> {
    let mut refused = Vec::new();
    for place in places {
        match load(&place, driver_major) {
            Ok(library) => return Ok(library),
            Err(refusal) if is_unknown(&place, &refusal) => {}
            Err(refusal) => refused.push(Candidate { path: place.path, refusal }),
        }
    }
    let Some(named) = named else { return Err(Unavailable::NoLibrary(refused)) };
    let reason = refused.into_iter().next().map_or(Refusal::Missing, |first| first.refusal);
    Err(Unavailable::Named { path: named.to_owned(), reason })
}

/// Whether a name, and no file, was tried, of which the loader knows nothing.
fn is_unknown(place: &Place, refusal: &Refusal) -> bool {
    place.source == Source::Loader && matches!(refusal, Refusal::NotLoadable(_))
}

fn load(place: &Place, driver_major: u32) -> Result<Library, Refusal> {
    if let Some(major) = major_in_name(&place.path) {
        check_major(major, driver_major)?;
    }
    let file = load_file(place)?;
    let (path, functions) = functions_of(file, place)?;
    let api_version = version_of(&functions)?;
    if api_version < OLDEST_API {
        return Err(Refusal::TooOld(api_version));
    }
    check_major(cuda_major(api_version), driver_major)?;
    let scoped = ScopedFunctions::of(file).ok().filter(|_| api_version >= SCOPED_SINCE);
    Ok(Library { path, source: place.source, api_version, functions, scoped })
}

fn functions_of(file: Loaded, place: &Place) -> Result<(PathBuf, Functions), Refusal> {
    let functions = Functions::of(file).map_err(Refusal::Incomplete)?;
    let path = file_of(functions.get_version as *const _);
    Ok((path.unwrap_or_else(|| place.path.clone()), functions))
}

fn load_file(place: &Place) -> Result<Loaded, Refusal> {
    match place.source {
        // What is mapped and no library of the process, such as a file that was deleted, is none.
        Source::Loaded => Loaded::already(&place.path).ok_or(Refusal::Missing),
        Source::Named if !place.path.exists() => Err(Refusal::Missing),
        _ => Loaded::open(&place.path).map_err(Refusal::NotLoadable),
    }
}

fn check_major(major: u32, driver: u32) -> Result<(), Refusal> {
    if major > driver { Err(Refusal::NewerThanDriver { major, driver }) } else { Ok(()) }
}

#[expect(unsafe_code, reason = "a call of the library")]
fn version_of(functions: &Functions) -> Result<u32, Refusal> {
    let mut version = 0;
    // SAFETY: there is a driver, and the version can be written.
    match unsafe { (functions.get_version)(&raw mut version) } {
        result::SUCCESS => Ok(version),
        code => Err(Refusal::NoVersion { code }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::compiled;
    use super::*;

    /// Makes a libcupti that gives this code and version.
    fn cupti(path: impl AsRef<Path>, code: u32, version: u32) -> PathBuf {
        let source = format!(
            "unsigned cuptiGetVersion(unsigned *version) {{ *version = {version}; return {code}; }}"
        );
        compiled::library(path.as_ref(), Functions::NEEDED, &source)
    }

    fn in_site(site: &Path) -> Hints {
        Hints { python_paths: vec![site.to_owned()], ..Hints::default() }
    }

    /// What is chosen of the packages in a folder. What the process has loaded by other tests is left out.
    fn chosen_in(site: &Path, driver_major: u32) -> Result<Library, Unavailable> {
        let mut places = places(&in_site(site), driver_major);
        places.retain(|place| place.path.starts_with(site));
        choose(places, None, driver_major)
    }

    fn chosen_as_named(path: &Path, driver_major: u32) -> Result<Library, Unavailable> {
        let hints = Hints { named: Some(path.to_owned()), ..Hints::default() };
        choose(places(&hints, driver_major), Some(path), driver_major)
    }

    #[test]
    fn the_first_that_suits_the_driver_is_taken_and_the_others_say_why_not() {
        let root = tempfile::tempdir().unwrap();
        let nvidia = root.path().join("nvidia");
        let newer = nvidia.join("cu13/lib/libcupti.so.13");
        let old = cupti(nvidia.join("cu12/lib/libcupti.so.12"), 0, 28);
        std::fs::create_dir_all(newer.parent().unwrap()).unwrap();
        // Not even loaded: its name says enough.
        std::fs::write(&newer, "no library").unwrap();

        let library = chosen_in(root.path(), 12).unwrap();
        assert_eq!((&library.path, library.source, library.api_version), (&old, Source::Wheel, 28));

        let refused = chosen_in(root.path(), 13).map(|library| library.path);
        assert_eq!(refused, Ok(old), "what cannot be loaded is passed over");
    }

    #[test]
    fn a_copy_that_the_process_has_comes_first() {
        let root = tempfile::tempdir().unwrap();
        let wheel = cupti(root.path().join("nvidia/cu12/lib/libcupti.so.12"), 0, 24);
        let loaded = cupti(root.path().join("elsewhere/libcupti.so.12"), 0, 26);
        let hints = in_site(root.path());
        let found = |path: &Path| {
            places(&hints, 12)
                .into_iter()
                .find(|place| place.path == path)
                .map(|place| place.source)
        };
        assert_eq!((found(&loaded), found(&wheel)), (None, Some(Source::Wheel)));
        Loaded::open(&loaded).unwrap();
        assert_eq!((found(&loaded), found(&wheel)), (Some(Source::Loaded), Some(Source::Wheel)));
        let order = places(&hints, 12);
        let at = |path: &Path| order.iter().position(|place| place.path == path);
        assert!(at(&loaded) < at(&wheel));
        let place = Place { path: loaded.clone(), source: Source::Loaded };
        assert_eq!(load(&place, 12).unwrap().path, loaded);
    }

    #[test]
    fn what_the_user_names_is_used_or_an_error() {
        let root = tempfile::tempdir().unwrap();
        let good = cupti(root.path().join("good/libcupti.so"), 0, 26);
        assert_eq!(chosen_as_named(&good, 12).unwrap().path, good);
        assert_eq!(chosen_as_named(good.parent().unwrap(), 12).unwrap().path, good);

        let reason = |path: &Path, driver| match chosen_as_named(path, driver) {
            Err(Unavailable::Named { path: named, reason }) if named == path => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(&root.path().join("nothing"), 12), Refusal::Missing);
        let empty = root.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        assert_eq!(reason(&empty, 12), Refusal::Missing);
        let text = root.path().join("libcupti.so");
        std::fs::write(&text, "no library").unwrap();
        assert!(matches!(reason(&text, 12), Refusal::NotLoadable(_)));
        let few = compiled::library(&root.path().join("few.so"), &[c"cuptiGetVersion"], "");
        assert_eq!(reason(&few, 12), Refusal::Incomplete("cuptiSubscribe"));
        let ancient = cupti(root.path().join("ancient.so"), 0, 17);
        assert_eq!(reason(&ancient, 12), Refusal::TooOld(17));
        let silent = cupti(root.path().join("silent.so"), 999, 0);
        assert_eq!(reason(&silent, 12), Refusal::NoVersion { code: 999 });
        let newer = cupti(root.path().join("newer.so"), 0, 130_001);
        assert_eq!(reason(&newer, 12), Refusal::NewerThanDriver { major: 13, driver: 12 });
        let newer_by_name = root.path().join("libcupti.so.13");
        std::fs::write(&newer_by_name, "no library").unwrap();
        assert_eq!(reason(&newer_by_name, 12), Refusal::NewerThanDriver { major: 13, driver: 12 });
    }

    #[test]
    fn subscribers_beside_others_are_of_a_library_that_has_every_call_for_them() {
        let root = tempfile::tempdir().unwrap();
        let bears_others = |name: &str, version: u32, scoped: &[&std::ffi::CStr]| {
            let source = format!(
                "unsigned cuptiGetVersion(unsigned *version) {{ *version = {version}; return 0; }}"
            );
            let functions = [Functions::NEEDED, scoped].concat();
            let path = compiled::library(&root.path().join(name), &functions, &source);
            chosen_as_named(&path, 13).unwrap().scoped.is_some()
        };
        let (last, others) = ScopedFunctions::NEEDED.split_last().unwrap();
        assert!(bears_others("whole.so", 130_300, ScopedFunctions::NEEDED));
        assert!(!bears_others("incomplete.so", 130_300, others), "{last:?} is missing");
        assert!(!bears_others("early.so", 130_202, ScopedFunctions::NEEDED));
    }

    #[test]
    fn a_refusal_names_the_thing_the_place_and_the_mend() {
        let root = tempfile::tempdir().unwrap();
        let silent = cupti(root.path().join("libcupti.so"), 15, 0);
        let error = chosen_as_named(&silent, 13).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "MAREY_CUPTI_LIB names {}: `cuptiGetVersion` gave 15 (CUPTI_ERROR_NOT_INITIALIZED)",
                silent.display()
            )
        );
        assert!(error.hint().contains("unset it"));

        let path = root.path().join("site/nvidia/cu12/lib/libcupti.so.12");
        cupti(&path, 0, 17);
        let error = chosen_in(&root.path().join("site"), 12).unwrap_err().to_string();
        let expected = format!("{}: its API version is 17", path.display());
        assert!(error.contains(&expected), "{error}");
    }
}
