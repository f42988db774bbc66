//! The formats and their names.

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Trace-event JSON in the vocabulary of Kineto, as `torch.profiler` writes it.
    Kineto,
    /// Trace-event JSON as Proton and Chrome write it.
    ChromeTrace,
    /// A Perfetto trace in protobuf.
    Perfetto,
    /// A speedscope profile in JSON.
    Speedscope,
    /// A pprof profile in protobuf.
    Pprof,
    /// Collapsed stacks: one line `a;b;c 12` for each stack.
    Collapsed,
    /// A flame graph as SVG.
    Svg,
    /// Spans as comma-separated values.
    Csv,
    /// All rows as JSON, one object for each line.
    Json,
    /// Proton's tree of metrics.
    Hatchet,
    /// Proton's tree of metrics in `MessagePack`.
    HatchetMsgpack,
    /// Event files of `TensorBoard`.
    TensorBoard,
    /// A snapshot of `PyTorch`'s allocator.
    MemorySnapshot,
    /// A dump of NCCL's flight recorder.
    FlightRecorder,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 14] = [
        Self::Kineto,
        Self::ChromeTrace,
        Self::Perfetto,
        Self::Speedscope,
        Self::Pprof,
        Self::Collapsed,
        Self::Svg,
        Self::Csv,
        Self::Json,
        Self::Hatchet,
        Self::HatchetMsgpack,
        Self::TensorBoard,
        Self::MemorySnapshot,
        Self::FlightRecorder,
    ];

    /// Whether files of the format can be imported.
    pub const fn is_readable(self) -> bool {
        !matches!(self, Self::Svg | Self::Csv | Self::Json | Self::TensorBoard)
    }

    /// Whether a run can be exported in the format.
    pub const fn is_writable(self) -> bool {
        !matches!(self, Self::MemorySnapshot | Self::FlightRecorder)
    }

    /// Returns the name of the format on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kineto => "kineto",
            Self::ChromeTrace => "chrome-trace",
            Self::Perfetto => "perfetto",
            Self::Speedscope => "speedscope",
            Self::Pprof => "pprof",
            Self::Collapsed => "collapsed",
            Self::Svg => "svg",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Hatchet => "hatchet",
            Self::HatchetMsgpack => "hatchet-msgpack",
            Self::TensorBoard => "tensorboard",
            Self::MemorySnapshot => "memory-snapshot",
            Self::FlightRecorder => "flight-recorder",
        }
    }

    /// Returns a noun phrase with its article, for the middle of a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Kineto => "a trace of torch.profiler",
            Self::ChromeTrace => "a Chrome trace",
            Self::Perfetto => "a Perfetto trace",
            Self::Speedscope => "a speedscope profile",
            Self::Pprof => "a pprof profile",
            Self::Collapsed => "collapsed stacks",
            Self::Svg => "a flame graph",
            Self::Csv => "comma-separated values",
            Self::Json => "JSON lines",
            Self::Hatchet => "a .hatchet profile",
            Self::HatchetMsgpack => "a .hatchet_msgpack profile",
            Self::TensorBoard => "TensorBoard event files",
            Self::MemorySnapshot => "a PyTorch memory snapshot",
            Self::FlightRecorder => "a dump of NCCL's flight recorder",
        }
    }
}
