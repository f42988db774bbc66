//! Where a libcupti may lie, in the order in which one is taken.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use marey_model::env;

/// What is known of where libraries lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The file or folder that the user named; nothing else is looked at then.
    pub named: Option<PathBuf>,
    /// Where the interpreter finds packages, `sys.path`.
    pub python_paths: Vec<PathBuf>,
    /// Toolkits of CUDA.
    pub cuda_homes: Vec<PathBuf>,
}

impl Hints {
    /// What the environment says, with the interpreter's paths.
    pub fn from_env(python_paths: Vec<PathBuf>) -> Self {
        let folder = |value: Option<OsString>| value.filter(|it| !it.is_empty()).map(PathBuf::from);
        let homes = [std::env::var_os("CUDA_HOME"), std::env::var_os("CUDA_PATH")];
        Self {
            named: folder(std::env::var_os(env::CUPTI_LIB)),
            python_paths,
            cuda_homes: homes
                .into_iter()
                .filter_map(folder)
                .chain([PathBuf::from("/usr/local/cuda")])
                .collect(),
        }
    }
}

/// Why a library is looked for at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The user named it.
    Named,
    /// The process has it loaded.
    Loaded,
    /// A wheel of NVIDIA's brought it.
    Wheel,
    /// Triton brought it.
    Triton,
    /// It is part of a toolkit.
    Toolkit,
    /// The loader knows it.
    Loader,
}

impl Source {
    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Named => env::CUPTI_LIB,
            Self::Loaded => "loaded already",
            Self::Wheel => "NVIDIA's wheel",
            Self::Triton => "Triton's wheel",
            Self::Toolkit => "CUDA toolkit",
            Self::Loader => "the loader's path",
        }
    }
}

/// A place where a library may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The file, or a name for the loader.
    pub(super) path: PathBuf,
    /// Why there.
    pub(super) source: Source,
}

/// All places, each file once. `newest_major` is the CUDA version up to which the loader is asked.
pub(super) fn places(hints: &Hints, newest_major: u32) -> Vec<Place> {
    if let Some(named) = &hints.named {
        return in_named(named);
    }
    let mut places = Vec::new();
    let mut add = |source, paths: Vec<PathBuf>| {
        places.extend(paths.into_iter().map(|path| Place { path, source }));
    };
    add(Source::Loaded, in_maps(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default()));
    for path in &hints.python_paths {
        add(Source::Wheel, in_wheels(&path.join("nvidia")));
    }
    for path in &hints.python_paths {
        let folder = path.join("triton/backends/nvidia/lib");
        add(Source::Triton, in_folder(&folder.join("cupti")));
        add(Source::Triton, in_folder(&folder.join("cupti-blackwell")));
    }
    for home in &hints.cuda_homes {
        add(Source::Toolkit, in_folder(&home.join("extras/CUPTI/lib64")));
        add(Source::Toolkit, in_folder(&home.join("lib64")));
    }
    let majors = (OLDEST_MAJOR..=newest_major).rev();
    add(Source::Loader, majors.map(|major| format!("{FILE}.{major}").into()).collect());
    add(Source::Loader, vec![FILE.into()]);
    each_once(places)
}

/// The major version in a file's name, as 13 in `libcupti.so.13`.
pub(super) fn major_in_name(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix(FILE)?.strip_prefix('.')?.parse().ok()
}

const FILE: &str = "libcupti.so";
const OLDEST_MAJOR: u32 = 12;

fn in_named(named: &Path) -> Vec<Place> {
    let paths = if named.is_dir() { in_folder(named) } else { vec![named.to_owned()] };
    paths.into_iter().map(|path| Place { path, source: Source::Named }).collect()
}

/// The libraries that a process has mapped, those of the newest version first.
fn in_maps(maps: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])))
        .filter(|path| is_library(path))
        .collect();
    paths.dedup();
    newest_first(paths)
}

/// Those of the wheels in the package `nvidia`: `cu13/lib`, and `cuda_cupti/lib` up to CUDA 12.
fn in_wheels(nvidia: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<(u32, PathBuf)> = entries(nvidia)
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            Some((name.strip_prefix("cu")?.parse().ok()?, path))
        })
        .collect();
    folders.sort_by_key(|&(major, _)| std::cmp::Reverse(major));
    folders.push((0, nvidia.join("cuda_cupti")));
    folders.iter().flat_map(|(_, folder)| in_folder(&folder.join("lib"))).collect()
}

/// Those of a folder, the newest first, the one without a version last.
fn in_folder(folder: &Path) -> Vec<PathBuf> {
    newest_first(
        entries(folder)
            .filter(|path| {
                major_in_name(path).is_some() || path.file_name().is_some_and(|it| it == FILE)
            })
            .collect(),
    )
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_library(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
        name.strip_prefix(FILE).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

fn newest_first(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_by_key(|path| std::cmp::Reverse(major_in_name(path)));
    paths
}

fn each_once(places: Vec<Place>) -> Vec<Place> {
    let mut seen = std::collections::HashSet::new();
    places
        .into_iter()
        .filter(|place| {
            let file = std::fs::canonicalize(&place.path);
            seen.insert(file.unwrap_or_else(|_| place.path.clone()))
        })
        .collect()
}
