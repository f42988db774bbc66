//! Encoded bytes of each frame, and round trips of frames with any content.

use std::io::{self, Read};

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::profile::{Overhead, Process};
use marey_model::spool::{
    Activity, ActivityKind, ActivityShape, AutogradCall, Collective, CollectiveState, Counter,
    Detail, Device, NodeDef, RecordedValue, Sample, SampleCause, SessionEvent, Span, SpoolFrame,
    SpoolReader, Variable, encode,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use crate::round_trip::encode_file;

#[test]
fn each_frame_has_the_bytes_of_version_1() {
    let scope = |node_id, start_nanos, end_nanos| Span { node_id, start_nanos, end_nanos };
    let value =
        |node_id, time_nanos, value| RecordedValue { node_id, time_nanos, name_id: 3, value };
    let process = Process {
        pid: 300,
        rank: Some(2),
        host: "h".to_owned(),
        argv: vec!["a".to_owned()],
        start_unix_nanos: 5,
        ..Process::default()
    };
    let name = || "n".to_owned();
    for (frame, body) in [
        (SpoolFrame::Process(process), &[1, 0xAC, 2, 1, 2, 1, b'h', 1, 1, b'a', 5, 0, 0][..]),
        (SpoolFrame::Clock { monotonic_nanos: -1, unix_nanos: 64 }, &[2, 1, 0x80, 1]),
        (
            SpoolFrame::Strings { first_id: 1, texts: vec![name(), String::new()] },
            &[3, 1, 2, 1, b'n', 0],
        ),
        (SpoolFrame::Thread { thread: 1, os_id: 2, name: name() }, &[4, 1, 2, 1, b'n']),
        (
            SpoolFrame::Nodes {
                thread: 1,
                first_id: 0,
                nodes: vec![
                    NodeDef { parent_id: 0, kind: NodeKind::Root, name_id: 4 },
                    NodeDef { parent_id: 0, kind: NodeKind::Step, name_id: 3 },
                ],
            },
            &[5, 1, 0, 2, 0, 0, 8, 2, 6, 1],
        ),
        (
            // Two sibling scopes and their parent.
            SpoolFrame::Spans {
                thread: 1,
                sessions: 5,
                spans: vec![scope(2, 10, 15), scope(3, 17, 20), scope(1, 9, 21)],
            },
            &[6, 1, 5, 3, 8, 10, 5, 4, 2, 3, 7, 1, 12],
        ),
        (
            SpoolFrame::Values {
                thread: 1,
                sessions: 1,
                values: vec![
                    value(1, 7, MetricValue::Int(-2)),
                    value(1, 8, MetricValue::Float(1.0)),
                    value(0, 8, MetricValue::Text("t".into())),
                    value(0, 8, MetricValue::Ints(vec![1, 2])),
                    value(0, 8, MetricValue::Floats(vec![0.0])),
                ],
            },
            &[
                7, 1, 1, 5, 2, 7, 6, 0, 3, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 1, 0, 0, 2, 1,
                b't', 0, 0, 0, 3, 2, 2, 4, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0,
            ],
        ),
        (SpoolFrame::Open { thread: 1, spans: vec![(1, 5), (4, 9)] }, &[8, 1, 2, 2, 5, 6, 4]),
        (
            SpoolFrame::Session {
                session: 1,
                event: SessionEvent::Phase(2),
                name: name(),
                time_nanos: 3,
            },
            &[9, 1, 3, 2, 1, b'n', 6],
        ),
        (SpoolFrame::Losses(vec![(LossCause::Unclosed, 300)]), &[10, 1, 3, 0xAC, 2]),
        (SpoolFrame::End, &[11]),
        (
            SpoolFrame::Overhead(Overhead {
                events: 300,
                scope_nanos: 1.0,
                recording_nanos: 150,
                flushing_nanos: 7,
            }),
            &[12, 0xAC, 2, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 0x96, 1, 7],
        ),
        (
            SpoolFrame::Counters(vec![
                Counter { time_nanos: 9, name_id: 3, device: Some(0), value: 0.0 },
                Counter { time_nanos: 9, name_id: 4, device: None, value: 1.0 },
            ]),
            &[16, 2, 9, 6, 1, 0, 0, 2, 0, 0xBF, 0xE0, 3],
        ),
    ] {
        check_bytes(&frame, body);
    }
    assert_eq!(encode_file(&[]), *b"MAREYSPL\x01\0\0\0");
    // CRC-32 (ISO-HDLC).
    assert_eq!(encode_file(&[SpoolFrame::End])[12..], [1, 0, 0, 0, 0x05, 0x36, 0xD0, 0x45, 11]);
}

#[test]
fn frames_of_samples_have_the_bytes_of_version_1() {
    let sample = Sample {
        time_nanos: 9,
        duration_nanos: 300,
        os_id: 4242,
        thread_name_id: 3,
        node_id: 4,
        cause: SampleCause::SlowStep,
    };
    check_bytes(
        &SpoolFrame::Samples {
            thread: 2,
            samples: vec![sample, Sample { time_nanos: 8, ..sample }],
        },
        &[23, 2, 2, 18, 0xAC, 2, 0x92, 0x21, 3, 4, 2, 1, 0xAC, 2, 0x92, 0x21, 3, 4, 2],
    );
}

#[test]
fn frames_of_variables_have_the_bytes_of_version_1() {
    let variable = Variable {
        time_nanos: 9,
        os_id: 4242,
        thread_name_id: 1,
        file_id: 2,
        function_id: 3,
        line: 300,
        name_id: 4,
        type_id: 5,
        value: MetricValue::Int(-1),
    };
    let text = Variable { time_nanos: 8, value: MetricValue::Text("n".into()), ..variable.clone() };
    let fields = [0x92, 0x21, 1, 2, 3, 4, 5, 0xAC, 2];
    let body = [&[24, 2, 18][..], &fields, &[0, 1], &[1], &fields, &[2, 1, b'n']].concat();
    check_bytes(&SpoolFrame::Variables(vec![variable, text]), &body);
}

#[test]
fn frames_of_collectives_have_the_bytes_of_version_1() {
    check_bytes(
        &SpoolFrame::Collectives(vec![
            Collective {
                name_id: 3,
                group_id: 4,
                group_ranks_id: Some(5),
                group_size: Some(2),
                sequence: Some(7),
                dtype_id: Some(6),
                in_elements: Some(300),
                out_elements: Some(300),
                created_unix_nanos: 9,
                started_unix_nanos: Some(10),
                duration_nanos: Some(4),
                state: CollectiveState::Completed,
                is_p2p: true,
            },
            Collective {
                name_id: 3,
                group_id: 4,
                group_ranks_id: None,
                group_size: None,
                sequence: None,
                dtype_id: None,
                in_elements: None,
                out_elements: None,
                created_unix_nanos: 8,
                started_unix_nanos: None,
                duration_nanos: None,
                state: CollectiveState::Scheduled,
                is_p2p: false,
            },
        ]),
        &[
            22, 2, 0x82, 3, 4, 18, 1, 5, 1, 2, 1, 7, 1, 6, 1, 0xAC, 2, 1, 0xAC, 2, 1, 1, 1, 4, 0,
            3, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
    );
}

#[test]
fn device_frames_have_the_bytes_of_version_1() {
    let name = || "n".to_owned();
    let activity = |start_nanos, duration_nanos, bytes, correlation_id, launch| Activity {
        shape_id: 2,
        start_nanos,
        duration_nanos,
        bytes,
        correlation_id,
        launch,
    };
    for (frame, body) in [
        (
            SpoolFrame::Launches { thread: 1, launches: vec![(0, 9), (3, 10)] },
            &[13, 1, 2, 0, 18, 6, 2][..],
        ),
        (
            SpoolFrame::Autograd {
                thread: 1,
                calls: vec![
                    AutogradCall { span_index: 0, sequence: 9, forward_os_id: 0 },
                    AutogradCall { span_index: 3, sequence: 8, forward_os_id: 5 },
                ],
            },
            &[19, 1, 2, 0, 18, 0, 6, 1, 5][..],
        ),
        (
            SpoolFrame::SpanArgs { first_id: 2, texts: vec!["{}".to_owned()] },
            &[20, 2, 1, 2, b'{', b'}'][..],
        ),
        (
            SpoolFrame::ArgsOfSpans { thread: 1, args: vec![(0, 2), (3, 2)] },
            &[21, 1, 2, 0, 4, 6, 0][..],
        ),
        (
            SpoolFrame::Device(Device {
                number: 1,
                device_type: name(),
                name: name(),
                properties: name(),
            }),
            &[14, 1, 1, b'n', 1, b'n', 1, b'n'],
        ),
        (
            SpoolFrame::Shapes {
                first_id: 2,
                shapes: vec![ActivityShape {
                    kind: ActivityKind::Memcpy,
                    name_id: 3,
                    device: 1,
                    stream: u32::MAX,
                    details: vec![(Detail::Registers, 300)],
                }],
            },
            &[15, 2, 1, 1, 3, 1, 0, 1, 6, 0xAC, 2],
        ),
        (
            SpoolFrame::Activities {
                sessions: 1,
                activities: vec![
                    activity(10, 5, 0, 7, Some((0, 4))),
                    activity(20, 6, 300, 8, Some((2, 3))),
                    activity(18, 1, 0, 0, None),
                ],
            },
            &[17, 1, 3, 6, 4, 20, 5, 14, 8, 3, 0, 10, 6, 2, 0xAC, 2, 2, 1, 4, 0, 15, 1, 15],
        ),
        (SpoolFrame::Note { key: name(), value: name() }, &[18, 1, b'n', 1, b'n']),
    ] {
        check_bytes(&frame, body);
    }
}

fn check_bytes(frame: &SpoolFrame, body: &[u8]) {
    let mut bytes = Vec::new();
    encode(frame, &mut bytes).unwrap();
    assert_eq!(bytes[..4], (body.len() as u32).to_le_bytes(), "{frame:?}");
    assert_eq!(bytes[4..8], crc32fast::hash(body).to_le_bytes(), "{frame:?}");
    assert_eq!(bytes[8..], *body, "{frame:?}");
}

#[test]
fn a_duration_is_never_negative() {
    let duration =
        |start_nanos, end_nanos| Span { node_id: 0, start_nanos, end_nanos }.duration_nanos();
    assert_eq!((duration(-1, 2), duration(2, 1), duration(i64::MIN, i64::MAX)), (3, 0, u64::MAX));
}

/// A reader that returns chunks of these sizes in turn.
struct ChunkedReader<'a> {
    rest: &'a [u8],
    sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
}

impl Read for ChunkedReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes.next().copied().unwrap_or(1).min(out.len());
        self.rest.read(&mut out[..size])
    }
}

