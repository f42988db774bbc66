//! A run in the making: it has its name when it is whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use marey_store::{Run, StoreError};
use tempfile::TempDir;

use crate::interrupt::Unfinished;
use crate::output::Failure;
use crate::runs;
use crate::text::{Grouped, Size, quoted};

/// A run that is made in a hidden folder beside its place, which is gone if there will be no run.
pub(crate) struct NewRun {
    scratch: TempDir,
    path: PathBuf,
    replaces: bool,
    _unfinished: Unfinished,
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
        Ok(Self { scratch, path: path.to_owned(), replaces, _unfinished: unfinished })
    }

    /// Where it is made; nothing is there yet.
    pub(crate) fn folder(&self) -> PathBuf {
        self.scratch.path().join("run")
    }

    /// Gives it its name.
    pub(crate) fn publish(self) -> Result<Published, Failure> {
        let moved = || -> io::Result<()> {
            if self.replaces {
                fs::rename(&self.path, self.scratch.path().join("replaced"))?;
            } else if self.path.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(self.folder(), &self.path)
        };
        moved().map_err(|error| cannot_create(&self.path, &error))?;
        let run = Run::open(&self.path).map_err(Failure::from)?;
        Ok(Published { path: self.path, events: runs::events(&run), bytes: runs::bytes(&run) })
    }
}

/// What came of it.
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
