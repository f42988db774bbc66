//! A double of NVML, whose devices have the values that a test sets.
//!
//! It is loaded in place of `libnvidia-ml.so.1` (`MAREY_NVML_LIB`). `REPLAY_NVML_DEVICES` is the
//! number of devices, and `REPLAY_NVML_INIT` an error code for the initialisation. The functions
//! `replay_nvml_*` ([`script`]) set everything else, by device and field. A device does not support
//! fields that were never set.
//!
//! **Constraints.** Only own declarations ([`abi`]): facts of the interface, no text of a header.

pub mod abi;
pub mod script;