fn texts() -> impl Strategy<Value = String> {
    select(vec!["", "x", "ünï", "a longer name, of a scope", "\0\n\""]).prop_map(str::to_owned)
}

/// Numbers of every bit length.
fn numbers() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(number, bits)| number >> bits)
}

fn times() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), 0..10_000_i64, select(vec![i64::MIN, i64::MAX])]
}

fn metric_values() -> impl Strategy<Value = MetricValue> {
    prop_oneof![
        any::<i64>().prop_map(MetricValue::Int),
        any::<f64>().prop_map(MetricValue::Float),
        texts().prop_map(|text| MetricValue::Text(text.into())),
        vec(any::<i64>(), 0..4).prop_map(MetricValue::Ints),
        vec(any::<f64>(), 0..4).prop_map(MetricValue::Floats),
    ]
}

fn events() -> impl Strategy<Value = SessionEvent> {
    prop_oneof![
        Just(SessionEvent::Started),
        Just(SessionEvent::Activated),
        Just(SessionEvent::Deactivated),
        any::<u32>().prop_map(SessionEvent::Phase),
        Just(SessionEvent::Finalized),
    ]
}

prop_compose! {
    fn processes()(
        pid in numbers(), rank in of(numbers()), host in texts(), argv in vec(texts(), 0..4),
        start_unix_nanos in numbers(), duration_nanos in numbers(), is_complete in any::<bool>(),
    ) -> Process {
        Process { pid, rank, host, argv, start_unix_nanos, duration_nanos, is_complete }
    }
}

