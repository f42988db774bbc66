//! The peak rates of all architectures, one row each, for [`max_flops`](super::max_flops) and
//! [`max_bps`](super::max_bps). To add one, find the rates that its vendor publishes without
//! sparsity, divide them by the number of multiprocessors and the clock, and cite both in `doc`.

use super::{Architecture, BandwidthRule, FlopsRule};

/// CUDA reports half of the data rate as the clock, both for HBM and for GDDR.
pub(super) const CUDA_MEMORY: BandwidthRule = BandwidthRule::TransfersPerClock(2.0);

/// The lowest clock that DDR5 reports: half of 3,200 MT/s. LPDDR5X reports an eighth of its data
/// rate, which is at most 10,667 MT/s.
pub(super) const SLOWEST_DDR5_KHZ: f64 = 1.6e6;

/// On Radeon, GDDR6 transfers sixteen bits per wire in each cycle of the clock that HIP reports.
/// 1,249 MHz are 20 Gbit/s.
const GDDR6: BandwidthRule = BandwidthRule::TransfersPerClock(16.0);

/// Operations per pair of compute units. One unit has 512 at 8 and 16 bits, 256 at 32 and 8 at 64.
const RDNA3: FlopsRule = FlopsRule::PerClock([1024.0, 1024.0, 512.0, 16.0]);

/// Operations per pair of compute units. One unit has 2,048 at 8 bits, 1,024 at 16, 256 at 32 and 4
/// at 64.
const RDNA4: FlopsRule = FlopsRule::PerClock([4096.0, 2048.0, 512.0, 8.0]);

const JETSON_THOR: FlopsRule = FlopsRule::PerClock([16384.0, 8192.0, 4096.0, 4.0]);
const BLACKWELL_RTX: FlopsRule = FlopsRule::PerClock([2048.0, 1024.0, 512.0, 4.0]);
const EARLY_MI300: FlopsRule = FlopsRule::PerClock([4096.0, 2048.0, 1024.0, 256.0]);

const fn cuda(name: &'static str, flops: FlopsRule, doc: &'static str) -> Architecture {
    Architecture { family: "CUDA", name, flops, memory: CUDA_MEMORY, doc }
}

const fn hip(
    name: &'static str,
    flops: FlopsRule,
    memory: BandwidthRule,
    doc: &'static str,
) -> Architecture {
    Architecture { family: "HIP", name, flops, memory, doc }
}

