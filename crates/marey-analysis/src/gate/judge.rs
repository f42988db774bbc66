//! Judges whether a run meets a condition of `marey check`, and turns the verdicts into the exit
//! code.

use crate::change::relative_percent;
use crate::compare::MIN_STEPS;
use crate::run_measurements::{Measurement, RunMeasurements};
use crate::stats::{Bootstrap, Interval, Stat};

use super::{Direction, Gate, Outcome, Threshold, Verdict};

/// The judge of conditions, with the number of steps that it requires.
///
/// A false alarm costs more than a 1 % regression that is found a day later, because people who are
/// alerted for nothing stop looking. So a condition fails only on clear evidence:
///
/// 1. A metric is *inconclusive* if a side that matters has no data for it, or too few steps for
///    the statistic: nothing was judged, so nothing passes. A statistic needs `min_steps` steps,
///    and a percentile also one step beyond it: p90 needs 10 steps, p99 needs 100.
/// 2. A number that is not beyond the threshold *passes*, however far its interval reaches.
/// 3. A number beyond the threshold is a *regression* if its whole interval is beyond it too: of
///    runs exactly at the threshold 1 in 40 fails, of unchanged runs almost none. Otherwise the
///    condition is *inconclusive*: more steps would decide it.
/// 4. A number of the whole recording, such as peak memory, has no interval and is compared
///    directly.
///
/// Each condition is judged alone. If ten conditions are exactly at their thresholds, one run in
/// four fails at least one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judge {
    /// Lowest number of steps for which a statistic is judged.
    pub min_steps: usize,
}

impl Default for Judge {
    fn default() -> Self {
        Self { min_steps: MIN_STEPS }
    }
}

/// Returns the exit code of `check`: 0 if all conditions pass, 1 if any is a regression, 3 if none
/// is a regression but some are inconclusive. The code 2 is for usage errors.
pub fn exit_code(verdicts: &[Verdict]) -> u8 {
    let has_any = |outcome| verdicts.iter().any(|verdict| verdict.outcome == outcome);
    if has_any(Outcome::Regression) {
        1
    } else if has_any(Outcome::Inconclusive) {
        3
    } else {
        0
    }
}

impl Judge {
    /// Judges a run by a condition, against the run before it.
    pub fn judge(self, gate: &Gate, before: &RunMeasurements, after: &RunMeasurements) -> Verdict {
        let (before, after) = (before.measurement(gate.metric), after.measurement(gate.metric));
        let mut verdict = Verdict {
            expression: gate.expression.clone(),
            metric: gate.metric,
            before: before.as_ref().map(|measurement| measurement.value),
            after: after.as_ref().map(|measurement| measurement.value),
            change: None,
            interval: None,
            threshold: gate.threshold,
            outcome: Outcome::Inconclusive,
            why: String::new(),
        };
        match self.number_to_judge(gate, before.as_ref(), after.as_ref()) {
            Ok(number) => {
                verdict.change = Some(number.value);
                verdict.interval = number.interval;
                (verdict.outcome, verdict.why) = judge_number(gate, &number);
            }
            Err(why) => verdict.why = why,
        }
        verdict
    }

    fn number_to_judge(
        self,
        gate: &Gate,
        before: Option<&Measurement>,
        after: Option<&Measurement>,
    ) -> Result<JudgedNumber, String> {
        let after =
            after.ok_or_else(|| format!("the run after has no data for {}", gate.metric))?;
        self.check_step_count(after, "after")?;
        if let Threshold::Value(_) = gate.threshold {
            return Ok(JudgedNumber { value: after.value, interval: value_interval(after) });
        }
        let before =
            before.ok_or_else(|| format!("the run before has no data for {}", gate.metric))?;
        self.check_step_count(before, "before")?;
        let change: fn(f64, f64) -> f64 = match gate.threshold {
            Threshold::Percent(_) => relative_percent,
            _ => |before, after| after - before,
        };
        Ok(JudgedNumber {
            value: change(before.value, after.value),
            interval: change_interval(before, after, change),
        })
    }

