//! The formats, by name.

/// A format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// What `torch.profiler` writes: trace-event JSON with Kineto's words.
    Kineto,
    /// Trace-event JSON, as Proton and Chrome write it.
    ChromeTrace,
    /// Perfetto's protobuf traces.
    Perfetto,
    /// speedscope's JSON.
    Speedscope,
    /// pprof's protobuf profiles.
    Pprof,
    /// Collapsed stacks: `a;b;c 12` a line.
    Collapsed,
    /// A flame graph as SVG.
    Svg,
    /// The spans as comma-separated values.
    Csv,
    /// The spans as JSON, an object a line.
    Json,
    /// Proton's tree of metrics.
    Hatchet,
    /// The same as `MessagePack`.
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

    /// Whether files of it can be imported.
    pub const fn is_readable(self) -> bool {
        !matches!(self, Self::Svg | Self::Csv | Self::Json | Self::TensorBoard)
    }

    /// Whether a run can be exported as one.
    pub const fn is_writable(self) -> bool {
        !matches!(self, Self::MemorySnapshot | Self::FlightRecorder)
    }

    /// Its name on the command line.
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

    /// What files of it are called, in a sentence's middle.
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
