//! Converts the device activities of a spool to rows. A *shape* holds what many activities have in
//! common, such as a kernel's name and grid, and each activity refers to one.

use std::collections::HashMap;

use marey_model::args::NewArgs;
use marey_model::spool::{Activity, ActivityKind, ActivityShape, Detail, IdMap};

use super::outline::Outline;
use crate::row::{self, Args, GpuActivity};

/// The shapes of a spool, as rows that an activity's times complete.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    rows: IdMap<GpuActivity>,
    /// Argument texts. Rows refer to them by position until they have ids.
    texts: Vec<String>,
    /// The position of each text in `texts`.
    text_positions: HashMap<String, u32>,
}

impl Shapes {
    /// Creates an empty set. `texts` are the argument texts to which other rows of the spool refer.
    pub(super) fn with_texts(texts: Vec<String>) -> Self {
        Self { texts, ..Self::default() }
    }

    /// Adds shapes of a process. The first shape has the id `first_id`.
    pub(super) fn extend(
        &mut self,
        first_id: u32,
        shapes: &[ActivityShape],
        outline: &Outline,
        process_id: u32,
    ) {
        let rows: Vec<_> =
            shapes.iter().map(|shape| self.shape_row(shape, outline, process_id)).collect();
        self.rows.extend(first_id, rows);
    }

    /// Returns the row of an activity, without its times and context.
    pub(super) fn row_of(&self, activity: &Activity) -> Option<GpuActivity> {
        let bytes = (activity.bytes > 0).then(|| saturating_i64(activity.bytes));
        let correlation_id =
            (activity.correlation_id > 0).then_some(activity.correlation_id.into());
        let row = self.rows.get(activity.shape_id)?.clone();
        Some(GpuActivity { correlation_id, bytes, ..row })
    }

    /// Returns the argument texts by position.
    pub(super) fn into_texts(self) -> Vec<String> {
        self.texts
    }

    fn shape_row(
        &mut self,
        shape: &ActivityShape,
        outline: &Outline,
        process_id: u32,
    ) -> GpuActivity {
        let value_of = |wanted| {
            let detail = shape.details.iter().find(|(detail, _)| *detail == wanted);
            detail.map(|&(_, value)| value)
        };
        let small_value_of = |wanted| value_of(wanted).map(|value| value as u32);
        let axes = |x, y, z| Some([small_value_of(x)?, small_value_of(y)?, small_value_of(z)?]);
        let is_kernel = shape.kind == ActivityKind::Kernel;
        let shared = [Detail::StaticSharedBytes, Detail::DynamicSharedBytes].map(value_of);
        let shared_bytes = shared.into_iter().flatten().fold(0, u64::saturating_add);
        let name_id = outline.texts.get(shape.name_id).copied().unwrap_or_default();
        GpuActivity {
            device: shape.device,
            stream: shape.stream,
            graph_node_id: value_of(Detail::GraphNode),
            grid: axes(Detail::GridX, Detail::GridY, Detail::GridZ),
            block: axes(Detail::BlockX, Detail::BlockY, Detail::BlockZ),
            registers: small_value_of(Detail::Registers),
            shared_bytes: is_kernel.then(|| saturating_i64(shared_bytes)),
            external_id: value_of(Detail::ExternalId),
            args: self.detail_args(shape),
            ..GpuActivity::new(process_id, row_kind(shape.kind), name_id, 0, 0)
        }
    }

    /// Returns the details that have no column, as arguments.
    fn detail_args(&mut self, shape: &ActivityShape) -> Args {
        let mut args = NewArgs::default();
        for &(detail, value) in &shape.details {
            if let Some(key) = detail.key() {
                let is_signed = detail.is_signed();
                args.int(key, if is_signed { value.cast_signed() } else { saturating_i64(value) });
            }
        }
        if args.is_empty() {
            return Args::default();
        }
        let position = self.text_position(args.template());
        Args { text_id: Some(position), numbers: args.numbers().iter().copied().collect() }
    }

    /// Returns the position of an argument text.
    pub(super) fn text_position(&mut self, text: String) -> u32 {
        *self.text_positions.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            self.texts.len() as u32 - 1
        })
    }
}

fn row_kind(kind: ActivityKind) -> row::ActivityKind {
    match kind {
        ActivityKind::Kernel => row::ActivityKind::Kernel,
        ActivityKind::Memcpy => row::ActivityKind::Memcpy,
        ActivityKind::Memset => row::ActivityKind::Memset,
        ActivityKind::Sync => row::ActivityKind::Sync,
        ActivityKind::Overhead => row::ActivityKind::Other,
    }
}

/// Converts a number to the type of its column. The result saturates.
fn saturating_i64(value: u64) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}
