//! The settings of the recorder that can be changed while it records. Each is declared once, and
//! the reference page is generated from this table.

use crate::env;

/// A setting. Its position in [`ALL`] is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Time between checkpoints.
    CheckpointInterval,
    /// Time between readings of the device counters.
    DeviceCounterInterval,
    /// Size of the launch buffers of new threads.
    LaunchBufferBytes,
    /// Maximum size of a ring.
    RingBytes,
    /// Number of records that a ring keeps.
    RingRecords,
    /// Time before its last record that a ring keeps.
    RingSeconds,
    /// Time between samples of Python's stacks.
    SampleInterval,
    /// Name of the scope in which Python's stacks are sampled.
    SampleScope,
    /// Signal at which Python's stacks are sampled.
    SampleSignal,
    /// Duration from which on a step is slow and sampled, as a multiple of the median.
    SampleSlowStep,
    /// Maximum size of a spool.
    SpoolBytes,
    /// Time between readings of the counters of the process.
    SystemInterval,
    /// Whether memory is read at the scopes of PyTorch's hooks.
    TorchMemory,
    /// Whether PyTorch's operators are recorded.
    TorchOperators,
    /// The operators whose shapes are recorded.
    TorchShapes,
    /// Size of the trace buffers of new threads.
    TraceBufferBytes,
    /// Maximum number of context nodes of new threads.
    MaxNodes,
    /// Number of times per second that the values of a watch are recorded.
    WatchRate,
    /// Maximum length of the texts among these values.
    WatchTextLength,
}

/// The type of a setting's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// A whole number.
    Whole,
    /// A number.
    Real,
    /// `on` or `off`, 1 or 0 as a number.
    Switch,
    /// `SIGUSR1`, `SIGUSR2` or `off`. As a number: the number of the signal, or 0.
    Signal,
    /// A name, or nothing. As a number: the number of the interned name, or 0.
    Name,
    /// One of these words. As a number: its position among them.
    Choice(&'static [&'static str]),
}

/// The declaration of a setting.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// The setting.
    pub setting: Setting,
    /// Name.
    pub key: &'static str,
    /// Other names that are accepted.
    pub aliases: &'static [&'static str],
    /// The environment variable with the initial value.
    pub env: Option<&'static str>,
    /// Type.
    pub kind: SettingKind,
    /// Unit, empty for a number without one.
    pub unit: &'static str,
    /// The initial value if the environment has none.
    pub default: f64,
    /// The smallest and the largest value.
    pub range: (f64, f64),
    /// Effect of a change, and when it begins.
    pub doc: &'static str,
}

/// A value that a text means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SettingValue<'a> {
    /// A number.
    Number(f64),
    /// The text itself, for [`SettingKind::Name`].
    Name(&'a str),
}

/// A value that a setting cannot have, as a sentence without a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidValue(pub String);

/// The signals that a setting can have, with their numbers on Linux.
const SIGNALS: [(&str, f64); 2] = [("SIGUSR1", 10.0), ("SIGUSR2", 12.0)];
/// The operators of PyTorch whose shapes are recorded, by the numbers that the recorder has for them.
const SHAPES: [&str; 3] = ["off", "sampled", "all"];
/// The text that means no signal.
const OFF: &str = "off";
/// 2^53, the largest whole number up to which an `f64` represents every whole number exactly.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_992.0;

