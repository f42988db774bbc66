//! The sections of a report. Each is a table from a query over the views.

use marey_model::table::{Table, stored, view};

use crate::ask::Question;

/// A section of a report: a table.
#[derive(Debug)]
pub struct Section {
    /// The name: words joined by `_`.
    pub name: &'static str,
    /// The heading.
    pub title: &'static str,
    /// The meaning of a row, as a sentence.
    pub doc: &'static str,
    /// The section is skipped if none of these tables has rows, because it would be empty or
    /// meaningless.
    needed_tables: &'static [&'static Table],
    /// The query, the most important rows first.
    pub sql: &'static str,
    /// The view that describes the columns.
    view: &'static str,
}

/// A query that selects a context of a data loader, if there is one. The view `critical_path` finds
/// data loaders by the same path.
const DATA_LOADER_QUERY: &str =
    "SELECT id FROM raw.contexts WHERE path(id) LIKE '%enumerate(DataLoader)#%' LIMIT 1";

/// All sections, in the order of a report.
pub const ALL: &[Section] = &[
    Section {
        name: "steps",
        needed_tables: &[&stored::STEPS],
        title: "Training steps, the slowest first",
        doc: "A row for each training step.",
        sql: include_str!("../report/steps.sql"),
        view: "step_times",
    },
    Section {
        name: "devices",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "Device time",
        doc: "A row for each device, from its first activity to its last.",
        sql: include_str!("../report/devices.sql"),
        view: "gpu_time",
    },
    Section {
        name: "idle",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "Why devices were idle",
        doc: "The idle time of whole devices, by cause and by the activity of the host.",
        sql: include_str!("../report/idle.sql"),
        view: "device_idle",
    },
    Section {
        name: "critical_path",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "What steps waited for",
        doc: "The time on the critical path by what bounds it, of the processes that have steps, or of all if none has.",
        sql: include_str!("../report/critical_path.sql"),
        view: "critical_path",
    },
    Section {
        name: "operations",
        needed_tables: &[&stored::ROLLUPS],
        title: "Operations by exclusive time",
        doc: "Host operations by exclusive time, over all threads.",
        sql: include_str!("../report/operations.sql"),
        view: "top",
    },
    Section {
        name: "operator_modules",
        needed_tables: &[&stored::ROLLUPS],
        title: "Modules of the hottest operators",
        doc: "Operators by exclusive time, each with the module of the context in which it took most of that, and the line where the program calls the module. In backward, the module is that of the forward operator.",
        sql: include_str!("../report/operator_modules.sql"),
        view: "context_modules",
    },
    Section {
        name: "kernels",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "Kernels by device time",
        doc: "A row for each kernel, over all devices.",
        sql: include_str!("../report/kernels.sql"),
        view: "kernel_summary",
    },
    Section {
        name: "operators",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "Operations by launched device time",
        doc: "Host operations by the device time of the activities that they launched directly.",
        sql: include_str!("../report/operators.sql"),
        view: "operator_kernels",
    },
    Section {
        name: "sequences",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "Sequences of kernels",
        doc: "Sequences of kernels that operators launch repeatedly, the most frequent first.",
        sql: include_str!("../report/sequences.sql"),
        view: "kernel_sequences",
    },
    Section {
        name: "copies",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "Copies and fills",
        doc: "A row for each kind of copy on each device.",
        sql: include_str!("../report/copies.sql"),
        view: "gpu_copies",
    },
    Section {
        name: "launches",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "Launches",
        doc: "A row for each launching call and the kind of activity that it launches.",
        sql: include_str!("../report/launches.sql"),
        view: "launches",
    },
    Section {
        name: "queues",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "Launches that wait on streams",
        doc: "A row for each stream.",
        sql: "SELECT * FROM queue_summary ORDER BY queued_nanos DESC",
        view: "queue_summary",
    },
    Section {
        name: "collectives",
        needed_tables: &[&stored::COLLECTIVES],
        title: "Bandwidth of collectives",
        doc: "A row for each collective and message size; bus bandwidth as defined by nccl-tests.",
        sql: "SELECT * FROM collective_bandwidth ORDER BY total_nanos DESC",
        view: "collective_bandwidth",
    },
    Section {
        name: "occupancy",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "Occupancy of kernels, and what limits it",
        doc: "A row for each kernel and launch shape.",
        sql: "SELECT * FROM kernel_occupancy ORDER BY total_nanos DESC",
        view: "kernel_occupancy",
    },
    Section {
        name: "roofline",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "Kernels against the peaks of the device",
        doc: "A row for each kernel of an operator whose shapes were recorded, on each device.",
        sql: "SELECT name, operator, count, total_nanos, flops, bytes, arithmetic_intensity, flops_per_second, bytes_per_second, peak_flops_percent, peak_bandwidth_percent, ridge_point, bound, device, rank FROM kernel_roofline WHERE flops IS NOT NULL OR bytes IS NOT NULL ORDER BY total_nanos DESC",
        view: "kernel_roofline",
    },
    Section {
        name: "mfu",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "Model FLOPs utilisation",
        doc: "A row for each process; the column method names what was counted.",
        sql: "SELECT * FROM mfu WHERE flops_per_step IS NOT NULL ORDER BY rank",
        view: "mfu",
    },
    Section {
        name: "annotations",
        needed_tables: &[&stored::GPU_ACTIVITIES],
        title: "Annotations on devices",
        doc: "A row for each user annotation on each device.",
        sql: "SELECT * FROM gpu_annotations ORDER BY total_nanos DESC",
        view: "gpu_annotations",
    },
    Section {
        name: "stragglers",
        needed_tables: &[&stored::COLLECTIVES],
        title: "Ranks that others wait for",
        doc: "A row for each rank and process group: how often it was last, and for how long.",
        sql: "SELECT * FROM stragglers ORDER BY delay_nanos DESC",
        view: "stragglers",
    },
    Section {
        name: "overhead",
        needed_tables: &[&stored::METADATA],
        title: "What recording costs",
        doc: "A row for each process that measured it, against training steps without any hook.",
        sql: "SELECT statement, unrecorded_steps, step_count, detail, target_percent, backoff, rank, pid FROM recording_overhead WHERE step_count IS NOT NULL ORDER BY rank, pid",
        view: "recording_overhead",
    },
];

