//! Chooses and loads libcupti: the first candidate that loads and that the driver supports.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use thiserror::Error;

use super::abi::{OLDEST_API, cuda_major, result};
use super::dl::{LoadedLibrary, library_file};
use super::driver::Driver;
use super::functions::{Functions, SharedModeFunctions};
use super::search::{Hints, Origin, SearchLocation, locations, major_in_name};
use super::unavailable::Unavailable;

/// A loaded libcupti.
#[derive(Debug)]
pub struct Library {
    /// Path of the file.
    pub path: PathBuf,
    /// The place where the library was found.
    pub origin: Origin,
    /// Version from `cuptiGetVersion`.
    pub api_version: u32,
    /// Functions.
    pub functions: Functions,
    /// Functions for shared mode, if supported.
    pub shared_mode: Option<SharedModeFunctions>,
}

/// First API version with shared mode, in CUDA 13.3.
const SHARED_MODE_SINCE: u32 = 130_300;

/// A loaded candidate.
#[derive(Debug)]
pub struct LoadedCandidate {
    /// Path of the file.
    pub path: PathBuf,
    /// The complete library. `None` without a driver, because libcupti 13.2 then overflows the
    /// stack in `cuptiGetVersion`.
    pub library: Option<Library>,
}

/// A candidate that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedCandidate {
    /// Path of the file.
    pub path: PathBuf,
    /// Reason.
    pub rejection: Rejection,
}

/// The reason why a candidate cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// The file does not exist.
    #[error("there is no libcupti.so")]
    Missing,
    /// The loader failed.
    #[error("it cannot be loaded: {0}")]
    NotLoadable(String),
    /// A required function is missing.
    #[error("it has no `{0}`")]
    Incomplete(&'static str),
    /// `cuptiGetVersion` failed with this code.
    #[error("`cuptiGetVersion` returned {code} ({name})", code = .0, name = result::name(*.0))]
    NoVersion(u32),
    /// The API version is older than the supported ones.
    #[error("its API version is {0}; the oldest supported one is {OLDEST_API}, of CUDA 12.0")]
    TooOld(u32),
    /// The library requires a newer driver.
    #[error("it requires CUDA {major}, but the driver supports CUDA {driver}")]
    NewerThanDriver {
        /// Major CUDA version of the library.
        major: u32,
        /// Major CUDA version of the driver.
        driver: u32,
    },
}

static LIBRARY: OnceLock<Result<Library, Unavailable>> = OnceLock::new();

/// Returns the libcupti of this process. Searches for it once and caches the result, because
/// libcupti itself would search for the driver again at each failing call.
pub fn open(hints: &Hints) -> Result<&'static Library, Unavailable> {
    LIBRARY.get_or_init(|| find_library(hints)).as_ref().map_err(Clone::clone)
}

/// Returns the libcupti of this process while the driver is being initialised, on the thread that
/// does so. Makes no driver call that would wait for the initialisation. A failure is not cached.
pub fn open_during_driver_start(hints: &Hints) -> Option<&'static Library> {
    if LIBRARY.get().is_none() {
        let driver_major = Driver::cuda_major_during_start()?;
        let locations = locations(hints, driver_major);
        let chosen = choose_library(locations, hints.selected.as_deref(), driver_major).ok()?;
        LIBRARY.get_or_init(|| Ok(chosen));
    }
    loaded_library()
}

/// Returns the libcupti of this process, if it is loaded.
pub fn loaded_library() -> Option<&'static Library> {
    LIBRARY.get()?.as_ref().ok()
}

fn find_library(hints: &Hints) -> Result<Library, Unavailable> {
    let driver_major = Driver::get()?.cuda_major();
    choose_library(locations(hints, driver_major), hints.selected.as_deref(), driver_major)
}

/// Returns the search locations, in order of preference. Initialises the driver.
pub fn search_locations(hints: &Hints) -> Vec<SearchLocation> {
    locations(hints, driver_major().unwrap_or(NEWEST_KNOWN_MAJOR))
}

/// Loads the candidate at a location. Returns `None` for a name that the loader cannot resolve. The
/// library stays loaded, so only a process that is not profiled may call this.
pub fn examine(location: &SearchLocation) -> Option<Result<LoadedCandidate, Rejection>> {
    let candidate = match driver_major() {
        Some(driver_major) => load_library(location, driver_major)
            .map(|library| LoadedCandidate { path: library.path.clone(), library: Some(library) }),
        None => load_file(location)
            .and_then(|file| load_functions(&file, location))
            .map(|(path, _)| LoadedCandidate { path, library: None }),
    };
    let is_unresolved =
        matches!(&candidate, Err(rejection) if is_unresolved_name(location, rejection));
    (!is_unresolved).then_some(candidate)
}

fn driver_major() -> Option<u32> {
    Driver::get().ok().map(Driver::cuda_major)
}

/// Newest version to try with the loader if there is no driver.
const NEWEST_KNOWN_MAJOR: u32 = 13;

