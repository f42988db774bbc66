//! Writes profiles to files atomically, for `Graph.write`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use marey_formats::hatchet::{self, Format};
use marey_model::profile::Profile;
use marey_store::is_device_or_pipe;
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;

pub(crate) fn parse_format(name: &str) -> PyResult<Format> {
    match name {
        "hatchet" => Ok(Format::Json),
        "hatchet_msgpack" => Ok(Format::Msgpack),
        _ => {
            let message = format!("format {name:?} is neither \"hatchet\" nor \"hatchet_msgpack\"");
            Err(PyValueError::new_err(message))
        }
    }
}

/// Writes to a temporary name and then renames the file, so that no partial profile has the final
/// name. A device or a pipe is written to directly.
pub(crate) fn write(profile: &Profile, format: Format, path: &Path) -> io::Result<()> {
    if is_device_or_pipe(path) {
        return hatchet::write(profile, format, &mut File::options().write(true).open(path)?);
    }
    let temporary = temporary_name(path);
    let write_result = File::create(&temporary)
        .and_then(|mut file| hatchet::write(profile, format, &mut file))
        .and_then(|()| fs::rename(&temporary, path));
    write_result.inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// Returns a name next to `path` that no other write uses, in this process or another.
fn temporary_name(path: &Path) -> PathBuf {
    static WRITE_COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{}.tmp", process::id(), WRITE_COUNT.fetch_add(1, Ordering::Relaxed)));
    name.into()
}