impl Section {
    /// The section with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|section| section.name == name)
    }

    /// Returns the query for the rows. A section that is shown alone is queried even if it has no
    /// rows, because its columns are shown.
    pub(crate) fn question(&self, max_rows: u64, is_alone: bool) -> Question {
        let needed_tables = if is_alone { &[] } else { self.needed_tables };
        // Without devices and data loaders, every moment of a critical path is bound by the host.
        let probe = (self.view == "critical_path").then_some(DATA_LOADER_QUERY);
        Question { sql: self.sql.into(), max_rows: Some(max_rows), needed_tables, probe }
    }

    /// The description of a column, if the view has one.
    pub fn column_doc(&self, name: &str) -> Option<&'static str> {
        let view = view::ALL.iter().find(|view| view.name == self.view)?;
        view.columns.iter().find(|column| column.name == name).map(|column| column.doc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_unique_names_and_a_view_that_describes_them() {
        for (index, section) in ALL.iter().enumerate() {
            let name = section.name;
            assert!(ALL[..index].iter().all(|other| other.name != name), "{name}");
            assert!(view::ALL.iter().any(|view| view.name == section.view), "{name}");
            assert!(section.sql.contains(section.view), "{name}");
            assert_eq!(Section::find(name).map(|found| found.name), Some(name));
        }
        assert!(Section::find("unknown").is_none());
    }

    #[test]
    fn only_the_critical_path_is_asked_whether_anything_but_the_host_binds_it() {
        for section in ALL {
            let question = section.question(7, false);
            assert_eq!(question.probe.is_some(), section.view == "critical_path");
            assert_eq!(question.max_rows, Some(7));
        }
    }

    #[test]
    fn a_column_has_the_description_of_the_view() {
        let view = view::ALL.iter().find(|view| view.name == "step_times").unwrap();
        let steps = Section::find("steps").unwrap();
        for column in view.columns {
            assert_eq!(steps.column_doc(column.name), Some(column.doc));
        }
        assert_eq!(steps.column_doc("unknown"), None);
    }
}
