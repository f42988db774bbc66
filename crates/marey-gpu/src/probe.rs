//! Answers the questions of `marey doctor` about the drivers and libraries that are available.
//!
//! An answer is a list of rows with tab-separated fields. The first field is the name of the row.
//! Each question loads and initialises vendor libraries, so it is asked in a process of its own. If
//! that process crashes, that is an answer too.

use crate::cupti::driver::Driver;
use crate::cupti::library::{LoadedCandidate, Rejection, examine, search_locations};
use crate::cupti::search::{Hints, Origin, SearchLocation};
use crate::cupti::subscription::try_subscribe;
use crate::cupti::unavailable::{StartStep, Unavailable};
use crate::nvml;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// A query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The driver, its devices, and the candidates for libcupti.
    Driver,
    /// Whether the libcupti with this path is usable and accepts a subscriber.
    Library(PathBuf),
    /// NVML and its devices.
    Nvml,
}

impl Question {
    /// Parses `driver`, `library PATH` or `nvml`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ').unwrap_or((text, "")) {
            ("driver", "") => Some(Self::Driver),
            ("library", path) if !path.is_empty() => Some(Self::Library(path.into())),
            ("nvml", "") => Some(Self::Nvml),
            _ => None,
        }
    }

    /// Returns the rows of the answer:
    ///
    /// - for the driver: `driver` (CUDA version) or `unavailable` (step, code, reason, remedy); a
    ///   `device` per device (number, name, compute capability, multiprocessors, bytes, UUID); a
    ///   `library` per candidate (path, source);
    /// - for a library: `library` (path, API version, CUDA version), and with a driver `free` (1 if
    ///   other tools can record at the same time) or `unavailable`; or `refused` (kind, reason); or
    ///   nothing for a name unknown to the loader;
    /// - for NVML: `nvml` (library, driver version, NVML version), and per device a `device`
    ///   (number, name, bytes, whether it supports GPM, UUID) or `silent` (number, reason); or
    ///   `unavailable` as above.
    pub fn answer(&self, hints: &Hints) -> String {
        let mut rows = Rows(String::new());
        match self {
            Self::Driver => add_driver_rows(&mut rows, hints),
            Self::Library(path) => add_library_rows(&mut rows, hints, path),
            Self::Nvml => add_nvml_rows(&mut rows),
        }
        rows.0
    }
}

/// Rows, one per line.
struct Rows(String);

impl Rows {
    fn add(&mut self, name: &str, fields: &[&dyn Display]) {
        self.0.push_str(name);
        for field in fields {
            self.0.push('\t');
            self.0.push_str(&field.to_string().replace(char::is_control, " "));
        }
        self.0.push('\n');
    }

    fn add_unavailable(&mut self, reason: &Unavailable) {
        let step = match reason.step() {
            StartStep::Driver if matches!(reason, Unavailable::NoDriver(_)) => "driver",
            // A driver that lacks a function is installed, but cannot be initialised.
            StartStep::Driver | StartStep::Init => "init",
            StartStep::Device => "device",
            StartStep::Library => "library",
            StartStep::Subscribe => "subscribe",
            StartStep::Enable => "enable",
        };
        self.add("unavailable", &[&step, &OptionalField(reason.code()), reason, &reason.hint()]);
    }
}

/// An optional field.
struct OptionalField<T>(Option<T>);

impl<T: Display> Display for OptionalField<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.as_ref().map_or(Ok(()), |value| value.fmt(formatter))
    }
}

fn add_driver_rows(rows: &mut Rows, hints: &Hints) {
    match Driver::get() {
        Ok(driver) => {
            rows.add("driver", &[&driver.version]);
            for device in driver.devices() {
                let properties: [&dyn Display; 6] = [
                    &device.ordinal,
                    &device.name,
                    &device.arch,
                    &device.num_sms,
                    &device.total_memory_bytes,
                    &device.uuid,
                ];
                rows.add("device", &properties);
            }
        }
        Err(reason) => rows.add_unavailable(&reason),
    }
    for location in search_locations(hints) {
        rows.add("library", &[&location.path.display(), &location.origin.name()]);
    }
}

