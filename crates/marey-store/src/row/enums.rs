//! Enums for the text columns that have a fixed set of words, such as the kind of an activity.

use arrow::array::{ArrayRef, AsArray, StringBuilder};

use super::{DamagedRow, Field, RowBytes};

/// Declares an enum of words. The last variant stands for all unknown words.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $word:ident = $text:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$word_doc])* $word,)+
        }

        impl $name {
            /// All variants.
            pub const ALL: &[Self] = &[$(Self::$word,)+];

            /// Returns the word that tables use.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)+
                }
            }

            /// Parses a word. An unknown word gives the last variant.
            pub fn of(word: &str) -> Self {
                let known = Self::ALL.iter().find(|known| known.as_str() == word);
                known.or(Self::ALL.last()).copied().expect("the enum has variants")
            }
        }

        impl Field for $name {
            type Columns = StringBuilder;

            fn append(&self, columns: &mut StringBuilder) {
                columns.append_value(self.as_str());
            }

            fn finish(columns: &mut StringBuilder, out: &mut Vec<ArrayRef>) {
                out.push(std::sync::Arc::new(columns.finish()));
            }

            fn read(arrays: &[ArrayRef], row: usize) -> Self {
                Self::of(arrays[0].as_string::<i32>().value(row))
            }

            fn encode(&self, out: &mut Vec<u8>) {
                out.push(*self as u8);
            }

            fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
                Self::ALL.get(usize::from(input.byte()?)).copied().ok_or(DamagedRow)
            }
        }
    )+};
}

words! {
    /// Kinds of activities.
    ActivityKind {
        /// A kernel.
        Kernel = "kernel",
        /// A copy of memory.
        Memcpy = "memcpy",
        /// A fill of memory.
        Memset = "memset",
        /// A synchronisation.
        Sync = "sync",
        /// The interval from the first to the last kernel of an annotation.
        Annotation = "annotation",
        /// Anything else.
        Other = "other",
    }

    /// The range of threads that an instant applies to.
    InstantScope {
        /// Thread.
        Thread = "thread",
        /// Process.
        Process = "process",
        /// All processes.
        Global = "global",
    }

    /// Points of a flow.
    FlowPoint {
        /// The first point.
        Start = "start",
        /// The last point.
        End = "end",
        /// A point in between.
        Step = "step",
    }

    /// Progress of a collective.
    CollectiveState {
        /// Scheduled.
        Scheduled = "scheduled",
        /// Started.
        Started = "started",
        /// Completed.
        Completed = "completed",
    }

    /// Actions of an allocator.
    MemoryAction {
        /// Memory was allocated.
        Alloc = "alloc",
        /// Memory was freed.
        Free = "free",
        /// A free was requested, which takes effect once the stream has reached that point.
        FreeRequested = "free_requested",
        /// The allocator allocated a segment from the device.
        SegmentAlloc = "segment_alloc",
        /// The allocator returned a segment to the device.
        SegmentFree = "segment_free",
        /// The allocator extended an expandable segment.
        SegmentMap = "segment_map",
        /// The allocator shrank an expandable segment.
        SegmentUnmap = "segment_unmap",
        /// A snapshot was taken.
        Snapshot = "snapshot",
        /// An allocation failed.
        OutOfMemory = "oom",
        /// The totals were read.
        Reading = "reading",
        /// Anything else.
        Other = "other",
    }
}
