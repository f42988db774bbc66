//! The metrics that can be compared, such as `step_time.p50`: each is a [`Quantity`] and a
//! [`Summary`] of it. One table has their names, titles and units.

use std::fmt;

use crate::stats::Stat;

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain count.
    Count,
    /// Nanoseconds.
    Nanos,
    /// Bytes.
    Bytes,
    /// Bytes per step.
    BytesPerStep,
    /// Per cent of a total.
    Percent,
    /// 0 for no, 1 for yes.
    Flag,
}

/// The direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither direction is an improvement by itself.
    Neither,
}

/// A quantity that can be measured in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Training steps.
    Steps,
    /// Time from the start of the first step to the end of the last.
    TotalTime,
    /// Time from the start of a step to its end.
    StepTime,
    /// Time in which a device executed any activity.
    GpuBusy,
    /// Time in which a device executed nothing.
    GpuIdle,
    /// Time in which a device computed.
    GpuCompute,
    /// Time in which a device copied or filled memory.
    GpuCopies,
    /// Time in which a device communicated.
    Communication,
    /// Time in which a device communicated without computing at the same time.
    ExposedCommunication,
    /// Memory that is allocated on a device.
    GpuMemory,
    /// Launches by the host.
    KernelLaunches,
    /// Model FLOPs utilization.
    Mfu,
}

/// The function that summarises the values of a quantity into one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Summary {
    /// Their number.
    Count,
    /// Their sum.
    Total,
    /// A statistic over the steps.
    OfSteps(Stat),
    /// The share of the step time.
    Percent,
    /// The maximum over time.
    Peak,
    /// The growth per step (Theil-Sen slope).
    Growth,
    /// Whether the rule `memory_leak` found growth.
    Growing,
}

/// A row of the table of quantities: the name, title and summaries of one quantity.
struct QuantityEntry {
    quantity: Quantity,
    name: &'static str,
    title: &'static str,
    unit: Unit,
    better: Better,
    /// The summary that the bare name selects.
    default_summary: Summary,
    /// The other summaries that exist.
    other_summaries: &'static [Summary],
}

const MEDIAN: Summary = Summary::OfSteps(Stat::Percentile(50));
const MEAN: Summary = Summary::OfSteps(Stat::Mean);
const P90: Summary = Summary::OfSteps(Stat::Percentile(90));
const P99: Summary = Summary::OfSteps(Stat::Percentile(99));
/// Summaries of a time per step whose share of the step is known too.
const TIME_SUMMARIES: &[Summary] = &[MEDIAN, P90, P99, Summary::Percent];
const MEMORY_SUMMARIES: &[Summary] = &[Summary::Growth, Summary::Growing];

