//! Tables of random spools equal those of the model.

use std::collections::BTreeMap;

use marey_model::sketch::Sketch;
use proptest::prelude::*;

use super::model::{Expected, expected};
use super::spools::{Recorded, UNIX, collect_run, random_spool};
use super::tables::{NodePath, RollupRow, SpanRow, Tables};

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn tables_equal_a_simple_model_of_the_frames(
        first in random_spool(100),
        second in random_spool(101),
    ) {
        let run = collect_run(&Recorded::with_spools(&[&first, &second]));
        for (pid, frames) in [(100, &first), (101, &second)] {
            let expected = expected(frames);
            let tables = Tables::new(&run, pid);
            prop_assert_eq!(&tables.spans(), &expected.spans);
            prop_assert_eq!(&tables.values(), &expected.values);
            prop_assert_eq!(&tables.counters(), &expected.counters);
            check_steps(&tables, &expected)?;
            check_rollups(&tables.rollups(), &expected.spans_in_sums, pid)?;
        }
    }
}

fn check_steps(tables: &Tables, expected: &Expected) -> Result<(), TestCaseError> {
    let is_step = |span: &&SpanRow| span.node_path.path.last().is_some_and(|at| at == "step step");
    let steps = expected.spans.iter().filter(is_step).zip(0..);
    let steps: Vec<_> = steps
        .map(|(span, at)| (span.start_nanos, span.duration_nanos, span.node_path.clone(), at))
        .collect();
    prop_assert_eq!(tables.steps(), steps);
    Ok(())
}

/// Count, total and self time.
type Sums = (i64, i64, i64);

/// Checks that every level agrees with the spans, in each bucket and in total.
fn check_rollups(rows: &[RollupRow], spans: &[SpanRow], pid: i64) -> Result<(), TestCaseError> {
    let order = |row: &RollupRow| (row.bucket_nanos, row.start_nanos);
    prop_assert!(rows.is_sorted_by_key(order));
    let mut levels: BTreeMap<i64, Vec<&RollupRow>> = BTreeMap::from([(0, Vec::new())]);
    for row in rows {
        prop_assert!(row.total_nanos >= row.self_nanos && row.self_nanos >= 0, "{row:?}");
        prop_assert_eq!(row.sketch.is_some(), row.bucket_nanos == 0);
        prop_assert_eq!(row.extremes_nanos.is_some(), row.count > 0);
        levels.entry(row.bucket_nanos).or_default().push(row);
    }
    for (bucket_nanos, rows) in levels {
        prop_assert_eq!(sums_of_rows(&rows), sums_of_spans(spans), "{} ns", bucket_nanos);
        if bucket_nanos == 0 {
            prop_assert!(rows.iter().all(|row| row.start_nanos == UNIX + pid));
            prop_assert_eq!(sketches_of_rows(&rows), sketches_of_spans(spans));
        } else {
            prop_assert!(rows.iter().all(|row| row.start_nanos % bucket_nanos == 0));
            prop_assert_eq!(buckets_of_rows(&rows), buckets_of_spans(spans, bucket_nanos));
        }
    }
    Ok(())
}

fn sums_of_rows(rows: &[&RollupRow]) -> BTreeMap<NodePath, Sums> {
    let rows = rows.iter();
    sum_by_node(
        rows.map(|row| (row.node_path.clone(), (row.count, row.total_nanos, row.self_nanos))),
    )
}

fn sums_of_spans(spans: &[SpanRow]) -> BTreeMap<NodePath, Sums> {
    let sums = |span: &SpanRow| (1, span.duration_nanos, span.duration_nanos - span.children_nanos);
    sum_by_node(spans.iter().map(|span| (span.node_path.clone(), sums(span))))
}

fn sketches_of_rows(rows: &[&RollupRow]) -> BTreeMap<NodePath, Sketch> {
    let mut sketches: BTreeMap<NodePath, Sketch> = BTreeMap::new();
    for row in rows {
        sketches.entry(row.node_path.clone()).or_default().merge(row.sketch.as_ref().unwrap());
    }
    sketches
}

fn sketches_of_spans(spans: &[SpanRow]) -> BTreeMap<NodePath, Sketch> {
    let mut sketches: BTreeMap<NodePath, Sketch> = BTreeMap::new();
    for span in spans {
        let sketch = sketches.entry(span.node_path.clone()).or_default();
        sketch.add(span.duration_nanos.cast_unsigned());
    }
    sketches
}

/// Count, total time, shortest and longest, by node and start of the bucket.
type Buckets = BTreeMap<(NodePath, i64), (i64, i64, Option<(i64, i64)>)>;

fn buckets_of_rows(rows: &[&RollupRow]) -> Buckets {
    let mut buckets = Buckets::new();
    for row in rows {
        let bucket = buckets.entry((row.node_path.clone(), row.start_nanos)).or_default();
        bucket.0 += row.count;
        bucket.1 += row.total_nanos;
        if let Some(extremes) = row.extremes_nanos {
            extend_extremes(&mut bucket.2, extremes);
        }
    }
    buckets
}

fn buckets_of_spans(spans: &[SpanRow], bucket_nanos: i64) -> Buckets {
    let mut buckets = Buckets::new();
    for span in spans {
        let (start_nanos, duration_nanos) = (span.start_nanos, span.duration_nanos);
        let first_bucket = start_nanos - start_nanos.rem_euclid(bucket_nanos);
        let start_bucket = buckets.entry((span.node_path.clone(), first_bucket)).or_default();
        start_bucket.0 += 1;
        extend_extremes(&mut start_bucket.2, (duration_nanos, duration_nanos));
        let mut start = first_bucket;
        while start < start_nanos + duration_nanos {
            let end = (start + bucket_nanos).min(start_nanos + duration_nanos);
            buckets.entry((span.node_path.clone(), start)).or_default().1 +=
                end - start.max(start_nanos);
            start += bucket_nanos;
        }
    }
    buckets
}

fn extend_extremes(extremes: &mut Option<(i64, i64)>, (min, max): (i64, i64)) {
    let (least, most) = extremes.unwrap_or((min, max));
    *extremes = Some((least.min(min), most.max(max)));
}

fn sum_by_node(rows: impl Iterator<Item = (NodePath, Sums)>) -> BTreeMap<NodePath, Sums> {
    let mut sums: BTreeMap<NodePath, Sums> = BTreeMap::new();
    for (node_path, (count, total_nanos, self_nanos)) in rows {
        let sum = sums.entry(node_path).or_default();
        *sum = (sum.0 + count, sum.1 + total_nanos, sum.2 + self_nanos);
    }
    sums
}
