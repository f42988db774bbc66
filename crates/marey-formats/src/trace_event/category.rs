//! What the categories of events mean.

use marey_model::context::NodeKind;
use marey_store::row::ActivityKind;

use crate::import::Import;

/// What an event of a category is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    /// On the stack of a thread.
    Host(NodeKind),
    /// A region that a program named, among them the steps of training.
    Annotation,
    /// A call or a module of Python.
    Python,
    /// What a device did, if the word is one that others use for other things, and nothing speaks
    /// against it.
    MaybeDevice(ActivityKind),
    /// What a device did.
    Device(ActivityKind),
    /// The arrows from launches to devices, which say no more than the numbers of both.
    Launch,
}

impl Category {
    /// By the words of Kineto, those of 2021 among them, and of Proton.
    pub(super) fn of(word: &str) -> Self {
        match word {
            "cpu_op" | "Operator" => Self::Host(NodeKind::Operator),
            "cuda_runtime"
            | "cuda_driver"
            | "xpu_runtime"
            | "xpu_driver"
            | "mtia_runtime"
            | "glow_runtime"
            | "privateuse1_runtime"
            | "privateuse1_driver"
            | "hpu_op"
            | "Runtime" => Self::Host(NodeKind::Runtime),
            "user_annotation" => Self::Annotation,
            "python_function" => Self::Python,
            "kernel" | "Kernel" => Self::MaybeDevice(ActivityKind::Kernel),
            "Memcpy" => Self::MaybeDevice(ActivityKind::Memcpy),
            "Memset" => Self::MaybeDevice(ActivityKind::Memset),
            "gpu_memcpy" => Self::Device(ActivityKind::Memcpy),
            "gpu_memset" => Self::Device(ActivityKind::Memset),
            "cuda_sync" | "xpu_sync" => Self::Device(ActivityKind::Sync),
            "gpu_user_annotation" => Self::Device(ActivityKind::Annotation),
            "cuda_event" | "cuda_profiler_range" | "mtia_ccp_events" | "xpu_scope_profiler" => {
                Self::Device(ActivityKind::Other)
            }
            "ac2g" | "async" | "async_cpu_to_gpu" | "async_gpu" => Self::Launch,
            _ => Self::Host(NodeKind::Scope),
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
