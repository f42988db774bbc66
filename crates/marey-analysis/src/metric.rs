//! What is compared, and what it is called.

use std::fmt;

use crate::stats::Stat;

/// What numbers of a metric count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Nanoseconds.
    Nanos,
    /// Bytes.
    Bytes,
    /// Bytes a step.
    BytesPerStep,
    /// Per cent of a whole.
    Percent,
    /// 0 for no, 1 for yes.
    Flag,
}

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less of it.
    Lower,
    /// More of it.
    Higher,
    /// It depends.
    Neither,
}

/// Something that can be measured of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Training steps.
    Steps,
    /// From the beginning of the first step to the end of the last.
    TotalTime,
    /// From the beginning of a step to its end.
    StepTime,
    /// Time in which a device did anything.
    GpuBusy,
    /// Time in which it did nothing.
    GpuIdle,
    /// Time in which it computed.
    GpuCompute,
    /// Time in which it copied and filled.
    GpuCopies,
    /// Time in which it communicated.
    Communication,
    /// That in which it did not compute meanwhile.
    ExposedCommunication,
    /// Memory that is allocated on a device.
    GpuMemory,
    /// What the host launched.
    KernelLaunches,
    /// Model FLOPs utilization.
    Mfu,
}

/// What is told of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Summary {
    /// How many there are.
    Count,
    /// Their sum.
    Total,
    /// A statistic of the steps.
    OfSteps(Stat),
    /// The share of the steps' time.
    Percent,
    /// The most at any time.
    Peak,
    /// By how much a step makes it more, on the whole.
    Growth,
    /// Whether it was found to grow.
    Growing,
}

/// What a quantity is called, and what can be told of it.
struct Entry {
    quantity: Quantity,
    name: &'static str,
    title: &'static str,
    unit: Unit,
    better: Better,
    /// What the name alone means.
    usual: Summary,
    /// What else there is.
    others: &'static [Summary],
}

const MEDIAN: Summary = Summary::OfSteps(Stat::Percentile(50));
const MEAN: Summary = Summary::OfSteps(Stat::Mean);
const P90: Summary = Summary::OfSteps(Stat::Percentile(90));
const P99: Summary = Summary::OfSteps(Stat::Percentile(99));
/// A time per step, of which also the share is known.
const TIME: &[Summary] = &[MEDIAN, P90, P99, Summary::Percent];
const MEMORY: &[Summary] = &[Summary::Growth, Summary::Growing];

const ENTRIES: [Entry; 12] = {
    use Better::{Higher, Lower, Neither};
    use Quantity as Q;
    const fn entry(
        quantity: Quantity,
        (name, title): (&'static str, &'static str),
        (unit, better): (Unit, Better),
        (usual, others): (Summary, &'static [Summary]),
    ) -> Entry {
        Entry { quantity, name, title, unit, better, usual, others }
    }
    let nanos = Unit::Nanos;
    [
        entry(Q::Steps, ("steps", "steps"), (Unit::Count, Neither), (Summary::Count, &[])),
        entry(Q::TotalTime, ("total_time", "time"), (nanos, Neither), (Summary::Total, &[])),
        entry(Q::StepTime, ("step_time", "step time"), (nanos, Lower), (MEDIAN, &[MEAN, P90, P99])),
        entry(Q::GpuBusy, ("gpu_busy", "GPU busy"), (nanos, Neither), (MEAN, TIME)),
        entry(Q::GpuIdle, ("gpu_idle", "GPU idle"), (nanos, Lower), (MEAN, TIME)),
        entry(Q::GpuCompute, ("gpu_compute", "GPU computation"), (nanos, Lower), (MEAN, TIME)),
        entry(Q::GpuCopies, ("gpu_copies", "GPU copies"), (nanos, Lower), (MEAN, TIME)),
        entry(Q::Communication, ("communication", "communication"), (nanos, Lower), (MEAN, TIME)),
        entry(
            Q::ExposedCommunication,
            ("exposed_communication", "exposed communication"),
            (nanos, Lower),
            (MEAN, TIME),
        ),
        entry(
            Q::GpuMemory,
            ("gpu_memory", "GPU memory"),
            (Unit::Bytes, Lower),
            (Summary::Peak, MEMORY),
        ),
        entry(
            Q::KernelLaunches,
            ("kernel_launches", "kernel launches"),
            (Unit::Count, Lower),
            (MEAN, &[MEDIAN, P90, P99]),
        ),
        entry(Q::Mfu, ("mfu", "MFU"), (Unit::Percent, Higher), (Summary::Percent, &[])),
    ]
};

impl Quantity {
    /// The quantity of this name.
    pub fn parse(name: &str) -> Option<Self> {
        ENTRIES.iter().find(|entry| entry.name == name).map(|entry| entry.quantity)
    }

    /// What it is called in an expression.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// The names of all.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ENTRIES.iter().map(|entry| entry.name)
    }

    /// What its name alone stands for.
    pub fn usual(self) -> Metric {
        Metric { quantity: self, summary: self.entry().usual }
    }

    /// The names of what can be told of it. Where `p90` is, there are all of `p1` to `p99`.
    pub fn summaries(self) -> impl Iterator<Item = String> {
        let entry = self.entry();
        std::iter::once(&entry.usual).chain(entry.others).map(ToString::to_string)
    }

    fn entry(self) -> &'static Entry {
        &ENTRIES[self as usize]
    }
}

