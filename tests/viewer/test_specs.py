"""Peak rates: Triton's for the architectures that Triton knows, else the vendors'."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest
from marey import _engine, specs

WIDTHS = (8, 16, 32, 64)
TRITONS = [
    ("CUDA", "80"),
    ("CUDA", "89"),
    ("CUDA", "90"),
    ("CUDA", "100"),
    ("HIP", "gfx90a"),
    ("HIP", "gfx942"),
    ("HIP", "gfx950"),
]
ARCHITECTURES = [(family, arch) for family, arch, _doc in _engine.architectures()]


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    """Fails on warnings, because known architectures have none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize(("family", "arch"), TRITONS)
def test_rates_of_tritons_architectures_match_triton(family: str, arch: str) -> None:
    theirs = pytest.importorskip("triton.profiler.specs")
    counts = [1, 7, 108, 114, 132, 148, 160, 304]
    clocks_khz = [100_000, 1_095_333, 1_410_000, 1_755_000, 1_965_001, 2_100_000.5, 99_999_999]
    for width, num_sms, clock in itertools.product(WIDTHS, counts, clocks_khz):
        ours = specs.max_flops(family, arch, width, num_sms, clock)
        assert ours == theirs.max_flops(family, arch, width, num_sms, clock)
    for bus_width, clock in itertools.product([64, 384, 5120, 6144, 8192], clocks_khz):
        ours = specs.max_bps(family, arch, bus_width, clock)
        assert ours == theirs.max_bps(family, arch, bus_width, clock)


def test_arguments_have_tritons_names() -> None:
    flops = specs.max_flops(
        device_type="CUDA", arch="90", width=16, num_sms=132, clock_rate=1_980_000
    )
    assert flops == 988248313090418.5
    bytes_per_sec = specs.max_bps(
        device_type="CUDA", arch="90", bus_width=6144, memory_clock_rate=2_619_000
    )
    assert bytes_per_sec == 4.022784e12


@pytest.mark.parametrize(("family", "arch"), ARCHITECTURES)
def test_a_clock_may_be_in_ghz(family: str, arch: str) -> None:
    for clock_khz in [345_000, 1_095_333, 2_300_000, 2_619_000]:
        clock_ghz = clock_khz / 1e6
        for width in WIDTHS:
            in_khz = specs.max_flops(family, arch, width, 40, clock_khz)
            assert specs.max_flops(family, arch, width, 40, clock_ghz) == in_khz
        in_khz = specs.max_bps(family, arch, 512, clock_khz)
        assert specs.max_bps(family, arch, 512, clock_ghz) == in_khz


@pytest.mark.parametrize(
    ("family", "arch", "width", "num_sms", "clock_ghz", "published"),
    [
        pytest.param("CUDA", "75", 16, 40, 1.59, 65e12, id="T4 FP16"),
        pytest.param("CUDA", "75", 8, 40, 1.59, 130e12, id="T4 INT8"),
        pytest.param("CUDA", "80", 16, 108, 1.41, 312e12, id="A100 FP16"),
        pytest.param("CUDA", "86", 16, 84, 1.74, 149.7e12, id="A40 FP16"),
        pytest.param("CUDA", "86", 32, 84, 1.74, 74.8e12, id="A40 TF32"),
        pytest.param("CUDA", "87", 8, 16, 1.3, 85e12, id="Jetson AGX Orin INT8"),
        pytest.param("CUDA", "90", 16, 132, 1.98, 989e12, id="H100 SXM FP16"),
        pytest.param("CUDA", "110", 8, 20, 1.57, 517e12, id="Jetson Thor FP8"),
        pytest.param("CUDA", "120", 16, 188, 2.617, 503.8e12, id="RTX PRO 6000 FP16"),
        pytest.param("CUDA", "120", 64, 188, 2.617, 1.97e12, id="RTX PRO 6000 FP64"),
        pytest.param("HIP", "gfx908", 16, 120, 1.502, 184.6e12, id="MI100 FP16"),
        pytest.param("HIP", "gfx908", 64, 120, 1.502, 11.5e12, id="MI100 FP64"),
        pytest.param("HIP", "gfx942", 16, 304, 2.1, 1307.4e12, id="MI300X FP16"),
        pytest.param("HIP", "gfx950", 16, 256, 2.4, 2516.6e12, id="MI355X FP16"),
        pytest.param("HIP", "gfx1100", 16, 48, 2.5, 122.8e12, id="RX 7900 XTX FP16"),
        pytest.param("HIP", "gfx1151", 32, 20, 2.9, 29.7e12, id="Radeon 8060S FP32"),
        pytest.param("HIP", "gfx1201", 16, 32, 2.97, 195e12, id="RX 9070 XT FP16"),
        pytest.param("HIP", "gfx1201", 64, 32, 2.97, 0.76e12, id="RX 9070 XT FP64"),
    ],
)
def test_operation_rates_match_vendor_figures(
    family: str, arch: str, width: int, num_sms: int, clock_ghz: float, published: float
) -> None:
    flops = specs.max_flops(family, arch, width, num_sms, clock_ghz)
    assert flops == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize(
    ("family", "arch", "bus_width", "clock_khz", "published"),
    [
        pytest.param("CUDA", "75", 256, 5_001_000, 320e9, id="T4"),
        pytest.param("CUDA", "90", 5120, 2_619_000, 3.35e12, id="H100 SXM"),
        pytest.param("CUDA", "120", 512, 14_001_000, 1.792e12, id="RTX PRO 6000"),
        pytest.param("CUDA", "61", 384, 5_705_000, 547.6e9, id="P40, of no known architecture"),
        pytest.param("HIP", "gfx908", 4096, 1_200_000, 1.2288e12, id="MI100"),
        pytest.param("HIP", "gfx1100", 384, 1_249_000, 960e9, id="RX 7900 XTX"),
        pytest.param("HIP", "gfx1201", 256, 1_258_000, 640e9, id="RX 9070 XT"),
        pytest.param("HIP", "gfx1151", 256, 1_000_000, 256e9, id="Radeon 8060S, LPDDR5X-8000"),
        pytest.param("HIP", "gfx1150", 128, 2_800_000, 89.6e9, id="Radeon 890M, DDR5-5600"),
    ],
)
def test_bandwidths_match_vendor_figures(
    family: str, arch: str, bus_width: int, clock_khz: int, published: float
) -> None:
    bytes_per_sec = specs.max_bps(family, arch, bus_width, clock_khz)
    assert bytes_per_sec == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize(("family", "arch"), ARCHITECTURES)
