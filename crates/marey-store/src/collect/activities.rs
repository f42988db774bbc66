//! Converts the shapes of the device activities of a spool to rows. A *shape* holds what many
//! activities have in common, such as a kernel's name and grid, and each activity refers to one.

use marey_model::args::NewArgs;
use marey_model::spool::{ActivityKind, ActivityShape, Detail};

use super::interned::Interned;
use super::outline::Outline;
use crate::columns::saturating_i64;
use crate::row::{self, Args, GpuActivity};

/// Returns the row of a shape of a process, without the columns in which its activities differ. It
/// refers to its argument text by position.
pub(super) fn shape_row(
    shape: &ActivityShape,
    outline: &Outline,
    process_id: u32,
    arg_texts: &mut Interned<String>,
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
        args: detail_args(shape, arg_texts),
        ..GpuActivity::new(process_id, row_kind(shape.kind), name_id, 0, 0)
    }
}

/// Returns the details that have no column, as arguments.
fn detail_args(shape: &ActivityShape, arg_texts: &mut Interned<String>) -> Args {
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
    let position = arg_texts.position(args.template());
    Args { text_id: Some(position), numbers: args.numbers().iter().copied().collect() }
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
