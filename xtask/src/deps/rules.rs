//! Allowed dependencies between crates, one rule per crate.

/// The dependencies of one of our crates.
pub(crate) struct Rule {
    /// Name of the crate.
    pub(crate) name: &'static str,
    /// Our crates that it may depend on directly.
    pub(crate) may_use: &'static [&'static str],
    /// Groups of crates that it must not depend on, directly or transitively.
    pub(crate) never: &'static [&'static [&'static str]],
}

/// A crate that only its owners may depend on directly; others may reach it through an owner.
pub(crate) struct Exclusive {
    /// Name of the crate; a final `*` matches any suffix.
    pub(crate) pattern: &'static str,
    /// Crates that may depend on it.
    pub(crate) owners: &'static [&'static str],
}

const ARROW: &[&str] = &["arrow", "arrow-*", "parquet", "parquet-*"];
const DATAFUSION: &[&str] = &["datafusion*", "ballista*"];
const ASYNC: &[&str] = &["tokio*", "async-std", "smol", "futures-executor"];
// Not the crate `http`, which only defines types and which object_store uses too.
const HTTP: &[&str] = &["hyper*", "axum*", "reqwest*", "tonic*"];
const FILES_AND_SOCKETS: &[&str] = &["memmap2", "tempfile", "mio", "socket2"];
const PYTHON: &[&str] = &["pyo3*"];
const IN_PROCESS: &[&str] = &["marey-record", "marey-gpu", "marey-torch", "marey-capi", "marey-py"];

/// One rule for each planned or existing crate.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "marey-model",
        may_use: &[],
        never: &[FILES_AND_SOCKETS, ASYNC, ARROW, DATAFUSION, HTTP, PYTHON],
    },
    Rule {
        name: "marey-record",
        may_use: &["marey-model"],
        never: &[ASYNC, ARROW, DATAFUSION, HTTP, PYTHON, &["serde_json"]],
    },
    Rule {
        name: "marey-gpu",
        may_use: &["marey-model", "marey-record"],
        never: &[ASYNC, ARROW, DATAFUSION, HTTP, PYTHON, &["serde_json"]],
    },
    Rule {
        name: "marey-torch",
        may_use: &["marey-model", "marey-record"],
        never: &[ASYNC, ARROW, DATAFUSION, HTTP, PYTHON, &["serde_json"]],
    },
    Rule {
        name: "marey-attach",
        may_use: &["marey-model"],
        never: &[ARROW, DATAFUSION, IN_PROCESS, PYTHON],
    },
    Rule {
        name: "marey-inject",
        may_use: &["marey-attach"],
        never: &[ARROW, DATAFUSION, IN_PROCESS, PYTHON],
    },
    Rule {
        name: "marey-store",
        may_use: &["marey-model"],
        never: &[DATAFUSION, HTTP, IN_PROCESS, PYTHON],
    },
    Rule {
        name: "marey-formats",
        may_use: &["marey-model", "marey-store"],
        never: &[DATAFUSION, IN_PROCESS, PYTHON],
    },
    Rule {
        name: "marey-query",
        may_use: &["marey-model", "marey-store"],
        never: &[HTTP, IN_PROCESS, PYTHON, &["clap"]],
    },
    Rule {
        name: "marey-analysis",
        may_use: &["marey-model", "marey-store", "marey-query"],
        never: &[HTTP, IN_PROCESS, PYTHON, &["clap"]],
    },
    Rule {
        name: "marey",
        may_use: &[
            "marey-model",
            "marey-attach",
            "marey-inject",
            "marey-store",
            "marey-formats",
            "marey-query",
            "marey-analysis",
        ],
        never: &[IN_PROCESS, PYTHON],
    },
    Rule {
        name: "marey-capi",
        may_use: &["marey-model", "marey-record", "marey-gpu", "marey-torch"],
        never: &[ASYNC, ARROW, DATAFUSION, HTTP, PYTHON],
    },
    Rule {
        name: "marey-py",
        may_use: &["marey-model", "marey-record"],
        never: &[ASYNC, ARROW, DATAFUSION, HTTP],
    },
    Rule {
        name: "marey-engine",
        may_use: &[
            "marey",
            "marey-model",
            "marey-query",
            "marey-analysis",
            "marey-formats",
            "marey-store",
        ],
        never: &[IN_PROCESS],
    },
    // For tests only. Doubles of a vendor's library must not depend on their client.
    Rule { name: "marey-replay", may_use: &[], never: &[ASYNC, ARROW, DATAFUSION, HTTP, PYTHON] },
    Rule {
        name: "marey-replay-nvml",
        may_use: &[],
        never: &[ASYNC, ARROW, DATAFUSION, HTTP, PYTHON],
    },
    Rule { name: "xtask", may_use: &["marey-model", "marey-gpu"], never: &[] },
];

/// Crates with exclusive owners.
pub(crate) const EXCLUSIVE: &[Exclusive] = &[
    Exclusive { pattern: "datafusion*", owners: &["marey-query"] },
    Exclusive { pattern: "anyhow", owners: &["marey"] },
    Exclusive { pattern: "pyo3*", owners: &["marey-py", "marey-engine"] },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_no_unknown_names_and_no_cycles() {
        for (index, rule) in RULES.iter().enumerate() {
            for used in rule.may_use {
                assert!(RULES.iter().any(|other| other.name == *used), "{used} has no rule");
                assert!(!reaches(used, rule.name), "{} and {used} use each other", rule.name);
            }
            assert!(
                RULES[..index].iter().all(|other| other.name != rule.name),
                "{} twice",
                rule.name
            );
        }
    }

    fn reaches(from: &str, to: &str) -> bool {
        let rule = RULES.iter().find(|rule| rule.name == from).expect("every crate has a rule");
        rule.may_use.iter().any(|used| *used == to || reaches(used, to))
    }
}
