//! Kernel launches, with callbacks and records, but without execution.

#![expect(unsafe_code, reason = "functions of the C interface")]

use super::module::Function;
use crate::api::{self, ApiFunction, CallArguments};
use crate::ffi::{Address, Handle, INVALID_VALUE, Out, exports};
use crate::operation::{Kernel, Operation, Work};
use crate::stream::StreamHandle;

/// Parameters of `cuLaunchKernel`, for callbacks.
#[repr(C)]
struct LaunchKernelParameters {
    function: Handle<Function>,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: StreamHandle,
    arguments: Address,
    extra: Address,
}

/// `CUlaunchConfig`.
#[repr(C)]
struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: StreamHandle,
    attributes: *const LaunchAttribute,
    attribute_count: u32,
}

/// `CUlaunchAttribute`.
#[repr(C)]
struct LaunchAttribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
const CLUSTER_DIMENSION: u32 = 4;

impl LaunchConfig {
    fn cluster(&self) -> [u32; 3] {
        if self.attributes.is_null() {
            return [0; 3];
        }
        // SAFETY: the caller passes an array of this length.
        let attributes =
            unsafe { std::slice::from_raw_parts(self.attributes, self.attribute_count as usize) };
        let cluster = attributes.iter().find(|attribute| attribute.id == CLUSTER_DIMENSION);
        cluster.map_or([0; 3], |attribute| {
            [attribute.value[0], attribute.value[1], attribute.value[2]]
        })
    }
}

/// Parameters of `cuLaunchKernelEx`, for callbacks.
#[repr(C)]
struct LaunchExParameters {
    config: *const LaunchConfig,
    function: Handle<Function>,
    arguments: Address,
    extra: Address,
}

fn launch<P>(
    api: &'static ApiFunction,
    function: Handle<Function>,
    config: &LaunchConfig,
    parameters: &P,
) -> i32 {
    let Some(function) = function.get() else { return INVALID_VALUE };
    let kernel = Kernel {
        grid: config.grid.map(u32::cast_signed),
        block: config.block.map(u32::cast_signed),
        cluster: config.cluster(),
        dynamic_shared_bytes: config.shared_bytes.cast_signed(),
        ..function.kernel
    };
    let stream = config.stream.get();
    let arguments = CallArguments {
        symbol: function.kernel.name.address(),
        parameters: std::ptr::from_ref(parameters).cast(),
        ..CallArguments::context(stream.context())
    };
    api::call(api, arguments, |correlation_id| {
        stream
            .submit(&Operation::new(Work::Kernel(kernel), function.duration_nanos), correlation_id);
        0
    })
}

fn launch_plain(api: &'static ApiFunction, parameters: &LaunchKernelParameters) -> i32 {
    let LaunchKernelParameters { function, grid, block, shared_bytes, stream, .. } = *parameters;
    let attributes = std::ptr::null();
    let config = LaunchConfig { grid, block, shared_bytes, stream, attributes, attribute_count: 0 };
    launch(api, function, &config, parameters)
}

exports! {
    fn cuLaunchKernel(
        function: Handle<Function>,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared_bytes: u32,
        stream: StreamHandle,
        arguments: Address,
        extra: Address,
    ) {
        let parameters = LaunchKernelParameters {
            function,
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            stream,
            arguments,
            extra,
        };
        launch_plain(&api::LAUNCH_KERNEL, &parameters)
    }

    fn cuLaunchCooperativeKernel(
        function: Handle<Function>,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared_bytes: u32,
        stream: StreamHandle,
        arguments: Address,
    ) {
        let parameters = LaunchKernelParameters {
            function,
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            stream,
            arguments,
            extra: std::ptr::null_mut(),
        };
        launch_plain(&api::LAUNCH_COOPERATIVE, &parameters)
    }

    fn cuLaunchKernelEx(
        config: Option<&LaunchConfig>,
        function: Handle<Function>,
        arguments: Address,
        extra: Address,
    ) {
        let Some(config) = config else { return INVALID_VALUE };
        let parameters = LaunchExParameters { config, function, arguments, extra };
        launch(&api::LAUNCH_KERNEL_EX, function, config, &parameters)
    }

    fn cuOccupancyMaxActiveClusters(
        clusters: Out<i32>,
        _function: Handle<Function>,
        _config: Option<&LaunchConfig>,
    ) {
        clusters.set(132)
    }
}