const QUANTITIES: [QuantityEntry; 12] = {
    use Better::{Higher, Lower, Neither};
    use Quantity as Q;
    const fn entry(
        quantity: Quantity,
        (name, title): (&'static str, &'static str),
        (unit, better): (Unit, Better),
        (default_summary, other_summaries): (Summary, &'static [Summary]),
    ) -> QuantityEntry {
        QuantityEntry { quantity, name, title, unit, better, default_summary, other_summaries }
    }
    let nanos = Unit::Nanos;
    [
        entry(Q::Steps, ("steps", "steps"), (Unit::Count, Neither), (Summary::Count, &[])),
        entry(Q::TotalTime, ("total_time", "time"), (nanos, Neither), (Summary::Total, &[])),
        entry(Q::StepTime, ("step_time", "step time"), (nanos, Lower), (MEDIAN, &[MEAN, P90, P99])),
        entry(Q::GpuBusy, ("gpu_busy", "GPU busy"), (nanos, Neither), (MEAN, TIME_SUMMARIES)),
        entry(Q::GpuIdle, ("gpu_idle", "GPU idle"), (nanos, Lower), (MEAN, TIME_SUMMARIES)),
        entry(
            Q::GpuCompute,
            ("gpu_compute", "GPU computation"),
            (nanos, Lower),
            (MEAN, TIME_SUMMARIES),
        ),
        entry(Q::GpuCopies, ("gpu_copies", "GPU copies"), (nanos, Lower), (MEAN, TIME_SUMMARIES)),
        entry(
            Q::Communication,
            ("communication", "communication"),
            (nanos, Lower),
            (MEAN, TIME_SUMMARIES),
        ),
        entry(
            Q::ExposedCommunication,
            ("exposed_communication", "exposed communication"),
            (nanos, Lower),
            (MEAN, TIME_SUMMARIES),
        ),
        entry(
            Q::GpuMemory,
            ("gpu_memory", "GPU memory"),
            (Unit::Bytes, Lower),
            (Summary::Peak, MEMORY_SUMMARIES),
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
    /// The quantity with this name.
    pub fn parse(name: &str) -> Option<Self> {
        QUANTITIES.iter().find(|entry| entry.name == name).map(|entry| entry.quantity)
    }

    /// The name in expressions.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// The names of all quantities.
    pub fn names() -> impl Iterator<Item = &'static str> {
        QUANTITIES.iter().map(|entry| entry.name)
    }

    /// The metric that the bare name of the quantity selects.
    pub fn default_metric(self) -> Metric {
        Metric { quantity: self, summary: self.entry().default_summary }
    }

    /// Returns the names of the summaries of the quantity. If `p90` is listed, all of `p1` to `p99`
    /// exist.
    pub fn summaries(self) -> impl Iterator<Item = String> {
        let entry = self.entry();
        let summaries = std::iter::once(&entry.default_summary).chain(entry.other_summaries);
        summaries.map(ToString::to_string)
    }

    fn entry(self) -> &'static QuantityEntry {
        &QUANTITIES[self as usize]
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

/// A number of a run: a quantity and how it is summarised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Metric {
    /// The quantity.
    pub quantity: Quantity,
    /// The summary.
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

    /// The share of the step time.
    pub const fn percent(quantity: Quantity) -> Self {
        Self { quantity, summary: Summary::Percent }
    }

    /// Returns the metric of a quantity with the summary of this name, or `None` if it does not
    /// exist.
    pub fn with_summary(quantity: Quantity, summary: &str) -> Option<Self> {
        let summary = Summary::parse(summary)?;
        let QuantityEntry { default_summary, other_summaries, .. } = quantity.entry();
        let is_of_steps = |summary: &Summary| matches!(summary, Summary::OfSteps(_));
        let exists = summary == *default_summary
            || other_summaries.contains(&summary)
            || is_of_steps(&summary) && is_of_steps(default_summary);
        exists.then_some(Self { quantity, summary })
    }

    /// The unit of its values.
    pub fn unit(self) -> Unit {
        match self.summary {
            Summary::Percent => Unit::Percent,
            Summary::Growth => Unit::BytesPerStep,
            Summary::Growing => Unit::Flag,
            _ => self.quantity.entry().unit,
        }
    }

    /// The direction in which it improves.
    pub fn better(self) -> Better {
        match (self.quantity, self.summary) {
            (Quantity::GpuBusy | Quantity::GpuCompute, Summary::Percent) => Better::Higher,
            _ => self.quantity.entry().better,
        }
    }

    /// The title in tables.
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
    fn quantities_index_their_entries_and_names_parse_back() {
        for (index, entry) in QUANTITIES.iter().enumerate() {
            assert_eq!(entry.quantity as usize, index, "{}", entry.name);
            assert_eq!(Quantity::parse(entry.name), Some(entry.quantity));
            for name in entry.quantity.summaries() {
                let metric = Metric::with_summary(entry.quantity, &name).unwrap();
                assert_eq!(metric.to_string(), format!("{}.{name}", entry.name));
            }
        }
        assert_eq!(Metric::with_summary(Quantity::Mfu, "p50"), None);
        assert_eq!(Metric::with_summary(Quantity::GpuMemory, "p50"), None);
        assert_eq!(Metric::percent(Quantity::GpuBusy).better(), Better::Higher);
    }

    #[test]
    fn units_directions_and_titles_follow_the_summary() {
        let memory = |summary| Metric { quantity: Quantity::GpuMemory, summary };
        for (metric, unit, better, title) in [
            (Metric::mean(Quantity::GpuIdle), Unit::Nanos, Better::Lower, "GPU idle, mean"),
            (Metric::percent(Quantity::GpuIdle), Unit::Percent, Better::Lower, "GPU idle, percent"),
            (Metric::mean(Quantity::GpuBusy), Unit::Nanos, Better::Neither, "GPU busy, mean"),
            (
                Metric::percent(Quantity::GpuCompute),
                Unit::Percent,
                Better::Higher,
                "GPU computation, percent",
            ),
            (memory(Summary::Peak), Unit::Bytes, Better::Lower, "peak GPU memory"),
            (memory(Summary::Growth), Unit::BytesPerStep, Better::Lower, "GPU memory growth"),
            (memory(Summary::Growing), Unit::Flag, Better::Lower, "GPU memory growth detected"),
            (Quantity::Steps.default_metric(), Unit::Count, Better::Neither, "total steps"),
        ] {
            assert_eq!((metric.unit(), metric.better()), (unit, better), "{title}");
            assert_eq!(metric.title(), title);
        }
    }
}
