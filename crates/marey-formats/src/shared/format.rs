//! The list of formats, with their names and whether each can be read and written.

/// Declares the formats. Each has a variant, a name on the command line, and a title.
macro_rules! formats {
    ($($(#[$doc:meta])+ $variant:ident $name:literal $title:literal,)+) => {
        /// A file format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {
            $($(#[$doc])+ $variant,)+
        }

        impl Format {
            /// Every format.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name of the format on the command line.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Returns a noun phrase with its article, for the middle of a sentence.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }
        }
    };
}

formats! {
    /// Trace-event JSON in the vocabulary of Kineto, as `torch.profiler` writes it.
    Kineto "kineto" "a trace of torch.profiler",
    /// Trace-event JSON as Proton and Chrome write it.
    ChromeTrace "chrome-trace" "a Chrome trace",
    /// A Perfetto trace in protobuf.
    Perfetto "perfetto" "a Perfetto trace",
    /// A speedscope profile in JSON.
    Speedscope "speedscope" "a speedscope profile",
    /// A pprof profile in protobuf.
    Pprof "pprof" "a pprof profile",
    /// Collapsed stacks: one line `a;b;c 12` for each stack.
    Collapsed "collapsed" "collapsed stacks",
    /// A flame graph as SVG.
    Svg "svg" "a flame graph",
    /// Spans as comma-separated values.
    Csv "csv" "comma-separated values",
    /// All rows as JSON, one object for each line.
    Json "json" "JSON lines",
    /// Proton's tree of metrics.
    Hatchet "hatchet" "a .hatchet profile",
    /// Proton's tree of metrics in `MessagePack`.
    HatchetMsgpack "hatchet-msgpack" "a .hatchet_msgpack profile",
    /// Event files of `TensorBoard`.
    TensorBoard "tensorboard" "TensorBoard event files",
    /// A snapshot of `PyTorch`'s allocator.
    MemorySnapshot "memory-snapshot" "a PyTorch memory snapshot",
    /// A dump of NCCL's flight recorder.
    FlightRecorder "flight-recorder" "a dump of NCCL's flight recorder",
}

impl Format {
    /// Whether files of the format can be imported.
    pub const fn is_readable(self) -> bool {
        match self {
            Self::Svg | Self::Csv | Self::Json | Self::TensorBoard => false,
            Self::Kineto
            | Self::ChromeTrace
            | Self::Perfetto
            | Self::Speedscope
            | Self::Pprof
            | Self::Collapsed
            | Self::Hatchet
            | Self::HatchetMsgpack
            | Self::MemorySnapshot
            | Self::FlightRecorder => true,
        }
    }

    /// Whether a run can be exported in the format.
    pub const fn is_writable(self) -> bool {
        match self {
            Self::MemorySnapshot | Self::FlightRecorder => false,
            Self::Kineto
            | Self::ChromeTrace
            | Self::Perfetto
            | Self::Speedscope
            | Self::Pprof
            | Self::Collapsed
            | Self::Svg
            | Self::Csv
            | Self::Json
            | Self::Hatchet
            | Self::HatchetMsgpack
            | Self::TensorBoard => true,
        }
    }
}
