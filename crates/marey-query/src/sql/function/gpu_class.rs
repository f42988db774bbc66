//! What an activity of a device is for.

/// What the names of functions of libraries for communication have, without `_`: NCCL, RCCL, HCCL,
/// oneCCL, MSCCL, NVSHMEM, rocSHMEM, the user buffers of Transformer Engine, `DeepEP`, and the
/// reductions of PyTorch's symmetric memory, vLLM and TensorRT-LLM.
const COMMUNICATION: [&str; 13] = [
    "nccl",
    "rccl",
    "hccl",
    "oneccl",
    "msccl",
    "nvshmem",
    "rocshmem",
    "userbuffers",
    "deepep::",
    "multimem",
    "crossdevicereduce",
    "allreducefusion",
    "shotallreduce",
];

/// What the kernels are called by which `ROCm` copies and fills.
const ROCM_COPIES: &str = "__amd_rocclr_";

/// The class of an activity; waits and what lies around activities have none.
pub(super) fn class(kind: &str, name: &str) -> Option<&'static str> {
    match kind {
        "memcpy" | "memset" => Some("memory"),
        "kernel" if name.starts_with(ROCM_COPIES) => Some("memory"),
        "kernel" if is_communication(name) => Some("communication"),
        "kernel" => Some("compute"),
        _ => None,
    }
}

/// What a kernel is made for stands before its parameters; these may name anything.
fn is_communication(name: &str) -> bool {
    let name = name.replace("(anonymous namespace)", "");
    let function = name.split(['<', '(']).next().unwrap_or_default();
    let function = function.replace('_', "").to_ascii_lowercase();
    // The compiler of PyTorch names its kernels after all that they fuse.
    !function.starts_with("triton") && COMMUNICATION.iter().any(|word| function.contains(word))
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn names_of_functions_say_what_kernels_are_for() {
        let kernels = [
            ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "communication"),
            ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "communication"),
            ("void (anonymous namespace)::multimem_all_reduce_kernel<float>", "communication"),
            ("void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*)", "communication"),
            ("void tensorrt_llm::oneShotAllReduceKernel<float>", "communication"),
            ("void deep_ep::internode::dispatch<true>", "communication"),
            ("void at::native::elementwise_kernel<ncclDataType_t>(int)", "compute"),
            ("triton_poi_fused_nccl_all_reduce_0", "compute"),
            ("hipblasLtGemm", "compute"),
            ("dmarkov_kernel", "compute"),
            ("", "compute"),
            ("__amd_rocclr_copyBuffer", "memory"),
        ];
        for (name, expected) in kernels {
            assert_eq!(class("kernel", name), Some(expected), "{name}");
        }
        assert_eq!(class("memcpy", "Memcpy HtoD (Pinned -> Device)"), Some("memory"));
        assert_eq!(class("memset", "nccl"), Some("memory"));
        assert_eq!(class("sync", "Event Sync"), None);
        assert_eq!(class("annotation", "nccl:all_reduce"), None);
    }
}
