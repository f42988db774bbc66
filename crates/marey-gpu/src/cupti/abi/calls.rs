//! The callback ids of CUDA calls, grouped by what the calls do.
//!
//! Many functions have several ids: one per version of their arguments, and one with `_ptsz` or
//! `_ptds`, for programs built with a per-thread default stream.

/// A call of the driver or runtime API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Callback id (`cbid`) in its domain.
    pub callback_id: u32,
    /// Name in the vendor's enumeration, without the prefix.
    pub name: &'static str,
    /// First API version with the call; 0 for all.
    pub since: u32,
    /// Whether the third argument is the size of a transfer, in bytes or elements. It has eight
    /// bytes, like the two before it.
    pub has_size: bool,
}

/// A group of calls.
#[derive(Clone, Copy, Debug)]
pub struct CallGroup {
    /// Prefix of the names in the vendor's enumeration.
    pub prefix: &'static str,
    /// The calls.
    pub calls: &'static [Call],
}

impl CallGroup {
    /// Returns the calls that exist in an API version.
    pub fn known_to(self, api_version: u32) -> impl Iterator<Item = Call> {
        self.calls.iter().copied().filter(move |call| call.since <= api_version)
    }
}

const fn call(callback_id: u32, name: &'static str) -> Call {
    call_since(0, callback_id, name)
}

const fn call_since(since: u32, callback_id: u32, name: &'static str) -> Call {
    Call { callback_id, name, since, has_size: false }
}

const fn sized_call(callback_id: u32, name: &'static str) -> Call {
    Call { has_size: true, ..call(callback_id, name) }
}

/// Calls of the driver API, in
/// [`domain::DRIVER_API`](crate::cupti::abi::constants::domain::DRIVER_API).
pub mod driver {
    use super::{Call, CallGroup, call, call_since, sized_call};

    const fn group(calls: &'static [Call]) -> CallGroup {
        CallGroup { prefix: "CUPTI_DRIVER_TRACE_CBID_", calls }
    }

    /// Calls that launch a kernel.
    pub const LAUNCHES: CallGroup = group(&[
        call(115, "cuLaunch"),
        call(116, "cuLaunchGrid"),
        call(117, "cuLaunchGridAsync"),
        call(307, "cuLaunchKernel"),
        call(442, "cuLaunchKernel_ptsz"),
        call(477, "cuLaunchCooperativeKernel"),
        call(478, "cuLaunchCooperativeKernel_ptsz"),
        call(480, "cuLaunchCooperativeKernelMultiDevice"),
        call(652, "cuLaunchKernelEx"),
        call(653, "cuLaunchKernelEx_ptsz"),
    ]);

    /// Calls that launch a graph.
    pub const GRAPH_LAUNCHES: CallGroup =
        group(&[call(514, "cuGraphLaunch"), call(515, "cuGraphLaunch_ptsz")]);

    /// Calls that begin the capture of a stream into a graph.
    pub const BEGIN_CAPTURES: CallGroup = group(&[
        call(495, "cuStreamBeginCapture"),
        call(496, "cuStreamBeginCapture_ptsz"),
        call(539, "cuStreamBeginCapture_v2"),
        call(540, "cuStreamBeginCapture_v2_ptsz"),
        call_since(22, 720, "cuStreamBeginCaptureToGraph"),
        call_since(22, 721, "cuStreamBeginCaptureToGraph_ptsz"),
        call_since(130_101, 783, "cuStreamBeginCaptureToCig"),
        call_since(130_101, 814, "cuStreamBeginCaptureToCig_ptsz"),
    ]);

    /// Calls that end the capture of a stream.
    pub const END_CAPTURES: CallGroup = group(&[
        call(497, "cuStreamEndCapture"),
        call(498, "cuStreamEndCapture_ptsz"),
        call_since(130_101, 815, "cuStreamEndCaptureToCig"),
        call_since(130_101, 816, "cuStreamEndCaptureToCig_ptsz"),
    ]);

    /// Calls that instantiate a graph.
    pub const INSTANTIATIONS: CallGroup = group(&[
        call(513, "cuGraphInstantiate"),
        call(578, "cuGraphInstantiate_v2"),
        call(643, "cuGraphInstantiateWithFlags"),
        call(656, "cuGraphInstantiateWithParams"),
        call(657, "cuGraphInstantiateWithParams_ptsz"),
    ]);

