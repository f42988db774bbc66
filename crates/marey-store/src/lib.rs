//! The run directory: from spools to tables, and from tables to readers.

#![forbid(unsafe_code)]
