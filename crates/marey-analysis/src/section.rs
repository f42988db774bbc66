//! The tables of a report: each a query over the views.

use marey_model::table::{Table, stored, view};

use crate::ask::Question;

/// A table of a report.
#[derive(Debug)]
pub struct Section {
    /// Its name, in words joined by `_`.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What a row is, in a sentence.
    pub doc: &'static str,
    /// Without rows in any of these tables it has none, or none that say anything.
    needs: &'static [&'static Table],
    /// The query, what matters most first.
    pub sql: &'static str,
    /// The view that describes its columns.
    view: &'static str,
}

/// A context in which data is loaded, if there is one: the view `critical_path` knows it by this.
const DATA_LOADERS: &str =
    "SELECT id FROM raw.contexts WHERE path(id) LIKE '%enumerate(DataLoader)#%' LIMIT 1";

/// All of them, in the order of a report.
pub const ALL: &[Section] = &[
    Section {
        name: "steps",
        needs: &[&stored::STEPS],
        title: "Training steps, the slowest first",
        doc: "A row for each training step.",
        sql: include_str!("../report/steps.sql"),
        view: "step_times",
    },
    Section {
        name: "devices",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "Where the time of devices went",
        doc: "A row for each device, from its first activity to its last.",
        sql: include_str!("../report/devices.sql"),
        view: "gpu_time",
    },
    Section {
        name: "idle",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "Why devices were idle",
        doc: "The time in which a whole device was idle, by cause and by what the host did meanwhile.",
        sql: include_str!("../report/idle.sql"),
        view: "device_idle",
    },
    Section {
        name: "critical_path",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "What steps waited for",
        doc: "The time of the critical path by what it is bound by; of all steps, or of the recording.",
        sql: include_str!("../report/critical_path.sql"),
        view: "critical_path",
    },
    Section {
        name: "operations",
        needs: &[&stored::ROLLUPS],
        title: "Operations by exclusive time",
        doc: "Host operations by the time that they took without what they called, over all threads.",
        sql: include_str!("../report/operations.sql"),
        view: "top",
    },
    Section {
        name: "kernels",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "Kernels by device time",
        doc: "A row for each kernel, over all devices.",
        sql: include_str!("../report/kernels.sql"),
        view: "kernel_summary",
    },
    Section {
        name: "operators",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "Operations by what they launched",
        doc: "Host operations by the device time of what they launched themselves.",
        sql: include_str!("../report/operators.sql"),
        view: "operator_kernels",
    },
    Section {
        name: "sequences",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "Sequences of kernels",
        doc: "What operators launch again and again, by how often.",
        sql: include_str!("../report/sequences.sql"),
        view: "kernel_sequences",
    },
    Section {
        name: "copies",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "Copies and fills",
        doc: "A row for each kind of copy on each device.",
        sql: include_str!("../report/copies.sql"),
        view: "gpu_copies",
    },
    Section {
        name: "launches",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "Launches",
        doc: "A row for each call by which the host launches, and what it launches.",
        sql: include_str!("../report/launches.sql"),
        view: "launches",
    },
    Section {
        name: "queues",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "Launches that wait on streams",
        doc: "A row for each stream.",
        sql: "SELECT * FROM queue_summary ORDER BY queued_nanos DESC",
        view: "queue_summary",
    },
    Section {
        name: "collectives",
        needs: &[&stored::COLLECTIVES],
        title: "Bandwidth of collectives",
        doc: "A row for each collective and size of message; bus bandwidth as nccl-tests has it.",
        sql: "SELECT * FROM collective_bandwidth ORDER BY total_nanos DESC",
        view: "collective_bandwidth",
    },
    Section {
        name: "occupancy",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "Occupancy of kernels, and what limits it",
        doc: "A row for each kernel and form of its launches.",
        sql: "SELECT * FROM kernel_occupancy ORDER BY total_nanos DESC",
        view: "kernel_occupancy",
    },
    Section {
        name: "roofline",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "Kernels against the peaks of the device",
        doc: "A row for each kernel of an operator whose shapes were recorded, on each device.",
        sql: "SELECT name, operator, count, total_nanos, flops, bytes, arithmetic_intensity, flops_per_second, bytes_per_second, peak_flops_percent, peak_bandwidth_percent, ridge_point, bound, device, rank FROM kernel_roofline WHERE flops IS NOT NULL OR bytes IS NOT NULL ORDER BY total_nanos DESC",
        view: "kernel_roofline",
    },
    Section {
        name: "mfu",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "Model FLOPs utilisation",
        doc: "A row for each process; what counts stands in the column method.",
        sql: "SELECT * FROM mfu WHERE flops_per_step IS NOT NULL ORDER BY rank",
        view: "mfu",
    },
    Section {
        name: "annotations",
        needs: &[&stored::GPU_ACTIVITIES],
        title: "Annotations on devices",
        doc: "A row for each annotation of the user, on each device.",
        sql: "SELECT * FROM gpu_annotations ORDER BY total_nanos DESC",
        view: "gpu_annotations",
    },
    Section {
        name: "stragglers",
        needs: &[&stored::COLLECTIVES],
        title: "Ranks that others wait for",
        doc: "A row for each rank and process group: how often and how long it was the last.",
        sql: "SELECT * FROM stragglers ORDER BY delay_nanos DESC",
        view: "stragglers",
    },
];

impl Section {
    /// The section of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|section| section.name == name)
    }

    /// Asks for its rows; alone, also for those that are not there, and so for its columns.
    pub(crate) fn question(&self, max_rows: u64, is_alone: bool) -> Question {
        let needs = if is_alone { &[] } else { self.needs };
        // Without devices and data loaders each moment of a path is bound by the host.
        let or_with = (self.view == "critical_path").then_some(DATA_LOADERS);
        Question { sql: self.sql.into(), max_rows: Some(max_rows), needs, or_with }
    }

    /// What a column means, if the view says so.
    pub fn column_doc(&self, name: &str) -> Option<&'static str> {
        let view = view::ALL.iter().find(|view| view.name == self.view)?;
        view.columns.iter().find(|column| column.name == name).map(|column| column.doc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_has_a_name_of_its_own_and_a_view_that_describes_it() {
        for (at, section) in ALL.iter().enumerate() {
            let name = section.name;
            assert!(ALL[..at].iter().all(|other| other.name != name), "{name}");
            assert!(view::ALL.iter().any(|view| view.name == section.view), "{name}");
            assert!(section.sql.contains(section.view), "{name}");
        }
    }
}
