"""Modes of a backend, as objects or as strings: ``"name:knob=value:knob=value"``."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar

__all__ = [
    "MMA",
    "BaseMode",
    "BufferStrategy",
    "BufferType",
    "Default",
    "Granularity",
    "InstrumentationMode",
    "MetricType",
    "Optimize",
    "PCSampling",
    "PeriodicFlushing",
    "SamplingStrategy",
]


class _Word(Enum):
    """An enumeration whose members print as their value."""

    def __str__(self) -> str:
        return str(self.value)


class MetricType(_Word):
    """Quantity that the instrumentation of a kernel measures."""

    CYCLE = "cycle"


class SamplingStrategy(_Word):
    """Selection of the warps that are recorded."""

    NONE = "none"
    SELECTIVE = "selective"


class BufferStrategy(_Word):
    """Behaviour when the buffer of a kernel is full."""

    CIRCULAR = "circular"
    FLUSH = "flush"


class BufferType(_Word):
    """Memory that holds the buffer of a kernel."""

    SHARED = "shared"
    GLOBAL = "global"


class Granularity(_Word):
    """Group of threads whose cycles are counted together."""

    CTA = "cta"
    WARP = "warp"
    WARP_2 = "warp_2"
    WARP_4 = "warp_4"
    WARP_8 = "warp_8"
    WARP_GROUP = "warp_group"
    WARP_GROUP_2 = "warp_group_2"
    WARP_GROUP_4 = "warp_group_4"
    WARP_GROUP_8 = "warp_group_8"


class Optimize(_Word):
    """Ways to make instrumentation cheaper or more exact."""

    TIMESHIFT = "time_shift"
    SCHED_STORES = "sched_stores"
    SCHED_BARRIERS = "sched_barriers"
    CLOCK32 = "clock32"


@dataclass(frozen=True)
class BaseMode:
    """A mode of a backend."""

    name: str


@dataclass(frozen=True)
class PCSampling(BaseMode):
    """Sampling of the program counters of kernels, which this version does not support.

    Raises:
        ValueError: The interval is not positive.
    """

    name: str = field(default="pcsampling", init=False)
    interval: int = 1000

    def __post_init__(self) -> None:
        if self.interval <= 0:
            raise ValueError("Interval must be a positive integer.")

    def __str__(self) -> str:
        return f"{self.name}:interval={self.interval}"


@dataclass(frozen=True)
class PeriodicFlushing(BaseMode):
    """Writes each phase to its own file when the phase is closed.

    Raises:
        ValueError: The format is unknown.
    """

    name: str = field(default="periodic_flushing", init=False)
    format: str = "hatchet"

    def __post_init__(self) -> None:
        if self.format not in ("hatchet", "hatchet_msgpack", "chrome_trace"):
            raise ValueError(f"Unknown output format: {self.format}")

    def __str__(self) -> str:
        return f"{self.name}:format={self.format}"


@dataclass(frozen=True)
class InstrumentationMode(BaseMode):
    """Common settings of instrumented kernels, which this version does not support.

    Each setting may be given as a string.

    Raises:
        ValueError: A string is not a value of its setting.
    """

    metric_type: MetricType | str = MetricType.CYCLE
    sampling_strategy: SamplingStrategy | str = SamplingStrategy.NONE
    sampling_options: str = ""
    granularity: Granularity | str = Granularity.WARP
    buffer_strategy: BufferStrategy | str = BufferStrategy.CIRCULAR
    buffer_type: BufferType | str = BufferType.SHARED
    buffer_size: int = 0
    optimizations: list[Optimize] | str = field(default_factory=list)

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(setting.default, _Word) and isinstance(value, str):
                member = _from_word(setting.name, type(setting.default), value)
                object.__setattr__(self, setting.name, member)
        if isinstance(self.optimizations, str):
            words = [word.strip() for word in self.optimizations.split(",") if word.strip()]
            parsed = [_from_word("optimization", Optimize, word) for word in words]
            object.__setattr__(self, "optimizations", parsed)

    def __str__(self) -> str:
        knobs = {knob.name: getattr(self, knob.name) for knob in fields(self)}
        knobs["optimizations"] = ",".join(map(str, self.optimizations))
        name = knobs.pop("name")
        return ":".join([name, *(f"{knob}={value}" for knob, value in knobs.items())])


W = TypeVar("W", bound=_Word)


def _from_word(setting: str, enumeration: type[W], word: str) -> W:
    try:
        return enumeration(word)
    except ValueError:
        raise ValueError(f"Unknown {setting}: {word}") from None


@dataclass(frozen=True)
class Default(InstrumentationMode):
    """Instrumentation in which kernels time the scopes inside them."""

    name: str = field(default="default", init=False)


@dataclass(frozen=True)
class MMA(InstrumentationMode):
    """Instrumentation in which kernels time their matrix instructions."""

    name: str = field(default="mma", init=False)


_MODES: dict[str, type[BaseMode]] = {
    "pcsampling": PCSampling,
    "periodic_flushing": PeriodicFlushing,
    "default": Default,
    "mma": MMA,
}
_INTEGER_KNOBS = ("interval", "buffer_size")


def parse(mode: str | BaseMode | None) -> BaseMode | None:
    """Returns the mode of an object or a string; `None` for `None` and for the empty string.

    Raises:
        ValueError: The mode or a knob is unknown, or the value of a knob is invalid.
    """
    if mode is None or str(mode) == "":
        return None
    name, *knobs = str(mode).split(":")
    mode_class = _MODES.get(name)
    if mode_class is None:
        raise ValueError(f"Unknown mode: {name}")
    values: dict[str, Any] = dict(knob.partition("=")[::2] for knob in knobs)
    unknown = values.keys() - {knob.name for knob in fields(mode_class) if knob.init}
    if unknown:
        raise ValueError(f"Unknown knob of mode {name}: {min(unknown)}")
    for knob in values.keys() & set(_INTEGER_KNOBS):
        if not values[knob].isdecimal():
            raise ValueError(f"Knob {knob} of mode {name} is no whole number: {values[knob]}")
        values[knob] = int(values[knob])
    return mode_class(**values)


def describe_lack(mode: BaseMode | None) -> str | None:
    """Returns why a mode has no effect in this version; `None` if it has its effect."""
    if isinstance(mode, PCSampling):
        lack = "program counters are not sampled"
    elif isinstance(mode, InstrumentationMode):
        lack = "kernels do not time themselves"
    else:
        return None
    return (
        f"mode {mode.name!r} needs code on the GPU that this version of marey does not have: "
        f"{lack}, and the session records as without the mode"
    )