def test_every_architecture_has_rates_and_a_source(family: str, arch: str) -> None:
    rates = [specs.max_flops(family, arch, width, 10, 1.5) for width in WIDTHS]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] > 0
    assert 0 < specs.max_bps(family, arch, 256, 1.2) < math.inf
    assert "Source:" in "".join(sources(family, arch))


def sources(family: str, arch: str) -> Iterator[str]:
    """Returns the documentation of an architecture, and of those that it refers to."""
    docs = {name: doc for known, name, doc in _engine.architectures() if known == family}
    yield docs[arch]
    for like in re.findall(r"\bas (\w+)", docs[arch]):
        if like in docs:
            yield docs[like]


def test_every_spelling_of_an_architecture_is_accepted() -> None:
    expected = specs.max_flops("CUDA", "90", 8, 132, 1.98)
    for arch in ["sm90", "sm_90", "sm_90a", "SM_90A", "90a", 90]:
        assert specs.max_flops("cuda", arch, 8, 132, 1.98) == expected  # type: ignore[arg-type]
    expected = specs.max_flops("HIP", "gfx1100", 8, 48, 2.5)
    assert specs.max_flops("Hip", "GFX1100:sramecc-:xnack-", 8, 48, 2.5) == expected
    assert specs.max_flops("HIP", "gfx110", 8, 48, 2.5) == expected  # as Proton's files cut it


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("XPU", "pvc", 8, 1, 1.0), 'CUDA and HIP, not device type "XPU"'),
        (("CUDA", "61", 8, 1, 1.0), 'architectures 75, 80, .*, 121, not "61"'),
        (("HIP", "gfx1030", 8, 1, 1.0), 'architectures gfx908, .*, gfx1201, not "gfx1030"'),
        (("CUDA", "90", 4, 132, 1.98), "not of 4"),
        (("CUDA", "90", -8, 132, 1.98), "operands of 8, 16, 32 and 64 bits"),
        (("CUDA", "90", 8, 132, 1980), "a clock of 1980.0 is neither GHz .* nor kHz"),
        (("CUDA", "90", 8, 132, 1_980_000_000), "neither GHz .* nor kHz"),
        (("CUDA", "90", 8, 132, 0), "neither GHz .* nor kHz"),
        (("CUDA", "90", 8, 0, 1.98), "the number of multiprocessors is 0.0"),
    ],
)
def test_what_is_unknown_is_nan_with_one_warning(
    arguments: tuple[str, str, int, float, float], reason: str
) -> None:
    with pytest.warns(UserWarning, match=reason) as caught:
        assert math.isnan(specs.max_flops(*arguments))
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("XPU", "pvc", 8192, 1.6), 'CUDA and HIP, not device type "XPU"'),
        (("HIP", "gfx1030", 256, 1.0), 'not "gfx1030"'),
        (("CUDA", "90", 6144, 2619), "a clock of 2619.0 is neither GHz .* nor kHz"),
        (("CUDA", "90", 0, 2.619), "the width of the memory bus is 0.0"),
    ],
)
def test_unknown_bandwidth_is_nan_with_one_warning(
    arguments: tuple[str, str, float, float], reason: str
) -> None:
    with pytest.warns(UserWarning, match=reason) as caught:
        assert math.isnan(specs.max_bps(*arguments))
    assert [warning.filename for warning in caught] == [__file__]


def test_tables_match_triton() -> None:
    theirs = pytest.importorskip("triton.profiler.specs")
    for family, archs in theirs.flops_by_device.items():
        for arch, rate in archs.items():
            ours = specs.flops_by_device[family][arch]
            assert ours(16, num_sms=100, clock_rate=1.5e6) == rate(
                16, num_sms=100, clock_rate=1.5e6
            )
    assert specs.flops_by_device["CUDA"]["80"](8) == 624e12
    assert theirs.amd_bps_by_arch.items() <= specs.amd_bps_by_arch.items()
    assert theirs.amd_fp8_flops_by_arch.items() <= specs.amd_fp8_flops_by_arch.items()
    assert "gfx1100" not in specs.amd_bps_by_arch  # it depends on the card
    assert specs.flops_by_device is specs.flops_by_device
    assert not hasattr(specs, "intel_bps_by_arch")


def test_importing_specs_does_not_load_the_engine() -> None:
    program = "import sys, marey.specs; sys.exit('marey._engine' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
