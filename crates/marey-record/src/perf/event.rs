//! The performance events that can be counted, by the names that `perf list` uses.

use thiserror::Error;

/// `PERF_TYPE_HARDWARE`, `PERF_TYPE_SOFTWARE` and `PERF_TYPE_RAW` of `linux/perf_event.h`.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const RAW: u32 = 4;

/// Names, types and numbers of events, from `linux/perf_event.h`.
const KNOWN: [(&str, u32, u64); 18] = [
    ("cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("cache_references", HARDWARE, 2),
    ("cache_misses", HARDWARE, 3),
    ("branches", HARDWARE, 4),
    ("branch_misses", HARDWARE, 5),
    ("bus_cycles", HARDWARE, 6),
    ("stalled_cycles_frontend", HARDWARE, 7),
    ("stalled_cycles_backend", HARDWARE, 8),
    ("ref_cycles", HARDWARE, 9),
    ("task_clock", SOFTWARE, 1),
    ("page_faults", SOFTWARE, 2),
    ("context_switches", SOFTWARE, 3),
    ("cpu_migrations", SOFTWARE, 4),
    ("minor_faults", SOFTWARE, 5),
    ("major_faults", SOFTWARE, 6),
    ("alignment_faults", SOFTWARE, 7),
    ("emulation_faults", SOFTWARE, 8),
];

/// An event of the processor or of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerfEvent {
    /// The name in profiles: as `perf list` has it, with underscores.
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) config: u64,
}

/// A name that is not an event's.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "unknown performance event `{name}`; known are {} and raw ones such as r01c2",
    known_names()
)]
pub struct UnknownEvent {
    name: String,
}

/// A part of the kernel that counts events. Only events of one source may be in a group: Linux 6.18
/// accepts a clock and page faults in one group, but does not count the page faults (measured).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventSource {
    Processor,
    Kernel,
    Clock,
}

impl PerfEvent {
    pub(crate) fn source(&self) -> EventSource {
        match self.kind {
            SOFTWARE if self.name == "task_clock" => EventSource::Clock,
            SOFTWARE => EventSource::Kernel,
            _ => EventSource::Processor,
        }
    }

    /// Parses a name of `perf list`, with hyphens or underscores, or a raw number of the processor:
    /// `r` and hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Result<Self, UnknownEvent> {
        let name = text.trim().replace('-', "_");
        let known = KNOWN.iter().find(|(known, ..)| *known == name);
        let raw = || {
            let digits = name.strip_prefix('r')?;
            let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            u64::from_str_radix(digits, 16).ok().filter(|_| is_number)
        };
        match (known, raw()) {
            (Some(&(_, kind, config)), _) => Ok(Self { name, kind, config }),
            (None, Some(config)) => Ok(Self { name, kind: RAW, config }),
            (None, None) => Err(UnknownEvent { name: text.to_owned() }),
        }
    }

    /// Whether the event is counted in user mode only, which needs no privilege. A context switch
    /// or a migration happens in the kernel: its count would always be 0.
    pub(crate) fn excludes_kernel(&self) -> bool {
        !matches!(self.name.as_str(), "context_switches" | "cpu_migrations")
    }
}

fn known_names() -> String {
    KNOWN.map(|(name, ..)| name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_perf_are_parsed() {
        let parsed =
            |text| PerfEvent::parse(text).map(|event| (event.name, event.kind, event.config));
        assert_eq!(parsed("cache-misses"), Ok(("cache_misses".to_owned(), HARDWARE, 3)));
        assert_eq!(parsed(" page_faults "), Ok(("page_faults".to_owned(), SOFTWARE, 2)));
        assert_eq!(parsed("r01C2"), Ok(("r01C2".to_owned(), RAW, 0x1c2)));
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        for text in ["cycle", "", "r", "r+1", "r12345678901234567", "rxyz"] {
            let message = PerfEvent::parse(text).unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("unknown performance event `{text}`")),
                "{message}"
            );
            assert!(message.contains("branch_misses"), "{message}");
        }
    }
}
