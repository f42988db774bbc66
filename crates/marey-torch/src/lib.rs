//! PyTorch as a source of the recorder, inside the profiled process: each dispatched operator, each
//! autograd node and each `torch.profiler.record_function` becomes a scope.
//!
//! PyTorch calls [`callbacks`] at the start and end of each of them. The callbacks are registered
//! through functions that every `libtorch_cpu.so` exports, found by `dlsym` in the copy that the
//! process has loaded ([`library`]). So no compiler, no PyTorch header and no build per PyTorch
//! version is needed.
//!
//! **Callers.** Only `marey-capi`, which is `libmarey.so`.
//!
//! **Constraints.** A callback takes no lock, unless it ends a function that another thread has
//! started ([`user_scopes`]), does not allocate for a name that it has seen ([`names`]), and does
//! not unwind. It runs on every thread that runs operators, with or without
//! the GIL, and until the process has ended. The layouts of two C++ types are assumed
//! ([`library::Registration`], the result of a start callback). The caller only registers the
//! callbacks in versions of PyTorch where they have been tested.

#![expect(unsafe_code, reason = "PyTorch's functions are called, and call back, by address")]

pub mod autograd;
mod callbacks;
mod fork;
pub mod ids;
pub mod inputs;
mod library;
mod names;
pub mod operators;
pub mod shapes;
mod user_scopes;
