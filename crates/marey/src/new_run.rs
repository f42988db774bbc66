//! Creates a run under a temporary name and renames it when it is complete, so that no reader sees
//! a partial run. `record`, `import` and `merge` use it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use marey_model::quantity::{Grouped, Size};
use marey_store::{Run, StoreError};
use tempfile::TempDir;

use crate::interrupt::{self, UnfinishedPath};
use crate::output::Failure;
use crate::runs;
use crate::text::quote_path;

/// A run that is written to a hidden folder next to its path. Its drop removes the folder.
pub(crate) struct NewRun {
    hidden_folder: TempDir,
    path: PathBuf,
    replaces_existing: bool,
    unfinished: UnfinishedPath,
}

impl NewRun {
    /// Begins a run at a path. Fails if something exists there, except a run if `is_forced`.
    pub(crate) fn create(path: &Path, is_forced: bool) -> Result<Self, Failure> {
        let replaces_existing = path.symlink_metadata().is_ok();
        if replaces_existing {
            check_replaceable(path, is_forced)?;
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let cannot_write = |error| cannot_create(path, &error);
        fs::metadata(folder).map_err(cannot_write)?;
        let hidden_folder = tempfile::Builder::new().prefix(".marey-").tempdir_in(folder);
        let hidden_folder = hidden_folder.map_err(cannot_write)?;
        let unfinished = UnfinishedPath::new(hidden_folder.path()).map_err(cannot_write)?;
        Ok(Self { hidden_folder, path: path.to_owned(), replaces_existing, unfinished })
    }

    /// Returns the folder to write to, which does not exist yet.
    pub(crate) fn folder(&self) -> PathBuf {
        self.hidden_folder.path().join("run")
    }

    /// Renames the run to its path. Restores a run that was there if this fails.
    pub(crate) fn publish(self) -> Result<Published, Failure> {
        let (path, new_path) = (&self.path, self.folder());
        let old_path = self.hidden_folder.path().join("replaced");
        let renamed = interrupt::without_signals(|| {
            if self.replaces_existing {
                return replace(path, &new_path, &old_path);
            }
            if path.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(&new_path, path)
        });
        if let Err(error) = renamed {
            let mut failure = cannot_create(path, &error);
            if old_path.symlink_metadata().is_ok() {
                failure.hint =
                    Some(format!("the previous run is now at {}", quote_path(&old_path)));
                drop(self.unfinished);
                drop(self.hidden_folder.keep());
            }
            return Err(failure);
        }
        let run = Run::open(path).map_err(Failure::from)?;
        Ok(Published {
            path: self.path,
            events: runs::event_count(&run),
            bytes: runs::size_bytes(&run),
        })
    }
}

/// Moves the run at `path` to `old_path`, and the one at `new_path` to `path`.
fn replace(path: &Path, new_path: &Path, old_path: &Path) -> io::Result<()> {
    fs::rename(path, old_path)?;
    fs::rename(new_path, path).inspect_err(|_| {
        // If it cannot be restored, it stays at `old_path`.
        let _restored = fs::rename(old_path, path);
    })
}

/// A run that was written.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) path: PathBuf,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

impl Published {
    /// Describes the run in a message.
    pub(crate) fn describe(&self) -> String {
        let events = match self.events {
            1 => "1 event".to_owned(),
            events => format!("{} events", Grouped(events.into())),
        };
        format!("wrote {}, {events}, {}", quote_path(&self.path), Size(self.bytes))
    }
}

fn check_replaceable(path: &Path, is_forced: bool) -> Result<(), Failure> {
    let refuse = |message, hint| Err(Failure { message, hint: Some(hint) });
    let name = quote_path(path);
    if !is_forced {
        let hint = "replace it with --force, or choose another path with -o".into();
        return refuse(format!("{name} already exists"), hint);
    }
    match Run::open(path) {
        Ok(_) | Err(StoreError::Uncollected { .. }) => {}
        Err(_) => {
            return refuse(format!("{name} is not a run"), "--force replaces only runs".into());
        }
    }
    if path.is_dir() && marey_store::is_recording(path).map_err(Failure::from)? {
        let hint = "choose another path with -o".into();
        return refuse(format!("{name} is being recorded"), hint);
    }
    Ok(())
}

fn cannot_create(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot create {}: {error}", quote_path(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign;

    #[test]
    fn a_failed_replacement_keeps_the_old_run() {
        let folder = tempfile::tempdir().unwrap();
        let (stacks, path) = (folder.path().join("a.folded"), folder.path().join("a.marey"));
        fs::write(&stacks, "main 1\n").unwrap();
        foreign::import(&[stacks], &path).unwrap();
        let new = NewRun::create(&path, true).unwrap();
        // No new run was written.
        let failure = new.publish().unwrap_err();
        assert!(failure.message.ends_with("No such file or directory (os error 2)"));
        assert_eq!(failure.hint, None);
        Run::open(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
