//! The place of a thread, by its frames: in a collective, in backward, in a data loader.

use serde::Serialize;

use crate::{Frame, Thread};

/// Files of PyTorch that have the collectives.
const COLLECTIVE_FILES: [&str; 3] = [
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/_functional_collectives.py",
    "torch/distributed/nn/functional.py",
];
/// File of a decorator around each collective.
const DECORATOR_FILE: &str = "torch/distributed/c10d_logger.py";
const BACKWARD_FILE: &str = "torch/autograd/graph.py";
const LOADER_FILE: &str = "torch/utils/data/dataloader.py";
const WORKER_FILE: &str = "torch/utils/data/_utils/worker.py";
const QUEUE_FILE: &str = "multiprocessing/queues.py";

/// Parts of the paths of files whose threads serve others, and wait until they have work.
const POOL_FILES: [&str; 6] = [
    "/concurrent/futures/",
    "/multiprocessing/pool.py",
    "/multiprocessing/queues.py",
    "/torch/_inductor/compile_worker/",
    "/tqdm/_monitor.py",
    "/marey/",
];

/// The part of a training program in which a thread is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Place {
    /// A collective, or another call that all ranks of a group make together.
    Collective {
        /// Name of the function, such as `all_reduce`.
        name: String,
    },
    /// The backward pass, in which `DistributedDataParallel` reduces gradients.
    Backward,
    /// The wait for the workers of a data loader.
    DataLoader,
    /// The program.
    Program,
}

impl Place {
    /// Finds the place by the frames of a thread, the innermost first.
    pub(crate) fn of_frames(frames: &[Frame]) -> Self {
        let is_in = |frame: &Frame, file: &str| frame.file.ends_with(file);
        let is_collective = |frame: &&Frame| COLLECTIVE_FILES.iter().any(|file| is_in(frame, file));
        // A collective that calls another one is the one that the program has called.
        if let Some(frame) = frames.iter().rfind(is_collective) {
            return Self::Collective { name: frame.function.clone() };
        }
        if frames.first().is_some_and(|frame| is_in(frame, BACKWARD_FILE)) {
            return Self::Backward;
        }
        let is_program = |frame: &&Frame| !is_of_library(frame);
        let before_program = frames.iter().take_while(|frame| !is_program(frame));
        if before_program.into_iter().any(|frame| is_in(frame, LOADER_FILE)) {
            return Self::DataLoader;
        }
        Self::Program
    }
}

/// Returns the innermost frame of the program itself, else the innermost one.
pub(crate) fn program_frame(frames: &[Frame]) -> Option<&Frame> {
    frames.iter().find(|frame| !is_of_library(frame)).or_else(|| frames.first())
}

/// Whether a thread waits until it has work, and so tells nothing about a hang.
pub(crate) fn is_of_pool(thread: &Thread) -> bool {
    let is_pool = |frame: &Frame| POOL_FILES.iter().any(|file| frame.file.contains(file));
    thread.name.starts_with("marey")
        || program_frame(&thread.frames).is_none_or(is_of_library)
            && thread.frames.iter().any(is_pool)
}

/// Whether the worker of a data loader waits for the next batch to load.
pub(crate) fn is_idle_worker(frames: &[Frame]) -> bool {
    let worker = frames.iter().position(|frame| frame.file.ends_with(WORKER_FILE));
    worker.is_some_and(|worker| worker > 0 && frames[worker - 1].file.ends_with(QUEUE_FILE))
}

fn is_of_library(frame: &Frame) -> bool {
    let file = &frame.file;
    file.contains("/site-packages/")
        || file.contains("/dist-packages/")
        || file.starts_with('<')
        || file.ends_with(DECORATOR_FILE)
        || file.split_once("/lib/python3").is_some_and(|(_, file)| file.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str) -> Frame {
        Frame {
            function: function.into(),
            file: file.into(),
            line: 1,
            is_native: false,
            is_entry: true,
            locals: Vec::new(),
        }
    }

    #[test]
    fn a_collective_is_the_one_that_the_program_calls() {
        const C10D: &str = "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py";
        let frames = [
            frame("all_gather", C10D),
            frame("wrapper", "/v/lib/python3.11/site-packages/torch/distributed/c10d_logger.py"),
            frame("all_gather_object", C10D),
            frame("step", "/app/train.py"),
        ];
        assert_eq!(
            Place::of_frames(&frames),
            Place::Collective { name: "all_gather_object".into() }
        );
        assert_eq!(program_frame(&frames).map(|frame| &*frame.function), Some("step"));
    }

    #[test]
    fn a_data_set_of_the_program_is_not_the_loader() {
        let loader = frame("__next__", "/v/site-packages/torch/utils/data/dataloader.py");
        let (set, main) =
            (frame("__getitem__", "/app/data.py"), frame("<module>", "/app/train.py"));
        assert_eq!(Place::of_frames(&[loader.clone(), main.clone()]), Place::DataLoader);
        assert_eq!(Place::of_frames(&[set, loader, main]), Place::Program);
    }
}
