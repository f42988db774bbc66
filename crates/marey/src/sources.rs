//! Files outside of a run that its collection reads.

use std::path::Path;

use marey_attach::CodeFiles;
use marey_store::{CodePlace, Run};

/// Traces of torch.profiler, and the programs and libraries whose code a run names.
#[derive(Debug, Default)]
pub struct Sources(CodeFiles);

impl marey_store::Sources for Sources {
    fn read_trace(&self, trace: &Path) -> Result<Run, String> {
        marey_formats::read_window(trace)
    }

    fn functions_at(&self, place: &CodePlace) -> Vec<String> {
        self.0.functions_at(&place.path, &place.build_id, place.address)
    }
}
