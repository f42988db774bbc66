//! Foreign files, and the types they become.
//!
//! One module a format: [`hatchet`] reads and writes the trees of Proton and marey. Command line
//! tools and servers call this crate; nothing inside a profiled process does.
//!
//! **Constraints.** Every byte that comes in is hostile until read: bad input is an error that
//! names its place and cause, never a panic, and costs no more memory than the file's own size
//! allows. Readers stream; no format is held as a document tree first. The crate writes nothing to
//! the terminal and forbids unsafe code.
//!
//! Start reading at [`marey_model::profile::Profile`], then [`hatchet::parse`].
//!
//! ```
//! use marey_formats::hatchet;
//!
//! let file = br#"[{"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": [
//!     {"frame": {"name": "step", "type": "function"}, "metrics": {"wall_count": 3}, "children": []}
//! ]}, {}]"#;
//! let profile = hatchet::parse(file)?;
//! assert_eq!(&*profile.nodes[1].name, "step");
//! assert_eq!(profile.metrics[0].nodes[0].index(), 1);
//! # Ok::<(), hatchet::ParseError>(())
//! ```

#![forbid(unsafe_code)]

pub mod hatchet;