/// Returns the first usable library.
fn choose_library(
    locations: Vec<SearchLocation>,
    selected: Option<&Path>,
    driver_major: u32,
) -> Result<Library, Unavailable> {
    let mut rejected = Vec::new();
    for location in locations {
        match load_library(&location, driver_major) {
            Ok(library) => return Ok(library),
            Err(rejection) if is_unresolved_name(&location, &rejection) => {}
            Err(rejection) => rejected.push(RejectedCandidate { path: location.path, rejection }),
        }
    }
    let Some(selected) = selected else { return Err(Unavailable::NoLibrary(rejected)) };
    let reason = rejected.into_iter().next().map_or(Rejection::Missing, |first| first.rejection);
    Err(Unavailable::UnusableSelection { path: selected.to_owned(), reason })
}

/// Whether the location was a name, not a file, that the loader cannot resolve.
fn is_unresolved_name(location: &SearchLocation, rejection: &Rejection) -> bool {
    location.origin == Origin::Loader && matches!(rejection, Rejection::NotLoadable(_))
}

fn load_library(location: &SearchLocation, driver_major: u32) -> Result<Library, Rejection> {
    if let Some(major) = major_in_name(&location.path) {
        check_major(major, driver_major)?;
    }
    let file = load_file(location)?;
    let (path, functions) = load_functions(&file, location)?;
    let api_version = query_version(&functions)?;
    if api_version < OLDEST_API {
        return Err(Rejection::TooOld(api_version));
    }
    check_major(cuda_major(api_version), driver_major)?;
    let shared_mode =
        SharedModeFunctions::load(&file).ok().filter(|_| api_version >= SHARED_MODE_SINCE);
    Ok(Library { path, origin: location.origin, api_version, functions, shared_mode })
}

fn load_functions(
    file: &LoadedLibrary,
    location: &SearchLocation,
) -> Result<(PathBuf, Functions), Rejection> {
    let functions = Functions::load(file).map_err(Rejection::Incomplete)?;
    let path = library_file(functions.get_version as *const _);
    Ok((path.unwrap_or_else(|| location.path.clone()), functions))
}

fn load_file(location: &SearchLocation) -> Result<LoadedLibrary, Rejection> {
    match location.origin {
        // A mapped file that is not loaded as a library, such as a deleted one, cannot be used.
        Origin::Loaded => LoadedLibrary::find_loaded(&location.path).ok_or(Rejection::Missing),
        Origin::Selected if !location.path.exists() => Err(Rejection::Missing),
        _ => LoadedLibrary::open(&location.path).map_err(Rejection::NotLoadable),
    }
}

fn check_major(major: u32, driver: u32) -> Result<(), Rejection> {
    if major > driver { Err(Rejection::NewerThanDriver { major, driver }) } else { Ok(()) }
}

