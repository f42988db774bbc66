//! The crate table of the design as data: one rule a crate.

/// What one of our crates may use, and what it must never link.
pub(crate) struct Rule {
    /// The crate.
    pub(crate) name: &'static str,
    /// Our crates that it may name in its manifest.
    pub(crate) may_use: &'static [&'static str],
    /// Groups of crates that it must not reach, directly or through others.
    pub(crate) never: &'static [&'static [&'static str]],
}

/// A crate that only its owners may name in their manifests; reaching it through an owner is fine.
pub(crate) struct Exclusive {
    /// The crate's name; a final `*` stands for any rest.
    pub(crate) pattern: &'static str,
    /// Who may name it.
    pub(crate) owners: &'static [&'static str],
}

const ARROW: &[&str] = &["arrow", "arrow-*", "parquet", "parquet-*"];
const DATAFUSION: &[&str] = &["datafusion*", "ballista*"];
const ASYNC: &[&str] = &["tokio*", "async-std", "smol", "futures-executor"];
// The crate `http` has only words, which object_store uses too.
const HTTP: &[&str] = &["hyper*", "axum*", "reqwest*", "tonic*"];
const FILES_AND_SOCKETS: &[&str] = &["memmap2", "tempfile", "mio", "socket2"];
const PYTHON: &[&str] = &["pyo3*"];
const INSIDE: &[&str] = &["marey-record", "marey-gpu", "marey-capi", "marey-py"];

/// One rule for each crate of the design, whether it exists yet or not.
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
        name: "marey-attach",
        may_use: &["marey-model"],
        never: &[ARROW, DATAFUSION, INSIDE, PYTHON],
    },
    Rule {
        name: "marey-store",
        may_use: &["marey-model"],
        never: &[DATAFUSION, HTTP, INSIDE, PYTHON],
    },
    Rule {
        name: "marey-formats",
        may_use: &["marey-model", "marey-store"],
        never: &[DATAFUSION, INSIDE, PYTHON],
    },
    Rule {
        name: "marey-query",
        may_use: &["marey-model", "marey-store"],
        never: &[HTTP, INSIDE, PYTHON, &["clap"]],
    },
    Rule {
        name: "marey-analysis",
        may_use: &["marey-model", "marey-store", "marey-query"],
        never: &[HTTP, INSIDE, PYTHON, &["clap"]],
    },
    Rule {
        name: "marey",
        may_use: &[
            "marey-model",
            "marey-attach",
            "marey-store",
            "marey-formats",
            "marey-query",
            "marey-analysis",
        ],
        never: &[INSIDE, PYTHON],
    },
    Rule {
        name: "marey-capi",
        may_use: &["marey-model", "marey-record", "marey-gpu"],
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
        never: &[INSIDE],
    },
    // For tests only: what stands in for a vendor's library must not know who loads it.
    Rule { name: "marey-replay", may_use: &[], never: &[ASYNC, ARROW, DATAFUSION, HTTP, PYTHON] },
    Rule {
        name: "marey-replay-nvml",
        may_use: &[],
        never: &[ASYNC, ARROW, DATAFUSION, HTTP, PYTHON],
    },
    Rule { name: "xtask", may_use: &["marey-model", "marey-gpu"], never: &[] },
];

/// Crates with one home.
pub(crate) const EXCLUSIVE: &[Exclusive] = &[
    Exclusive { pattern: "datafusion*", owners: &["marey-query"] },
    Exclusive { pattern: "anyhow", owners: &["marey"] },
    Exclusive { pattern: "pyo3*", owners: &["marey-py", "marey-engine"] },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_no_unknown_names_and_no_cycle() {
        for (at, rule) in RULES.iter().enumerate() {
            for used in rule.may_use {
                assert!(RULES.iter().any(|other| other.name == *used), "{used} has no rule");
                assert!(!reaches(used, rule.name), "{} and {used} use each other", rule.name);
            }
            assert!(RULES[..at].iter().all(|other| other.name != rule.name), "{} twice", rule.name);
        }
    }

    fn reaches(from: &str, to: &str) -> bool {
        let rule = RULES.iter().find(|rule| rule.name == from).expect("every crate has a rule");
        rule.may_use.iter().any(|used| *used == to || reaches(used, to))
    }
}
