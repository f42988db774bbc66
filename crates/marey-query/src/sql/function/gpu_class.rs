//! Classifies device activities as compute, communication or memory for `gpu_class(kind, name)`,
//! which the breakdowns of device time use.

/// Parts of the names of functions in communication libraries, with every `_` removed: NCCL, RCCL,
/// HCCL, oneCCL, MSCCL, NVSHMEM, rocSHMEM, the user buffers of Transformer Engine, `DeepEP`, and
/// the reductions of PyTorch's symmetric memory, vLLM and TensorRT-LLM.
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

/// Prefix of the kernels with which `ROCm` copies and fills memory.
const ROCM_COPIES: &str = "__amd_rocclr_";

/// Returns the class of an activity, or `None` for synchronisations and annotations.
pub(super) fn classify(kind: &str, name: &str) -> Option<&'static str> {
    match kind {
        "memcpy" | "memset" => Some("memory"),
        "kernel" if name.starts_with(ROCM_COPIES) => Some("memory"),
        "kernel" if is_communication(name) => Some("communication"),
        "kernel" => Some("compute"),
        _ => None,
    }
}

/// Whether a kernel belongs to a communication library. Only the name of the function counts,
/// because template arguments and parameters may contain any name.
fn is_communication(name: &str) -> bool {
    let name = name.replace("(anonymous namespace)", "");
    let function = name.split(['<', '(']).next().unwrap_or_default();
    let function = function.replace('_', "").to_ascii_lowercase();
    // Inductor names a kernel after all operations that it fuses, so its names are no evidence.
    !function.starts_with("triton") && COMMUNICATION.iter().any(|word| function.contains(word))
}

#[cfg(test)]
mod tests {
    use super::classify;

    #[test]
    fn kernels_are_classified_by_function_name() {
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
            assert_eq!(classify("kernel", name), Some(expected), "{name}");
        }
        assert_eq!(classify("memcpy", "Memcpy HtoD (Pinned -> Device)"), Some("memory"));
        assert_eq!(classify("memset", "nccl"), Some("memory"));
        assert_eq!(classify("sync", "Event Sync"), None);
        assert_eq!(classify("annotation", "nccl:all_reduce"), None);
    }
}