/// All settings, in the order of their keys.
pub const ALL: [Declaration; 19] = [
    Declaration {
        setting: Setting::CheckpointInterval,
        key: "checkpoint.interval",
        aliases: &[],
        env: Some(env::CHECKPOINT_SECS),
        kind: SettingKind::Real,
        unit: "s",
        default: 10.0,
        range: (0.0, 86_400.0),
        doc: "Time between checkpoints of a profile; 0 writes none. A change begins with the checkpoint that is due next.",
    },
    Declaration {
        setting: Setting::DeviceCounterInterval,
        key: "device.counter_interval",
        aliases: &[],
        env: Some(env::NVML_PERIOD_MS),
        kind: SettingKind::Whole,
        unit: "ms",
        default: 100.0,
        range: (0.0, 3_600_000.0),
        doc: "Time between readings of the device counters of traces, at least 10; 0 reads none. A change begins after the next reading; if it was 0 when the session began, with the next session.",
    },
    Declaration {
        setting: Setting::LaunchBufferBytes,
        key: "launch.buffer_bytes",
        aliases: &[],
        env: Some(env::LAUNCH_BUFFER_BYTES),
        kind: SettingKind::Whole,
        unit: "B",
        default: 4_194_304.0,
        range: (64.0, 1_073_741_824.0),
        doc: "Size of a thread's buffer for launches on devices. A change is for threads that begin to launch after it.",
    },
    Declaration {
        setting: Setting::RingBytes,
        key: "ring.max_bytes",
        aliases: &[],
        env: Some(env::RING_BYTES),
        kind: SettingKind::Whole,
        unit: "B",
        default: 67_108_864.0,
        range: (65_536.0, 1_099_511_627_776.0),
        doc: "Maximum size of a ring, whatever else it is to keep. A change begins with the next segment.",
    },
    Declaration {
        setting: Setting::RingRecords,
        key: "ring.records",
        aliases: &[],
        env: Some(env::RING_RECORDS),
        kind: SettingKind::Whole,
        unit: "",
        default: 10_000.0,
        range: (1.0, 1_000_000_000.0),
        doc: "Number of scopes, values, counters and activities that a ring keeps, without `ring.seconds`. A change begins with the next segment.",
    },
    Declaration {
        setting: Setting::RingSeconds,
        key: "ring.seconds",
        aliases: &[],
        env: Some(env::RING_SECONDS),
        kind: SettingKind::Real,
        unit: "s",
        default: 0.0,
        range: (0.0, 86_400.0),
        doc: "Time before its last record that a ring keeps; 0 keeps `ring.records` instead. A change begins with the next segment.",
    },
    Declaration {
        setting: Setting::SampleInterval,
        key: "sample.interval",
        aliases: &["marey.sample_rate", "probing.sample_rate"],
        env: Some(env::SAMPLE_SECS),
        kind: SettingKind::Real,
        unit: "s",
        default: 0.0,
        range: (0.0, 3600.0),
        doc: "Time between samples of the Python stacks of all threads, in traces, at least 0.001; 0 takes none. With `sample.scope` or `sample.slow_step`, only while such a scope or step is open, and 0 means 0.01. A change begins at the next line of Python that the main thread runs, or after the next sample.",
    },
    Declaration {
        setting: Setting::SampleScope,
        key: "sample.scope",
        aliases: &[],
        env: None,
        kind: SettingKind::Name,
        unit: "",
        default: 0.0,
        range: (0.0, 4_294_967_295.0),
        doc: "Name of a scope: Python's stacks are sampled while a thread has such a scope open, each `sample.interval`. A scope that is shorter than the interval may have no sample. A change begins like that of `sample.interval`.",
    },
    Declaration {
        setting: Setting::SampleSignal,
        key: "sample.signal",
        aliases: &[],
        env: None,
        kind: SettingKind::Signal,
        unit: "",
        default: 0.0,
        range: (0.0, 12.0),
        doc: "Signal at which Python's stacks are sampled once, in traces. The program must not handle the signal itself. A change begins like that of `sample.interval`.",
    },
    Declaration {
        setting: Setting::SampleSlowStep,
        key: "sample.slow_step",
        aliases: &[],
        env: None,
        kind: SettingKind::Real,
        unit: "",
        default: 0.0,
        range: (0.0, 1_000_000.0),
        doc: "Multiple of the median of the last 16 training steps: from this duration on a step is sampled to its end, each `sample.interval`. 0 samples no step for its duration; the first five steps are never slow. A change begins like that of `sample.interval`.",
    },
    Declaration {
        setting: Setting::SpoolBytes,
        key: "spool.max_bytes",
        aliases: &[],
        env: Some(env::SPOOL_BYTES),
        kind: SettingKind::Whole,
        unit: "B",
        default: 17_179_869_184.0,
        range: (0.0, LARGEST_WHOLE),
        doc: "Maximum size of the process's spool; further events are counted as losses. A change begins at once.",
    },
    Declaration {
        setting: Setting::SystemInterval,
        key: "system.interval",
        aliases: &[],
        env: Some(env::SYSTEM_METRICS_SECS),
        kind: SettingKind::Real,
        unit: "s",
        default: 1.0,
        range: (0.0, 3600.0),
        doc: "Time between readings of the counters of the process in traces, at least 0.05; 0 reads none. A change begins within a second.",
    },
    Declaration {
        setting: Setting::TorchMemory,
        key: "torch.memory",
        aliases: &[],
        env: None,
        kind: SettingKind::Switch,
        unit: "",
        default: 0.0,
        range: (0.0, 1.0),
        doc: "Whether memory of devices and of the process is read at the scopes of PyTorch's hooks, as by `marey run --memory`. A change begins with the next training step.",
    },
    Declaration {
        setting: Setting::TorchOperators,
        key: "torch.operators",
        aliases: &["marey.torch.profiling", "probing.torch.profiling"],
        env: None,
        kind: SettingKind::Switch,
        unit: "",
        default: 0.0,
        range: (0.0, 1.0),
        doc: "Whether PyTorch's operators are recorded, as by `marey run --operators`. A change begins with the next training step.",
    },
    Declaration {
        setting: Setting::TorchShapes,
        key: "torch.shapes",
        aliases: &[],
        env: None,
        kind: SettingKind::Choice(&SHAPES),
        unit: "",
        default: 1.0,
        range: (0.0, 2.0),
        doc: "The operators whose input shapes and types are recorded, as by `marey run --shapes`: `sampled` those of one training step in a hundred. Without effect while `torch.operators` is off. A change begins with the next training step.",
    },
    Declaration {
        setting: Setting::TraceBufferBytes,
        key: "trace.buffer_bytes",
        aliases: &[],
        env: Some(env::TRACE_BUFFER_BYTES),
        kind: SettingKind::Whole,
        unit: "B",
        default: 4_194_304.0,
        range: (64.0, 1_073_741_824.0),
        doc: "Size of a thread's buffer for scopes of a trace. A change is for threads that begin to record after it.",
    },
    Declaration {
        setting: Setting::MaxNodes,
        key: "tree.max_nodes",
        aliases: &[],
        env: Some(env::MAX_NODES),
        kind: SettingKind::Whole,
        unit: "",
        default: 1_000_000.0,
        range: (1.0, 4_294_967_294.0),
        doc: "Maximum number of context nodes of a thread; further ones are counted as losses. A change is for threads that begin to record after it.",
    },
    Declaration {
        setting: Setting::WatchRate,
        key: "watch.rate",
        aliases: &[],
        env: None,
        kind: SettingKind::Real,
        unit: "/s",
        default: 10.0,
        range: (0.001, 1000.0),
        doc: "Number of times per second that the variables of a watch (`marey watch`) are recorded at most; further runs of its line are counted as losses. A change begins with the next record.",
    },
    Declaration {
        setting: Setting::WatchTextLength,
        key: "watch.text_length",
        aliases: &[],
        env: None,
        kind: SettingKind::Whole,
        unit: "characters",
        default: 200.0,
        range: (1.0, 10_000.0),
        doc: "Maximum length of a watched text; the rest is left out. A change begins with the next record.",
    },
];