    /// Calls that copy memory.
    pub const COPIES: CallGroup = group(&[
        call(43, "cuMemcpyHtoD"),
        call(45, "cuMemcpyDtoH"),
        call(47, "cuMemcpyDtoD"),
        call(49, "cuMemcpyDtoA"),
        call(51, "cuMemcpyAtoD"),
        call(53, "cuMemcpyHtoA"),
        call(54, "cuMemcpyAtoH"),
        call(55, "cuMemcpyAtoA"),
        call(56, "cuMemcpy2D"),
        call(57, "cuMemcpy2DUnaligned"),
        call(58, "cuMemcpy3D"),
        call(60, "cuMemcpyHtoDAsync"),
        call(62, "cuMemcpyDtoHAsync"),
        call(64, "cuMemcpyDtoDAsync"),
        call(66, "cuMemcpyHtoAAsync"),
        call(67, "cuMemcpyAtoHAsync"),
        call(68, "cuMemcpy2DAsync"),
        call(69, "cuMemcpy3DAsync"),
        sized_call(276, "cuMemcpyHtoD_v2"),
        sized_call(277, "cuMemcpyHtoDAsync_v2"),
        sized_call(278, "cuMemcpyDtoH_v2"),
        sized_call(279, "cuMemcpyDtoHAsync_v2"),
        sized_call(280, "cuMemcpyDtoD_v2"),
        sized_call(281, "cuMemcpyDtoDAsync_v2"),
        call(282, "cuMemcpyAtoH_v2"),
        call(283, "cuMemcpyAtoHAsync_v2"),
        call(284, "cuMemcpyAtoD_v2"),
        call(285, "cuMemcpyDtoA_v2"),
        call(286, "cuMemcpyAtoA_v2"),
        call(287, "cuMemcpy2D_v2"),
        call(288, "cuMemcpy2DUnaligned_v2"),
        call(289, "cuMemcpy2DAsync_v2"),
        call(290, "cuMemcpy3D_v2"),
        call(291, "cuMemcpy3DAsync_v2"),
        call(292, "cuMemcpyHtoA_v2"),
        call(293, "cuMemcpyHtoAAsync_v2"),
        sized_call(305, "cuMemcpy"),
        sized_call(306, "cuMemcpyAsync"),
        call(318, "cuMemcpyPeer"),
        call(319, "cuMemcpyPeerAsync"),
        call(320, "cuMemcpy3DPeer"),
        call(321, "cuMemcpy3DPeerAsync"),
        sized_call(397, "cuMemcpyHtoD_v2_ptds"),
        sized_call(398, "cuMemcpyDtoH_v2_ptds"),
        sized_call(399, "cuMemcpyDtoD_v2_ptds"),
        call(400, "cuMemcpyDtoA_v2_ptds"),
        call(401, "cuMemcpyAtoD_v2_ptds"),
        call(402, "cuMemcpyHtoA_v2_ptds"),
        call(403, "cuMemcpyAtoH_v2_ptds"),
        call(404, "cuMemcpyAtoA_v2_ptds"),
        call(405, "cuMemcpy2D_v2_ptds"),
        call(406, "cuMemcpy2DUnaligned_v2_ptds"),
        call(407, "cuMemcpy3D_v2_ptds"),
        sized_call(408, "cuMemcpy_ptds"),
        call(409, "cuMemcpyPeer_ptds"),
        call(410, "cuMemcpy3DPeer_ptds"),
        sized_call(418, "cuMemcpyAsync_ptsz"),
        call(419, "cuMemcpyHtoAAsync_v2_ptsz"),
        call(420, "cuMemcpyAtoHAsync_v2_ptsz"),
        sized_call(421, "cuMemcpyHtoDAsync_v2_ptsz"),
        sized_call(422, "cuMemcpyDtoHAsync_v2_ptsz"),
        sized_call(423, "cuMemcpyDtoDAsync_v2_ptsz"),
        call(424, "cuMemcpy2DAsync_v2_ptsz"),
        call(425, "cuMemcpy3DAsync_v2_ptsz"),
        call(426, "cuMemcpyPeerAsync_ptsz"),
        call(427, "cuMemcpy3DPeerAsync_ptsz"),
        call_since(26, 776, "cuMemcpyBatchAsync"),
        call_since(26, 777, "cuMemcpyBatchAsync_ptsz"),
        call_since(26, 778, "cuMemcpy3DBatchAsync"),
        call_since(26, 779, "cuMemcpy3DBatchAsync_ptsz"),
        call_since(130_000, 796, "cuMemcpyBatchAsync_v2"),
        call_since(130_000, 797, "cuMemcpyBatchAsync_v2_ptsz"),
        call_since(130_000, 798, "cuMemcpy3DBatchAsync_v2"),
        call_since(130_000, 799, "cuMemcpy3DBatchAsync_v2_ptsz"),
        call_since(130_101, 837, "cuMemcpyWithAttributesAsync"),
        call_since(130_101, 838, "cuMemcpyWithAttributesAsync_ptsz"),
        call_since(130_101, 839, "cuMemcpy3DWithAttributesAsync"),
        call_since(130_101, 840, "cuMemcpy3DWithAttributesAsync_ptsz"),
    ]);

