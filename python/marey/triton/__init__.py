"""Support of Triton: its launch hooks, and the metrics that they deliver."""
