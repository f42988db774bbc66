//! Finds the files that may be libcupti, in order of preference.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use marey_model::env;
use marey_record::environment;

/// The places to search for libraries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// File or folder selected by the user; the only search location if set.
    pub selected: Option<PathBuf>,
    /// Search path of the Python interpreter, `sys.path`.
    pub python_paths: Vec<PathBuf>,
    /// Folders of CUDA toolkits.
    pub cuda_homes: Vec<PathBuf>,
}

impl Hints {
    /// Returns the hints in the environment, with the interpreter's search path.
    pub fn from_env(python_paths: Vec<PathBuf>) -> Self {
        let folder = |value: Option<OsString>| value.filter(|it| !it.is_empty()).map(PathBuf::from);
        let homes = ["CUDA_HOME", "CUDA_PATH"].map(environment::get);
        Self {
            selected: folder(environment::get(env::CUPTI_LIB)),
            python_paths,
            cuda_homes: homes
                .into_iter()
                .filter_map(folder)
                .chain([PathBuf::from("/usr/local/cuda")])
                .collect(),
        }
    }
}

/// Origin of a search location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Selected by the user.
    Selected,
    /// Already loaded by the process.
    Loaded,
    /// Installed by one of NVIDIA's wheels.
    Wheel,
    /// Installed with Triton.
    Triton,
    /// Part of a CUDA toolkit.
    Toolkit,
    /// Found by the loader.
    Loader,
}

impl Origin {
    /// Returns the name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Selected => env::CUPTI_LIB,
            Self::Loaded => "loaded already",
            Self::Wheel => "NVIDIA's wheel",
            Self::Triton => "Triton's wheel",
            Self::Toolkit => "CUDA toolkit",
            Self::Loader => "the loader's path",
        }
    }
}

/// A search location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchLocation {
    /// A file, or a name for the loader.
    pub path: PathBuf,
    /// Origin.
    pub origin: Origin,
}

/// Returns all search locations, without duplicates. `newest_major` is the newest CUDA version to
/// try with the loader.
pub(super) fn locations(hints: &Hints, newest_major: u32) -> Vec<SearchLocation> {
    if let Some(selected) = &hints.selected {
        return user_locations(selected);
    }
    let mut locations = Vec::new();
    let mut add = |origin, paths: Vec<PathBuf>| {
        locations.extend(paths.into_iter().map(|path| SearchLocation { path, origin }));
    };
    add(
        Origin::Loaded,
        mapped_libraries(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default()),
    );
    for path in &hints.python_paths {
        add(Origin::Wheel, wheel_libraries(&path.join("nvidia")));
    }
    for path in &hints.python_paths {
        let folder = path.join("triton/backends/nvidia/lib");
        add(Origin::Triton, folder_libraries(&folder.join("cupti")));
        add(Origin::Triton, folder_libraries(&folder.join("cupti-blackwell")));
    }
    for home in &hints.cuda_homes {
        add(Origin::Toolkit, folder_libraries(&home.join("extras/CUPTI/lib64")));
        add(Origin::Toolkit, folder_libraries(&home.join("lib64")));
    }
    let majors = (OLDEST_MAJOR..=newest_major).rev();
    add(Origin::Loader, majors.map(|major| format!("{FILE_NAME}.{major}").into()).collect());
    add(Origin::Loader, vec![FILE_NAME.into()]);
    let mut seen = std::collections::HashSet::new();
    locations.retain(|SearchLocation { path, .. }| {
        seen.insert(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()))
    });
    locations
}

/// Returns the major version in a file name, such as 13 in `libcupti.so.13`.
pub(super) fn major_in_name(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix(FILE_NAME)?.strip_prefix('.')?.parse().ok()
}

const FILE_NAME: &str = "libcupti.so";
const OLDEST_MAJOR: u32 = 12;

fn user_locations(selected: &Path) -> Vec<SearchLocation> {
    let paths =
        if selected.is_dir() { folder_libraries(selected) } else { vec![selected.to_owned()] };
    paths.into_iter().map(|path| SearchLocation { path, origin: Origin::Selected }).collect()
}

/// Returns the libraries mapped by a process, newest version first.
fn mapped_libraries(maps: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = maps
        .lines()
        .filter_map(|line| line.find('/').map(|start| PathBuf::from(&line[start..])))
        .filter(|path| is_library(path))
        .collect();
    paths.dedup();
    newest_first(paths)
}

/// Returns the libraries in the package `nvidia`: in `cu13/lib`, or `cuda_cupti/lib` up to CUDA 12.
fn wheel_libraries(package: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<(u32, PathBuf)> = entries(package)
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            Some((name.strip_prefix("cu")?.parse().ok()?, path))
        })
        .collect();
    folders.sort_by_key(|&(major, _)| std::cmp::Reverse(major));
    folders.push((0, package.join("cuda_cupti")));
    folders.iter().flat_map(|(_, folder)| folder_libraries(&folder.join("lib"))).collect()
}