    /// Calls that set memory.
    pub const FILLS: CallGroup = group(&[
        call(71, "cuMemsetD8"),
        call(73, "cuMemsetD16"),
        call(75, "cuMemsetD32"),
        call(77, "cuMemsetD2D8"),
        call(79, "cuMemsetD2D16"),
        call(81, "cuMemsetD2D32"),
        sized_call(216, "cuMemsetD8Async"),
        sized_call(218, "cuMemsetD16Async"),
        sized_call(220, "cuMemsetD32Async"),
        call(222, "cuMemsetD2D8Async"),
        call(224, "cuMemsetD2D16Async"),
        call(226, "cuMemsetD2D32Async"),
        sized_call(249, "cuMemsetD8_v2"),
        sized_call(250, "cuMemsetD16_v2"),
        sized_call(251, "cuMemsetD32_v2"),
        call(252, "cuMemsetD2D8_v2"),
        call(253, "cuMemsetD2D16_v2"),
        call(254, "cuMemsetD2D32_v2"),
        sized_call(411, "cuMemsetD8_v2_ptds"),
        sized_call(412, "cuMemsetD16_v2_ptds"),
        sized_call(413, "cuMemsetD32_v2_ptds"),
        call(414, "cuMemsetD2D8_v2_ptds"),
        call(415, "cuMemsetD2D16_v2_ptds"),
        call(416, "cuMemsetD2D32_v2_ptds"),
        sized_call(428, "cuMemsetD8Async_ptsz"),
        sized_call(429, "cuMemsetD16Async_ptsz"),
        sized_call(430, "cuMemsetD32Async_ptsz"),
        call(431, "cuMemsetD2D8Async_ptsz"),
        call(432, "cuMemsetD2D16Async_ptsz"),
        call(433, "cuMemsetD2D32Async_ptsz"),
    ]);

    /// Calls that synchronise.
    pub const SYNCHRONIZATIONS: CallGroup = group(&[
        call(17, "cuCtxSynchronize"),
        call(121, "cuEventSynchronize"),
        call(126, "cuStreamSynchronize"),
        call(440, "cuStreamSynchronize_ptsz"),
        call_since(130_000, 800, "cuCtxSynchronize_v2"),
    ]);

    /// Calls that allocate or free device memory.
    pub const ALLOCATIONS: CallGroup = group(&[
        call(29, "cuMemAlloc"),
        call(31, "cuMemAllocPitch"),
        call(33, "cuMemFree"),
        call(243, "cuMemAlloc_v2"),
        call(244, "cuMemAllocPitch_v2"),
        call(245, "cuMemFree_v2"),
        call(371, "cuMemAllocManaged"),
        call(598, "cuMemAllocAsync"),
        call(599, "cuMemAllocAsync_ptsz"),
        call(600, "cuMemFreeAsync"),
        call(601, "cuMemFreeAsync_ptsz"),
        call(611, "cuMemAllocFromPoolAsync"),
        call(612, "cuMemAllocFromPoolAsync_ptsz"),
    ]);

    /// Every group.
    pub const ALL: &[CallGroup] = &[
        LAUNCHES,
        GRAPH_LAUNCHES,
        BEGIN_CAPTURES,
        END_CAPTURES,
        INSTANTIATIONS,
        COPIES,
        FILLS,
        SYNCHRONIZATIONS,
        ALLOCATIONS,
    ];
}

/// Calls of the runtime API, in
/// [`domain::RUNTIME_API`](crate::cupti::abi::constants::domain::RUNTIME_API).
pub mod runtime {
    use super::{Call, CallGroup, call, call_since};

    const fn group(calls: &'static [Call]) -> CallGroup {
        CallGroup { prefix: "CUPTI_RUNTIME_TRACE_CBID_", calls }
    }