    fn check_step_count(self, measurement: &Measurement, side: &str) -> Result<(), String> {
        let Some((stat, steps)) = &measurement.steps else { return Ok(()) };
        let (count, needed) = (steps.len(), stat.steps_needed(self.min_steps));
        let shortage = || format!("{stat} needs {needed} steps, but the run {side} has {count}");
        (count >= needed).then_some(()).ok_or_else(shortage)
    }
}

/// The number that is compared with a threshold: the value after, the change, or the change in per
/// cent.
struct JudgedNumber {
    value: f64,
    interval: Option<Interval>,
}

/// Returns the confidence interval of a value, if the metric is a statistic over steps.
fn value_interval(measurement: &Measurement) -> Option<Interval> {
    let (stat, steps) = measurement.steps.as_ref()?;
    // A bootstrap resamples two sides. Both are this sample here, and the first is ignored.
    Bootstrap::new(steps, steps).resample(*stat).interval(|_, value| value)
}

/// Returns the confidence interval of a change between two runs, if the metric is a statistic over
/// steps.
fn change_interval(
    before: &Measurement,
    after: &Measurement,
    change: fn(f64, f64) -> f64,
) -> Option<Interval> {
    let ((stat, before), (_, after)): (&(Stat, Vec<f64>), _) =
        (before.steps.as_ref()?, after.steps.as_ref()?);
    Bootstrap::new(before, after).resample(*stat).interval(change)
}

