//! The files of the sessions, and which of them are this process's to write again.

use crate::account;
use crate::error::Error;
use crate::output::{Contents, Document, Format, Outputs};
use crate::registry::lock;
use crate::session::Session;
use crate::trace::{self, SpoolFile};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

/// Files that this process wrote and may write again.
static WRITTEN: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// Writes a file, which this process may write again; returns the path.
pub(crate) fn write(
    outputs: &mut Outputs,
    base: &str,
    contents: &Contents,
) -> Result<Option<PathBuf>, Error> {
    let is_ours = |path: &Path| lock(&WRITTEN).contains(path);
    let path = outputs.write(base, contents, &is_ours)?;
    lock(&WRITTEN).extend(path.clone());
    Ok(path)
}

/// What a file of a session's phase holds.
pub(crate) fn contents<'a>(
    session: &Session,
    phase: u32,
    format: Format,
    document: Document<'a>,
    spool: Option<&'a SpoolFile>,
) -> Result<Contents<'a>, Error> {
    match format {
        Format::Hatchet => Ok(Contents::Hatchet(document)),
        Format::HatchetMsgpack => Ok(Contents::HatchetMsgpack(document)),
        Format::ChromeTrace => {
            let spool = spool.ok_or(Error::FormatNeedsTrace)?.path();
            Ok(Contents::ChromeTrace { spool, session: session.slot, phase })
        }
    }
}

/// Writes the closed phases that are in no file yet.
pub(crate) fn write_closed_phases(session: &mut Session) -> Result<(), Error> {
    let meta = account::meta(session, false);
    let format = session.options.format;
    let bases: Vec<_> = session
        .closed
        .iter()
        .filter(|(_, phase)| !phase.is_written)
        .map(|(&phase, _)| (phase, session.base_of(phase)))
        .collect();
    let spool = if session.is_trace() && !bases.is_empty() { trace::file()? } else { None };
    for (phase, base) in bases {
        let Some(closed) = session.closed.get(&phase) else { continue };
        let tree = Arc::clone(&closed.tree);
        let document = Document { tree: &tree, meta: &meta };
        let contents = contents(session, phase, format, document, spool.as_deref())?;
        write(&mut lock(&session.outputs), &base, &contents)?;
        if let Some(closed) = session.closed.get_mut(&phase) {
            closed.is_written = true;
        }
    }
    Ok(())
}

/// Holds the lock over a fork.
pub(crate) fn hold() -> impl Sized + use<> {
    lock(&WRITTEN)
}

/// In the child of a fork, where all files are the parent's.
pub(crate) fn begin_child() {
    lock(&WRITTEN).clear();
}
