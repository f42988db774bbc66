"""`python -m marey` runs the command `marey`."""

from __future__ import annotations

from marey._cli import main

main()
