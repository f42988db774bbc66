//! A double of NVML: says of its devices what a script tells it to.
//!
//! It is loaded in place of `libnvidia-ml.so.1` (`MAREY_NVML_LIB`). How many devices there are says
//! `REPLAY_NVML_DEVICES`, and with which code NVML refuses to begin, `REPLAY_NVML_INIT`. All else is
//! told by its functions `replay_nvml_*` ([`script`]), by device and field; a field that nobody has
//! set is one that the device does not have.
//!
//! **Constraints.** Own declarations only ([`abi`]): facts of the interface, no text of a header.

pub mod abi;
pub mod script;