fn add_library_rows(rows: &mut Rows, hints: &Hints, path: &Path) {
    let known_location = search_locations(hints).into_iter().find(|location| location.path == path);
    // A copy that the program will load itself may be outside all search locations.
    let location = known_location
        .unwrap_or_else(|| SearchLocation { path: path.to_owned(), origin: Origin::Selected });
    match examine(&location) {
        None => {}
        Some(Err(rejection)) => rows.add("refused", &[&rejection_key(&rejection), &rejection]),
        Some(Ok(LoadedCandidate { path, library: None })) => {
            rows.add("library", &[&path.display(), &"", &""]);
        }
        Some(Ok(LoadedCandidate { path, library: Some(library) })) => {
            let version = library.api_version;
            rows.add("library", &[&path.display(), &version, &cuda_version(version)]);
            // Leaked, because a session also keeps its library for the lifetime of the process.
            match try_subscribe(Box::leak(Box::new(library))) {
                Ok(is_shared) => rows.add("free", &[&u32::from(is_shared)]),
                Err(reason) => rows.add_unavailable(&reason),
            }
        }
    }
}

const fn rejection_key(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::Missing => "missing",
        Rejection::NotLoadable(_) => "not_loadable",
        Rejection::Incomplete(_) => "incomplete",
        Rejection::NoVersion(_) => "no_version",
        Rejection::TooOld(_) => "too_old",
        Rejection::NewerThanDriver { .. } => "newer_than_driver",
    }
}

/// Returns the CUDA release of an API version, as precisely as the number allows.
fn cuda_version(api_version: u32) -> String {
    match api_version {
        100_000.. => format!("{}.{}", api_version / 10_000, api_version / 100 % 100),
        _ => "12".to_owned(),
    }
}

fn add_nvml_rows(rows: &mut Rows) {
    let probed = match nvml::probe() {
        Ok(probed) => probed,
        Err(reason) => {
            let step = match reason {
                nvml::Unavailable::NoLibrary { .. } => "library",
                nvml::Unavailable::NotStarted { .. } => "init",
                _ => "device",
            };
            return rows.add("unavailable", &[&step, &"", &reason, &OptionalField(reason.hint())]);
        }
    };
    rows.add(
        "nvml",
        &[
            &probed.library,
            &OptionalField(probed.driver_version),
            &OptionalField(probed.nvml_version),
        ],
    );
    for device in probed.devices {
        match device.properties {
            Ok(properties) => {
                let bytes = OptionalField(properties.memory_bytes);
                let has_gpm = u32::from(properties.has_gpm);
                rows.add(
                    "device",
                    &[&device.index, &properties.name, &bytes, &has_gpm, &properties.uuid],
                );
            }
            Err(reason) => rows.add("silent", &[&device.index, &reason]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_parsed() {
        let path = "/a folder/libcupti.so".into();
        assert_eq!(Question::parse("driver"), Some(Question::Driver));
        assert_eq!(Question::parse("library /a folder/libcupti.so"), Some(Question::Library(path)));
        assert_eq!(Question::parse("nvml"), Some(Question::Nvml));
        for text in ["", "library", "library ", "driver x", "cupti"] {
            assert_eq!(Question::parse(text), None, "{text}");
        }
    }

    #[test]
    fn control_characters_do_not_split_fields() {
        let mut rows = Rows(String::new());
        rows.add("row", &[&"a\tb\nc", &OptionalField(None::<u32>), &3]);
        assert_eq!(rows.0, "row\ta b c\t\t3\n");
    }

    #[test]
    fn the_release_is_derived_from_the_version() {
        let releases = [18, 28, 130_001, 130_100, 130_201, 130_500].map(cuda_version);
        assert_eq!(releases, ["12", "12", "13.0", "13.1", "13.2", "13.5"]);
    }
}
