//! Maps the categories of events to their meanings, for all profilers that write Kineto's format.

use marey_model::context::NodeKind;
use marey_store::row::ActivityKind;

use crate::shared::import::Import;

/// The meaning of a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    /// A span of a thread.
    Host(NodeKind),
    /// A region that the program has named, or a training step. The kind applies to regions.
    Annotation(NodeKind),
    /// A Python call or module.
    Python,
    /// A device activity if the event has device arguments. Other programs use the word in another
    /// sense.
    MaybeDevice(ActivityKind),
    /// A device activity.
    Device(ActivityKind),
    /// The flows from launches to activities, which correlation ids imply.
    Launch,
    /// A category of no known profiler. The event is a scope of a thread, or a device activity if
    /// it names a device and a stream.
    Unknown,
}

impl Category {
    /// Returns the meaning of a category of Kineto, of other vendors' profilers that write its
    /// format, or of Proton.
    pub(super) fn from_name(name: &str) -> Self {
        match name {
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
            // Markers and measurements.
            "cuda_event" | "cuda_profiler_range" | "mlu_notifier" | "mlu_profiler_range"
            | "gcu_profiler_range" | "xpu_scope_profiler" => Self::Device(ActivityKind::Other),
            "user_annotation" => Self::Annotation(NodeKind::Scope),
            "python_function" => Self::Python,
            "ac2g" | "async" | "async_cpu_to_gpu" | "async_gpu" => Self::Launch,
            // Kineto of 2021 had no category for annotations.
            "Operator" => Self::Annotation(NodeKind::Operator),
            "Memcpy" => Self::MaybeDevice(ActivityKind::Memcpy),
            "Memset" => Self::MaybeDevice(ActivityKind::Memset),
            // Categories of Kineto, Proton and marey for spans on threads.
            "Trace" | "overhead" | "external_correlation" | "cpu_instant_event"
            | "collective_comm" | "mtia_insight" | "mtia_workloadd" | "mtia_counters"
            | "fwdbwd" | "async_task" | "scope" | "metric" => Self::Host(NodeKind::Scope),
            _ => Self::Unknown,
        }
    }
}

/// A cache of categories with their meanings and ids. There are few, so a linear search is faster
/// than a hash table.
#[derive(Debug, Default)]
pub(super) struct Categories {
    cached: Vec<(Box<str>, Category, u32)>,
}

impl Categories {
    /// Returns the meaning of a category and its id.
    pub(super) fn resolve(&mut self, name: &str, import: &mut Import) -> (Category, u32) {
        if let Some((_, category, id)) = self.cached.iter().find(|(cached, ..)| **cached == *name) {
            return (*category, *id);
        }
        let (category, id) = (Category::from_name(name), import.run.text_id(name));
        if self.cached.len() < MAX_CACHED {
            self.cached.push((name.into(), category, id));
        }
        (category, id)
    }
}

/// The maximum number of cached categories.
const MAX_CACHED: usize = 16;

/// Arguments that only device activities have.
pub(super) const DEVICE_ARGS: [&str; 4] = ["device", "stream", "correlation", "call_stack"];
