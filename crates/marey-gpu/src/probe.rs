//! What there is to record devices with, for who asks before recording: `marey doctor`.
//!
//! An answer is rows of fields between tabs, the first of which names the row. Finding it out loads
//! and starts what the vendors made, so each question is for a process of its own: one that dies is an
//! answer too.

use crate::cupti::driver::Driver;
use crate::cupti::library::{Examined, Refusal, examine, listed};
use crate::cupti::search::{Hints, Place, Source};
use crate::cupti::subscription::try_out;
use crate::cupti::unavailable::{Step, Unavailable};
use crate::nvml;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The driver, its devices, and where libraries of CUPTI may lie.
    Driver,
    /// Whether the libcupti of this path can be used, and would be let in.
    Library(PathBuf),
    /// NVML and its devices.
    Nvml,
}

impl Question {
    /// `driver`, `library PATH` or `nvml`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ').unwrap_or((text, "")) {
            ("driver", "") => Some(Self::Driver),
            ("library", path) if !path.is_empty() => Some(Self::Library(path.into())),
            ("nvml", "") => Some(Self::Nvml),
            _ => None,
        }
    }

    /// The answer:
    ///
    /// - of the driver, `driver` (CUDA version) or `unavailable` (step, code, reason, mend); a `device`
    ///   each (number, name, compute capability, multiprocessors, bytes, uuid); a `library` each (path,
    ///   how it is found);
    /// - of a library, `library` (path, API version, CUDA version), and with a driver `free` (1 if other tools
    ///   can record at the same time) or `unavailable`; or `refused` (kind, reason); or nothing for a name that the loader does not know;
    /// - of NVML, `nvml` (library, driver's version, its own), a `device` each (number, name, bytes,
    ///   whether it has GPM, uuid) or `silent` (number, reason); or `unavailable` as above.
    pub fn answer(&self, hints: &Hints) -> String {
        let mut rows = Rows(String::new());
        match self {
            Self::Driver => driver(&mut rows, hints),
            Self::Library(path) => library(&mut rows, hints, path),
            Self::Nvml => devices_of_nvml(&mut rows),
        }
        rows.0
    }
}

/// Rows, one a line.
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
            Step::Driver if matches!(reason, Unavailable::NoDriver { .. }) => "driver",
            // One that lacks a function is there, and does not start.
            Step::Driver | Step::Init => "init",
            Step::Device => "device",
            Step::Library => "library",
            Step::Subscribe => "subscribe",
            Step::Enable => "enable",
        };
        self.add("unavailable", &[&step, &Maybe(reason.code()), reason, &reason.hint()]);
    }
}

/// A value, or nothing.
struct Maybe<T>(Option<T>);

impl<T: Display> Display for Maybe<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.as_ref().map_or(Ok(()), |value| value.fmt(formatter))
    }
}

fn driver(rows: &mut Rows, hints: &Hints) {
    match Driver::get() {
        Ok(driver) => {
            rows.add("driver", &[&driver.version]);
            for one in driver.devices() {
                let about: [&dyn Display; 6] = [
                    &one.ordinal,
                    &one.name,
                    &one.arch,
                    &one.num_sms,
                    &one.total_memory,
                    &one.uuid,
                ];
                rows.add("device", &about);
            }
        }
        Err(reason) => rows.add_unavailable(&reason),
    }
    for place in listed(hints) {
        rows.add("library", &[&place.path.display(), &place.source.name()]);
    }
}

fn library(rows: &mut Rows, hints: &Hints, path: &Path) {
    let known = listed(hints).into_iter().find(|place| place.path == path);
    // A copy that the program will have loaded lies where nobody looks.
    let place = known.unwrap_or_else(|| Place { path: path.to_owned(), source: Source::Named });
    match examine(&place) {
        None => {}
        Some(Err(refusal)) => rows.add("refused", &[&kind_of(&refusal), &refusal]),
        Some(Ok(Examined { path, library: None })) => {
            rows.add("library", &[&path.display(), &"", &""]);
        }
        Some(Ok(Examined { path, library: Some(library) })) => {
            let version = library.api_version;
            rows.add("library", &[&path.display(), &version, &cuda_version(version)]);
            // As a session has it, which keeps its library.
            match try_out(Box::leak(Box::new(library))) {
                Ok(is_beside_others) => rows.add("free", &[&u32::from(is_beside_others)]),
                Err(reason) => rows.add_unavailable(&reason),
            }
        }
    }
}

const fn kind_of(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Missing => "missing",
        Refusal::NotLoadable(_) => "not_loadable",
        Refusal::Incomplete(_) => "incomplete",
        Refusal::NoVersion { .. } => "no_version",
        Refusal::TooOld(_) => "too_old",
        Refusal::NewerThanDriver { .. } => "newer_than_driver",
    }
}

/// The release of CUDA that an API version belongs to, as far as the number tells.
fn cuda_version(api_version: u32) -> String {
    match api_version {
        100_000.. => format!("{}.{}", api_version / 10_000, api_version / 100 % 100),
        _ => "12".to_owned(),
    }
}

fn devices_of_nvml(rows: &mut Rows) {
    let found = match nvml::probe() {
        Ok(found) => found,
        Err(reason) => {
            let step = match reason {
                nvml::Unavailable::NoLibrary { .. } => "library",
                nvml::Unavailable::NotStarted { .. } => "init",
                _ => "device",
            };
            return rows.add("unavailable", &[&step, &"", &reason, &Maybe(reason.hint())]);
        }
    };
    rows.add("nvml", &[&found.library, &Maybe(found.driver_version), &Maybe(found.nvml_version)]);
    for device in found.devices {
        match device.about {
            Ok(about) => {
                let bytes = Maybe(about.memory_bytes);
                let has_gpm = u32::from(about.has_gpm);
                rows.add("device", &[&device.index, &about.name, &bytes, &has_gpm, &about.uuid]);
            }
            Err(reason) => rows.add("silent", &[&device.index, &reason]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_words_and_a_path() {
        let path = "/a folder/libcupti.so".into();
        assert_eq!(Question::parse("driver"), Some(Question::Driver));
        assert_eq!(Question::parse("library /a folder/libcupti.so"), Some(Question::Library(path)));
        assert_eq!(Question::parse("nvml"), Some(Question::Nvml));
        for text in ["", "library", "library ", "driver x", "cupti"] {
            assert_eq!(Question::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_field_keeps_to_its_place() {
        let mut rows = Rows(String::new());
        rows.add("row", &[&"a\tb\nc", &Maybe(None::<u32>), &3]);
        assert_eq!(rows.0, "row\ta b c\t\t3\n");
    }

    #[test]
    fn the_release_of_a_version_is_told_as_far_as_it_is_known() {
        let releases = [18, 28, 130_001, 130_100, 130_201, 130_500].map(cuda_version);
        assert_eq!(releases, ["12", "12", "13.0", "13.1", "13.2", "13.5"]);
    }
}
