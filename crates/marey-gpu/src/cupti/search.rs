//! Where a libcupti may lie, in the order in which one is taken.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use marey_model::env;
use marey_record::environment;

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
        let homes = ["CUDA_HOME", "CUDA_PATH"].map(environment::get);
        Self {
            named: folder(environment::get(env::CUPTI_LIB)),
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
pub struct Place {
    /// The file, or a name for the loader.
    pub path: PathBuf,
    /// Why there.
    pub source: Source,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Empty files at these paths of a new folder.
    fn files(paths: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for path in paths {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    /// What is found below a folder, without its path, and how. What this machine has elsewhere is left out.
    fn found(root: &Path, hints: &Hints) -> Vec<(Source, String)> {
        let below = |place: Place| {
            let path = place.path.strip_prefix(root).ok()?;
            Some((place.source, path.to_str().unwrap().to_owned()))
        };
        places(hints, 13).into_iter().filter_map(below).collect()
    }

    #[test]
    fn wheels_come_before_triton_and_triton_before_the_toolkit_the_newest_first() {
        let root = files(&[
            "cuda/extras/CUPTI/lib64/libcupti.so.12",
            "cuda/lib64/libcupti.so",
            "site/triton/backends/nvidia/lib/cupti/libcupti.so",
            "site/triton/backends/nvidia/lib/cupti/libcupti.so.2025.1.1",
            "site/triton/backends/nvidia/lib/cupti-blackwell/libcupti.so.13",
            "site/nvidia/cuda_cupti/lib/libcupti.so.12",
            "site/nvidia/cu9/lib/libcupti.so.9",
            "site/nvidia/cu13/lib/libcupti.so.13",
            "site/nvidia/cu13/lib/libcupti_static.so",
            "site/nvidia/cublas/lib/libcupti.so.13",
            "user/nvidia/cu13/lib/libcupti.so.13",
        ]);
        let hints = Hints {
            named: None,
            python_paths: vec![root.path().join("site"), root.path().join("user")],
            cuda_homes: vec![root.path().join("cuda")],
        };
        let expected = [
            (Source::Wheel, "site/nvidia/cu13/lib/libcupti.so.13"),
            (Source::Wheel, "site/nvidia/cu9/lib/libcupti.so.9"),
            (Source::Wheel, "site/nvidia/cuda_cupti/lib/libcupti.so.12"),
            (Source::Wheel, "user/nvidia/cu13/lib/libcupti.so.13"),
            (Source::Triton, "site/triton/backends/nvidia/lib/cupti/libcupti.so"),
            (Source::Triton, "site/triton/backends/nvidia/lib/cupti-blackwell/libcupti.so.13"),
            (Source::Toolkit, "cuda/extras/CUPTI/lib64/libcupti.so.12"),
            (Source::Toolkit, "cuda/lib64/libcupti.so"),
        ]
        .map(|(source, path)| (source, path.to_owned()));
        assert_eq!(found(root.path(), &hints), expected);
    }

    #[test]
    fn the_loader_is_asked_last_and_for_no_newer_version_than_the_drivers() {
        let names = |newest_major| -> Vec<PathBuf> {
            places(&Hints::default(), newest_major)
                .into_iter()
                .skip_while(|place| place.source != Source::Loader)
                .map(|place| place.path)
                .collect()
        };
        assert_eq!(names(12), ["libcupti.so.12", "libcupti.so"].map(PathBuf::from));
        assert_eq!(names(13).len(), 3);
    }

    #[test]
    fn what_the_user_names_is_the_only_place() {
        let root = files(&[
            "cupti/libcupti.so",
            "cupti/libcupti.so.13",
            "site/nvidia/cu13/lib/libcupti.so.13",
        ]);
        let python_paths = vec![root.path().join("site")];
        let named = |path: &str| {
            let named = Some(root.path().join(path));
            let hints = Hints { named, python_paths: python_paths.clone(), ..Hints::default() };
            found(root.path(), &hints)
        };
        let place = |path: &str| (Source::Named, path.to_owned());
        assert_eq!(named("cupti"), [place("cupti/libcupti.so.13"), place("cupti/libcupti.so")]);
        assert_eq!(named("cupti/libcupti.so"), [place("cupti/libcupti.so")]);
        assert_eq!(named("nothing"), [place("nothing")]);
        assert_eq!(named("site"), []);
    }

    #[test]
    fn a_file_with_two_names_is_one_place() {
        let root = files(&["cuda/lib64/libcupti.so.12"]);
        symlink("libcupti.so.12", root.path().join("cuda/lib64/libcupti.so")).unwrap();
        let hints = Hints { cuda_homes: vec![root.path().join("cuda")], ..Hints::default() };
        assert_eq!(
            found(root.path(), &hints),
            [(Source::Toolkit, "cuda/lib64/libcupti.so.12".to_owned())]
        );
    }

    #[test]
    fn mapped_libraries_are_found_by_their_lines() {
        let maps = "\
7f0000000000-7f0000001000 r-xp 00000000 08:01 11 /opt/with space/libcupti.so.2025.1.1
7f0000001000-7f0000002000 rw-p 00001000 08:01 11 /opt/with space/libcupti.so.2025.1.1
7f0000002000-7f0000003000 r-xp 00000000 08:01 12 /opt/lib/libcuptihelper.so
7f0000003000-7f0000004000 r-xp 00000000 08:01 13 /opt/lib/libcupti.so.13
7f0000004000-7f0000005000 rw-p 00000000 00:00 0 [heap]
7f0000005000-7f0000006000 rw-p 00000000 00:00 0
";
        let expected = ["/opt/lib/libcupti.so.13", "/opt/with space/libcupti.so.2025.1.1"];
        assert_eq!(in_maps(maps), expected.map(PathBuf::from));
    }
}
