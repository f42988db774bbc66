//! A run in the making: it has its name when it is whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use marey_model::quantity::{Grouped, Size};
use marey_store::{Run, StoreError};
use tempfile::TempDir;

use crate::interrupt::{self, Unfinished};
use crate::output::Failure;
use crate::runs;
use crate::text::quoted;

/// A run that is made in a hidden folder beside its place, which is gone if there will be no run.
pub(crate) struct NewRun {
    scratch: TempDir,
    path: PathBuf,
    replaces: bool,
    unfinished: Unfinished,
}

impl NewRun {
    /// A run at a path where nothing is, or where `is_forced` a run is.
    pub(crate) fn at(path: &Path, is_forced: bool) -> Result<Self, Failure> {
        let replaces = path.symlink_metadata().is_ok();
        if replaces {
            check_replaceable(path, is_forced)?;
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let cannot_write = |error| cannot_create(path, &error);
        fs::metadata(folder).map_err(cannot_write)?;
        let scratch = tempfile::Builder::new().prefix(".marey-").tempdir_in(folder);
        let scratch = scratch.map_err(cannot_write)?;
        let unfinished = Unfinished::new(scratch.path()).map_err(cannot_write)?;
        Ok(Self { scratch, path: path.to_owned(), replaces, unfinished })
    }

    /// Where it is made; nothing is there yet.
    pub(crate) fn folder(&self) -> PathBuf {
        self.scratch.path().join("run")
    }

    /// Gives it its name. Where that fails, what bore the name before bears it again.
    pub(crate) fn publish(self) -> Result<Published, Failure> {
        let (path, new) = (&self.path, self.folder());
        let old = self.scratch.path().join("replaced");
        let moved = interrupt::undisturbed(|| {
            if self.replaces {
                return replace(path, &new, &old);
            }
            if path.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(&new, path)
        });
        if let Err(error) = moved {
            let mut failure = cannot_create(path, &error);
            if old.symlink_metadata().is_ok() {
                failure.hint = Some(format!("the run that was there is {}", quoted(&old)));
                drop(self.unfinished);
                drop(self.scratch.keep());
            }
            return Err(failure);
        }
        let run = Run::open(path).map_err(Failure::from)?;
        Ok(Published { path: self.path, events: runs::events(&run), bytes: runs::bytes(&run) })
    }
}

/// Puts a run in the place of another, which it puts aside.
fn replace(path: &Path, new: &Path, old: &Path) -> io::Result<()> {
    fs::rename(path, old)?;
    fs::rename(new, path).inspect_err(|_| {
        // Where it cannot go back, it stays aside.
        let _there = fs::rename(old, path);
    })
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) path: PathBuf,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

impl Published {
    /// For the user.
    pub(crate) fn describe(&self) -> String {
        let events = match self.events {
            1 => "1 event".to_owned(),
            events => format!("{} events", Grouped(events.into())),
        };
        format!("wrote {}, {events}, {}", quoted(&self.path), Size(self.bytes))
    }
}

fn check_replaceable(path: &Path, is_forced: bool) -> Result<(), Failure> {
    let refused = |message, hint| Err(Failure { message, hint: Some(hint) });
    let name = quoted(path);
    if !is_forced {
        let hint = "--force replaces it, -o writes another".into();
        return refused(format!("{name} is there already"), hint);
    }
    match Run::open(path) {
        Ok(_) | Err(StoreError::Uncollected { .. }) => {}
        Err(_) => {
            return refused(format!("{name} is no run"), "--force replaces runs only".into());
        }
    }
    if path.is_dir() && marey_store::is_recording(path).map_err(Failure::from)? {
        let hint = "-o writes another".into();
        return refused(format!("{name} is being recorded"), hint);
    }
    Ok(())
}

fn cannot_create(path: &Path, error: &io::Error) -> Failure {
    Failure { message: format!("cannot create {}: {error}", quoted(path)), hint: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign;

    #[test]
    fn a_run_that_is_not_replaced_after_all_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (stacks, path) = (folder.path().join("a.folded"), folder.path().join("a.marey"));
        fs::write(&stacks, "main 1\n").unwrap();
        foreign::import(&[stacks], &path).unwrap();
        let new = NewRun::at(&path, true).unwrap();
        // Nothing was made that could bear the name.
        let failure = new.publish().unwrap_err();
        assert!(failure.message.ends_with("No such file or directory (os error 2)"));
        assert_eq!(failure.hint, None);
        Run::open(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
