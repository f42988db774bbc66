//! Tests of NVTX with a fake annotated library.

#[cfg(test)]
mod annotations;
#[cfg(test)]
mod client;
