//! The slope of a trend, robust against outliers, by which growing memory is measured.

use super::describe::median;

/// Most points of which all pairs are compared: 499,500 slopes.
const MAX_POINTS: usize = 1_000;

/// Returns the Theil-Sen slope of (x, y) points: the median of the slopes of all pairs (Theil 1950,
/// Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", 1968). It tolerates up to
/// 29 % outliers. Pairs with the same x are left out. `None` if there are no two different x.
///
/// More than 1,000 points are reduced to 1,000 bins, so that the time is `n log n`. Each bin has
/// equally many neighbours in x and is represented by the medians of its points.
pub fn theil_sen(points: &[(f64, f64)]) -> Option<f64> {
    let binned;
    let points = if points.len() > MAX_POINTS {
        binned = bin_points(points);
        &binned
    } else {
        points
    };
    let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (index, (x, y)) in points.iter().enumerate() {
        let later_points =
            points[index + 1..].iter().filter(|(other, _)| other.total_cmp(x).is_ne());
        slopes.extend(later_points.map(|(other_x, other_y)| (other_y - y) / (other_x - x)));
    }
    median(&slopes)
}

fn bin_points(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sorted = points.to_vec();
    sorted.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
    let bin_start = |bin: usize| bin * sorted.len() / MAX_POINTS;
    let bins = (0..MAX_POINTS).map(|bin| &sorted[bin_start(bin)..bin_start(bin + 1)]);
    let median_coordinate = |bin: &[(f64, f64)], coordinate: fn(&(f64, f64)) -> f64| {
        median(&bin.iter().map(coordinate).collect::<Vec<_>>())
    };
    bins.filter_map(|bin| {
        Some((median_coordinate(bin, |point| point.0)?, median_coordinate(bin, |point| point.1)?))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::theil_sen;

    #[test]
    fn outliers_do_not_change_the_slope() {
        let mut points: Vec<_> =
            (0..21).map(|x| (f64::from(x), 3.0 * f64::from(x) + 1.0)).collect();
        assert_eq!(theil_sen(&points), Some(3.0));
        points[20].1 = 1e9;
        points[0].1 = -1e9;
        assert_eq!(theil_sen(&points), Some(3.0));
    }

    #[test]
    fn the_slope_of_many_points_is_that_of_their_bins() {
        let line = |x: u32| (f64::from(x), 0.5 * f64::from(x));
        let slope = theil_sen(&(0..100_001).rev().map(line).collect::<Vec<_>>()).unwrap();
        assert!((slope - 0.5).abs() < 1e-9, "{slope}");
    }

    #[test]
    fn a_slope_needs_two_different_x() {
        assert_eq!(theil_sen(&[]), None);
        assert_eq!(theil_sen(&[(1.0, 1.0)]), None);
        assert_eq!(theil_sen(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(theil_sen(&[(1.0, 1.0), (1.0, 2.0), (2.0, 2.0)]), Some(0.5));
    }
}
