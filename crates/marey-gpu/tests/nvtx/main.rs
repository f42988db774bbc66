//! NVTX as a library with annotations meets it.

#[cfg(test)]
mod annotations;
#[cfg(test)]
mod client;
