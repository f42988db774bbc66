//! GPU sources: what devices do, told to the recorder from inside the profiled process.
//!
//! Each vendor's library is found at run time, by `dlopen`; none is needed to build, and a machine
//! without one records the host side. What a source sees goes to `marey-record`, which knows where
//! it belongs.
//!
//! **Callers.** Only `marey-capi`, which is `libmarey.so`.
//!
//! **Constraints.** A callback of a vendor's library takes no lock that anybody holds while calling
//! that library, allocates nothing on its common path, and lets no panic out. Nothing that was
//! loaded is unloaded. No header of a vendor is part of this crate: layouts are declared here by
//! hand, as offsets, and compared with the vendor's headers by `cargo xtask layout`. No tokio, no Arrow.

pub mod cupti;
pub mod level;
pub mod nvml;
pub mod nvtx;
pub mod probe;
