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
    return [_nvtx_check(), _cuda_injection_check(), *_variable_checks()]


def _nvtx_check() -> Check:
    if os.environ.get(ENV_NVTX, "1") in ("", "0"):
        text = f"NVTX annotations are ignored: {ENV_NVTX} is 0"
        return Check(SECTION, "nvtx", "missing", text, f"unset {ENV_NVTX}", _injection_facts(None))
    return _injection_check(
        "nvtx",
        ENV_NVTX_INJECTION64_PATH,
        if_unset="NVTX annotations become scopes from the first session on",
        if_other="NVTX annotations go to another tool",
        mend=f"unset {ENV_NVTX_INJECTION64_PATH}",
    )


def _cuda_injection_check() -> Check:
    return _injection_check(
        "cuda_injection",
        CUDA_INJECTION,
        if_unset="the driver notifies marey when the program starts it",
        if_other="the driver starts another tool with the program, which may hold CUPTI",
        mend=f"unset {CUDA_INJECTION}, or have marey start first: marey run --backend cupti",
    )


def _injection_check(key: str, variable: str, *, if_unset: str, if_other: str, mend: str) -> Check:
    path = os.environ.get(variable)
    facts = _injection_facts(path)
    if not path:
        return Check(SECTION, key, "ok", if_unset, facts=facts)
    if os.path.isabs(path) and not os.path.exists(path):
        text = f"{variable} names {path}, which does not exist"
        return Check(SECTION, key, "broken", text, f"unset {variable}", facts)
    if facts["is_marey"]:
        return Check(SECTION, key, "ok", f"{if_unset} ({variable}={path})", facts=facts)
    return Check(SECTION, key, "missing", f"{if_other}: {variable}={path}", mend, facts)


def _injection_facts(path: str | None) -> dict[str, str | bool | None]:
    library = _native.library_path()
    is_marey = bool(path and library and os.path.realpath(path) == os.path.realpath(library))
    return {"path": path or None, "is_marey": is_marey}


def _variable_checks() -> list[Check]:
    names = sorted(filter(_is_marey, os.environ))
    return [_variable_check(name, os.environ[name]) for name in names]


def _is_marey(name: str) -> bool:
    return name.startswith("MAREY_")


def _variable_check(name: str, value: str) -> Check:
    facts = {"name": name, "value": value}
    text = f"{name}={value}"
    if name == ENV_DISABLE and is_disabled():
        text = f"{text} turns marey off"
        return Check(SECTION, "variable", "missing", text, f"unset {name}", facts)
    if name not in _KNOWN_VARIABLES:
        text = f"{text} is not a variable of marey"
        return Check(SECTION, "variable", "missing", text, f"unset {name}", facts)
    return Check(SECTION, "variable", "ok", text, facts=facts)


_KNOWN_VARIABLES = frozenset(
    value for name, value in vars(_names).items() if name.startswith("ENV_") and _is_marey(value)
)
