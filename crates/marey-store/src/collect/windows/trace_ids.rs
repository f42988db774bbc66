//! Maps the ids of a trace's run to ids of texts, and to positions of arguments, in the run that is
//! being collected.

use std::collections::{BTreeMap, HashMap};

use crate::collect::interned::Interned;
use crate::names::Names;
use crate::row::{Args, Metadata};
use crate::{Reader, StoreError};

/// The key of the metadata with the FLOPs of operators by external correlation id. The profiler
/// leaves them out of its traces.
const FLOPS: &str = "marey_flops";

/// The mapping from ids in the trace's run to ids of texts and positions of arguments here.
pub(super) struct TraceIds<'a, 'r> {
    pub(super) reader: &'a Reader<'r>,
    pub(super) names: &'a mut Names,
    texts: &'a mut Interned<String>,
    /// Ids of texts in the run that is being collected, by the id in the trace's run.
    text_ids: HashMap<u32, u32>,
    arg_positions: HashMap<u32, u32>,
    /// FLOPs by external correlation id.
    flops: HashMap<u64, i64>,
}

impl<'a, 'r> TraceIds<'a, 'r> {
    /// Maps the ids of a run, whose FLOPs of operators it reads.
    pub(super) fn new(
        reader: &'a Reader<'r>,
        names: &'a mut Names,
        texts: &'a mut Interned<String>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            reader,
            names,
            texts,
            text_ids: HashMap::new(),
            arg_positions: HashMap::new(),
            flops: read_flops(reader)?,
        })
    }

    /// Returns the id of a text here.
    pub(super) fn text_id(&mut self, id: u32) -> u32 {
        let Self { reader, names, text_ids, .. } = self;
        *text_ids.entry(id).or_insert_with(|| names.text_id(reader.text(id)))
    }

    /// Returns the arguments with the position of their template here.
    pub(super) fn args(&mut self, args: Args) -> Args {
        let Self { reader, texts, arg_positions, .. } = self;
        let text_id = args.text_id.map(|id| {
            *arg_positions
                .entry(id)
                .or_insert_with(|| texts.position(reader.arg_template(id).to_owned()))
        });
        Args { text_id, numbers: args.numbers }
    }

    /// Returns the arguments of an operator, with its FLOPs if they are known.
    pub(super) fn operator_args(&mut self, args: Args, external_id: Option<u64>) -> Args {
        let flops = external_id.and_then(|id| self.flops.get(&id).copied());
        let mut args = self.args(args);
        if let (Some(flops), Some(position)) = (flops, args.text_id) {
            let template = self.texts.get(position);
            let members = template.strip_suffix('}').unwrap_or(template);
            let comma = if members == "{" { "" } else { "," };
            let extended = format!("{members}{comma}\"flops\":#}}");
            args.text_id = Some(self.texts.position(extended));
            args.numbers.push(flops);
        }
        args
    }
}

/// Reads the FLOPs of operators by external correlation id.
fn read_flops(reader: &Reader) -> Result<HashMap<u64, i64>, StoreError> {
    let mut flops = HashMap::new();
    for entry in reader.rows::<Metadata>()? {
        let entry = entry?;
        if &*entry.key == FLOPS {
            let by_id: BTreeMap<String, i64> =
                serde_json::from_str(&entry.value).unwrap_or_default();
            flops.extend(
                by_id.into_iter().filter_map(|(id, flops)| Some((id.parse().ok()?, flops))),
            );
        }
    }
    Ok(flops)
}