/// Returns the declaration with this key or alias.
pub fn find(key: &str) -> Option<&'static Declaration> {
    ALL.iter().find(|declared| declared.key == key || declared.aliases.contains(&key))
}

impl Setting {
    /// Returns the setting's declaration.
    pub fn declaration(self) -> &'static Declaration {
        &ALL[self.number()]
    }

    /// Returns the setting's position in [`ALL`], which has the order of the enum.
    pub const fn number(self) -> usize {
        self as usize
    }
}

impl Declaration {
    /// Returns the value that a text means.
    pub fn parse<'a>(&self, text: &'a str) -> Result<SettingValue<'a>, InvalidValue> {
        let text = text.trim();
        let value = match self.kind {
            SettingKind::Name => return Ok(SettingValue::Name(text)),
            SettingKind::Signal => parse_signal(text),
            SettingKind::Switch => parse_switch(text),
            SettingKind::Choice(words) => parse_choice(words, text),
            SettingKind::Whole => text.parse::<u64>().ok().map(|whole| whole as f64),
            SettingKind::Real => text.parse::<f64>().ok().filter(|value| value.is_finite()),
        };
        value.filter(|&value| self.accepts(value)).map(SettingValue::Number).ok_or_else(|| {
            InvalidValue(format!("`{}` is {}, not `{text}`", self.key, self.describe_values()))
        })
    }

    /// Whether the setting can have a number as its value.
    pub fn accepts(&self, value: f64) -> bool {
        let (low, high) = self.range;
        let is_of_kind = match self.kind {
            SettingKind::Signal => {
                value == 0.0 || SIGNALS.iter().any(|&(_, signal)| signal.total_cmp(&value).is_eq())
            }
            SettingKind::Choice(_) => value.fract() == 0.0,
            SettingKind::Whole | SettingKind::Real | SettingKind::Switch | SettingKind::Name => {
                true
            }
        };
        (low..=high).contains(&value) && is_of_kind
    }

    /// Returns a number as a text that [`Self::parse`] accepts; an empty one for the number of a
    /// name.
    pub fn format(&self, value: f64) -> String {
        match self.kind {
            SettingKind::Switch if value == 0.0 => "off".to_owned(),
            SettingKind::Switch => "on".to_owned(),
            SettingKind::Signal => {
                let signal = SIGNALS.iter().find(|&&(_, signal)| signal.total_cmp(&value).is_eq());
                signal.map_or(OFF, |&(name, _)| name).to_owned()
            }
            SettingKind::Choice(words) => {
                words.get(value as usize).copied().unwrap_or_default().to_owned()
            }
            SettingKind::Name => String::new(),
            SettingKind::Whole | SettingKind::Real => format!("{value}"),
        }
    }

    /// Returns the type and range of the values: `a whole number from 1 to 9 B`.
    pub fn describe_values(&self) -> String {
        let (low, high) = self.range;
        let unit = if self.unit.is_empty() { "" } else { " " };
        match self.kind {
            SettingKind::Switch => "`on` or `off`".to_owned(),
            SettingKind::Signal => "`SIGUSR1`, `SIGUSR2` or `off`".to_owned(),
            SettingKind::Choice(words) => words
                .split_last()
                .map(|(last, others)| format!("`{}` or `{last}`", others.join("`, `")))
                .unwrap_or_default(),
            SettingKind::Name => "a name, or nothing".to_owned(),
            SettingKind::Whole => format!("a whole number from {low} to {high}{unit}{}", self.unit),
            SettingKind::Real => format!("a number from {low} to {high}{unit}{}", self.unit),
        }
    }
}