/// Returns the libraries in a folder, newest first, the one without a version last.
fn folder_libraries(folder: &Path) -> Vec<PathBuf> {
    newest_first(
        entries(folder)
            .filter(|path| {
                major_in_name(path).is_some() || path.file_name().is_some_and(|it| it == FILE_NAME)
            })
            .collect(),
    )
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_library(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
        name.strip_prefix(FILE_NAME)
            .is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('.'))
    })
}

fn newest_first(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_by_key(|path| std::cmp::Reverse(major_in_name(path)));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Creates empty files with these paths in a new folder.
    fn create_files(paths: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for path in paths {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    /// Returns the search locations below a folder. Those elsewhere on the machine are left out.
    fn locations_below(root: &Path, hints: &Hints) -> Vec<(Origin, String)> {
        let relative = |location: SearchLocation| {
            let path = location.path.strip_prefix(root).ok()?;
            Some((location.origin, path.to_str().unwrap().to_owned()))
        };
        locations(hints, 13).into_iter().filter_map(relative).collect()
    }

    #[test]
    fn wheels_come_before_triton_and_triton_before_the_toolkit_the_newest_first() {
        let root = create_files(&[
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
            selected: None,
            python_paths: vec![root.path().join("site"), root.path().join("user")],
            cuda_homes: vec![root.path().join("cuda")],
        };
        let expected = [
            (Origin::Wheel, "site/nvidia/cu13/lib/libcupti.so.13"),
            (Origin::Wheel, "site/nvidia/cu9/lib/libcupti.so.9"),
            (Origin::Wheel, "site/nvidia/cuda_cupti/lib/libcupti.so.12"),
            (Origin::Wheel, "user/nvidia/cu13/lib/libcupti.so.13"),
            (Origin::Triton, "site/triton/backends/nvidia/lib/cupti/libcupti.so"),
            (Origin::Triton, "site/triton/backends/nvidia/lib/cupti-blackwell/libcupti.so.13"),
            (Origin::Toolkit, "cuda/extras/CUPTI/lib64/libcupti.so.12"),
            (Origin::Toolkit, "cuda/lib64/libcupti.so"),
        ]
        .map(|(origin, path)| (origin, path.to_owned()));
        assert_eq!(locations_below(root.path(), &hints), expected);
    }

    #[test]
    fn the_loader_is_last_and_limited_to_the_drivers_version() {
        let names = |newest_major| -> Vec<PathBuf> {
            locations(&Hints::default(), newest_major)
                .into_iter()
                .skip_while(|location| location.origin != Origin::Loader)
                .map(|location| location.path)
                .collect()
        };
        assert_eq!(names(12), ["libcupti.so.12", "libcupti.so"].map(PathBuf::from));
        assert_eq!(names(13).len(), 3);
    }

    #[test]
    fn the_users_choice_is_the_only_location() {
        let root = create_files(&[
            "cupti/libcupti.so",
            "cupti/libcupti.so.13",
            "site/nvidia/cu13/lib/libcupti.so.13",
        ]);
        let python_paths = vec![root.path().join("site")];
        let selected = |path: &str| {
            let selected = Some(root.path().join(path));
            let hints = Hints { selected, python_paths: python_paths.clone(), ..Hints::default() };
            locations_below(root.path(), &hints)
        };
        let location = |path: &str| (Origin::Selected, path.to_owned());
        assert_eq!(
            selected("cupti"),
            [location("cupti/libcupti.so.13"), location("cupti/libcupti.so")]
        );
        assert_eq!(selected("cupti/libcupti.so"), [location("cupti/libcupti.so")]);
        assert_eq!(selected("nothing"), [location("nothing")]);
        assert_eq!(selected("site"), []);
    }

    #[test]
    fn a_file_with_two_names_is_one_location() {
        let root = create_files(&["cuda/lib64/libcupti.so.12"]);
        symlink("libcupti.so.12", root.path().join("cuda/lib64/libcupti.so")).unwrap();
        let hints = Hints { cuda_homes: vec![root.path().join("cuda")], ..Hints::default() };
        assert_eq!(
            locations_below(root.path(), &hints),
            [(Origin::Toolkit, "cuda/lib64/libcupti.so.12".to_owned())]
        );
    }

    #[test]
    fn mapped_libraries_are_parsed() {
        let maps = "\
7f0000000000-7f0000001000 r-xp 00000000 08:01 11 /opt/with space/libcupti.so.2025.1.1
7f0000001000-7f0000002000 rw-p 00001000 08:01 11 /opt/with space/libcupti.so.2025.1.1
7f0000002000-7f0000003000 r-xp 00000000 08:01 12 /opt/lib/libcuptihelper.so
7f0000003000-7f0000004000 r-xp 00000000 08:01 13 /opt/lib/libcupti.so.13
7f0000004000-7f0000005000 rw-p 00000000 00:00 0 [heap]
7f0000005000-7f0000006000 rw-p 00000000 00:00 0
";
        let expected = ["/opt/lib/libcupti.so.13", "/opt/with space/libcupti.so.2025.1.1"];
        assert_eq!(mapped_libraries(maps), expected.map(PathBuf::from));
    }
}
