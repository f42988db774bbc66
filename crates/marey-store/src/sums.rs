//! Writing the sums of spans: the table `rollups`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray};
use marey_model::table::stored;

use crate::StoreError;
use crate::columns::{ids, ints, maybe_ints};
use crate::parts::{LazyPart, Parts};
use crate::rollup::{Rollup, Sums, Whole};

/// Rows that are written at a time.
const BATCH_ROWS: usize = 1 << 14;

/// What a place is, by the run's ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whose {
    pub(crate) thread: u32,
    pub(crate) context: u32,
    pub(crate) name: u32,
    /// When the recording of its process began.
    pub(crate) start_nanos: i64,
}

/// Writes the sums of the whole recording, by place, then the rows of each level, by the width of its
/// buckets and time.
pub(crate) fn write(
    wholes: &[Whole],
    rollup: Rollup,
    whose: impl Fn(u32) -> Whose,
    process: Option<u32>,
    parts: &mut Parts,
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(&stored::ROLLUPS);
    let some: Vec<u32> = (0..wholes.len() as u32)
        .filter(|&place| !wholes[place as usize].sums.is_nothing())
        .collect();
    for places in some.chunks(BATCH_ROWS) {
        let sums = places
            .iter()
            .map(|&place| (whose(place).start_nanos, place, wholes[place as usize].sums));
        let sketches = places.iter().map(|&place| {
            let Whole { sums, sketch } = &wholes[place as usize];
            // Samples have no durations.
            sums.extremes_nanos.map(|_| {
                let mut bytes = Vec::new();
                sketch.encode(&mut bytes);
                bytes
            })
        });
        part.write(columns(0, sums, sketches.collect(), &whose), parts)?;
    }
    rollup.finish(|shift, cells| {
        cells.chunks(BATCH_ROWS).try_for_each(|cells| {
            let sums = cells.iter().map(|cell| (cell.bucket << shift, cell.place, cell.sums));
            let sketches = BinaryArray::new_null(cells.len());
            part.write(columns(1 << shift, sums, sketches, &whose), parts)
        })
    })?;
    part.finish(process, parts)
}

/// Of rows with their bucket's start and their place.
fn columns(
    bucket_nanos: i64,
    rows: impl Iterator<Item = (i64, u32, Sums)> + Clone,
    sketches: BinaryArray,
    whose: &impl Fn(u32) -> Whose,
) -> Vec<ArrayRef> {
    let places = rows.clone().map(|row| whose(row.1));
    let sums = rows.clone().map(|row| row.2);
    vec![
        ints(rows.clone().map(|_| bucket_nanos)),
        ints(rows.map(|row| row.0)),
        ids(places.clone().map(|place| place.thread)),
        ids(places.clone().map(|place| place.context)),
        ids(places.map(|place| place.name)),
        ints(sums.clone().map(|sums| sums.count)),
        ints(sums.clone().map(|sums| sums.total_nanos)),
        ints(sums.clone().map(|sums| sums.self_nanos)),
        maybe_ints(sums.clone().map(|sums| sums.extremes_nanos.map(|extremes| extremes.0))),
        maybe_ints(sums.map(|sums| sums.extremes_nanos.map(|extremes| extremes.1))),
        Arc::new(sketches),
    ]
}
