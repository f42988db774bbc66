//! The vendor's headers, extracted from wheels.

use std::fs;
use std::path::{Path, PathBuf};

use super::program::command;
use crate::XtaskError;

/// The headers of one version of CUPTI.
#[derive(Debug)]
pub(super) struct Headers {
    /// `CUPTI_API_VERSION` of the headers.
    pub(super) api_version: u32,
    /// The headers that declare records and callbacks.
    pub(super) text: String,
    /// Include paths for the compiler.
    pub(super) include: Vec<PathBuf>,
}

/// Every version whose records differ from the previous one. The newest is downloaded every time.
const WHEELS: &[(&str, &str)] = &[
    ("nvidia-cuda-cupti-cu12", "12.0.146"),
    ("nvidia-cuda-cupti-cu12", "12.4.127"),
    ("nvidia-cuda-cupti-cu12", "12.6.80"),
    ("nvidia-cuda-cupti-cu12", "12.8.90"),
    ("nvidia-cuda-cupti-cu12", "12.9.79"),
    ("nvidia-cuda-cupti", "13.0.48"),
    ("nvidia-cuda-cupti", "13.0.85"),
    ("nvidia-cuda-cupti", "13.1.115"),
    ("nvidia-cuda-cupti", "13.2.86"),
    ("nvidia-cuda-cupti", "13.3.75"),
    ("nvidia-cuda-cupti", "13.4.92"),
    ("nvidia-cuda-cupti", NEWEST),
    // CUDA's headers, which those of every version include.
    ("nvidia-cuda-runtime", NEWEST),
    ("nvidia-cuda-crt", NEWEST),
];
const NEWEST: &str = "newest";

/// Returns the headers of the wheels; wheels in the folder are not downloaded again.
pub(super) fn from_wheels(folder: &Path) -> Result<Vec<Headers>, XtaskError> {
    let mut includes = Vec::new();
    for (package, version) in WHEELS {
        let unpacked = folder.join(format!("{package}-{version}"));
        if *version == NEWEST || !unpacked.is_dir() {
            download_headers(package, version, folder, &unpacked)?;
        }
        includes.extend(include_folders(&unpacked));
    }
    from_folders(&includes.iter().map(PathBuf::as_path).collect::<Vec<_>>())
}

/// Returns the headers of each CUPTI version in these folders, with CUDA's headers as include
/// paths.
pub(super) fn from_folders(folders: &[&Path]) -> Result<Vec<Headers>, XtaskError> {
    let (cupti, cuda): (Vec<&Path>, Vec<&Path>) =
        folders.iter().partition(|folder| folder.join(VERSION_HEADER).is_file());
    let read = |folder: &Path, name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|source| XtaskError::File { path, source })
    };
    cupti
        .into_iter()
        .map(|folder| {
            let version = read(folder, VERSION_HEADER)?;
            let api_version = parse_api_version(&version)
                .ok_or_else(|| XtaskError::NoVersion(folder.join(VERSION_HEADER)))?;
            let text = read(folder, "cupti_activity.h")? + &read(folder, "cupti_callbacks.h")?;
            let include = [folder].iter().chain(&cuda).map(|folder| folder.to_path_buf()).collect();
            Ok(Headers { api_version, text, include })
        })
        .collect()
}

impl Headers {
    /// Returns the newest structure with this name up to the number at the end.
    pub(super) fn newest_version(&self, c_name: &str) -> String {
        let stem = c_name.trim_end_matches(|character: char| character.is_ascii_digit());
        let version_number = |name: &str| match name.strip_prefix(stem)? {
            "" => Some(1),
            digits => digits.parse::<u32>().ok(),
        };
        self.text
            .split('}')
            .filter_map(|after| after.split_once(';'))
            .map(|(name, _)| name.trim())
            .filter_map(|name| Some((version_number(name)?, name)))
            .max()
            .filter(|(number, _)| Some(*number) > version_number(c_name))
            .map_or(c_name, |(_, name)| name)
            .to_owned()
    }
}

const VERSION_HEADER: &str = "cupti_version.h";

fn parse_api_version(text: &str) -> Option<u32> {
    let (_, after) = text.split_once("#define CUPTI_API_VERSION")?;
    after.split_whitespace().next()?.parse().ok()
}

/// Downloads a wheel and extracts its headers.
fn download_headers(
    package: &str,
    version: &str,
    folder: &Path,
    unpacked: &Path,
) -> Result<(), XtaskError> {
    let wheels = folder.join("wheel");
    let file_error = |path: &Path| {
        let path = path.to_path_buf();
        |source| XtaskError::File { path, source }
    };
    for old in [wheels.as_path(), unpacked] {
        if old.is_dir() {
            fs::remove_dir_all(old).map_err(file_error(old))?;
        }
    }
    fs::create_dir_all(&wheels).map_err(file_error(&wheels))?;
    let requirement = match version {
        NEWEST => package.to_owned(),
        version => format!("{package}=={version}"),
    };
    let pip = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"];
    command("python3", |command| command.args(pip).arg(&wheels).arg(requirement))?;
    command("python3", |command| command.args(["-c", UNPACK]).args([&wheels, unpacked]))?;
    fs::remove_dir_all(&wheels).map_err(file_error(&wheels))
}

/// Python program that extracts the headers of the wheels in a folder.
const UNPACK: &str = "
import pathlib, sys, zipfile
for path in pathlib.Path(sys.argv[1]).glob('*.whl'):
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if '/include/' in name]
        wheel.extractall(sys.argv[2], names)
";

/// Returns the `include` folders two levels below the root of a wheel, such as
/// `nvidia/cu13/include`.
fn include_folders(unpacked: &Path) -> Vec<PathBuf> {
    let packages = fs::read_dir(unpacked.join("nvidia")).into_iter().flatten().flatten();
    packages.map(|entry| entry.path().join("include")).filter(|folder| folder.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_a_structure_is_found_by_its_number() {
        let text =
            "typedef struct {} CUpti_ActivityKernel9;\ntypedef struct {\n} CUpti_ActivityKernel10 ;
            typedef struct {} CUpti_ActivityKernelFieldIds; typedef struct {} CUpti_ActivityAPI;";
        let headers = Headers { api_version: 0, text: text.to_owned(), include: Vec::new() };
        assert_eq!(headers.newest_version("CUpti_ActivityKernel9"), "CUpti_ActivityKernel10");
        assert_eq!(headers.newest_version("CUpti_ActivityKernel13"), "CUpti_ActivityKernel13");
        assert_eq!(headers.newest_version("CUpti_ActivityAPI"), "CUpti_ActivityAPI");
    }

    #[test]
    fn the_version_is_parsed() {
        assert_eq!(parse_api_version("/* x */\n#define CUPTI_API_VERSION 130500\n"), Some(130_500));
        assert_eq!(parse_api_version("#define CUPTI_API_VERSION_OLD"), None);
    }
}
