//! `marey view --list`: prints the names of the metrics of a file as Proton's viewer does.

use std::io::{self, Write};
use std::sync::Arc;

use marey_query::graph::{Graph, without_unit};

use crate::text::printable;

/// The name under which Proton's viewer lists the node names, as an exclusive metric.
const NAME: &str = "name";

/// Writes the two lists.
pub(super) fn write(out: &mut impl Write, graph: &Graph) -> io::Result<()> {
    writeln!(out, "Available inclusive metrics:")?;
    write_names(out, &graph.inclusive())?;
    writeln!(out, "Available exclusive metrics:")?;
    writeln!(out, "- {NAME}")?;
    write_names(out, &graph.exclusive())
}

fn write_names(out: &mut impl Write, keys: &[Arc<str>]) -> io::Result<()> {
    for key in keys {
        writeln!(out, "- {}", printable(&without_unit(key).to_lowercase()))?;
    }
    Ok(())
}
