"""Values of a launch's metadata as metrics, of types that do not depend on their author."""

from __future__ import annotations

from typing import Any

from .triton.tensors import Conversion, is_on_host, is_tensor, plain

__all__ = ["transform_tensor_metrics"]

CONVERSIONS: dict[str, Conversion] = {
    **dict.fromkeys(("flops", "flops8", "flops16", "flops32", "flops64"), float),
    "bytes": int,
}
"""What makes the metric of a number, by key; numbers of other keys stay as they are."""


def transform_tensor_metrics(metrics: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the values that the host has, as metrics, and the tensors on devices, as they are."""
    values: dict[str, Any] = {}
    tensors: dict[str, Any] = {}
    for key, value in metrics.items():
        if is_tensor(value) and not is_on_host(value):
            tensors[key] = value
        else:
            values[key] = _convert(value, CONVERSIONS.get(key, as_it_is))
    return values, tensors


def as_it_is(value: Any) -> Any:
    """The conversion of a number whose key has none."""
    return value


def _convert(value: Any, convert: Conversion) -> Any:
    if is_tensor(value):
        return plain(value, convert)
    if isinstance(value, (list, tuple)):
        return [convert(number) for number in value]
    return convert(value)
