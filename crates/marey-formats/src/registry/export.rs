//! Export: writes a run as a file of another format.

use std::io::Write;

use marey_store::Reader;

use crate::shared::export::{ExportError, LeftOut};
use crate::shared::format::Format;

/// Writes the part of a run that `reader` sees. Returns counts of the data that were left out.
pub fn export(
    reader: &Reader,
    format: Format,
    out: &mut dyn Write,
) -> Result<LeftOut, ExportError> {
    let mut left_out = LeftOut::new();
    super::write(format, reader, out, &mut left_out)?;
    out.flush()?;
    left_out.retain(|_, count| *count > 0);
    Ok(left_out)
}
