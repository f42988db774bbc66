//! Readings of memory, which the recorder stores as values of a metric.

use marey_model::memory::reading_name;
use marey_model::metric::MetricValue;
use marey_model::spool::{RecordedValue, SpoolFrame};
use marey_store::Run;
use marey_store::row::{MemoryAction, MemoryEvent, Metric};

use super::spools::{INNER, OUTER, Recorded, UNIX, collect_run, first_frames, thread};
use crate::read::{reader, rows};

/// Ids of names after those of every spool.
const DEVICE: u32 = 6;
const HOST: u32 = 7;

fn reading(node: u32, time_nanos: i64, metric: u32, totals: &[i64]) -> RecordedValue {
    RecordedValue {
        node_id: node,
        time_nanos,
        name_id: metric,
        value: MetricValue::Ints(totals.to_vec()),
    }
}

fn collected(values: [Vec<RecordedValue>; 2]) -> Run {
    let mut frames = first_frames(100);
    frames.extend(thread(1));
    let texts = ["cuda:1", "host"].map(reading_name).to_vec();
    frames.push(SpoolFrame::Strings { first_id: DEVICE, texts });
    for (thread, values) in (0..).zip(values) {
        frames.push(SpoolFrame::Values { thread, sessions: 1, values });
    }
    collect_run(&Recorded::with_spools(&[&frames]))
}

#[test]
fn a_reading_is_a_memory_event_of_its_node_and_thread() {
    let run = collected([
        vec![reading(OUTER, 10, HOST, &[500, -1, -1]), reading(INNER, 30, DEVICE, &[1, 3, 2])],
        vec![reading(OUTER, 20, DEVICE, &[4, 5, 6])],
    ]);
    let reader = reader(&run);
    let events: Vec<MemoryEvent> = rows(&reader);
    let name = |event: &MemoryEvent| {
        let context = reader.context(event.context_id.unwrap());
        reader.text(context.name_id).to_owned()
    };
    let rows: Vec<_> = events
        .iter()
        .map(|event| {
            let totals = [event.allocated_bytes, event.peak_bytes, event.reserved_bytes];
            let place = (name(event), event.thread_id);
            (event.time_nanos - UNIX, &*event.device_type, event.device, totals, place)
        })
        .collect();
    let outer = |thread| ("outer".to_owned(), Some(thread));
    assert_eq!(
        rows,
        [
            (10, "host", None, [Some(500), None, None], outer(0)),
            (20, "cuda", Some(1), [Some(4), Some(5), Some(6)], outer(1)),
            (30, "cuda", Some(1), [Some(1), Some(3), Some(2)], ("inner".to_owned(), Some(0))),
        ]
    );
    assert!(events.iter().all(|event| event.action == MemoryAction::Reading && event.bytes == 0));
    assert_eq!(reader.rows::<Metric>().unwrap().count(), 0);
}

#[test]
fn a_value_of_another_shape_under_the_name_of_a_reading_stays_a_metric() {
    let text = RecordedValue { value: MetricValue::Int(7), ..reading(OUTER, 1, HOST, &[]) };
    let run = collected([vec![text, reading(OUTER, 2, DEVICE, &[1, 2])], vec![]]);
    let reader = reader(&run);
    assert_eq!(reader.rows::<MemoryEvent>().unwrap().count(), 0);
    assert_eq!(reader.rows::<Metric>().unwrap().count(), 2);
}
