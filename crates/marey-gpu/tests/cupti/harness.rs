//! Test processes that play a script, and their recordings.

use crate::{double, own_process};
use marey_gpu::cupti::interfaces::CudaInterfaces;
use marey_gpu::cupti::search::Hints;
use marey_gpu::cupti::unavailable::Unavailable;
use marey_gpu::level::{self, Level, Request};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::spool::{ActivityKind, ActivityShape, Detail, NodeDef, SpoolFrame, SpoolReader};
use marey_record::{Format, SessionId, SessionOptions, api};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Runs a test in its own process, with the double and this script. Returns whether this is that
/// process.
pub(crate) fn in_own_process(test: impl Fn(), script: &str) -> bool {
    if own_process::is_own_process() {
        return true;
    }
    let folder = TempDir::new().unwrap();
    symlink(double_path(), folder.path().join("libcuda.so.1")).unwrap();
    let script_file = folder.path().join("script");
    std::fs::write(&script_file, script).unwrap();
    let variables: [(&str, &Path); 3] = [
        ("LD_LIBRARY_PATH", folder.path()),
        ("MAREY_CUPTI_LIB", &double_path()),
        ("MAREY_REPLAY", &script_file),
    ];
    own_process::run(test, variables);
    false
}

fn double_path() -> PathBuf {
    double::path("libmarey_replay.so")
}

/// Plays a part of the script.
#[expect(unsafe_code, reason = "a call of the double")]
pub(crate) fn play(part: &str) {
    let name = CString::new(part).unwrap();
    // SAFETY: the function takes a string and returns a number.
    let play_part: unsafe extern "C" fn(*const c_char) -> i32 =
        unsafe { double::function(double_path(), c"replay_play") };
    // SAFETY: the string is NUL-terminated.
    assert_eq!(unsafe { play_part(name.as_ptr()) }, 0, "the script has no part {part}");
}

/// Returns the number of calls of a libcupti function.
#[expect(unsafe_code, reason = "a call of the double")]
pub(crate) fn call_count(function_name: &str) -> u64 {
    let name = CString::new(function_name).unwrap();
    // SAFETY: the function takes a string and returns a number.
    let count: unsafe extern "C" fn(*const c_char) -> u64 =
        unsafe { double::function(double_path(), c"replay_calls") };
    // SAFETY: the string is NUL-terminated.
    unsafe { count(name.as_ptr()) }
}

/// Argument for an unused parameter.
pub(crate) const UNUSED: *mut c_void = std::ptr::null_mut();

/// A trace session that records the double.
pub(crate) struct Trace {
    folder: TempDir,
    session: SessionId,
}

pub(crate) const LAUNCHES_ONLY: CudaInterfaces =
    CudaInterfaces { has_driver: false, has_runtime: false };
pub(crate) const DRIVER: CudaInterfaces = CudaInterfaces { has_driver: true, has_runtime: false };
pub(crate) const RUNTIME: CudaInterfaces = CudaInterfaces { has_driver: false, has_runtime: true };
pub(crate) const BOTH: CudaInterfaces = CudaInterfaces { has_driver: true, has_runtime: true };

/// Plays the part `go` inside a scope `step`, and returns the recording.
pub(crate) fn record(interfaces: CudaInterfaces) -> Recorded {
    let trace = Trace::start_with(interfaces).unwrap();
    let step = api::intern("step");
    api::enter(step, NodeKind::Scope);
    play("go");
    api::exit(step);
    trace.finish()
}

impl Trace {
    /// Starts a recording of launches.
    pub(crate) fn start() -> Self {
        Self::start_with(LAUNCHES_ONLY).unwrap()
    }

    /// Starts a recording of launches and of the calls of these interfaces.
    pub(crate) fn start_with(calls: CudaInterfaces) -> Result<Self, Unavailable> {
        let folder = TempDir::new().unwrap();
        let name = folder.path().join("trace");
        let options =
            SessionOptions { format: Format::Run, ..SessionOptions::named(name.to_str().unwrap()) };
        let session = api::start(&options).unwrap();
        let hints = Hints::from_env(Vec::new());
        level::start(&Request { is_required: true, keeps_activities: true, calls, hints })?;
        Ok(Self { folder, session })
    }

    /// Ends the phase, which waits for every device.
    pub(crate) fn advance_phase(&self) {
        api::advance_phase(self.session).unwrap();
    }

