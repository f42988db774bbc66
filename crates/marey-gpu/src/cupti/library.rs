//! The libcupti that is used: the first that is found, can be loaded and suits the driver.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use thiserror::Error;

use super::abi::{OLDEST_API, cuda_major, result};
use super::dl::{Loaded, file_of};
use super::driver::Driver;
use super::functions::Functions;
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
}

/// A libcupti that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its file.
    pub path: PathBuf,
    /// How it was found.
    pub source: Source,
    /// Its version, if it could be asked.
    pub api_version: Option<u32>,
    /// Why it cannot be used; the first that can is.
    pub refusal: Option<Refusal>,
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

/// The libcupti of this process, looked for once: what came of it is remembered, because libcupti
/// itself would look for the driver again at each call that fails.
pub fn open(hints: &Hints) -> Result<&'static Library, Unavailable> {
    static LIBRARY: OnceLock<Result<Library, Unavailable>> = OnceLock::new();
    LIBRARY.get_or_init(|| probe(hints)).as_ref().map_err(Clone::clone)
}

fn probe(hints: &Hints) -> Result<Library, Unavailable> {
    choose(hints, Driver::get()?.cuda_major())
}

/// Every libcupti there is, in the order in which one is taken. It loads each to ask its version, so
/// it is for a process that is not profiled.
pub fn find(hints: &Hints) -> Vec<Candidate> {
    let driver_major = Driver::get().ok().map(Driver::cuda_major);
    let places = places(hints, driver_major.unwrap_or(NEWEST_KNOWN_MAJOR));
    places.into_iter().filter_map(|place| examine(&place, driver_major)).collect()
}

/// Up to which version the loader is asked for one where no driver says it.
const NEWEST_KNOWN_MAJOR: u32 = 13;

fn choose(hints: &Hints, driver_major: u32) -> Result<Library, Unavailable> {
    let mut refused = Vec::new();
    for place in places(hints, driver_major) {
        match load(&place, Some(driver_major)) {
            Ok(library) => return Ok(library),
            Err(refusal) => refused.extend(candidate(&place, refusal)),
        }
    }
    let Some(named) = &hints.named else { return Err(Unavailable::NoLibrary(refused)) };
    let reason = refused.into_iter().find_map(|one| one.refusal).unwrap_or(Refusal::Missing);
    Err(Unavailable::Named { path: named.clone(), reason })
}

fn examine(place: &Place, driver_major: Option<u32>) -> Option<Candidate> {
    match load(place, driver_major) {
        Ok(Library { path, source, api_version, .. }) => {
            Some(Candidate { path, source, api_version: Some(api_version), refusal: None })
        }
        Err(refusal) => candidate(place, refusal),
    }
}

/// One that was refused; a name that the loader does not know is none.
fn candidate(place: &Place, refusal: Refusal) -> Option<Candidate> {
    let is_unknown = place.source == Source::Loader && matches!(refusal, Refusal::NotLoadable(_));
    let api_version = match refusal {
        Refusal::TooOld(version) => Some(version),
        _ => None,
    };
    (!is_unknown).then(|| Candidate {
        path: place.path.clone(),
        source: place.source,
        api_version,
        refusal: Some(refusal),
    })
}

fn load(place: &Place, driver_major: Option<u32>) -> Result<Library, Refusal> {
    if let Some(major) = major_in_name(&place.path) {
        check_major(major, driver_major)?;
    }
    let library = load_file(place)?;
    let functions = Functions::of(library).map_err(Refusal::Incomplete)?;
    let api_version = version_of(&functions)?;
    if api_version < OLDEST_API {
        return Err(Refusal::TooOld(api_version));
    }
    check_major(cuda_major(api_version), driver_major)?;
    let path = file_of(functions.get_version as *const _).unwrap_or_else(|| place.path.clone());
    Ok(Library { path, source: place.source, api_version, functions })
}

fn load_file(place: &Place) -> Result<Loaded, Refusal> {
    match place.source {
        // What is mapped and not a library of the process, such as a file that was deleted, is none.
        Source::Loaded => Loaded::already(&place.path).ok_or(Refusal::Missing),
        Source::Named if !Path::exists(&place.path) => Err(Refusal::Missing),
        _ => Loaded::open(&place.path).map_err(Refusal::NotLoadable),
    }
}

fn check_major(major: u32, driver_major: Option<u32>) -> Result<(), Refusal> {
    match driver_major {
        Some(driver) if major > driver => Err(Refusal::NewerThanDriver { major, driver }),
        _ => Ok(()),
    }
}

#[expect(unsafe_code, reason = "a call of the library")]
fn version_of(functions: &Functions) -> Result<u32, Refusal> {
    let mut version = 0;
    // SAFETY: may be called at any time, and the version can be written.
    match unsafe { (functions.get_version)(&raw mut version) } {
        result::SUCCESS => Ok(version),
        code => Err(Refusal::NoVersion { code }),
    }
}
