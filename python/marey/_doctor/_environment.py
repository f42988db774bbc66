"""Checks of the variables by which NVIDIA's libraries load tools, and of marey's variables."""

from __future__ import annotations

import os

from marey import _names, _native
from marey._flags import is_disabled
from marey._names import ENV_DISABLE, ENV_NVTX, ENV_NVTX_INJECTION64_PATH

from ._check import Check

SECTION = "Environment"
CUDA_INJECTION = "CUDA_INJECTION64_PATH"


def checks() -> list[Check]:
    """Returns a line for NVTX, for the CUDA injection, and for each set variable of marey."""
    return [_nvtx(), _cuda_injection(), *_variables()]


def _nvtx() -> Check:
    if os.environ.get(ENV_NVTX, "1") in ("", "0"):
        text = f"NVTX annotations are ignored: {ENV_NVTX} is 0"
        return Check(SECTION, "nvtx", "missing", text, f"unset {ENV_NVTX}", _injection(None))
    return _injection_check(
        "nvtx",
        ENV_NVTX_INJECTION64_PATH,
        free="NVTX annotations become scopes from the first session on",
        taken="NVTX annotations go to another tool",
        mend=f"unset {ENV_NVTX_INJECTION64_PATH}",
    )


def _cuda_injection() -> Check:
    return _injection_check(
        "cuda_injection",
        CUDA_INJECTION,
        free="the driver notifies marey when the program starts it",
        taken="the driver starts another tool with the program, which may hold CUPTI",
        mend=f"unset {CUDA_INJECTION}, or have marey start first: marey run --backend cupti",
    )


def _injection_check(key: str, variable: str, *, free: str, taken: str, mend: str) -> Check:
    path = os.environ.get(variable)
    facts = _injection(path)
    if not path:
        return Check(SECTION, key, "ok", free, facts=facts)
    if os.path.isabs(path) and not os.path.exists(path):
        text = f"{variable} names {path}, which does not exist"
        return Check(SECTION, key, "broken", text, f"unset {variable}", facts)
    if facts["is_marey"]:
        return Check(SECTION, key, "ok", f"{free} ({variable}={path})", facts=facts)
    return Check(SECTION, key, "missing", f"{taken}: {variable}={path}", mend, facts)


def _injection(path: str | None) -> dict[str, str | bool | None]:
    own = _native.library_path()
    is_marey = bool(path and own) and os.path.realpath(str(path)) == os.path.realpath(str(own))
    return {"path": path or None, "is_marey": is_marey}


def _variables() -> list[Check]:
    return [_variable(name, os.environ[name]) for name in sorted(os.environ) if _is_ours(name)]


def _is_ours(name: str) -> bool:
    return name.startswith("MAREY_")


def _variable(name: str, value: str) -> Check:
    facts = {"name": name, "value": value}
    text = f"{name}={value}"
    if name == ENV_DISABLE and is_disabled():
        text = f"{text} turns marey off"
        return Check(SECTION, "variable", "missing", text, f"unset {name}", facts)
    if name not in _KNOWN:
        text = f"{text} is not a variable of marey"
        return Check(SECTION, "variable", "missing", text, f"unset {name}", facts)
    return Check(SECTION, "variable", "ok", text, facts=facts)


_KNOWN = frozenset(
    value for name, value in vars(_names).items() if name.startswith("ENV_") and _is_ours(value)
)
