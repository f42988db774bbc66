//! NVIDIA: CUPTI, the interface through which the driver tells of launches and activities.

pub mod abi;