prop_compose! {
    fn overheads()(
        events in numbers(), scope_nanos in any::<f64>(), recording_nanos in numbers(),
        flushing_nanos in numbers(),
    ) -> Overhead {
        Overhead { events, scope_nanos, recording_nanos, flushing_nanos }
    }
}

/// Ids that a file defines: `count` texts, and as many nodes on each thread, from `first` on.
#[derive(Clone, Copy, Debug)]
struct DefinedIds {
    first: u32,
    count: u32,
}

impl DefinedIds {
    fn ids(self) -> impl Strategy<Value = u32> {
        self.first..self.first + self.count
    }

    fn frames(self, threads: u32) -> Vec<SpoolFrame> {
        let Self { first, count } = self;
        let mut frames = vec![SpoolFrame::Strings {
            first_id: first,
            texts: vec!["name".to_owned(); count as usize],
        }];
        for thread in 0..threads {
            frames.push(SpoolFrame::Thread { thread, os_id: 1, name: String::new() });
            let root = NodeDef { parent_id: first, kind: NodeKind::Root, name_id: first };
            let node = |id| NodeDef {
                parent_id: first + (id - first) / 2,
                kind: NodeKind::Scope,
                name_id: id,
            };
            let nodes = std::iter::once(root).chain((first + 1..first + count).map(node)).collect();
            frames.push(SpoolFrame::Nodes { thread, first_id: first, nodes });
        }
        let shape = |id| ActivityShape {
            kind: ActivityKind::Kernel,
            name_id: id,
            device: id,
            stream: id,
            details: Vec::new(),
        };
        frames.push(SpoolFrame::Shapes {
            first_id: first,
            shapes: (first..first + count).map(shape).collect(),
        });
        frames
    }
}

