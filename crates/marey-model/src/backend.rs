//! The backends that a program may name when it starts a session.

/// A source of GPU records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The name that `marey.start(backend=...)` takes.
    pub name: &'static str,
    /// Description in a few words.
    pub doc: &'static str,
    /// The driver's library, required by the backend.
    pub library: &'static str,
}

/// Library of NVIDIA's driver.
const CUDA: &str = "libcuda.so.1";
/// Library of AMD's runtime.
const HIP: &str = "libamdhip64.so";

/// Description of the data recorded without a backend.
pub const HOST_DOC: &str = "scopes, states, operators and metrics of the host";

/// Every backend.
pub const ALL: [Backend; 5] = [
    Backend { name: "cupti", doc: "kernels on NVIDIA GPUs", library: CUDA },
    Backend {
        name: "cupti_pcsampling",
        doc: "samples of instructions on NVIDIA GPUs",
        library: CUDA,
    },
    Backend { name: "instrumentation", doc: "regions inside Triton kernels", library: CUDA },
    Backend { name: "rocprofiler", doc: "kernels on AMD GPUs", library: HIP },
    Backend { name: "roctracer", doc: "kernels on AMD GPUs, for older ROCm", library: HIP },
];
