//! The files of the sessions, and which of them are this process's to write again.

use crate::account;
use crate::device;
use crate::error::Error;
use crate::output::{Contents, Document, Format, Outputs, Playback, TracePart};
use crate::registry::lock;
use crate::session::{ClosedPhase, Session};
use crate::trace::{self, Recorded};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

/// Files that this process wrote and may write again.
static WRITTEN: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// Writes a file, which this process may write again; returns the path.
pub(crate) fn write(
    outputs: &mut Outputs,
    base: &str,
    contents: &mut Contents,
) -> Result<Option<PathBuf>, Error> {
    let is_ours = |path: &Path| lock(&WRITTEN).contains(path);
    let path = outputs.write(base, contents, &is_ours)?;
    lock(&WRITTEN).extend(path.clone());
    Ok(path)
}

/// What a phase's file holds.
pub(crate) fn contents<'a>(
    format: Format,
    document: Document<'a>,
    trace: Option<TracePart<'a>>,
) -> Result<Contents<'a>, Error> {
    match format {
        Format::Hatchet => Ok(Contents::Hatchet(document)),
        Format::HatchetMsgpack => Ok(Contents::HatchetMsgpack(document)),
        Format::ChromeTrace | Format::Run => {
            trace.map(Contents::ChromeTrace).ok_or(Error::FormatNeedsTrace(format))
        }
    }
}

/// What a session's Chrome traces are read with.
pub(crate) fn playback(session: &Session, recorded: &Recorded) -> Result<Playback, Error> {
    let path = recorded.file.path();
    let failed = |source| Error::Write { action: "read", path: path.to_owned(), source };
    Playback::new(path, session.slot, recorded.extent).map_err(failed)
}

/// Writes the closed phases that are in no file yet.
pub(crate) fn write_closed_phases(session: &mut Session) -> Result<(), Error> {
    let format = session.options.format;
    let waiting: Vec<_> = session
        .closed
        .iter()
        .filter(|(_, phase)| !phase.is_written)
        .map(|(&number, phase)| (session.base_of(number), number, phase.clone()))
        .collect();
    if format == Format::Run || waiting.is_empty() {
        return Ok(());
    }
    let meta = account::meta(session, false);
    let recorded = if session.is_trace() { trace::recorded(session)? } else { None };
    let mut playback = match (session.playback.take(), &recorded) {
        (None, Some((recorded, _))) => Some(playback(session, recorded)?),
        (playback, _) => playback,
    };
    for (base, number, ClosedPhase { mut tree, part, .. }) in waiting {
        device::fold_into(session.slot, number, &mut tree);
        let document = Document { tree: &tree, meta: &meta };
        let trace = playback.as_mut().zip(recorded.as_ref()).map(|(playback, (recorded, _))| {
            TracePart { playback, bytes: part, extent: recorded.extent }
        });
        write(&mut lock(&session.outputs), &base, &mut contents(format, document, trace)?)?;
        if let Some(closed) = session.closed.get_mut(&number) {
            closed.is_written = true;
        }
    }
    // One that has failed is not where it should be.
    session.playback = playback;
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
