use super::*;

/// Exact results of Triton 3.9. The peer test of the Python package covers a grid of arguments.
#[test]
fn rounds_as_triton_does() {
    let flops = |family, arch, width| max_flops(family, arch, width, 132.0, 1_980_001.0);
    assert_eq!(flops("CUDA", "80", 16), Ok(312_000_000_000_000.0));
    assert_eq!(flops("CUDA", "89", 8), Ok(330_300_000_000_000.0));
    assert_eq!(flops("CUDA", "90", 8), Ok(1_976_497_624_411_456.0));
    assert_eq!(flops("CUDA", "100", 32), Ok(1_070_531_100_671_999.9));
    assert_eq!(flops("HIP", "gfx90a", 64), Ok(33_454_096_896_000.0));
    assert_eq!(flops("HIP", "gfx942", 16), Ok(535_265_550_336_000.0));
    assert_eq!(flops("HIP", "gfx950", 8), Ok(2_141_062_201_344_000.0));
    assert_eq!(max_bps("CUDA", "90", 6144.0, 2_619_000.0), Ok(4_022_784_000_000.0));
    assert_eq!(max_bps("HIP", "gfx942", 0.0, 0.0), Ok(5_300_000_000_000.0));
}

#[test]
fn comes_close_to_published_figures() {
    let assert_close = |found: Result<f64, NoPeak>, published: f64| {
        let found = found.unwrap();
        assert!((found / published - 1.0).abs() < 0.01, "{found:e} is not near to {published:e}");
    };
    assert_close(max_flops("CUDA", "75", 16, 40.0, 1.59), 65.1e12); // T4
    assert_close(max_flops("CUDA", "86", 32, 84.0, 1.74), 74.8e12); // A40
    assert_close(max_flops("CUDA", "120", 64, 188.0, 2.617), 1.97e12); // RTX PRO 6000
    assert_close(max_flops("HIP", "gfx908", 32, 120.0, 1.502), 46.1e12); // MI100
    assert_close(max_flops("HIP", "gfx1100", 16, 48.0, 2.5), 122.8e12); // RX 7900 XTX
    assert_close(max_flops("HIP", "gfx1201", 64, 32.0, 2.97), 0.76e12); // RX 9070 XT
    assert_close(max_bps("HIP", "gfx1100", 384.0, 1.249), 960e9);
    assert_close(max_bps("HIP", "gfx1151", 256.0, 1.0), 256e9); // LPDDR5X-8000
    assert_close(max_bps("HIP", "gfx1150", 128.0, 2.8), 89.6e9); // DDR5-5600
}

#[test]
fn accepts_all_spellings_and_both_clock_units() {
    let hopper = max_flops("CUDA", "90", 16, 132.0, 1_980_000.0);
    for arch in ["sm90", "sm_90", "sm_90a", "SM_90A", "90a", " 90 "] {
        assert_eq!(max_flops("cuda", arch, 16, 132.0, 1.98), hopper, "{arch:?}");
    }
    let instinct = max_flops("HIP", "gfx942", 16, 304.0, 2_300_000.0);
    for arch in ["GFX942", "gfx942:sramecc+:xnack-"] {
        // 2.3 * 1e6 is not 2,300,000.
        assert_eq!(max_flops("hip", arch, 16, 304.0, 2.3), instinct, "{arch:?}");
    }
    for (truncated, complete) in
        [("gfx110", "gfx1102"), ("gfx115", "gfx1151"), ("gfx120", "gfx1201")]
    {
        let flops = |arch| max_flops("HIP", arch, 16, 32.0, 2.5);
        assert_eq!(flops(truncated), flops(complete));
    }
}

#[test]
fn errors_name_the_unknown_argument() {
    let message = |found: Result<f64, NoPeak>| found.unwrap_err().to_string();
    assert_eq!(
        message(max_flops("XPU", "pvc", 16, 1.0, 1.0)),
        "the peak tables know CUDA and HIP, not device type \"XPU\""
    );
    let unknown = message(max_flops("CUDA", "sm_61", 16, 1.0, 1.0));
    assert!(unknown.starts_with("the peak tables know CUDA architectures 75, 80, "), "{unknown}");
    assert!(unknown.ends_with(", 121, not \"sm_61\""), "{unknown}");
    assert_eq!(
        message(max_flops("CUDA", "90", 4, 1.0, 1.0)),
        "the peak tables know operands of 8, 16, 32 and 64 bits, not of 4"
    );
    assert_eq!(
        message(max_flops("CUDA", "90", 8, 132.0, 1980.0)),
        "a clock of 1980.0 is neither GHz (above 0, below 100) nor kHz (1e5 to 1e8)"
    );
    assert_eq!(
        message(max_bps("CUDA", "90", 0.0, 2.6)),
        "the width of the memory bus is 0.0, not a positive number"
    );
    for clock in [0.0, -1.98, 100.0, 99_999.0, 1e8, f64::NAN, f64::INFINITY] {
        let found = max_flops("HIP", "gfx942", 8, 304.0, clock);
        assert!(matches!(found, Err(NoPeak::BadClock { .. })), "{clock}: {found:?}");
    }
    for num_sms in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let found = max_flops("HIP", "gfx942", 8, num_sms, 2.1);
        assert!(matches!(found, Err(NoPeak::BadSize { .. })), "{num_sms}: {found:?}");
    }
}

#[test]
fn every_architecture_has_positive_figures() {
    for known in architectures() {
        let rates =
            WIDTHS_BITS.map(|width| max_flops(known.family, known.name, width, 10.0, 1.5).unwrap());
        assert!(rates.is_sorted_by(|narrow, wide| narrow >= wide), "{}: {rates:?}", known.name);
        assert!(rates[3] > 0.0, "{}: {rates:?}", known.name);
        assert!(max_bps(known.family, known.name, 256.0, 1.2).unwrap() > 0.0);
        assert!(!known.doc.is_empty());
    }
}

#[test]
fn system_memory_is_ddr5_from_its_slowest_clock_on() {
    let bps = |clock_khz| max_bps("HIP", "gfx1150", 64.0, clock_khz).unwrap();
    assert_eq!(bps(1_600_000.0).to_bits(), 25.6e9_f64.to_bits());
    assert_eq!(bps(1_333_000.0).to_bits(), 85.312e9_f64.to_bits());
}