impl Summary {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "count" => Some(Self::Count),
            "total" => Some(Self::Total),
            "percent" => Some(Self::Percent),
            "peak" => Some(Self::Peak),
            "growth" => Some(Self::Growth),
            "growing" => Some(Self::Growing),
            _ => Stat::parse(name).map(Self::OfSteps),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count => "count",
            Self::Total => "total",
            Self::OfSteps(stat) => return stat.fmt(f),
            Self::Percent => "percent",
            Self::Peak => "peak",
            Self::Growth => "growth",
            Self::Growing => "growing",
        })
    }
}

/// One number of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Metric {
    /// What is measured.
    pub quantity: Quantity,
    /// What is told of it.
    pub summary: Summary,
}

impl Metric {
    /// The mean over the steps.
    pub const fn mean(quantity: Quantity) -> Self {
        Self { quantity, summary: MEAN }
    }

    /// A percentile over the steps.
    pub const fn percentile(quantity: Quantity, percent: u8) -> Self {
        Self { quantity, summary: Summary::OfSteps(Stat::Percentile(percent)) }
    }

    /// The share of the steps' time.
    pub const fn percent(quantity: Quantity) -> Self {
        Self { quantity, summary: Summary::Percent }
    }

    /// What can be told of a quantity by this name; `None` if that is nothing.
    pub fn of(quantity: Quantity, summary: &str) -> Option<Self> {
        let summary = Summary::parse(summary)?;
        let Entry { usual, others, .. } = quantity.entry();
        let is_of_steps = |summary: &Summary| matches!(summary, Summary::OfSteps(_));
        let exists = summary == *usual
            || others.contains(&summary)
            || is_of_steps(&summary) && is_of_steps(usual);
        exists.then_some(Self { quantity, summary })
    }

    /// What its numbers count.
    pub fn unit(self) -> Unit {
        match self.summary {
            Summary::Percent => Unit::Percent,
            Summary::Growth => Unit::BytesPerStep,
            Summary::Growing => Unit::Flag,
            _ => self.quantity.entry().unit,
        }
    }

    /// Which way is good.
    pub fn better(self) -> Better {
        match (self.quantity, self.summary) {
            (Quantity::GpuBusy | Quantity::GpuCompute, Summary::Percent) => Better::Higher,
            _ => self.quantity.entry().better,
        }
    }

    /// What it is called in a table.
    pub fn title(self) -> String {
        let title = self.quantity.entry().title;
        match self.summary {
            Summary::Count | Summary::Total => format!("total {title}"),
            Summary::Peak => format!("peak {title}"),
            Summary::Growth => format!("{title} growth"),
            Summary::Growing => format!("{title} growth detected"),
            Summary::Percent | Summary::OfSteps(_) => format!("{title}, {}", self.summary),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.quantity.name(), self.summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quantity_is_where_it_is_looked_for() {
        for (at, entry) in ENTRIES.iter().enumerate() {
            assert_eq!(entry.quantity as usize, at, "{}", entry.name);
            assert_eq!(Quantity::parse(entry.name), Some(entry.quantity));
            for name in entry.quantity.summaries() {
                let metric = Metric::of(entry.quantity, &name).unwrap();
                assert_eq!(metric.to_string(), format!("{}.{name}", entry.name));
            }
        }
        assert_eq!(Metric::of(Quantity::Mfu, "p50"), None);
        assert_eq!(Metric::of(Quantity::GpuMemory, "p50"), None);
        assert_eq!(Metric::percent(Quantity::GpuBusy).better(), Better::Higher);
    }
}
