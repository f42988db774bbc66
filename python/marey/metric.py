"""Conversion of launch metadata to metrics, with one type for each key."""

from __future__ import annotations

from typing import Any

from .triton.tensors import Conversion, is_on_host, is_tensor, tensor_value

__all__ = ["transform_tensor_metrics"]

CONVERSIONS: dict[str, Conversion] = {
    **dict.fromkeys(("flops", "flops8", "flops16", "flops32", "flops64"), float),
    "bytes": int,
}
"""The conversion of numbers, by key; numbers of other keys are not converted."""


def transform_tensor_metrics(metrics: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits metrics into values on the host, converted, and tensors on devices, unchanged."""
    values: dict[str, Any] = {}
    tensors: dict[str, Any] = {}
    for key, value in metrics.items():
        if is_tensor(value) and not is_on_host(value):
            tensors[key] = value
        else:
            values[key] = _convert(value, CONVERSIONS.get(key, keep_value))
    return values, tensors


def keep_value(value: Any) -> Any:
    """Returns the value unchanged: the conversion of keys that have no other."""
    return value


def _convert(value: Any, convert: Conversion) -> Any:
    if is_tensor(value):
        return tensor_value(value, convert)
    if isinstance(value, (list, tuple)):
        return [convert(number) for number in value]
    return convert(value)
