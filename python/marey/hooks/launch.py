"""Triton's launch hook, under the name that Proton has for its module."""

from __future__ import annotations

from marey.triton.launch import LaunchHook

__all__ = ["LaunchHook"]
