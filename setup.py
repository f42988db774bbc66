"""Builds the three libraries of the wheel from the Cargo workspace; pyproject.toml has the rest."""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools_rust import Binding, RustExtension, build_rust

ROOT = Path(__file__).parent

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    reason = "marey does not support free-threaded builds of CPython yet"
    sys.exit(f"error: {reason}: use a build with the GIL")

LIBMAREY = "marey.lib.libmarey"


class BuildRust(build_rust):  # type: ignore[misc]
    """Keeps the file name of the library that is not a Python module."""

    def get_dylib_ext_path(self, ext: RustExtension, target_fname: str) -> str:
        path: str = super().get_dylib_ext_path(ext, target_fname)
        return str(Path(path).with_name("libmarey.so")) if ext.name == LIBMAREY else path


class BuildPython(build_py):  # type: ignore[misc]
    """Adds the file that the interpreter reads at its start, beside the package."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file(str(ROOT / "python/marey.pth"), str(Path(self.build_lib, "marey.pth")))

    def get_source_files(self) -> list[str]:
        return [*super().get_source_files(), "python/marey.pth"]


def library(name: str, crate: str) -> RustExtension:
    """Returns a `cdylib` of the workspace, in release mode even for an editable install."""
    return RustExtension(
        name,
        path=f"crates/{crate}/Cargo.toml",
        binding=Binding.NoBinding,  # the crates choose PyO3's features themselves
        py_limited_api=True,
        debug=False,
        cargo_manifest_args=["--locked"] if (ROOT / "Cargo.lock").exists() else [],
    )


def version() -> str:
    """Returns the version of the Cargo workspace."""
    manifest = (ROOT / "Cargo.toml").read_text()
    found = re.search(r'^\[workspace\.package\]\nversion = "(.+)"$', manifest, re.MULTILINE)
    if found is None:
        raise ValueError("Cargo.toml: [workspace.package] does not begin with a version")
    return found[1]


def requirements(path: str) -> list[str]:
    """Returns the packages of a requirements file."""
    lines = (line.partition("#")[0].strip() for line in (ROOT / path).read_text().splitlines())
    return [line for line in lines if line]


setup(
    version=version(),
    extras_require={
        "plots": ["matplotlib", "plotly"],
        "test": requirements("tests/requirements.txt"),
        "torch": ["torch"],
    },
    options={"bdist_wheel": {"py_limited_api": "cp310"}},  # one wheel for CPython 3.10 and later
    cmdclass={"build_py": BuildPython, "build_rust": BuildRust},
    rust_extensions=[
        library("marey._native", "marey-py"),
        library("marey._engine", "marey-engine"),
        library(LIBMAREY, "marey-capi"),
    ],
)
