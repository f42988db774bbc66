"""Measures the scopes of `marey.hpp`: compiles `cpp_scopes.cpp`, runs it, prints nanoseconds.

    python bench/cpp_scopes.py

The installed package provides headers and library. MAREY_LIB names another `libmarey.so`. The zones
of Tracy take turns with ours if cargo can bring its client, which is in `tracy-client-sys`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import marey

HERE = Path(__file__).resolve().parent
BARS = {
    "record_function_idle": 2.0,
    "record_function_no_library": 2.0,
    "plain_scope_tree": 25.0,
    "plain_scope_trace": 35.0,
}
"""Nanoseconds that are aimed at; those of an enabled scope with the readings of the clock."""
TRACY = "tracy-client-sys"
TRACY_VERSION = "0.30.1"
# Threads that would disturb the measurement, and sockets to other machines.
TRACY_FLAGS = [
    *("TRACY_ENABLE", "TRACY_ONLY_LOCALHOST", "TRACY_NO_BROADCAST", "TRACY_NO_SAMPLING"),
    *("TRACY_NO_SYSTEM_TRACING", "TRACY_NO_CONTEXT_SWITCH", "TRACY_NO_CRASH_HANDLER"),
]


def tracy_client(folder: Path) -> Path | None:
    """Returns the folder with the source of Tracy's client, or `None` if cargo cannot bring it."""
    if shutil.which("cargo") is None:
        return None
    project = folder / "tracy"
    (project / "src").mkdir(parents=True)
    (project / "src" / "lib.rs").touch()
    manifest = f'[package]\nname = "bench"\n[dependencies]\n{TRACY} = "={TRACY_VERSION}"\n'
    (project / "Cargo.toml").write_text(manifest)
    command = ["cargo", "metadata", "--format-version", "1", "--quiet"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    if done.returncode != 0:
        return None
    packages = json.loads(done.stdout)["packages"]
    return next(Path(p["manifest_path"]).parent / "tracy" for p in packages if p["name"] == TRACY)


def build(folder: Path, include: Path) -> Path:
    """Compiles the program, with Tracy if it can be had; returns its path."""
    program = folder / "cpp_scopes"
    command = ["c++", "-std=c++17", "-O2", f"-I{include}", str(HERE / "cpp_scopes.cpp")]
    client = tracy_client(folder)
    if client is None:
        print(f"Tracy is not measured: cargo does not bring {TRACY} {TRACY_VERSION}")
    else:
        flags = [f"-D{flag}" for flag in TRACY_FLAGS]
        command += [*flags, f"-I{client}", str(client / "TracyClient.cpp")]
    subprocess.run([*command, "-o", str(program), "-pthread", "-ldl"], check=True)
    return program


def measured(program: Path, library: str) -> dict[str, float]:
    """Runs the program with this `libmarey.so`; returns nanoseconds by name."""
    environment = {**os.environ, "MAREY_LIB": library}
    done = subprocess.run(
        [program], cwd=program.parent, env=environment, check=True, capture_output=True, text=True
    )
    return {name: float(nanos) for name, nanos in map(str.split, done.stdout.splitlines())}


def main() -> None:
    package = Path(marey.__file__).parent
    library = os.environ.get("MAREY_LIB", str(package / "lib" / "libmarey.so"))
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder), package / "include")
        nanos = measured(program, str(Path(library).absolute()))
        without = measured(program, str(Path(folder, "no.so")))
    nanos["record_function_no_library"] = without["record_function_idle"]
    for name, value in nanos.items():
        bar = f"  (aim: {BARS[name]:g})" if name in BARS else ""
        print(f"{name:32} {value:8.2f} ns{bar}")


if __name__ == "__main__":
    main()