    /// Calls that launch a kernel.
    pub const LAUNCHES: CallGroup = group(&[
        call(13, "cudaLaunch_v3020"),
        call(211, "cudaLaunchKernel_v7000"),
        call(213, "cudaLaunch_ptsz_v7000"),
        call(214, "cudaLaunchKernel_ptsz_v7000"),
        call(269, "cudaLaunchCooperativeKernel_v9000"),
        call(270, "cudaLaunchCooperativeKernel_ptsz_v9000"),
        call(272, "cudaLaunchCooperativeKernelMultiDevice_v9000"),
        call(430, "cudaLaunchKernelExC_v11060"),
        call(431, "cudaLaunchKernelExC_ptsz_v11060"),
        call_since(130_000, 505, "__cudaLaunchKernel_v13000"),
        call_since(130_000, 506, "__cudaLaunchKernel_ptsz_v13000"),
    ]);

    /// Calls that launch a graph.
    pub const GRAPH_LAUNCHES: CallGroup =
        group(&[call(311, "cudaGraphLaunch_v10000"), call(312, "cudaGraphLaunch_ptsz_v10000")]);

    /// Calls that begin the capture of a stream into a graph.
    pub const BEGIN_CAPTURES: CallGroup = group(&[
        call(315, "cudaStreamBeginCapture_v10000"),
        call(316, "cudaStreamBeginCapture_ptsz_v10000"),
        call_since(22, 452, "cudaStreamBeginCaptureToGraph_v12030"),
        call_since(22, 453, "cudaStreamBeginCaptureToGraph_ptsz_v12030"),
    ]);

    /// Calls that end the capture of a stream.
    pub const END_CAPTURES: CallGroup = group(&[
        call(319, "cudaStreamEndCapture_v10000"),
        call(320, "cudaStreamEndCapture_ptsz_v10000"),
    ]);

    /// Calls that instantiate a graph.
    pub const INSTANTIATIONS: CallGroup = group(&[
        call(310, "cudaGraphInstantiate_v10000"),
        call(418, "cudaGraphInstantiateWithFlags_v11040"),
        call(436, "cudaGraphInstantiateWithParams_v12000"),
        call(437, "cudaGraphInstantiateWithParams_ptsz_v12000"),
        call(443, "cudaGraphInstantiate_v12000"),
    ]);

    /// Calls that copy memory.
    pub const COPIES: CallGroup = group(&[
        call(31, "cudaMemcpy_v3020"),
        call(32, "cudaMemcpy2D_v3020"),
        call(33, "cudaMemcpyToArray_v3020"),
        call(34, "cudaMemcpy2DToArray_v3020"),
        call(35, "cudaMemcpyFromArray_v3020"),
        call(36, "cudaMemcpy2DFromArray_v3020"),
        call(37, "cudaMemcpyArrayToArray_v3020"),
        call(38, "cudaMemcpy2DArrayToArray_v3020"),
        call(39, "cudaMemcpyToSymbol_v3020"),
        call(40, "cudaMemcpyFromSymbol_v3020"),
        call(41, "cudaMemcpyAsync_v3020"),
        call(42, "cudaMemcpyToArrayAsync_v3020"),
        call(43, "cudaMemcpyFromArrayAsync_v3020"),
        call(44, "cudaMemcpy2DAsync_v3020"),
        call(45, "cudaMemcpy2DToArrayAsync_v3020"),
        call(46, "cudaMemcpy2DFromArrayAsync_v3020"),
        call(47, "cudaMemcpyToSymbolAsync_v3020"),
        call(48, "cudaMemcpyFromSymbolAsync_v3020"),
        call(144, "cudaMemcpy3D_v3020"),
        call(145, "cudaMemcpy3DAsync_v3020"),
        call(160, "cudaMemcpyPeer_v4000"),
        call(161, "cudaMemcpyPeerAsync_v4000"),
        call(162, "cudaMemcpy3DPeer_v4000"),
        call(163, "cudaMemcpy3DPeerAsync_v4000"),
        call(215, "cudaMemcpy_ptds_v7000"),
        call(216, "cudaMemcpy2D_ptds_v7000"),
        call(217, "cudaMemcpyToArray_ptds_v7000"),
        call(218, "cudaMemcpy2DToArray_ptds_v7000"),
        call(219, "cudaMemcpyFromArray_ptds_v7000"),
        call(220, "cudaMemcpy2DFromArray_ptds_v7000"),
        call(221, "cudaMemcpyArrayToArray_ptds_v7000"),
        call(222, "cudaMemcpy2DArrayToArray_ptds_v7000"),
        call(223, "cudaMemcpyToSymbol_ptds_v7000"),
        call(224, "cudaMemcpyFromSymbol_ptds_v7000"),
        call(225, "cudaMemcpyAsync_ptsz_v7000"),
        call(226, "cudaMemcpyToArrayAsync_ptsz_v7000"),
        call(227, "cudaMemcpyFromArrayAsync_ptsz_v7000"),
        call(228, "cudaMemcpy2DAsync_ptsz_v7000"),
        call(229, "cudaMemcpy2DToArrayAsync_ptsz_v7000"),
        call(230, "cudaMemcpy2DFromArrayAsync_ptsz_v7000"),
        call(231, "cudaMemcpyToSymbolAsync_ptsz_v7000"),
        call(232, "cudaMemcpyFromSymbolAsync_ptsz_v7000"),
        call(245, "cudaMemcpy3D_ptds_v7000"),
        call(246, "cudaMemcpy3DAsync_ptsz_v7000"),
        call(249, "cudaMemcpy3DPeer_ptds_v7000"),
        call(250, "cudaMemcpy3DPeerAsync_ptsz_v7000"),
        call_since(26, 482, "cudaMemcpyBatchAsync_v12080"),
        call_since(26, 483, "cudaMemcpyBatchAsync_ptsz_v12080"),
        call_since(26, 484, "cudaMemcpy3DBatchAsync_v12080"),
        call_since(26, 485, "cudaMemcpy3DBatchAsync_ptsz_v12080"),
        call_since(130_000, 509, "cudaMemcpyBatchAsync_v13000"),
        call_since(130_000, 510, "cudaMemcpyBatchAsync_ptsz_v13000"),
        call_since(130_000, 511, "cudaMemcpy3DBatchAsync_v13000"),
        call_since(130_000, 512, "cudaMemcpy3DBatchAsync_ptsz_v13000"),
        call_since(130_202, 554, "cudaMemcpyWithAttributesAsync_v13020"),
        call_since(130_202, 555, "cudaMemcpyWithAttributesAsync_ptsz_v13020"),
        call_since(130_202, 556, "cudaMemcpy3DWithAttributesAsync_v13020"),
        call_since(130_202, 557, "cudaMemcpy3DWithAttributesAsync_ptsz_v13020"),
    ]);

