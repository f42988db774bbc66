"""The settings of the profiler for training loops."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marey import _checks

STORAGE_FORMATS = ("binary", "json")


@dataclass(frozen=True)
class ProfilerConfig:
    """Settings of `TrainingProfiler`.

    Raises:
        TypeError: A field does not exist; the message names the nearest one. Or a value has a wrong
            type.
        ValueError: A value is out of its range.
    """

    enabled: bool = True
    """Whether anything is recorded."""
    collect_timing: bool = True
    """Whether regions, epochs, modules and steps are recorded."""
    collect_memory: bool = True
    """Whether the memory of devices and of the process is read."""
    collect_gpu_ops: bool = True
    """Whether operators are recorded in some of the sampled epochs."""
    sample_rate: float = 0.1
    """The fraction of the epochs that is recorded, above 0 and at most 1."""
    adaptive_sampling: bool = True
    """Whether the rate is three times as high in the first ten epochs."""
    use_cuda_events: bool = True
    """Whether regions are timed by CUDA events where CUPTI does not record kernels."""
    cuda_sync_per_epoch: bool = False
    """Whether the host waits for the GPU at the end of each sampled epoch, for debugging."""
    warmup_samples: int = 2
    """Sampled epochs before those with operators."""
    active_samples: int = 5
    """Sampled epochs with operators."""
    record_shapes: bool = True
    """Whether operators have the shapes of their inputs."""
    with_flops: bool = True
    """Whether the FLOP of operators are computed, which needs `record_shapes`."""
    with_modules: bool = True
    """Whether calls of modules are recorded."""
    output_dir: Path | None = None
    """The folder of the recording and of relative paths; the working directory if `None`."""
    storage_format: str = "binary"
    """The format of a saved profile: ``"binary"``, a packed run, or ``"json"``, its sums."""
    export_chrome_trace: bool = True
    """Whether a Chrome trace is saved beside the profile."""
    bottleneck_threshold_pct: float = 10.0
    """The percent of the time above which an operation is a bottleneck."""
    memory_leak_threshold_mb: float = 10.0
    """The growth in MB (10^6 bytes) per epoch above which memory leaks."""

    def __new__(cls, *_values: Any, **fields: Any) -> ProfilerConfig:
        known = [field.name for field in dataclasses.fields(cls)]
        for name in fields:
            if name not in known:
                nearest = difflib.get_close_matches(name, known, n=1)
                remedy = (
                    f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}"
                )
                raise TypeError(f"ProfilerConfig has no field {name!r}; {remedy}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if self.output_dir is not None:
            object.__setattr__(self, "output_dir", _folder(self.output_dir))
        for field in dataclasses.fields(self):
            if isinstance(field.default, bool):
                _checks.flag(field.name, getattr(self, field.name))
        _checks.as_number("sample_rate", self.sample_rate)
        if not 0 < self.sample_rate <= 1:
            raise ValueError(
                f"sample_rate={self.sample_rate!r} must be above 0 and at most 1;"
                " enabled=False records nothing"
            )
        for name in ("warmup_samples", "active_samples"):
            _checks.count(name, getattr(self, name))
        for name in ("bottleneck_threshold_pct", "memory_leak_threshold_mb"):
            _checks.positive(name, getattr(self, name))
        if self.storage_format not in STORAGE_FORMATS:
            formats = " or ".join(map(repr, STORAGE_FORMATS))
            raise ValueError(f"storage_format={self.storage_format!r} must be {formats}")

    def _repr_html_(self) -> str:
        from marey import _notebook

        rows = [{"field": name, "value": str(value)} for name, value in self.to_json().items()]
        return _notebook.dicts_html(rows)

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as values of JSON."""
        fields = dataclasses.asdict(self)
        folder = fields["output_dir"]
        return {**fields, "output_dir": None if folder is None else str(folder)}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> ProfilerConfig:
        """Returns the settings that `to_json` has written; fields of later versions are ignored."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in fields.items() if name in known})


def _folder(path: Any) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise TypeError(f"output_dir must be a path, not {path!r}") from None
