//! Columns whose texts are one of a few words.

use arrow::array::{ArrayRef, AsArray, StringBuilder};

use super::{Bytes, Damaged, Field};

/// Declares an enum of words; the last one stands for every other word.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $word:ident = $text:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$word_doc])* $word,)+
        }

        impl $name {
            /// Every word.
            pub const ALL: &[Self] = &[$(Self::$word,)+];

            /// The word that tables use.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)+
                }
            }

            /// What a word stands for; the last one, if it is not among them.
            pub fn of(word: &str) -> Self {
                let known = Self::ALL.iter().find(|known| known.as_str() == word);
                known.or(Self::ALL.last()).copied().expect("there are words")
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

            fn put(&self, out: &mut Vec<u8>) {
                out.push(*self as u8);
            }

            fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
                Self::ALL.get(usize::from(input.byte()?)).copied().ok_or(Damaged)
            }
        }
    )+};
}

words! {
    /// What a device did.
    ActivityKind {
        /// A kernel ran.
        Kernel = "kernel",
        /// Memory was copied.
        Memcpy = "memcpy",
        /// Memory was filled.
        Memset = "memset",
        /// A wait.
        Sync = "sync",
        /// What lies between the first and the last kernel of an annotation.
        Annotation = "annotation",
        /// Something else.
        Other = "other",
    }

    /// What an instant concerns.
    InstantScope {
        /// Its thread.
        Thread = "thread",
        /// Its process.
        Process = "process",
        /// Everything.
        Global = "global",
    }

    /// A point of a flow.
    FlowPoint {
        /// Its first.
        Start = "start",
        /// Its last.
        End = "end",
        /// One in between.
        Step = "step",
    }

    /// How far a collective came.
    CollectiveState {
        /// It was asked for.
        Scheduled = "scheduled",
        /// It runs.
        Started = "started",
        /// It is done.
        Completed = "completed",
    }

    /// What an allocator did.
    MemoryAction {
        /// Memory was given out.
        Alloc = "alloc",
        /// Memory was given back.
        Free = "free",
        /// Memory is to be given back once its stream has come there.
        FreeRequested = "free_requested",
        /// The allocator took memory from the device.
        SegmentAlloc = "segment_alloc",
        /// The allocator gave memory back to the device.
        SegmentFree = "segment_free",
        /// The allocator made an expandable segment longer.
        SegmentMap = "segment_map",
        /// The allocator made an expandable segment shorter.
        SegmentUnmap = "segment_unmap",
        /// A snapshot was taken.
        Snapshot = "snapshot",
        /// There was not enough memory.
        OutOfMemory = "oom",
        /// Something else.
        Other = "other",
    }
}
