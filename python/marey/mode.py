"""Modes of a backend, as objects or as words: ``"name:knob=value:knob=value"``."""

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
    """An enumeration that reads as its word."""

    def __str__(self) -> str:
        return str(self.value)


class MetricType(_Word):
    """What a kernel's instrumentation counts."""

    CYCLE = "cycle"


class SamplingStrategy(_Word):
    """Which warps are recorded."""

    NONE = "none"
    SELECTIVE = "selective"


class BufferStrategy(_Word):
    """What happens when a kernel's buffer is full."""

    CIRCULAR = "circular"
    FLUSH = "flush"


class BufferType(_Word):
    """Where a kernel's buffer is."""

    SHARED = "shared"
    GLOBAL = "global"


class Granularity(_Word):
    """Whose cycles are counted together."""

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
    """Samples of the program counter of kernels, which this version does not take.

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
    """Writes each phase to a file of its own as soon as it is closed.

    Raises:
        ValueError: There is no such format.
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
    """Common settings of kernels that time themselves, which this version does not have do so.

    Each setting may be given by its word.

    Raises:
        ValueError: A word means nothing.
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
        for setting, words in _WORDS.items():
            value = getattr(self, setting)
            if isinstance(value, str):
                object.__setattr__(self, setting, _from_word(setting, words, value))
        if isinstance(self.optimizations, str):
            given = [word.strip() for word in self.optimizations.split(",") if word.strip()]
            found = [_from_word("optimization", Optimize, word) for word in given]
            object.__setattr__(self, "optimizations", found)

    def __str__(self) -> str:
        optimizations = ",".join(str(optimization) for optimization in self.optimizations)
        knobs = {
            "metric_type": self.metric_type,
            "sampling_strategy": self.sampling_strategy,
            "sampling_options": self.sampling_options,
            "granularity": self.granularity,
            "buffer_strategy": self.buffer_strategy,
            "buffer_type": self.buffer_type,
            "buffer_size": self.buffer_size,
            "optimizations": optimizations,
        }
        return ":".join([self.name, *(f"{knob}={value}" for knob, value in knobs.items())])


_WORDS: dict[str, type[_Word]] = {
    "metric_type": MetricType,
    "sampling_strategy": SamplingStrategy,
    "granularity": Granularity,
    "buffer_strategy": BufferStrategy,
    "buffer_type": BufferType,
}

W = TypeVar("W", bound=_Word)


def _from_word(setting: str, words: type[W], word: str) -> W:
    try:
        return words(word)
    except ValueError:
        raise ValueError(f"Unknown {setting}: {word}") from None


@dataclass(frozen=True)
class Default(InstrumentationMode):
    """Kernels time the scopes inside of them."""

    name: str = field(default="default", init=False)


@dataclass(frozen=True)
class MMA(InstrumentationMode):
    """Kernels time their matrix instructions."""

    name: str = field(default="mma", init=False)


_KINDS: dict[str, type[BaseMode]] = {
    "pcsampling": PCSampling,
    "periodic_flushing": PeriodicFlushing,
    "default": Default,
    "mma": MMA,
}
_WHOLE_NUMBERS = ("interval", "buffer_size")


def parse(mode: str | BaseMode | None) -> BaseMode | None:
    """Returns the mode that an object or a text names; `None` for none and for the empty text.

    Raises:
        ValueError: There is no such mode or knob, or the knob's value means nothing.
    """
    if mode is None or str(mode) == "":
        return None
    name, *knobs = str(mode).split(":")
    kind = _KINDS.get(name)
    if kind is None:
        raise ValueError(f"Unknown mode: {name}")
    values: dict[str, Any] = dict(knob.partition("=")[::2] for knob in knobs)
    unknown = values.keys() - {knob.name for knob in fields(kind) if knob.init}
    if unknown:
        raise ValueError(f"Unknown knob of mode {name}: {min(unknown)}")
    for knob in values.keys() & set(_WHOLE_NUMBERS):
        if not values[knob].isdecimal():
            raise ValueError(f"Knob {knob} of mode {name} is no whole number: {values[knob]}")
        values[knob] = int(values[knob])
    return kind(**values)


def describe_lack(mode: BaseMode | None) -> str | None:
    """Returns why a mode adds nothing to what is recorded; `None` if it does what it says."""
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
