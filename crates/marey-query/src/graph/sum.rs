//! Sums real numbers with the rounding of `numpy.sum`, bit for bit, because Proton's viewer uses
//! it.

/// Number of running sums. If there are fewer terms than this, they are added one after the other.
pub(super) const LANES: usize = 8;

/// Largest number of terms that are summed as one block. More terms are split in half, and the
/// halves are summed separately.
pub(super) const BLOCK: usize = 128;

/// Returns the sum of the terms that are not NaN, or NaN if all are.
///
/// The terms are grouped as in `numpy.sum`: pairwise summation of blocks of 128 terms, with eight
/// running sums each. The rounding error grows with the logarithm of the number of terms.
pub(super) fn sum(terms: &mut [f64]) -> f64 {
    let mut has_number = false;
    for term in terms.iter_mut() {
        if term.is_nan() {
            *term = 0.0;
        } else {
            has_number = true;
        }
    }
    if has_number { pairwise(terms) } else { f64::NAN }
}

fn pairwise(terms: &[f64]) -> f64 {
    if terms.len() < LANES {
        // It starts from -0.0, so that the sum of negative zeros is negative zero.
        return terms.iter().fold(-0.0, |sum, term| sum + term);
    }
    if terms.len() <= BLOCK {
        let mut chunks = terms.chunks_exact(LANES);
        let mut lanes = [0.0; LANES];
        if let Some(first) = chunks.next() {
            lanes.copy_from_slice(first);
        }
        for chunk in chunks.by_ref() {
            for (lane, term) in lanes.iter_mut().zip(chunk) {
                *lane += term;
            }
        }
        let pair_sum = |lane: usize| lanes[lane] + lanes[lane + 1];
        let lanes_sum = (pair_sum(0) + pair_sum(2)) + (pair_sum(4) + pair_sum(6));
        return chunks.remainder().iter().fold(lanes_sum, |sum, term| sum + term);
    }
    let half = terms.len() / 2;
    let (left, right) = terms.split_at(half - half % LANES);
    pairwise(left) + pairwise(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_grouped_as_in_numpy() {
        // numpy.array([1e16 if i % 7 == 0 else 1.1 for i in range(300)]).sum()
        let mut terms: Vec<f64> =
            (0..300).map(|index| if index % 7 == 0 { 1e16 } else { 1.1 }).collect();
        assert_eq!(sum(&mut terms).to_bits(), NUMPY_SUM.to_bits());
    }

    /// Printed by numpy 2.4.
    const NUMPY_SUM: f64 = 4.300_000_000_000_004_5e17;

    #[test]
    fn nan_is_ignored_unless_all_terms_are_nan() {
        assert!(sum(&mut [f64::NAN, f64::NAN]).is_nan());
        assert_eq!(sum(&mut [f64::NAN, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert!(sum(&mut []).is_nan());
        assert!(sum(&mut [f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    }

    #[test]
    fn eight_terms_are_added_in_pairs() {
        // One after the other, the first four would be 0.
        let large = 9_007_199_254_740_992.0; // 2^53
        let mut terms = [large, 1.0, 1.0, -large, 1.0, 2.0, 4.0, 8.0];
        assert_eq!(sum(&mut terms).to_bits(), 16_f64.to_bits());
        assert_eq!(sum(&mut [1.0; 9]).to_bits(), 9_f64.to_bits());
    }

    #[test]
    fn a_sum_of_negative_zeros_is_negative_zero() {
        assert_eq!(sum(&mut [-0.0, -0.0]).to_bits(), (-0.0_f64).to_bits());
    }
}
