//! The place of a thread, by its frames: in a collective, in backward, in a data loader.

use serde::{Deserialize, Serialize};

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
/// Files of PyTorch that have the waits for a GPU, and the name of their functions.
const GPU_FILES: [&str; 2] = ["torch/cuda/__init__.py", "torch/cuda/streams.py"];
const GPU_WAIT: &str = "synchronize";
/// Beginnings of the names of native functions that wait for a GPU.
const NATIVE_GPU_WAITS: [&str; 10] = [
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuEventSynchronize",
    "cuMemcpyDtoH",
    "hipDeviceSynchronize",
    "hipStreamSynchronize",
    "hipEventSynchronize",
];
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
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
    /// The wait for work of a GPU.
    Gpu {
        /// Name of the function, such as `cudaStreamSynchronize`.
        name: String,
    },
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
        // The outermost one: the runtime calls the driver.
        let before_program = frames.iter().take_while(|frame| !is_program(frame));
        if let Some(frame) = before_program.filter(|frame| is_gpu_wait(frame)).last() {
            return Self::Gpu { name: frame.function.clone() };
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

fn is_gpu_wait(frame: &Frame) -> bool {
    if frame.is_native {
        return NATIVE_GPU_WAITS.iter().any(|name| frame.function.starts_with(name));
    }
    frame.function == GPU_WAIT && GPU_FILES.iter().any(|file| frame.file.ends_with(file))
}

fn is_of_library(frame: &Frame) -> bool {
    let file = &frame.file;
    frame.is_native
        || file.contains("/site-packages/")
        || file.contains("/dist-packages/")
        || file.starts_with('<')
        || file.ends_with(DECORATOR_FILE)
        || file.split_once("/lib/python3").is_some_and(|(_, file)| file.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str) -> Frame {
        Frame::of_python(function, file, 1)
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

    #[test]
    fn a_wait_for_the_gpu_is_the_call_of_the_program() {
        let native = |function| Frame { is_native: true, ..frame(function, "/lib/libcuda.so.1") };
        let step = frame("step", "/app/train.py");
        let gpu = |name: &str| Place::Gpu { name: name.into() };
        let by_torch =
            [frame("synchronize", "/v/site-packages/torch/cuda/__init__.py"), step.clone()];
        assert_eq!(Place::of_frames(&by_torch), gpu("synchronize"));
        let by_runtime = [
            native("poll"),
            native("cuStreamSynchronize_ptsz"),
            native("cudaStreamSynchronize"),
            step.clone(),
        ];
        assert_eq!(Place::of_frames(&by_runtime), gpu("cudaStreamSynchronize"));
        assert_eq!(Place::of_frames(&[native("poll"), step]), Place::Program);
    }
}
