//! The C interface of libcupti.

mod activity;
mod callbacks;
mod identity;

/// `CUptiResult`: the supported codes.
pub(crate) mod code {
    pub(crate) const INVALID_KIND: i32 = 21;
    pub(crate) const INVALID_OPERATION: i32 = 7;
    pub(crate) const MAX_LIMIT_REACHED: i32 = 12;
    pub(crate) const NOT_COMPATIBLE: i32 = 14;
    pub(crate) const NOT_SUPPORTED: i32 = 27;
    pub(crate) const QUEUE_EMPTY: i32 = 18;
    pub(crate) const MULTIPLE_SUBSCRIBERS: i32 = 39;
}