    /// Calls that set memory.
    pub const FILLS: CallGroup = group(&[
        call(49, "cudaMemset_v3020"),
        call(50, "cudaMemset2D_v3020"),
        call(51, "cudaMemsetAsync_v3020"),
        call(52, "cudaMemset2DAsync_v3020"),
        call(142, "cudaMemset3D_v3020"),
        call(143, "cudaMemset3DAsync_v3020"),
        call(233, "cudaMemset_ptds_v7000"),
        call(234, "cudaMemset2D_ptds_v7000"),
        call(235, "cudaMemsetAsync_ptsz_v7000"),
        call(236, "cudaMemset2DAsync_ptsz_v7000"),
        call(243, "cudaMemset3D_ptds_v7000"),
        call(244, "cudaMemset3DAsync_ptsz_v7000"),
    ]);

    /// Calls that synchronise.
    pub const SYNCHRONIZATIONS: CallGroup = group(&[
        call(126, "cudaThreadSynchronize_v3020"),
        call(131, "cudaStreamSynchronize_v3020"),
        call(137, "cudaEventSynchronize_v3020"),
        call(165, "cudaDeviceSynchronize_v3020"),
        call(239, "cudaStreamSynchronize_ptsz_v7000"),
        call_since(130_101, 534, "cudaExecutionCtxSynchronize_v13010"),
    ]);

    /// Calls that allocate or free device memory.
    pub const ALLOCATIONS: CallGroup = group(&[
        call(20, "cudaMalloc_v3020"),
        call(21, "cudaMallocPitch_v3020"),
        call(22, "cudaFree_v3020"),
        call(140, "cudaMalloc3D_v3020"),
        call(206, "cudaMallocManaged_v6000"),
        call(373, "cudaMallocAsync_v11020"),
        call(374, "cudaMallocAsync_ptsz_v11020"),
        call(375, "cudaFreeAsync_v11020"),
        call(376, "cudaFreeAsync_ptsz_v11020"),
        call(391, "cudaMallocFromPoolAsync_v11020"),
        call(392, "cudaMallocFromPoolAsync_ptsz_v11020"),
    ]);

    /// Every group.
    pub const ALL: &[CallGroup] = &[
        LAUNCHES,
        GRAPH_LAUNCHES,
        BEGIN_CAPTURES,
        END_CAPTURES,
        INSTANTIATIONS,
        COPIES,
        FILLS,
        SYNCHRONIZATIONS,
        ALLOCATIONS,
    ];
}