const THREADS: u32 = 3;

fn samples(defined: DefinedIds) -> impl Strategy<Value = Sample> {
    (times(), numbers(), numbers(), defined.ids(), defined.ids(), select(&SampleCause::ALL[..]))
        .prop_map(|(time_nanos, duration_nanos, os_id, thread_name_id, node_id, cause)| Sample {
            time_nanos,
            duration_nanos,
            os_id,
            thread_name_id,
            node_id,
            cause,
        })
}

fn variables(defined: DefinedIds) -> impl Strategy<Value = Variable> {
    let texts = (defined.ids(), defined.ids(), defined.ids(), defined.ids(), defined.ids());
    (times(), numbers(), texts, any::<u32>(), metric_values()).prop_map(
        |(time_nanos, os_id, texts, line, value)| {
            let (thread_name_id, file_id, function_id, name_id, type_id) = texts;
            Variable {
                time_nanos,
                os_id,
                thread_name_id,
                file_id,
                function_id,
                line,
                name_id,
                type_id,
                value,
            }
        },
    )
}

fn frame_after(defined: DefinedIds) -> impl Strategy<Value = SpoolFrame> {
    let thread = 0..THREADS;
    let span = (defined.ids(), times(), times())
        .prop_map(|(node_id, start_nanos, end_nanos)| Span { node_id, start_nanos, end_nanos });
    let value = (defined.ids(), times(), defined.ids(), metric_values()).prop_map(
        |(node_id, time_nanos, name_id, value)| RecordedValue {
            node_id,
            time_nanos,
            name_id,
            value,
        },
    );
    let open = vec((defined.ids(), times()), 0..10);
    let counter = (times(), defined.ids(), of(any::<u32>()), any::<f64>()).prop_map(
        |(time_nanos, name_id, device, value)| Counter { time_nanos, name_id, device, value },
    );
    let call = any::<(u32, u64, u64)>().prop_map(|(span_index, sequence, forward_os_id)| {
        AutogradCall { span_index, sequence, forward_os_id }
    });
    let loss = (select(LossCause::ALL.to_vec()), numbers());
    prop_oneof![
        processes().prop_map(SpoolFrame::Process),
        (times(), times()).prop_map(|(monotonic_nanos, unix_nanos)| SpoolFrame::Clock {
            monotonic_nanos,
            unix_nanos
        }),
        (any::<u32>(), numbers(), texts()).prop_map(|(thread, os_id, name)| SpoolFrame::Thread {
            thread,
            os_id,
            name
        }),
        (thread.clone(), numbers(), vec(span, 0..100))
            .prop_map(|(thread, sessions, spans)| SpoolFrame::Spans { thread, sessions, spans }),
        (thread.clone(), numbers(), vec(value, 0..20))
            .prop_map(|(thread, sessions, values)| SpoolFrame::Values { thread, sessions, values }),
        (thread, open).prop_map(|(thread, spans)| SpoolFrame::Open { thread, spans }),
        (any::<u32>(), events(), texts(), times()).prop_map(
            |(session, event, name, time_nanos)| SpoolFrame::Session {
                session,
                event,
                name,
                time_nanos
            }
        ),
        (0..THREADS, vec(any::<(u32, u32)>(), 0..20))
            .prop_map(|(thread, launches)| SpoolFrame::Launches { thread, launches }),
        (0..THREADS, vec(call, 0..20))
            .prop_map(|(thread, calls)| SpoolFrame::Autograd { thread, calls }),
        (any::<u32>(), texts(), texts(), texts()).prop_map(
            |(number, device_type, name, properties)| SpoolFrame::Device(Device {
                number,
                device_type,
                name,
                properties
            })
        ),
        (numbers(), vec(activities(defined), 0..50))
            .prop_map(|(sessions, activities)| SpoolFrame::Activities { sessions, activities }),
        (texts(), texts()).prop_map(|(key, value)| SpoolFrame::Note { key, value }),
        vec(counter, 0..20).prop_map(SpoolFrame::Counters),
        vec(collectives(defined), 0..20).prop_map(SpoolFrame::Collectives),
        vec(variables(defined), 0..20).prop_map(SpoolFrame::Variables),
        (0..THREADS, vec(samples(defined), 0..20))
            .prop_map(|(thread, samples)| SpoolFrame::Samples { thread, samples }),
        vec(loss, 0..10).prop_map(SpoolFrame::Losses),
        overheads().prop_map(SpoolFrame::Overhead),
    ]
}