fn parse_signal(text: &str) -> Option<f64> {
    let signal = SIGNALS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let off = text.eq_ignore_ascii_case(OFF).then_some(0.0);
    signal.map(|&(_, signal)| signal).or(off)
}

fn parse_choice(words: &[&str], text: &str) -> Option<f64> {
    let position = words.iter().position(|word| word.eq_ignore_ascii_case(text));
    position.map(|position| position as f64)
}

fn parse_switch(text: &str) -> Option<f64> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "1" | "true" => Some(1.0),
        "off" | "0" | "false" => Some(0.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_each_declaration_is_found_by_its_names() {
        assert!(ALL.is_sorted_by(|left, right| left.key < right.key));
        for declared in &ALL {
            assert_eq!(declared.setting.declaration().key, declared.key);
            for name in declared.aliases.iter().chain([&declared.key]) {
                assert_eq!(find(name).unwrap().key, declared.key);
            }
            let text = declared.format(declared.default);
            let default = match declared.kind {
                SettingKind::Name => SettingValue::Name(""),
                _ => SettingValue::Number(declared.default),
            };
            assert_eq!(declared.parse(&text), Ok(default));
        }
        assert!(find("probing").is_none());
    }

    #[test]
    fn a_switch_is_written_as_on_or_off() {
        for declared in ALL.iter().filter(|declared| declared.kind == SettingKind::Switch) {
            assert_eq!([0.0, 1.0].map(|value| declared.format(value)), ["off", "on"]);
        }
    }

    #[test]
    fn a_value_outside_of_type_or_range_is_refused_by_name() {
        let interval = Setting::CheckpointInterval.declaration();
        assert_eq!(interval.parse(" 0.5 "), Ok(SettingValue::Number(0.5)));
        for text in ["-1", "86401", "NaN", "inf", "", "1 s"] {
            assert!(interval.parse(text).is_err(), "{text}");
        }
        let message = Setting::MaxNodes.declaration().parse("1.5").unwrap_err().0;
        assert_eq!(message, "`tree.max_nodes` is a whole number from 1 to 4294967294, not `1.5`");
        let operators = Setting::TorchOperators.declaration();
        let (on, off) = (SettingValue::Number(1.0), SettingValue::Number(0.0));
        assert_eq!((operators.parse("ON"), operators.parse("0")), (Ok(on), Ok(off)));
        assert!(operators.parse("2").is_err());
        let signal = Setting::SampleSignal.declaration();
        assert_eq!(signal.parse("sigusr2"), Ok(SettingValue::Number(12.0)));
        assert_eq!((signal.format(12.0), signal.format(0.0)), ("SIGUSR2".into(), "off".into()));
        assert!(signal.parse("SIGKILL").is_err() && signal.parse("12").is_err());
        assert!(!signal.accepts(9.0) && signal.accepts(10.0));
        let shapes = Setting::TorchShapes.declaration();
        assert_eq!(
            (shapes.parse("All"), shapes.format(2.0)),
            (Ok(SettingValue::Number(2.0)), "all".into())
        );
        let message = shapes.parse("some").unwrap_err().0;
        assert_eq!(message, "`torch.shapes` is `off`, `sampled` or `all`, not `some`");
        assert!(shapes.parse("1").is_err() && !shapes.accepts(0.5) && !shapes.accepts(3.0));
        let scope = Setting::SampleScope.declaration();
        assert_eq!(scope.parse(" load data "), Ok(SettingValue::Name("load data")));
    }
}
