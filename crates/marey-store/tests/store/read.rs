//! Reading whole runs.

use marey_store::row::{Args, Row};
use marey_store::{Reader, Run, Selection};

pub(crate) fn reader(run: &Run) -> Reader<'_> {
    Reader::new(run, Selection::default()).unwrap()
}

/// Returns the rows of a table.
pub(crate) fn rows<R: Row>(reader: &Reader) -> Vec<R> {
    reader.rows().unwrap().map(Result::unwrap).collect()
}

/// Returns the names of a context node and of those around it, outermost first.
pub(crate) fn path<'r>(reader: &'r Reader, context: u32) -> Vec<&'r str> {
    let ids = reader.path(context).into_iter();
    ids.map(|id| reader.text(reader.context(id).name_id)).collect()
}

/// Returns args as JSON.
pub(crate) fn args(reader: &Reader, args: &Args) -> String {
    let mut json = String::new();
    reader.args(args, &mut json);
    json
}
