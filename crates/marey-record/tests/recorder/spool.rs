//! A parsed spool.

use crate::harness::run_in_subprocess;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::profile::Overhead;
use marey_model::spool::{
    Activity, ActivityShape, AutogradCall, Collective, Counter, Device, NodeDef, Sample,
    SessionEvent, Span, SpoolFrame, SpoolReader, TornTail, Variable,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The contents of a spool.
#[derive(Debug, Default)]
pub(crate) struct Spool {
    texts: BTreeMap<u32, String>,
    pub(crate) threads: BTreeMap<u32, SpoolThread>,
    pub(crate) events: Vec<(u32, SessionEvent)>,
    /// With their names, in the order of the frames.
    pub(crate) counters: Vec<(String, Counter)>,
    /// Monotonic and wall clock.
    pub(crate) clocks: Vec<(i64, i64)>,
    pub(crate) devices: Vec<Device>,
    pub(crate) notes: BTreeMap<String, String>,
    /// With the names of the operation and of the group.
    pub(crate) collectives: Vec<(String, String, Collective)>,
    /// With the names of the sampled threads, and the paths.
    pub(crate) samples: Vec<(String, String, Sample)>,
    /// With the names of the thread, the file, the function, the variable and its type.
    pub(crate) variables: Vec<([String; 5], Variable)>,
    shapes: BTreeMap<u32, ActivityShape>,
    /// Arguments of spans by id.
    pub(crate) span_args: BTreeMap<u32, String>,
    /// The activities: name, path and correlation id of the launch, and the sessions.
    pub(crate) activities: Vec<(String, Option<String>, Activity, u64)>,
    pub(crate) losses: Vec<(LossCause, u64)>,
    pub(crate) overhead: Vec<Overhead>,
    pub(crate) has_end: bool,
    pub(crate) torn: Option<TornTail>,
}

/// The contents of a spool about one thread.
#[derive(Debug, Default)]
pub(crate) struct SpoolThread {
    pub(crate) name: String,
    pub(crate) os_id: u64,
    nodes: BTreeMap<u32, NodeDef>,
    /// Scopes and their sessions, in the order of the frames.
    pub(crate) spans: Vec<(Span, u64)>,
    /// The launches among the spans: index and correlation id.
    pub(crate) launches: Vec<(usize, u32)>,
    /// The operators among the spans that take part in a backward pass; `index` counts all spans.
    pub(crate) autograd: Vec<AutogradCall>,
    /// Position among the spans, and id of the arguments.
    pub(crate) args: Vec<(u32, u32)>,
    /// Path, metric and value, in the same order.
    pub(crate) values: Vec<(String, String, MetricValue)>,
    /// Paths of the open scopes according to the last frame about them.
    pub(crate) open: Vec<String>,
}

impl Spool {
    /// Reads the only spool of a profile.
    pub(crate) fn of(profile: impl AsRef<Path>) -> Self {
        Self::read(&spool_of(profile))
    }

    pub(crate) fn read(path: &Path) -> Self {
        let mut reader = SpoolReader::new(File::open(path).unwrap()).unwrap();
        let mut spool = Self::default();
        for frame in &mut reader {
            spool.add_frame(frame.unwrap());
        }
        spool.torn = reader.torn();
        spool
    }

    fn add_frame(&mut self, frame: SpoolFrame) {
        match frame {
            SpoolFrame::Process(process) => assert_ne!(process.pid, 0),
            SpoolFrame::Clock { monotonic_nanos, unix_nanos } => {
                self.clocks.push((monotonic_nanos, unix_nanos));
            }
            SpoolFrame::Strings { first_id, texts } => {
                self.texts.extend((first_id..).zip(texts));
            }
            SpoolFrame::Thread { thread, os_id, name } => {
                let thread = self.threads.entry(thread).or_default();
                (thread.os_id, thread.name) = (os_id, name);
            }
            SpoolFrame::Nodes { thread, first_id, nodes } => {
                self.thread(thread).nodes.extend((first_id..).zip(nodes));
            }
            SpoolFrame::Spans { thread, sessions, spans } => {
                let spans = spans.into_iter().map(|span| (span, sessions));
                self.thread(thread).spans.extend(spans);
            }
            SpoolFrame::Values { thread, values, .. } => {
                for value in values {
                    let path = self.path(thread, value.node_id);
                    let metric = self.texts[&value.name_id].clone();
                    self.thread(thread).values.push((path, metric, value.value));
                }
            }
            SpoolFrame::Open { thread, spans } => {
                let open = spans.iter().map(|&(node, _)| self.path(thread, node)).collect();
                self.thread(thread).open = open;
            }
            SpoolFrame::Counters(counters) => {
                let texts = &self.texts;
                let named = |counter: Counter| (texts[&counter.name_id].clone(), counter);
                self.counters.extend(counters.into_iter().map(named));
            }
            SpoolFrame::Samples { thread, samples } => {
                for sample in samples {
                    let name = self.texts[&sample.thread_name_id].clone();
                    self.samples.push((name, self.path(thread, sample.node_id), sample));
                }
            }
            SpoolFrame::Variables(variables) => {
                for variable in variables {
                    let texts = variable.text_ids().map(|id| self.texts[&id].clone());
                    self.variables.push((texts, variable));
                }
            }
            SpoolFrame::Session { session, event, .. } => self.events.push((session, event)),
            SpoolFrame::Launches { thread, launches } => {
                let thread = self.thread(thread);
                let first = thread.spans.len();
                let launches =
                    launches.into_iter().map(|(index, number)| (first + index as usize, number));
                thread.launches.extend(launches);
            }
            SpoolFrame::Autograd { thread, calls } => {
                let thread = self.thread(thread);
                let first = thread.spans.len() as u32;
                let calls = calls
                    .into_iter()
                    .map(|call| AutogradCall { span_index: first + call.span_index, ..call });
                thread.autograd.extend(calls);
            }
            SpoolFrame::SpanArgs { first_id, texts } => {
                self.span_args.extend((first_id..).zip(texts));
            }
            SpoolFrame::ArgsOfSpans { thread, args } => {
                let thread = self.thread(thread);
                let first = thread.spans.len() as u32;
                thread.args.extend(args.into_iter().map(|(index, args)| (first + index, args)));
            }
            SpoolFrame::Device(device) => self.devices.push(device),
            SpoolFrame::Note { key, value } => {
                self.notes.insert(key, value);
            }
            SpoolFrame::Shapes { first_id, shapes } => {
                self.shapes.extend((first_id..).zip(shapes));
            }
            SpoolFrame::Activities { sessions, activities } => {
                for activity in activities {
                    let name = self.texts[&self.shapes[&activity.shape_id].name_id].clone();
                    let launch = activity.launch.map(|(thread, node)| self.path(thread, node));
                    self.activities.push((name, launch, activity, sessions));
                }
            }
            SpoolFrame::Collectives(collectives) => {
                let text = |id: u32| self.texts[&id].clone();
                self.collectives.extend(
                    collectives.into_iter().map(|row| (text(row.name_id), text(row.group_id), row)),
                );
            }
            SpoolFrame::Losses(losses) => self.losses = losses,
            SpoolFrame::Overhead(overhead) => self.overhead.push(overhead),
            SpoolFrame::End => self.has_end = true,
        }
    }

    fn thread(&mut self, thread: u32) -> &mut SpoolThread {
        self.threads.get_mut(&thread).unwrap()
    }

    /// Returns the names down to a node, joined by `/`, without the root's.
    pub(crate) fn path(&self, thread: u32, mut node: u32) -> String {
        let nodes = &self.threads[&thread].nodes;
        let mut names = Vec::new();
        while nodes[&node].kind != NodeKind::Root {
            names.push(self.texts[&nodes[&node].name_id].as_str());
            node = nodes[&node].parent_id;
        }
        names.reverse();
        names.join("/")
    }

    /// Returns the paths of the scopes that a thread exited and a session saw, in order.
    pub(crate) fn exited_paths(&self, thread: u32, session: u32) -> Vec<String> {
        let spans = self.threads[&thread].spans.iter();
        let seen = spans.filter(|(_, sessions)| sessions >> session & 1 != 0);
        seen.map(|(span, _)| self.path(thread, span.node_id)).collect()
    }

    pub(crate) fn span_count(&self) -> u64 {
        self.threads.values().map(|thread| thread.spans.len() as u64).sum()
    }

    pub(crate) fn loss_count(&self, cause: LossCause) -> u64 {
        self.losses.iter().find(|loss| loss.0 == cause).map_or(0, |&(_, count)| count)
    }
}

/// Makes a process keep the spool of a trace that it has written.
pub(crate) const KEEP_SPOOL: (&str, &str) = ("MAREY_KEEP_SPOOL", "1");

/// Runs a closure of a test, which records `trace`, in a subprocess. Returns the contents of the
/// spool; `None` in the subprocess itself.
pub(crate) fn spool_of_subprocess<Part: FnOnce()>(
    env: &[(&str, &str)],
    part: Part,
) -> Option<Spool> {
    let fixture = run_in_subprocess(&[env, &[KEEP_SPOOL]].concat(), part)?;
    Some(Spool::of(fixture.path("trace")))
}

/// Returns the path of the only spool of a profile.
pub(crate) fn spool_of(profile: impl AsRef<Path>) -> PathBuf {
    let mut folder = profile.as_ref().as_os_str().to_owned();
    folder.push(".marey/spool");
    let mut files = Path::new(&folder).read_dir().unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none(), "more than one spool");
    file
}
