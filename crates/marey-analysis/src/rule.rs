//! What a rule is: a query with thresholds, and words for what it finds.

use std::collections::BTreeMap;

use marey_model::table::Table;
use marey_query::near::nearest;

use crate::rules;

/// A question with a fault for an answer. Its rows are the findings, the worst first.
///
/// The columns that all rules have are read in [`crate::finding`]; those after them are evidence.
#[derive(Debug)]
pub struct Rule {
    /// Its name, in words joined by `_`.
    pub name: &'static str,
    /// A heading of a few words.
    pub title: &'static str,
    /// When it fires, how impact and gain are computed, and where the severities begin.
    pub doc: &'static str,
    /// The numbers that it can be tuned by: `{name}` in the query.
    pub thresholds: &'static [Threshold],
    /// Without rows in any of these tables it finds nothing, and is not asked.
    pub(crate) needs: &'static [&'static Table],
    /// The query.
    pub(crate) sql: &'static str,
    /// A sentence on a finding, with `{column}` for the values of its row, and `{per}` for `of a step`,
    /// or `of the recording` of a process without steps.
    pub(crate) says: &'static str,
    /// What to change.
    pub hint: &'static str,
}

/// A number that a rule can be tuned by.
#[derive(Debug)]
pub struct Threshold {
    /// Its name; users write `rule.name`.
    pub name: &'static str,
    /// What it is unless the user says otherwise.
    pub default: f64,
    /// What it counts, such as `%`; empty for plain numbers.
    pub unit: &'static str,
    /// What happens from it on.
    pub doc: &'static str,
}

/// Thresholds that the user has set, by `rule.threshold`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thresholds(BTreeMap<String, f64>);

/// Why a threshold cannot be set.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// There is none of that name.
    #[error("no rule has a threshold `{name}`{}", suggestion(nearest))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names like it, or else of the same rule.
        nearest: Vec<String>,
    },
    /// It is infinite or not a number.
    #[error("the threshold `{name}` is set to what is not a number")]
    NotFinite {
        /// Its name.
        name: String,
    },
}

fn suggestion(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!("; there is `{}`", names.join("`, `")),
    }
}

impl Thresholds {
    /// Sets one, by `rule.threshold`.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), ThresholdError> {
        let known: Vec<String> = rules::ALL.iter().flat_map(Rule::threshold_names).collect();
        if !known.iter().any(|known| known == name) {
            let nearest = nearest(name, &known);
            return Err(ThresholdError::Unknown { name: name.to_owned(), nearest });
        }
        if !value.is_finite() {
            return Err(ThresholdError::NotFinite { name: name.to_owned() });
        }
        self.0.insert(name.to_owned(), value);
        Ok(())
    }
}

impl Rule {
    /// The names of its thresholds as users write them.
    fn threshold_names(&self) -> impl Iterator<Item = String> {
        self.thresholds.iter().map(|threshold| format!("{}.{}", self.name, threshold.name))
    }

    /// The query with its thresholds in place.
    pub(crate) fn query(&self, set: &Thresholds) -> String {
        let mut query = self.sql.to_owned();
        for (threshold, name) in self.thresholds.iter().zip(self.threshold_names()) {
            let value = set.0.get(&name).copied().unwrap_or(threshold.default);
            query = query.replace(&format!("{{{}}}", threshold.name), &value.to_string());
        }
        query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        name: "rule",
        needs: &[],
        title: "",
        doc: "",
        thresholds: &[Threshold { name: "least", default: 10.0, unit: "%", doc: "" }],
        sql: "SELECT {least} AS least",
        says: "",
        hint: "",
    };

    #[test]
    fn a_query_has_its_thresholds_in_place() {
        assert_eq!(RULE.query(&Thresholds::default()), "SELECT 10 AS least");
        let set = Thresholds([("rule.least".to_owned(), 2.5)].into());
        assert_eq!(RULE.query(&set), "SELECT 2.5 AS least");
    }

    #[test]
    fn every_rule_has_a_name_of_its_own_and_uses_its_thresholds() {
        for (at, rule) in rules::ALL.iter().enumerate() {
            assert!(rules::ALL[..at].iter().all(|other| other.name != rule.name), "{}", rule.name);
            for Threshold { name, default, doc, .. } in rule.thresholds {
                assert!(rule.sql.contains(&format!("{{{name}}}")), "{}: {name}", rule.name);
                assert!(default.is_finite() && doc.ends_with('.'), "{}: {name}", rule.name);
            }
            let query = rule.query(&Thresholds::default());
            assert!(!query.contains('{'), "{}: {query}", rule.name);
        }
    }

    #[test]
    fn only_thresholds_that_are_there_can_be_set() {
        let mut set = Thresholds::default();
        let unknown = set.set("hot_operation.medium_percen", 1.0).unwrap_err();
        assert!(unknown.to_string().contains("`hot_operation.medium_percent`"), "{unknown}");
        assert!(set.set("hot_operation.medium_percent", f64::NAN).is_err());
        assert_eq!(set, Thresholds::default());
        set.set("hot_operation.medium_percent", 20.0).unwrap();
        assert_ne!(set, Thresholds::default());
    }
}
