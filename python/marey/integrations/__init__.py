"""Adapters for libraries that run the training loop of their users.

Each module needs its library, which is imported with the module:

- `marey.integrations.lightning`: `MareyCallback`, `MareyProfiler`
- `marey.integrations.transformers`: `MareyCallback`
- `marey.integrations.accelerate`: `MareyTracker`
"""
