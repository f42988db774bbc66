//! [`Rule`]: a query that looks for one kind of performance problem, with its thresholds and the
//! texts of its findings. Users can set the thresholds.

use std::collections::BTreeMap;

use marey_model::table::Table;
use marey_query::near::nearest;

use crate::rules;

/// A query that looks for one kind of performance problem. Each row is a finding, the worst first.
///
/// [`crate::finding`] reads the columns that all rules have. All other columns are evidence.
#[derive(Debug)]
pub struct Rule {
    /// The name: words joined by `_`.
    pub name: &'static str,
    /// A heading of a few words.
    pub title: &'static str,
    /// The condition of the rule, the formulas of impact and gain, and the limits of the
    /// severities.
    pub doc: &'static str,
    /// The thresholds that users can set. `{name}` stands for one in the query.
    pub thresholds: &'static [RuleThreshold],
    /// The rule is skipped if none of these tables has rows.
    pub(crate) needed_tables: &'static [&'static Table],
    /// The query.
    pub(crate) sql: &'static str,
    /// The template of a finding's description: `{column}` is the value of a column, and `{per}` is
    /// `per step`, or `over the recording` if the process has no steps.
    pub(crate) description: &'static str,
    /// The remedy: the change that the rule suggests.
    pub hint: &'static str,
}

/// A number that tunes a rule.
#[derive(Debug)]
pub struct RuleThreshold {
    /// The name. Users write `rule.name`.
    pub name: &'static str,
    /// The default value.
    pub default: f64,
    /// The unit, such as `%`, or empty for a plain number.
    pub unit: &'static str,
    /// The effect of the threshold.
    pub doc: &'static str,
}

/// Thresholds that the user has set, by `rule.threshold`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thresholds(BTreeMap<String, f64>);

/// The reason why a threshold cannot be set.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// No rule has a threshold of this name.
    #[error("no rule has a threshold `{name}`{}", suggestion(nearest))]
    Unknown {
        /// The name as the user wrote it.
        name: String,
        /// Similar names, or else those of the same rule.
        nearest: Vec<String>,
    },
    /// The value is infinite or not a number.
    #[error("the value of threshold `{name}` is not a finite number")]
    NotFinite {
        /// The name of the threshold.
        name: String,
    },
}

fn suggestion(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!("; did you mean `{}`?", names.join("`, `")),
    }
}

impl Thresholds {
    /// Sets the threshold `name`, written as `rule.threshold`.
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
    /// The names of the thresholds as users write them.
    fn threshold_names(&self) -> impl Iterator<Item = String> {
        self.thresholds.iter().map(|threshold| format!("{}.{}", self.name, threshold.name))
    }

    /// The query with the values of its thresholds filled in.
    pub(crate) fn query(&self, user_values: &Thresholds) -> String {
        let mut query = self.sql.to_owned();
        for (threshold, name) in self.thresholds.iter().zip(self.threshold_names()) {
            let value = user_values.0.get(&name).copied().unwrap_or(threshold.default);
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
        needed_tables: &[],
        title: "",
        doc: "",
        thresholds: &[RuleThreshold { name: "least", default: 10.0, unit: "%", doc: "" }],
        sql: "SELECT {least} AS least",
        description: "",
        hint: "",
    };

    #[test]
    fn thresholds_are_filled_into_the_query() {
        assert_eq!(RULE.query(&Thresholds::default()), "SELECT 10 AS least");
        let user_values = Thresholds([("rule.least".to_owned(), 2.5)].into());
        assert_eq!(RULE.query(&user_values), "SELECT 2.5 AS least");
    }

    #[test]
    fn rules_have_unique_names_and_use_all_their_thresholds() {
        for (index, rule) in rules::ALL.iter().enumerate() {
            let mut earlier = rules::ALL[..index].iter();
            assert!(earlier.all(|other| other.name != rule.name), "{}", rule.name);
            for RuleThreshold { name, default, doc, .. } in rule.thresholds {
                assert!(rule.sql.contains(&format!("{{{name}}}")), "{}: {name}", rule.name);
                assert!(default.is_finite() && doc.ends_with('.'), "{}: {name}", rule.name);
            }
            let query = rule.query(&Thresholds::default());
            assert!(!query.contains('{'), "{}: {query}", rule.name);
        }
    }

    #[test]
    fn only_known_thresholds_can_be_set_and_only_to_finite_numbers() {
        let mut thresholds = Thresholds::default();
        let unknown = thresholds.set("hot_operation.medium_percen", 1.0).unwrap_err();
        assert!(unknown.to_string().contains("`hot_operation.medium_percent`"), "{unknown}");
        assert!(thresholds.set("hot_operation.medium_percent", f64::NAN).is_err());
        assert_eq!(thresholds, Thresholds::default());
        thresholds.set("hot_operation.medium_percent", 20.0).unwrap();
        assert_ne!(thresholds, Thresholds::default());
    }
}