fn judge_number(gate: &Gate, number: &JudgedNumber) -> (Outcome, String) {
    let threshold = gate.threshold.number();
    let is_beyond = |value: f64| match gate.direction {
        Direction::Above => value > threshold,
        Direction::Below => value < threshold,
    };
    let side = match gate.direction {
        Direction::Above => "above",
        Direction::Below => "below",
    };
    if !is_beyond(number.value) {
        return (Outcome::Pass, format!("not {side} the threshold"));
    }
    match number.interval {
        None => (Outcome::Regression, format!("{side} the threshold")),
        Some(Interval { low, high }) if is_beyond(low) && is_beyond(high) => {
            (Outcome::Regression, format!("{side} the threshold, and so is its whole interval"))
        }
        Some(_) => {
            let why = format!("{side} the threshold, but its interval is not: may be chance");
            (Outcome::Inconclusive, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Metric, Quantity};

    fn run(steps: &[f64], idle_percent: Option<f64>) -> RunMeasurements {
        RunMeasurements {
            step_nanos: steps.to_vec(),
            scalars: vec![(Metric::percent(Quantity::GpuIdle), idle_percent)],
            ..RunMeasurements::default()
        }
    }

    fn judge_outcome(gate: &str, before: &RunMeasurements, after: &RunMeasurements) -> Outcome {
        Judge::default().judge(&gate.parse().unwrap(), before, after).outcome
    }

    /// Steps of about 1 ms times `factor`, which vary by `spread`.
    fn steps(count: usize, factor: f64, spread: f64) -> Vec<f64> {
        let deviation = |index: usize| spread * ((index * 7 % 11) as f64 / 5.0 - 1.0);
        (0..count).map(|index| 1e6 * factor * (1.0 + deviation(index))).collect()
    }

    #[test]
    fn a_condition_fails_only_if_its_whole_interval_is_beyond() {
        let before = run(&steps(22, 1.0, 0.01), Some(20.0));
        let slower = run(&steps(22, 1.1, 0.01), Some(31.0));
        assert_eq!(judge_outcome("step_time.p50>+3%", &before, &slower), Outcome::Regression);
        assert_eq!(judge_outcome("step_time.p50>+50us", &before, &slower), Outcome::Regression);
        assert_eq!(judge_outcome("step_time.mean>+10.1%", &before, &slower), Outcome::Pass);
        assert_eq!(judge_outcome("step_time.mean>+9.99%", &before, &slower), Outcome::Inconclusive);
        assert_eq!(judge_outcome("step_time.p50>+3%", &slower, &before), Outcome::Pass);
        assert_eq!(judge_outcome("step_time.p50<-3%", &slower, &before), Outcome::Regression);
        assert_eq!(judge_outcome("step_time.mean>1.05ms", &before, &slower), Outcome::Regression);
        assert_eq!(
            judge_outcome("step_time.mean>1.099ms", &before, &slower),
            Outcome::Inconclusive
        );
        let scattered = run(&steps(22, 1.1, 0.9), None);
        assert_eq!(judge_outcome("step_time.mean>+3%", &before, &scattered), Outcome::Inconclusive);
    }

    #[test]
    fn numbers_of_the_recording_are_compared_without_an_interval() {
        let (before, after) = (run(&[], Some(20.0)), run(&[], Some(31.0)));
        assert_eq!(judge_outcome("gpu_idle.percent>30", &before, &after), Outcome::Regression);
        assert_eq!(judge_outcome("gpu_idle.percent>31", &before, &after), Outcome::Pass);
        assert_eq!(judge_outcome("gpu_idle.percent<31", &before, &after), Outcome::Pass);
        assert_eq!(judge_outcome("gpu_idle.percent>+10pp", &before, &after), Outcome::Regression);
        assert_eq!(judge_outcome("gpu_idle.percent>+12pp", &before, &after), Outcome::Pass);
        assert_eq!(judge_outcome("gpu_idle.percent>+60%", &before, &after), Outcome::Pass);
        // A rise from 0 exceeds any percentage.
        let zero = run(&[], Some(0.0));
        assert_eq!(judge_outcome("gpu_idle.percent>+60%", &zero, &after), Outcome::Regression);
        assert_eq!(judge_outcome("gpu_idle.percent>+0%", &zero, &zero), Outcome::Pass);
    }

    #[test]
    fn missing_or_infinite_numbers_are_inconclusive() {
        let (known, unknown) = (run(&[], Some(31.0)), run(&[], None));
        for (gate, before, after, expected) in [
            ("gpu_idle.percent>+1pp", &known, &unknown, Outcome::Inconclusive),
            ("gpu_idle.percent>+1pp", &unknown, &known, Outcome::Inconclusive),
            // An absolute threshold needs no number from the run before.
            ("gpu_idle.percent>30", &unknown, &known, Outcome::Regression),
            ("mfu<40", &unknown, &unknown, Outcome::Inconclusive),
        ] {
            assert_eq!(judge_outcome(gate, before, after), expected, "{gate}");
        }
        let broken = run(&[f64::NAN; 9], Some(f64::INFINITY));
        assert_eq!(judge_outcome("step_time>+1%", &broken, &broken), Outcome::Inconclusive);
        assert_eq!(judge_outcome("gpu_idle.percent>30", &broken, &broken), Outcome::Inconclusive);
    }

    #[test]
    fn few_steps_are_inconclusive() {
        let (few_steps, many_steps) =
            (run(&steps(4, 2.0, 0.0), None), run(&steps(20, 1.0, 0.0), None));
        assert_eq!(judge_outcome("step_time>+3%", &many_steps, &few_steps), Outcome::Inconclusive);
        assert_eq!(judge_outcome("step_time>+3%", &few_steps, &many_steps), Outcome::Inconclusive);
        assert_eq!(
            judge_outcome("step_time.p99>+3%", &many_steps, &many_steps),
            Outcome::Inconclusive
        );
        assert_eq!(judge_outcome("step_time.p90>+3%", &many_steps, &many_steps), Outcome::Pass);
        let judge = Judge { min_steps: 4 };
        let gate = "step_time.mean>+3%".parse().unwrap();
        assert_eq!(judge.judge(&gate, &many_steps, &few_steps).outcome, Outcome::Regression);
        let why = Judge::default().judge(&gate, &many_steps, &few_steps).why;
        assert_eq!(why, "mean needs 5 steps, but the run after has 4");
    }

    #[test]
    fn the_worst_outcome_decides_the_exit_code() {
        let gate = "step_time>+3%".parse().unwrap();
        let verdict = |outcome| {
            let empty = RunMeasurements::default();
            Verdict { outcome, ..Judge::default().judge(&gate, &empty, &empty) }
        };
        let [pass, regression, inconclusive] =
            [Outcome::Pass, Outcome::Regression, Outcome::Inconclusive].map(verdict);
        assert_eq!(exit_code(&[]), 0);
        assert_eq!(exit_code(std::slice::from_ref(&pass)), 0);
        assert_eq!(exit_code(&[pass.clone(), inconclusive.clone()]), 3);
        assert_eq!(exit_code(&[inconclusive, regression, pass]), 1);
    }
}
