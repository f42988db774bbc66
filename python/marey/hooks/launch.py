"""`LaunchHook` under the module name that Proton has for it."""

from __future__ import annotations

from marey.triton.launch import LaunchHook

__all__ = ["LaunchHook"]