fn collectives(defined: DefinedIds) -> impl Strategy<Value = Collective> {
    let texts = (defined.ids(), defined.ids(), of(defined.ids()), of(defined.ids()));
    let sizes = (of(any::<u32>()), of(numbers()), of(numbers()), of(numbers()));
    let ends = (times(), of(times()), of(numbers()));
    let states = (select(CollectiveState::ALL.to_vec()), any::<bool>());
    (texts, sizes, ends, states).prop_map(|(texts, sizes, ends, (state, is_p2p))| {
        let (name_id, group_id, group_ranks_id, dtype_id) = texts;
        let (group_size, sequence, in_elements, out_elements) = sizes;
        let (created_unix_nanos, started_unix_nanos, duration_nanos) = ends;
        Collective {
            name_id,
            group_id,
            group_ranks_id,
            group_size,
            sequence,
            dtype_id,
            in_elements,
            out_elements,
            created_unix_nanos,
            started_unix_nanos,
            duration_nanos,
            state,
            is_p2p,
        }
    })
}

fn activities(defined: DefinedIds) -> impl Strategy<Value = Activity> {
    let launch = of((0..THREADS, defined.ids()));
    (defined.ids(), times(), numbers(), numbers(), any::<u32>(), launch).prop_map(
        |(shape_id, start_nanos, duration_nanos, bytes, correlation_id, launch)| Activity {
            shape_id,
            start_nanos,
            duration_nanos,
            bytes,
            correlation_id,
            launch,
        },
    )
}

/// Frames that define ids, followed by frames that use them.
fn files() -> impl Strategy<Value = Vec<SpoolFrame>> {
    let first = prop_oneof![0..1_000_u32, u32::MAX - 70..u32::MAX - 60];
    (first, 1..60_u32).prop_flat_map(|(first, count)| {
        let defined = DefinedIds { first, count };
        vec(frame_after(defined), 0..20).prop_map(move |frames| {
            let mut file = defined.frames(THREADS);
            file.extend(frames);
            file.push(SpoolFrame::End);
            file
        })
    })
}

proptest! {
    #[test]
    fn frames_survive_any_chunking_of_the_input(
        frames in files(), sizes in vec(1..50_usize, 1..10),
    ) {
        let file = encode_file(&frames);
        let chunks = ChunkedReader { rest: &file, sizes: sizes.iter().cycle() };
        let mut reader = SpoolReader::new(chunks).unwrap();
        let again: Vec<SpoolFrame> = reader.by_ref().map(Result::unwrap).collect();
        prop_assert_eq!(again, frames);
        prop_assert_eq!(reader.torn(), None);
        prop_assert_eq!(reader.offset(), file.len() as u64);
    }
}