    pub(crate) fn finish(self) -> Recorded {
        api::finalize(self.session, None).unwrap();
        let mut recorded = Recorded::default();
        let spools = self.folder.path().join("trace.marey/spool").read_dir().unwrap();
        spools.for_each(|spool| recorded.add(&spool.unwrap().path()));
        recorded
    }
}

/// Returns the description of how devices are recorded.
pub(crate) fn level_text() -> String {
    match level::level() {
        Level::Cupti(text, _) => text,
        level => panic!("{level:?}"),
    }
}

/// A CUDA call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Path from the outermost scope to the call.
    pub(crate) path: Vec<String>,
    pub(crate) correlation: u32,
    pub(crate) times: (i64, i64),
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) device: u32,
    pub(crate) correlation: u32,
    pub(crate) external: Option<u64>,
    /// Path from the outermost scope to the launch.
    pub(crate) path: Vec<String>,
}

/// The content of a spool.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// By start time.
    pub(crate) calls: Vec<Call>,
    pub(crate) kernels: Vec<Kernel>,
    /// Size of each copy and fill, and the path to its launch.
    pub(crate) copies: Vec<(u64, Vec<String>)>,
    /// Name and device of each other activity.
    pub(crate) other_activities: Vec<(String, u32)>,
    pub(crate) losses: BTreeMap<LossCause, u64>,
    texts: BTreeMap<u32, String>,
    nodes: BTreeMap<(u32, u32), NodeDef>,
    shapes: BTreeMap<u32, ActivityShape>,
}

impl Recorded {
    fn add(&mut self, spool: &Path) {
        let mut launches = Vec::new();
        for frame in SpoolReader::new(File::open(spool).unwrap()).unwrap() {
            match frame.unwrap() {
                SpoolFrame::Strings { first_id, texts } => {
                    self.texts.extend((first_id..).zip(texts));
                }
                SpoolFrame::Nodes { thread, first_id, nodes } => {
                    self.nodes.extend((first_id..).map(|node| (thread, node)).zip(nodes));
                }
                SpoolFrame::Shapes { first_id, shapes } => {
                    self.shapes.extend((first_id..).zip(shapes));
                }
                SpoolFrame::Launches { launches: logged, .. } => launches = logged,
                SpoolFrame::Spans { thread, spans, .. } => {
                    for (index, correlation) in launches.drain(..) {
                        let span = &spans[index as usize];
                        let times = (span.start_nanos, span.end_nanos);
                        assert_eq!(self.nodes[&(thread, span.node_id)].kind, NodeKind::Runtime);
                        let path = self.path(thread, span.node_id);
                        self.calls.push(Call { path, correlation, times });
                    }
                }
                SpoolFrame::Activities { activities, .. } => {
                    for activity in activities {
                        let shape = &self.shapes[&activity.shape_id];
                        let external_id = |(detail, value): &(Detail, u64)| {
                            (*detail == Detail::ExternalId).then_some(*value)
                        };
                        let path = activity.launch.map(|(thread, node)| self.path(thread, node));
                        if shape.kind == ActivityKind::Kernel {
                            self.kernels.push(Kernel {
                                name: self.texts[&shape.name_id].clone(),
                                device: shape.device,
                                correlation: activity.correlation_id,
                                external: shape.details.iter().find_map(external_id),
                                path: path.unwrap(),
                            });
                        } else if activity.bytes > 0 {
                            self.copies.push((activity.bytes, path.unwrap()));
                        } else {
                            self.other_activities
                                .push((self.texts[&shape.name_id].clone(), shape.device));
                        }
                    }
                }
                SpoolFrame::Losses(losses) => self.losses = losses.into_iter().collect(),
                _ => {}
            }
        }
        self.calls.sort_by_key(|call| (call.times.0, -call.times.1));
    }

    fn path(&self, thread: u32, mut node: u32) -> Vec<String> {
        let mut path = Vec::new();
        while let Some(def) = self.nodes.get(&(thread, node)).filter(|def| def.parent_id != node) {
            path.push(self.texts[&def.name_id].clone());
            node = def.parent_id;
        }
        path.reverse();
        path
    }

    /// Returns path and correlation id of each call.
    pub(crate) fn call_paths(&self) -> Vec<(String, u32)> {
        self.calls.iter().map(|call| (call.path.join("/"), call.correlation)).collect()
    }
}
