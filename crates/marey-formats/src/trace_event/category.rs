//! What the categories of events mean.

use marey_model::context::NodeKind;
use marey_store::row::ActivityKind;

use crate::shared::import::Import;

/// What an event of a category is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    /// On the stack of a thread.
    Host(NodeKind),
    /// A region that a program named, among them the steps of training, and what is of this kind beside
    /// those.
    Annotation(NodeKind),
    /// A call or a module of Python.
    Python,
    /// What a device did, if the word is one that others use for other things, and nothing speaks
    /// against it.
    MaybeDevice(ActivityKind),
    /// What a device did.
    Device(ActivityKind),
    /// The arrows from launches to devices, which say no more than the numbers of both.
    Launch,
    /// A word that no profiler is known to use: a scope of a thread, or what a device did if the event
    /// names a device and a stream.
    Unknown,
}

impl Category {
    /// Returns the meaning of a word of Kineto, of the profilers of other makers that write its format, or
    /// of Proton.
    pub(super) fn of(word: &str) -> Self {
        match word {
            "cpu_op" => Self::Host(NodeKind::Operator),
            "cuda_runtime" | "cuda_driver" // NVIDIA, and AMD
            | "xpu_runtime" | "xpu_driver" // Intel
            | "mtia_runtime" // Meta
            | "hpu_op" // Intel Gaudi: what the host does
            | "privateuse1_runtime" | "privateuse1_driver" // NPUs and others outside of PyTorch
            | "mlu_runtime" // Cambricon
            | "gcu_runtime" | "gcu_driver" // Enflame
            | "Runtime" // Kineto of 2021
            | "glow_runtime" => Self::Host(NodeKind::Runtime),
            "kernel" | "Kernel" => Self::MaybeDevice(ActivityKind::Kernel),
            "mtia_ccp_events" => Self::Device(ActivityKind::Kernel),
            "gpu_memcpy" | "mlu_memcpy" | "GCU_MEMCPY" => Self::Device(ActivityKind::Memcpy),
            "gpu_memset" | "mlu_memset" | "GCU_MEMSET" => Self::Device(ActivityKind::Memset),
            "cuda_sync" | "xpu_sync" | "gcu_sync" => Self::Device(ActivityKind::Sync),
            "gpu_user_annotation" | "mlu_user_annotation" | "GCU_USER_ANNOTATION" => {
                Self::Device(ActivityKind::Annotation)
            }
            // Marks and measurements beside the work.
            "cuda_event" | "cuda_profiler_range" | "mlu_notifier" | "mlu_profiler_range"
            | "gcu_profiler_range" | "xpu_scope_profiler" => Self::Device(ActivityKind::Other),
            "user_annotation" => Self::Annotation(NodeKind::Scope),
            "python_function" => Self::Python,
            "ac2g" | "async" | "async_cpu_to_gpu" | "async_gpu" => Self::Launch,
            // Kineto of 2021, which had no word for annotations.
            "Operator" => Self::Annotation(NodeKind::Operator),
            "Memcpy" => Self::MaybeDevice(ActivityKind::Memcpy),
            "Memset" => Self::MaybeDevice(ActivityKind::Memset),
            // Kineto's, Proton's and marey's own words for what is on a thread.
            "Trace" | "overhead" | "external_correlation" | "cpu_instant_event"
            | "collective_comm" | "mtia_insight" | "mtia_workloadd" | "mtia_counters"
            | "fwdbwd" | "async_task" | "scope" | "metric" => Self::Host(NodeKind::Scope),
            _ => Self::Unknown,
        }
    }
}

/// The words of a file so far, each with what it means and its id: there are few, so that looking
/// through them takes less than a table.
#[derive(Debug, Default)]
pub(super) struct Categories {
    known: Vec<(Box<str>, Category, u32)>,
}

impl Categories {
    /// What a word means, and its id.
    pub(super) fn of(&mut self, word: &str, import: &mut Import) -> (Category, u32) {
        if let Some((_, category, id)) = self.known.iter().find(|(known, ..)| **known == *word) {
            return (*category, *id);
        }
        let (category, id) = (Category::of(word), import.run.text(word));
        if self.known.len() < MAX_KNOWN {
            self.known.push((word.into(), category, id));
        }
        (category, id)
    }
}

/// A file with more words than these has no use for a list of them.
const MAX_KNOWN: usize = 16;

/// Arguments that only what a device did has.
pub(super) const DEVICE_ARGS: [&str; 4] = ["device", "stream", "correlation", "call_stack"];
