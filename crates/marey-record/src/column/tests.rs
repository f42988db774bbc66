use super::*;
use crate::names;
use marey_model::metric::MetricValue;

#[test]
fn statistics_and_sketch_agree_with_the_entries() {
    let column = Column::default();
    for nanos in [10, 1_000, 5, 1_000_000] {
        column.record(3, nanos, nanos / 2);
    }
    let wall = column.copy(3).wall;
    assert_eq!((wall.count, wall.total_nanos, wall.self_nanos), (4, 1_001_015, 500_507));
    assert_eq!((wall.min_nanos, wall.max_nanos), (5, 1_000_000));
    assert_eq!(wall.buckets.iter().map(|&(_, count)| count).sum::<u64>(), 4);
    assert!(column.copy(4).is_empty());
}

#[test]
fn a_single_entry_has_a_bucket_without_a_sketch() {
    let column = Column::default();
    column.record(0, 77, 77);
    assert_eq!(column.sketches_len.load(Ordering::Relaxed), 0);
    assert_eq!(column.copy(0).wall.buckets, [(sketch::bucket(77), 1)]);
}

#[test]
fn metrics_keep_their_order_and_vectors_reuse_their_elements() {
    let column = Column::default();
    let number = names::intern_metric("column::v").unwrap();
    let name = names::metric(number).unwrap();
    for _ in 0..3 {
        column.add_metric(9, number, &name, &MetricValue::Ints(vec![1, 2])).unwrap();
    }
    let other_number = names::intern_metric("column::w (pty)").unwrap();
    let other_name = names::metric(other_number).unwrap();
    column.add_metric(9, other_number, &other_name, &MetricValue::Float(0.5)).unwrap();
    let data = column.copy(9);
    let expected =
        vec![(number, MetricValue::Ints(vec![3, 6])), (other_number, MetricValue::Float(0.5))];
    assert_eq!(data.metrics, expected);
    assert_eq!(column.elements_len.load(Ordering::Relaxed), 2);
    assert!(column.add_metric(9, number, &name, &MetricValue::Int(1)).is_err());
}

#[test]
fn an_empty_copy_has_room_for_the_same_data_and_none_of_it() {
    let column = Column::default();
    assert!(column.empty_copy().is_none());
    for node in 0..1000 {
        (0..3).for_each(|_| column.record(node, 1 << 20, 1));
    }
    let copy = column.empty_copy().unwrap();
    assert!(copy.copy(7).is_empty() && copy.empty_copy().is_none());
    let has_room = |column: &Column| {
        column.stats.get(999).is_some()
            && column.sketches.get(999).is_some()
            && column.pages.get(999).is_some()
    };
    assert!(has_room(&column) && has_room(&copy));
}

#[test]
fn a_vector_of_changing_length_does_not_allocate_each_time() {
    const LONGEST: usize = 40;
    let column = Column::default();
    let number = names::intern_metric("column::x (pty)").unwrap();
    let name = names::metric(number).unwrap();
    let mut store_vector = |len: usize| {
        let value = MetricValue::Ints((0..).take(len).collect());
        column.add_metric(9, number, &name, &value).unwrap();
        assert_eq!(column.copy(9).metrics, [(number, value)]);
        column.elements_len.load(Ordering::Relaxed) as usize
    };
    let max_elements = (0..=LONGEST).map(&mut store_vector).max().unwrap();
    assert!(max_elements <= 4 * LONGEST, "{max_elements} elements for {LONGEST}");
    for len in [3, 0, LONGEST, 17, 1].into_iter().cycle().take(1000) {
        assert_eq!(store_vector(len), max_elements);
    }
}