pub(super) static ARCHITECTURES: &[Architecture] = &[
    cuda(
        "75",
        FlopsRule::PerClock([2048.0, 1024.0, 128.0, 4.0]),
        "Turing. 8: INT8 tensor (no FP8); 16: FP16 tensor; 32: FP32; 64: FP64. Source: T4 data \
         sheet and Turing whitepaper, 130 TOPS INT8, 65 TFLOP/s FP16 and 8.1 FP32 of 40 \
         multiprocessors at 1.59 GHz, FP64 at 1/32 of FP32. GeForce halves FP16 where it \
         accumulates in FP32",
    ),
    cuda(
        "80",
        FlopsRule::PerDevice(624e12),
        "Ampere, A100. 8: INT8 tensor (no FP8), halved for 16 (FP16 tensor), 32 (TF32) and 64. \
         Source: Triton's rule, the A100 data sheet's 624 TOPS INT8 for any size and clock. The \
         data sheet gives FP64 tensor as 19.5 TFLOP/s where the rule gives 78; A30 reaches 330 \
         TOPS",
    ),
    cuda(
        "86",
        FlopsRule::PerClock([2048.0, 1024.0, 512.0, 4.0]),
        "Ampere GA10x. 8: INT8 tensor (no FP8); 16: FP16 tensor; 32: TF32; 64: FP64. Source: A40 \
         data sheet and GA102 whitepaper, 299.3 TOPS INT8, 149.7 TFLOP/s FP16 and 74.8 TF32 of 84 \
         multiprocessors at 1.74 GHz, FP64 at 1/64 of FP32. GeForce halves FP16 where it \
         accumulates in FP32, and TF32",
    ),
    cuda(
        "87",
        FlopsRule::PerClock([4096.0, 2048.0, 1024.0, 4.0]),
        "Ampere, Jetson Orin. 8: INT8 tensor (no FP8); 16: FP16 tensor; 32: TF32; 64: FP64. \
         Source: Jetson AGX Orin technical brief, 170 sparse TOPS INT8 (85 dense) of 16 \
         multiprocessors at 1.3 GHz; two FP64 cores by the CUDA programming guide. FP16 and TF32 \
         are halved from INT8 as on every Ampere: not published",
    ),
    cuda(
        "89",
        FlopsRule::PerDevice(330.3 * 1e12),
        "Ada. 8: FP8 tensor accumulated in FP32, halved for 16 (FP16 tensor), 32 (TF32) and 64. \
         Source: Triton's rule, the 330.3 TFLOP/s of the RTX 4090 (Ada whitepaper) for any size \
         and clock. The whitepaper gives FP64 as 1.29 TFLOP/s where the rule gives 41.3; L40S \
         reaches 733 at FP8, L4 242",
    ),
    cuda(
        "90",
        FlopsRule::LikeDevice { tera_flops: 1513.0, num_sms: 114.0, clock_khz: 1755.0 * 1e3 },
        "Hopper. 8: FP8 tensor, halved for 16 (FP16 tensor), 32 (TF32) and 64. Source: Triton's \
         rule, H100 PCIe's 1,513 TFLOP/s in proportion to 114 multiprocessors and 1.755 GHz, \
         which makes 7,562 in a clock; H100 SXM's 1,979 follow at 1.98 GHz. The H100 whitepaper \
         gives 8,192 in a clock at a lower boost clock, and FP64 tensor as 67 TFLOP/s where the \
         rule gives 247",
    ),
    cuda(
        "100",
        FlopsRule::PerClockInMegahertz(16384.0),
        "Blackwell, B200. 8: FP8 tensor, halved for 16 (FP16 tensor), 32 (TF32) and 64. Source: \
         Triton's rule; the HGX B200 data sheet's 4.5 PFLOP/s FP8 are 148 multiprocessors at 1.86 \
         GHz. The data sheet gives FP64 as 37 TFLOP/s, 128 in a clock, where the rule takes 2,048",
    ),
    cuda("101", JETSON_THOR, "Blackwell, Jetson Thor, as CUDA 12 names it: the same as 110"),
    cuda(
        "103",
        FlopsRule::PerClock([16384.0, 8192.0, 4096.0, 4.0]),
        "Blackwell Ultra, B300. 8: FP8 tensor; 16: FP16 tensor; 32: TF32; 64: FP64. Source: GB300 \
         NVL72 data sheet, for one GPU 5 PFLOP/s FP8, 2.5 FP16 and 1.25 TF32 dense, 1.3 TFLOP/s \
         FP64, which is 160 multiprocessors at 1.91 GHz. INT8 is slower than FP8: 165 TOPS",
    ),
    cuda(
        "110",
        JETSON_THOR,
        "Blackwell, Jetson Thor. 8: FP8 tensor; 16: FP16 tensor; 32: TF32; 64: FP64. Source: \
         Jetson T5000 data sheet, 2,070 sparse TFLOP/s FP4 (1,035 dense, 517 FP8) of 20 \
         multiprocessors at 1.57 GHz. FP16 and TF32 are halved from FP8 as on B200, FP64 is that \
         of 120: not published",
    ),
    cuda(
        "120",
        BLACKWELL_RTX,
        "Blackwell, RTX 50 and RTX PRO. 8: FP8 tensor; 16: FP16 tensor; 32: TF32; 64: FP64. \
         Source: RTX PRO Blackwell whitepaper, RTX PRO 6000, 1,007.6 TFLOP/s FP8, 503.8 FP16, \
         251.9 TF32 and 1.97 FP64 of 188 multiprocessors at 2.617 GHz. GeForce halves FP8, FP16 \
         and TF32 where it accumulates in FP32",
    ),
    cuda(
        "121",
        BLACKWELL_RTX,
        "Blackwell, GB10 (DGX Spark). As 120. Source: DGX Spark data sheet, 1 PFLOP/s sparse FP4 \
         (a quarter of it dense FP8), which is 48 multiprocessors at 2.5 GHz; the other widths are \
         not published",
    ),
    hip(
        "gfx908",
        FlopsRule::PerClock([1024.0, 1024.0, 256.0, 64.0]),
        BandwidthRule::PerDevice(1.2288e12),
        "CDNA, MI100. 8: INT8 matrix (no FP8); 16: FP16 matrix (BF16 is half); 32: FP32 matrix; \
         64: FP64. Source: MI100 data sheet, 184.6 TOPS INT8, 184.6 TFLOP/s FP16, 46.1 FP32 and \
         11.5 FP64 of 120 compute units at 1.502 GHz; 1.2288 TB/s",
    ),
    hip(
        "gfx90a",
        FlopsRule::PerClock([1024.0, 512.0, 256.0, 128.0]),
        BandwidthRule::PerDevice(3.2 * 1e12),
        "CDNA 2, MI200. 8: INT8 matrix (no FP8), halved for 16, 32 (FP32 matrix) and 64. Source: \
         Triton's rule, the MI250X data sheet's 383 TOPS INT8 of 220 compute units at 1.7 GHz. \
         The data sheet gives FP16 matrix as 383 TFLOP/s and FP64 matrix as 95.7, twice the \
         rule's. 3.2 TB/s is both dies; HIP shows each die as a device, and it has 1.6",
    ),
    hip(
        "gfx940",
        EARLY_MI300,
        BandwidthRule::PerDevice(5.3 * 1e12),
        "CDNA 3, MI300 before release: as gfx942, but for FP64 the data sheet's 256 in a clock",
    ),
    hip(
        "gfx941",
        EARLY_MI300,
        BandwidthRule::PerDevice(5.3 * 1e12),
        "CDNA 3, MI300 before release: as gfx942, but for FP64 the data sheet's 256 in a clock",
    ),
    hip(
        "gfx942",
        FlopsRule::PerClock([4096.0, 2048.0, 1024.0, 512.0]),
        BandwidthRule::PerDevice(5.3 * 1e12),
        "CDNA 3, MI300. 8: FP8 matrix, halved for 16 (FP16 matrix), 32 (TF32) and 64. Source: \
         Triton's rule; MI300X data sheet, 2,614.9 TFLOP/s FP8, 1,307.4 FP16 and 653.7 TF32 of \
         304 compute units at 2.1 GHz, 5.3 TB/s. The data sheet gives FP64 matrix as 163.4 \
         TFLOP/s, half of the rule's; MI325X has 6 TB/s",
    ),
    hip(
        "gfx950",
        FlopsRule::PerClock([8192.0, 4096.0, 2048.0, 1024.0]),
        BandwidthRule::PerDevice(8.0 * 1e12),
        "CDNA 4, MI350. 8: FP8 matrix, halved for 16 (FP16 matrix), 32 and 64. Source: Triton's \
         rule; MI355X data sheet, 5,033 TFLOP/s FP8 and 2,516 FP16 of 256 compute units at 2.4 \
         GHz, 8 TB/s. There is no TF32: the data sheet gives FP32 as 157.3 TFLOP/s and FP64 as \
         78.6, an eighth of the rule's",
    ),
    hip(
        "gfx1100",
        RDNA3,
        GDDR6,
        "RDNA 3, RX 7900 and PRO W7900. Per pair of compute units, which HIP counts as one \
         multiprocessor. 8: INT8 matrix (no FP8); 16: FP16 matrix; 32: FP32, two instructions at \
         once; 64: FP64. Source: RX 7900 XTX specifications, 122.8 TFLOP/s FP16 and 61.4 FP32 of \
         96 compute units at 2.5 GHz, 960 GB/s of 384 bits at 1,249 MHz; AMD GPUOpen gives 512 in \
         a clock of one compute unit for FP16 and INT8. Stands for \"gfx110\", as Proton's files \
         cut the name",
    ),
    hip("gfx1101", RDNA3, GDDR6, "RDNA 3, RX 7800, RX 7700 and PRO W7700: the same as gfx1100"),
    hip("gfx1102", RDNA3, GDDR6, "RDNA 3, RX 7600 and PRO W7600: the same as gfx1100"),
    hip(
        "gfx1103",
        RDNA3,
        BandwidthRule::System,
        "RDNA 3, Radeon 780M and its like: as gfx1100. Memory is the system's: a clock below 1.6 \
         GHz is taken for LPDDR5, which moves eight bits a wire in it, one above for DDR5, which \
         moves two",
    ),
    hip(
        "gfx1150",
        RDNA3,
        BandwidthRule::System,
        "RDNA 3.5, Radeon 890M: as gfx1100. Memory as gfx1103. Stands for \"gfx115\", as Proton's \
         files cut the name",
    ),
    hip(
        "gfx1151",
        RDNA3,
        BandwidthRule::System,
        "RDNA 3.5, Radeon 8060S: as gfx1100. Source: 29.7 TFLOP/s FP32 of 40 compute units at 2.9 \
         GHz; 256 GB/s of 256 bits at 1,000 MHz. Memory as gfx1103",
    ),
    hip(
        "gfx1152",
        RDNA3,
        BandwidthRule::System,
        "RDNA 3.5, Radeon 860M: as gfx1100. Memory as gfx1103",
    ),
    hip("gfx1153", RDNA3, BandwidthRule::System, "RDNA 3.5: as gfx1100. Memory as gfx1103"),
    hip(
        "gfx1200",
        RDNA4,
        GDDR6,
        "RDNA 4, RX 9060: the same as gfx1201. Stands for \"gfx120\", as Proton's files cut the \
         name",
    ),
    hip(
        "gfx1201",
        RDNA4,
        GDDR6,
        "RDNA 4, RX 9070 and AI PRO R9700. Per pair of compute units, which HIP counts as one \
         multiprocessor. 8: FP8 and INT8 matrix; 16: FP16 matrix; 32: FP32, two instructions at \
         once; 64: FP64. Source: RX 9070 XT specifications, 389 TFLOP/s FP8, 195 FP16, 48.7 FP32 \
         and 0.76 FP64 of 64 compute units at 2.97 GHz, 640 GB/s of 256 bits at 1,258 MHz",
    ),
];