#[expect(unsafe_code, reason = "a call of the library")]
fn query_version(functions: &Functions) -> Result<u32, Rejection> {
    let mut version = 0;
    // SAFETY: there is a driver, and the version is writable.
    match unsafe { (functions.get_version)(&raw mut version) } {
        result::SUCCESS => Ok(version),
        code => Err(Rejection::NoVersion(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_library;
    use super::*;
    use std::ffi::CStr;

    /// Compiles a libcupti that returns this code and version.
    fn compile_cupti(path: impl AsRef<Path>, code: u32, version: u32) -> PathBuf {
        compile_shared_mode(path.as_ref(), code, version, &[])
    }

    /// Compiles a libcupti that has these functions of shared mode too.
    fn compile_shared_mode(path: &Path, code: u32, version: u32, functions: &[&CStr]) -> PathBuf {
        let source = format!(
            "unsigned cuptiGetVersion(unsigned *version) {{ *version = {version}; return {code}; }}"
        );
        fake_library::compile(path, &[Functions::REQUIRED, functions].concat(), &source)
    }

    fn site_hints(site: &Path) -> Hints {
        Hints { python_paths: vec![site.to_owned()], ..Hints::default() }
    }

    /// Chooses among the packages in a folder. Libraries that other tests have loaded are left out.
    fn choose_in(site: &Path, driver_major: u32) -> Result<Library, Unavailable> {
        let mut locations = locations(&site_hints(site), driver_major);
        locations.retain(|location| location.path.starts_with(site));
        choose_library(locations, None, driver_major)
    }

    fn choose_named(path: &Path, driver_major: u32) -> Result<Library, Unavailable> {
        let hints = Hints { selected: Some(path.to_owned()), ..Hints::default() };
        choose_library(locations(&hints, driver_major), Some(path), driver_major)
    }

    #[test]
    fn the_first_compatible_library_is_chosen() {
        let root = tempfile::tempdir().unwrap();
        let nvidia = root.path().join("nvidia");
        let newer = nvidia.join("cu13/lib/libcupti.so.13");
        let old = compile_cupti(nvidia.join("cu12/lib/libcupti.so.12"), 0, 28);
        std::fs::create_dir_all(newer.parent().unwrap()).unwrap();
        // Not loaded: its name contains a version newer than the driver's.
        std::fs::write(&newer, "no library").unwrap();

        let library = choose_in(root.path(), 12).unwrap();
        assert_eq!((&library.path, library.origin, library.api_version), (&old, Origin::Wheel, 28));

        let chosen = choose_in(root.path(), 13).map(|library| library.path);
        assert_eq!(chosen, Ok(old), "a library that fails to load is skipped");
    }

    #[test]
    fn a_copy_loaded_by_the_process_is_preferred() {
        let root = tempfile::tempdir().unwrap();
        let wheel = compile_cupti(root.path().join("nvidia/cu12/lib/libcupti.so.12"), 0, 24);
        let loaded = compile_cupti(root.path().join("elsewhere/libcupti.so.12"), 0, 26);
        let hints = site_hints(root.path());
        let source_of = |path: &Path| {
            locations(&hints, 12)
                .into_iter()
                .find(|location| location.path == path)
                .map(|location| location.origin)
        };
        assert_eq!((source_of(&loaded), source_of(&wheel)), (None, Some(Origin::Wheel)));
        LoadedLibrary::open(&loaded).unwrap();
        assert_eq!(
            (source_of(&loaded), source_of(&wheel)),
            (Some(Origin::Loaded), Some(Origin::Wheel))
        );
        let order = locations(&hints, 12);
        let position_of = |path: &Path| order.iter().position(|location| location.path == path);
        assert!(position_of(&loaded) < position_of(&wheel));
        let location = SearchLocation { path: loaded.clone(), origin: Origin::Loaded };
        assert_eq!(load_library(&location, 12).unwrap().path, loaded);
    }

    #[test]
    fn the_users_library_is_used_or_an_error() {
        let root = tempfile::tempdir().unwrap();
        let good = compile_cupti(root.path().join("good/libcupti.so"), 0, 26);
        assert_eq!(choose_named(&good, 12).unwrap().path, good);
        assert_eq!(choose_named(good.parent().unwrap(), 12).unwrap().path, good);

        let reason = |path: &Path, driver| match choose_named(path, driver) {
            Err(Unavailable::UnusableSelection { path: selected, reason }) if selected == path => {
                reason
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(&root.path().join("nothing"), 12), Rejection::Missing);
        let empty = root.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        assert_eq!(reason(&empty, 12), Rejection::Missing);
        let text = root.path().join("libcupti.so");
        std::fs::write(&text, "no library").unwrap();
        assert!(matches!(reason(&text, 12), Rejection::NotLoadable(_)));
        let few = fake_library::compile(&root.path().join("few.so"), &[c"cuptiGetVersion"], "");
        assert_eq!(reason(&few, 12), Rejection::Incomplete("cuptiSubscribe"));
        let ancient = compile_cupti(root.path().join("ancient.so"), 0, 17);
        assert_eq!(reason(&ancient, 12), Rejection::TooOld(17));
        let silent = compile_cupti(root.path().join("silent.so"), 999, 0);
        assert_eq!(reason(&silent, 12), Rejection::NoVersion(999));
        let newer = compile_cupti(root.path().join("newer.so"), 0, 130_001);
        assert_eq!(reason(&newer, 12), Rejection::NewerThanDriver { major: 13, driver: 12 });
        let newer_by_name = root.path().join("libcupti.so.13");
        std::fs::write(&newer_by_name, "no library").unwrap();
        assert_eq!(
            reason(&newer_by_name, 12),
            Rejection::NewerThanDriver { major: 13, driver: 12 }
        );
    }

    #[test]
    fn shared_mode_requires_version_and_all_functions() {
        let root = tempfile::tempdir().unwrap();
        let supports_shared_mode = |name: &str, version: u32, functions: &[&CStr]| {
            let path = compile_shared_mode(&root.path().join(name), 0, version, functions);
            choose_named(&path, 13).unwrap().shared_mode.is_some()
        };
        let (last, all_but_last) = SharedModeFunctions::REQUIRED.split_last().unwrap();
        assert!(supports_shared_mode("complete.so", 130_300, SharedModeFunctions::REQUIRED));
        assert!(
            !supports_shared_mode("incomplete.so", 130_300, all_but_last),
            "{last:?} is missing"
        );
        assert!(!supports_shared_mode("early.so", 130_202, SharedModeFunctions::REQUIRED));
    }

    #[test]
    fn an_error_names_the_problem_the_path_and_the_remedy() {
        let root = tempfile::tempdir().unwrap();
        let silent = compile_cupti(root.path().join("libcupti.so"), 15, 0);
        let error = choose_named(&silent, 13).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "MAREY_CUPTI_LIB names {}: `cuptiGetVersion` returned 15 (CUPTI_ERROR_NOT_INITIALIZED)",
                silent.display()
            )
        );
        assert!(error.hint().contains("unset it"));

        let path = root.path().join("site/nvidia/cu12/lib/libcupti.so.12");
        compile_cupti(&path, 0, 17);
        let error = choose_in(&root.path().join("site"), 12).unwrap_err().to_string();
        let expected = format!("{}: its API version is 17", path.display());
        assert!(error.contains(&expected), "{error}");
    }
}
