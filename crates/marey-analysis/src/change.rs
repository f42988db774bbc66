//! The relative change of a number between two runs, as comparisons and gates state it.

/// Returns the change in per cent of the absolute value before. Any change from 0 is infinite.
pub(crate) fn relative_percent(before: f64, after: f64) -> f64 {
    let change = after - before;
    if change == 0.0 { 0.0 } else { 100.0 * change / before.abs() }
}

#[cfg(test)]
mod tests {
    use super::relative_percent;

    #[test]
    fn changes_are_relative_to_the_value_before() {
        assert_eq!(relative_percent(200.0, 150.0), -25.0);
        assert_eq!(relative_percent(-2.0, -1.0), 50.0);
        assert_eq!(relative_percent(0.0, 0.0), 0.0);
        assert_eq!(relative_percent(0.0, 1.0), f64::INFINITY);
    }
}
