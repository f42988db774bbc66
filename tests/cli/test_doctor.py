"""`marey doctor`, on the doubles of NVIDIA's libraries and without any."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import marey
import pytest
import replay
from marey import _native, _torch_operators
from marey._doctor import _privileges, _software
from marey._torch_fields import UNKNOWN, Fields
from marey._torch_inputs import InputFields
from marey._torch_operators import Support
from programs import Outcome, run_command, run_program, run_well

TORCH = """\
import types
__version__ = "2.9.0"
version = types.SimpleNamespace(cuda="{cuda}", hip=None)
profiler = types.SimpleNamespace(kineto_available=lambda: True)
print("torch talks", flush=True)
"""

TRITON = """\
import types
__version__ = "3.6.0"
chain = types.SimpleNamespace(add=None, remove=None)
names = ("kernel_load_end_hook", "launch_enter_hook", "launch_exit_hook")
knobs = types.SimpleNamespace(runtime=types.SimpleNamespace(**dict.fromkeys(names, chain)))
"""

FIELDS, INPUTS = Fields(25, 38), InputFields(26, 8, 21, 14, 10)

TRIED = "recorded by callbacks, which a trial of this version has confirmed"

# A Python with only marey and the packages in the folder `packages`.
PROGRAM = """\
import sys
sys.path[:] = sys.argv.pop(1).split(":")
from marey import _cli
_cli.main()
"""


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the driver, NVML and variables of other tools, also on machines that have them."""
    for name in list(os.environ):
        if name.startswith("MAREY_") and name not in ("MAREY_REPLAY_LIB", "MAREY_REPLAY_NVML_LIB"):
            monkeypatch.delenv(name)
    for name in ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    nothing = Path("nothing").absolute()
    nothing.mkdir()
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (nothing / name).write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nothing))
    packages = Path("packages")
    packages.mkdir()
    (packages / "marey").symlink_to(Path(marey.__file__).parent)


def add_package(name: str, source: str) -> None:
    folder = Path("packages", name)
    folder.mkdir()
    (folder / "__init__.py").write_text(source)


def command(*arguments: str) -> list[str]:
    """Returns the arguments of a doctor that finds only marey and the folder `packages`."""
    standard = [path for key, path in sysconfig.get_paths().items() if key.endswith("stdlib")]
    paths = [*standard, f"{standard[0]}/lib-dynload", str(Path("packages").absolute())]
    return [sys.executable, "-c", PROGRAM, ":".join(paths), "doctor", *arguments]


def doctor(*arguments: str, **env: str) -> Outcome:
    return run_command(*command(*arguments), **env)


class Page:
    """The output of `marey doctor --json`."""

    def __init__(self, **env: str) -> None:
        done = doctor("--json", **env)
        assert done.stderr == ""
        self.exit_code = done.exit_code
        self.document: dict[str, Any] = json.loads(done.stdout)
        self.level = self.document["level"]
        self.conclusion = self.document["conclusion"]

    def all(self, key: str) -> list[dict[str, Any]]:
        return [check for check in self.document["checks"] if check["key"] == key]

    def one(self, key: str) -> dict[str, Any]:
        (check,) = self.all(key)
        return check

    def states(self) -> dict[str, str]:
        return {check["key"]: check["state"] for check in self.document["checks"]}


def double(script: str = "") -> dict[str, str]:
    """Returns an environment in which the double is the driver and the only libcupti."""
    folder = Path("double").absolute()
    env = replay.environment(folder, script)
    return {name: env[name] for name in ("LD_LIBRARY_PATH", "MAREY_REPLAY")} | {
        "MAREY_CUPTI_LIB": str(folder)
    }


CRASHES = "#include <stdlib.h>\n__attribute__((constructor)) static void load(void) { abort(); }\n"


def test_an_unknown_interpreter_is_reported_with_its_fallbacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_software, "NEWEST", (3, 9))
    monkeypatch.setattr(_native, "frames_are_fast", lambda: False)
    monkeypatch.setattr(_native, "task_detection_is_fast", lambda: False)
    check = _software.check_interpreter()
    assert check.state == "missing"
    assert "which marey is not tested with" in check.text
    assert "whose frames are read by the slower, documented API" in check.text
    assert "whose running task only asyncio reports" in check.text
    assert check.mend == "use CPython 3.10 to 3.9"


def test_a_machine_without_gpu_software_is_not_broken() -> None:
    page = Page(MAREY_NVML_LIB="/nowhere/libnvidia-ml.so.1")
    assert (page.exit_code, page.level, page.document["is_broken"]) == (0, "host", False)
    assert page.conclusion.startswith("Only the host side will be recorded: no NVIDIA driver: ")
    states = page.states()
    assert {states[key] for key in ("torch", "triton", "driver", "nvml", "libcupti")} == {"missing"}
    assert (states["marey"], states["nvtx"], states["cuda_injection"]) == ("ok", "ok", "ok")
    assert page.one("torch")["mend"] == "pip install torch"
    assert page.one("libcupti")["mend"] == "pip install nvidia-cuda-cupti"
    assert "--gpus all" in page.one("driver")["mend"]
    assert page.one("driver")["facts"] == {"step": "driver", "code": None}


def test_the_keys_of_the_data_are_stable() -> None:
    page = Page(**double())
    assert list(page.document) == ["marey", "level", "conclusion", "is_broken", "checks"]
    assert page.document["marey"] == marey.__version__
    keys = ["section", "key", "state", "text", "mend", "facts"]
    assert all(list(check) == keys for check in page.document["checks"])
    facts = {check["key"]: sorted(check["facts"]) for check in page.document["checks"]}
    assert facts == {
        "marey": ["library", "version"],
        "python": ["are_frames_fast", "are_tasks_fast", "executable", "has_gil", "version"],
        "torch": [],
        "triton": [],
        "driver": ["cuda_version"],
        "device": [
            "compute_capability",
            "memory_bytes",
            "multiprocessors",
            "name",
            "number",
            "uuid",
        ],
        "libcupti": ["api_version", "cuda", "is_used", "path", "refusal", "source"],
        "subscriber": ["code", "is_beside_others", "step"],
        "nvml": ["code", "step"],
        "hip": ["path"],
        "rocprofiler": ["path"],
        "nvtx": ["is_marey", "path"],
        "cuda_injection": ["is_marey", "path"],
        "variable": ["name", "value"],
        "gpu_counters": ["has_sys_admin", "is_restricted"],
        "cpu_counters": ["has_perfmon", "perf_event_paranoid"],
        "ptrace": ["has_sys_ptrace", "ptrace_scope"],
    }


def test_a_driver_and_a_libcupti_are_ok() -> None:
    page = Page(**double("version 130001\ndriver 13000\ndevices 2\n"))
    path = page.one("libcupti")["facts"]["path"]
    assert page.conclusion == f"Kernels will be recorded by CUPTI 13.0 ({path})."
    assert (page.level, page.exit_code) == ("cupti", 0)
    assert page.one("driver")["text"] == "NVIDIA driver for CUDA 13.0"
    devices = [device["facts"] for device in page.all("device")]
    assert [device["number"] for device in devices] == [0, 1]
    assert {device["compute_capability"] for device in devices} == {"9.0"}
    assert page.one("libcupti")["facts"]["is_used"]
    assert page.one("subscriber")["state"] == "ok"
    assert not page.one("subscriber")["facts"]["is_beside_others"]


def test_a_libcupti_with_several_subscribers_is_reported() -> None:
    subscriber = Page(**double("version 130500\ndriver 13030\n")).one("subscriber")
    assert (subscriber["state"], subscriber["facts"]["is_beside_others"]) == ("ok", True)


def test_the_conclusion_matches_what_a_session_records() -> None:
    env = double()
    del env["MAREY_CUPTI_LIB"]
    env["PYTHONPATH"] = str(Path("packages").absolute())
    program = """
        import marey
        marey.start("p", backend="cupti")
        print(marey._native.gpu_level()[1])
        marey.finalize()
    """
    done = run_program(program, "-S", **env)
    assert done.exit_code == 0, done.stderr
    used = [check["facts"] for check in Page(**env).all("libcupti") if check["facts"]["is_used"]]
    assert [f"CUPTI {one['api_version']}, {one['path']}" for one in used] == [done.stdout.strip()]


def test_records_are_tried_as_well_as_the_subscription() -> None:
    page = Page(**double("fail cuptiActivityEnable 23\n"))
    subscriber = page.one("subscriber")
    assert (page.exit_code, page.level, subscriber["state"]) == (1, "host", "broken")
    assert subscriber["facts"] == {"step": "enable", "code": 23}


@pytest.mark.parametrize(
    ("code", "name", "mend"),
    [
        (39, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "end the other tool's session"),
        (35, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "NVreg_RestrictProfilingToAdminUsers=0"),
    ],
)
def test_a_libcupti_that_rejects_subscribers_is_broken(code: int, name: str, mend: str) -> None:
    page = Page(**double(f"fail cuptiSubscribe {code}\n"))
    subscriber = page.one("subscriber")
    assert (page.exit_code, page.level, subscriber["state"]) == (1, "host", "broken")
    assert name in subscriber["text"]
    assert mend in subscriber["mend"]
    assert subscriber["facts"] == {"step": "subscribe", "code": code}
    assert name in page.conclusion
    assert ("by events" in page.conclusion) == (code == 39)


def test_a_driver_without_a_device_is_missing_one() -> None:
    page = Page(**double("devices 0\n"))
    driver = page.one("driver")
    assert (page.exit_code, page.level, driver["state"]) == (0, "host", "missing")
    assert driver["facts"]["step"] == "device"
    assert "CUDA_VISIBLE_DEVICES" in driver["mend"]
    assert page.all("subscriber") == []
    # Found, and without a driver not asked for its version.
    assert page.one("libcupti")["facts"]["api_version"] is None


def test_a_driver_that_does_not_start_is_broken() -> None:
    page = Page(**double("fail cuInit 803\n"))
    driver = page.one("driver")
    assert (page.exit_code, driver["state"]) == (1, "broken")
    assert driver["facts"] == {"step": "init", "code": 803}
    assert "restart the machine" in driver["mend"]


def test_a_driver_that_crashes_is_broken() -> None:
    crashes = replay.build_library("crash/libcuda.so.1", CRASHES)
    page = Page(LD_LIBRARY_PATH=str(crashes.parent))
    driver = page.one("driver")
    assert (page.exit_code, page.level, driver["state"]) == (1, "host", "broken")
    assert driver["text"] == "the NVIDIA driver cannot be started: it crashed with SIGABRT"
    assert page.all("libcupti") == []


def test_a_named_libcupti_that_is_newer_than_the_driver_is_broken() -> None:
    page = Page(**double("version 130001\ndriver 12080\n"))
    libcupti = page.one("libcupti")
    assert (page.exit_code, page.level, libcupti["state"]) == (1, "host", "broken")
    assert libcupti["facts"]["refusal"] == "newer_than_driver"
    assert libcupti["mend"].startswith("unset MAREY_CUPTI_LIB")
    assert "it requires CUDA 13, but the driver supports CUDA 12" in page.conclusion


def test_a_libcupti_newer_than_the_driver_is_skipped() -> None:
    env = double("version 28\ndriver 12080\n")
    del env["MAREY_CUPTI_LIB"]
    own = Path(env["LD_LIBRARY_PATH"], "libcupti.so").resolve()
    for folder, name in (("cu13/lib", "libcupti.so.13"), ("cuda_cupti/lib", "libcupti.so.12")):
        Path("packages/nvidia", folder).mkdir(parents=True)
        shutil.copy(own, Path("packages/nvidia", folder, name))
    page = Page(**env)
    newer, suited = page.all("libcupti")[:2]
    assert (newer["state"], newer["facts"]["refusal"]) == ("missing", "newer_than_driver")
    assert (suited["facts"]["is_used"], suited["facts"]["source"]) == (True, "NVIDIA's wheel")
    assert (page.exit_code, page.level) == (0, "cupti")
    assert page.conclusion.startswith("Kernels will be recorded by CUPTI 12 (")


def test_a_crashing_libcupti_does_not_hide_the_others() -> None:
    env = double()
    del env["MAREY_CUPTI_LIB"]
    crashes = replay.build_library("packages/nvidia/cu13/lib/libcupti.so.13", CRASHES)
    page = Page(**env)
    broken, sound = page.all("libcupti")[:2]
    text = f"libcupti: {crashes} (NVIDIA's wheel): it crashed with SIGABRT"
    assert (broken["state"], broken["text"], broken["facts"]["refusal"]) == (
        "broken",
        text,
        "crash",
    )
    # It comes first, so a session would crash in it.
    assert (page.exit_code, page.level) == (1, "crash")
    survival = (
        f"A program that uses CUDA would not survive marey: {crashes}: it crashed with SIGABRT."
    )
    assert page.conclusion == survival
    assert (sound["facts"]["is_used"], sound["facts"]["source"]) == (False, "the loader's path")
    assert broken["mend"] == f"export MAREY_CUPTI_LIB={sound['facts']['path']}"


def test_a_crash_in_an_unused_libcupti_is_harmless() -> None:
    env = double()
    del env["MAREY_CUPTI_LIB"]
    crashes = replay.build_library("cuda/extras/CUPTI/lib64/libcupti.so.13", CRASHES)
    wheel = Path("packages/nvidia/cu13/lib/libcupti.so.13").absolute()
    wheel.parent.mkdir(parents=True)
    shutil.copy(Path(env["LD_LIBRARY_PATH"], "libcupti.so"), wheel)
    page = Page(**env, CUDA_HOME=str(Path("cuda").absolute()))
    used, broken = page.all("libcupti")[:2]
    assert (used["facts"]["path"], used["facts"]["is_used"]) == (str(wheel), True)
    assert (broken["facts"]["path"], broken["state"]) == (str(crashes), "broken")
    assert (page.exit_code, page.level) == (1, "cupti")


@pytest.mark.parametrize("name", ["absent.so", "empty", "text.so"])
def test_a_wrong_name_of_a_libcupti_is_broken(name: str) -> None:
    path = Path(name).absolute()
    if name == "empty":
        path.mkdir()
    elif name == "text.so":
        path.write_text("no library")
    page = Page(**double() | {"MAREY_CUPTI_LIB": str(path)})
    libcupti = page.one("libcupti")
    assert (page.exit_code, page.level, libcupti["state"]) == (1, "host", "broken")
    assert str(path) in libcupti["text"]
    assert libcupti["mend"].startswith("unset MAREY_CUPTI_LIB")


def test_torch_and_triton_are_imported_in_child_processes() -> None:
    add_package("torch", TORCH.format(cuda="13.0"))
    add_package("triton", TRITON)
    page = Page(**double("driver 13000\n"))
    # The package of this test has no library, so nothing could observe its operators.
    objection = "operators are not recorded: this process has not loaded libtorch_cpu.so"
    assert page.one("torch")["text"] == f"torch 2.9.0 for CUDA 13.0, with Kineto; {objection}"
    assert (page.one("torch")["state"], page.one("triton")["state"]) == ("ok", "ok")


@pytest.mark.parametrize(
    ("version", "support", "text"),
    [
        ("2.9.0", Support(None, FIELDS, INPUTS), "recorded by callbacks, as in tested versions"),
        ("9.0.0", Support(None, FIELDS, INPUTS), TRIED),
        (
            "9.0.0",
            Support(None, FIELDS),
            f"{TRIED}, without shapes, which it did not find",
        ),
        (
            "9.0.0",
            Support(None, UNKNOWN),
            f"{TRIED}, without links from backward to forward and shapes, which it did not find",
        ),
        (
            "9.0.0",
            Support("a trial of its callbacks failed: it crashed with SIGSEGV", UNKNOWN),
            "not recorded: a trial of its callbacks failed: it crashed with SIGSEGV",
        ),
    ],
)
def test_the_line_of_torch_says_how_operators_are_recorded(
    version: str, support: Support, text: str
) -> None:
    operators = _torch_operators.describe(version, support)
    facts = {"version": version, "cuda": None, "hip": None, "has_kineto": True}
    check = _software.check_torch({**facts, "operators": operators}, None)
    assert check.text == f"torch {version} for the CPU, with Kineto; operators are {text}"


def test_torch_for_a_newer_driver_and_unknown_hooks_of_triton_are_broken() -> None:
    add_package("torch", TORCH.format(cuda="13.0"))
    add_package("triton", TRITON.replace("launch_enter_hook", "launch_begin_hook"))
    page = Page(**double("version 28\ndriver 12080\n"))
    assert page.one("torch")["state"] == "broken"
    assert page.one("torch")["text"].endswith("; the driver serves CUDA 12.8")
    assert page.one("triton")["state"] == "broken"
    assert "knobs.runtime.launch_enter_hook" in page.one("triton")["text"]
    assert page.exit_code == 1


def test_packages_that_cannot_be_imported_are_broken() -> None:
    add_package("torch", "raise ImportError('libcudart.so.13: cannot open shared object file')")
    add_package("triton", "import os\nos.abort()")
    page = Page()
    assert page.exit_code == 1
    text = "torch cannot be imported: ImportError: libcudart.so.13: cannot open shared object file"
    assert (page.one("torch")["state"], page.one("torch")["text"]) == ("broken", text)
    assert page.one("triton")["text"] == "triton cannot be imported: it crashed with SIGABRT"


def test_a_libcupti_that_torch_loads_comes_first() -> None:
    env = double()
    del env["MAREY_CUPTI_LIB"]
    elsewhere = Path("elsewhere/libcupti.so.13").absolute()
    elsewhere.parent.mkdir()
    shutil.copy(Path(env["LD_LIBRARY_PATH"], "libcupti.so"), elsewhere)
    load = f"import ctypes\nctypes.CDLL({str(elsewhere)!r})\n"
    add_package("torch", load + TORCH.format(cuda="13.0"))
    page = Page(**env)
    first = page.all("libcupti")[0]
    assert first["facts"]["path"] == str(elsewhere)
    assert (first["facts"]["source"], first["facts"]["is_used"]) == ("loaded by torch", True)


def test_nvml_says_which_devices_have_counters() -> None:
    env = replay.nvml_environment({"name": 200, "memory_total": 1 << 30})
    page = Page(**env)
    assert page.one("nvml")["state"] == "ok"
    asked, silent = page.all("nvml_device")
    assert (asked["state"], asked["facts"]["name"]) == ("ok", "Replay 200")
    assert (silent["state"], silent["facts"]["number"], page.exit_code) == ("broken", 1, 1)
    off = Page(**env, MAREY_NVML_PERIOD_MS="0").one("nvml")
    assert (off["state"], off["mend"]) == ("missing", "unset MAREY_NVML_PERIOD_MS")
    assert Page(**env | {"REPLAY_NVML_DEVICES": "0"}).one("nvml")["state"] == "missing"
    refused = Page(**env, REPLAY_NVML_INIT="9")
    assert (refused.exit_code, refused.one("nvml")["state"]) == (1, "broken")
    assert refused.one("nvml")["mend"] == "load the driver: `modprobe nvidia`"


def test_injection_variables_of_other_tools_are_reported() -> None:
    other = Path("libtool.so").absolute()
    other.write_text("")
    library = marey._native.library_path()
    assert library is not None
    page = Page(NVTX_INJECTION64_PATH=str(other), CUDA_INJECTION64_PATH=library)
    nvtx, cuda = page.one("nvtx"), page.one("cuda_injection")
    assert (nvtx["state"], nvtx["mend"]) == ("missing", "unset NVTX_INJECTION64_PATH")
    assert (cuda["state"], cuda["facts"]["is_marey"]) == ("ok", True)
    page = Page(NVTX_INJECTION64_PATH="/nowhere/libtool.so", CUDA_INJECTION64_PATH=str(other))
    assert (page.one("nvtx")["state"], page.exit_code) == ("broken", 1)
    assert page.one("cuda_injection")["state"] == "missing"
    assert Page(MAREY_NVTX="0").one("nvtx")["mend"] == "unset MAREY_NVTX"


def test_variables_are_listed_and_unknown_ones_flagged() -> None:
    page = Page(MAREY_DISABLE="1", MAREY_CHECKPOINT_SECS="3", MAREY_CHEKPOINT_SECS="3")
    found = {check["facts"]["name"]: check for check in page.all("variable")}
    assert {name: check["state"] for name, check in found.items() if "_REPLAY_" not in name} == {
        "MAREY_DISABLE": "missing",
        "MAREY_CHECKPOINT_SECS": "ok",
        "MAREY_CHEKPOINT_SECS": "missing",
    }
    assert found["MAREY_DISABLE"]["mend"] == "unset MAREY_DISABLE"
    assert page.level == "off"
    assert page.conclusion == "Nothing will be recorded, because MAREY_DISABLE is set."


def test_libraries_of_rocm_are_found_and_not_used() -> None:
    Path("rocm/lib").mkdir(parents=True)
    Path("rocm/lib/libamdhip64.so.6").write_text("")
    page = Page(ROCM_PATH=str(Path("rocm").absolute()))
    hip = page.one("hip")
    assert hip["facts"]["path"] == str(Path("rocm/lib/libamdhip64.so.6").absolute())
    assert hip["text"].endswith("was found; this version of marey does not use it")


@pytest.mark.parametrize(
    ("capabilities", "restricted", "paranoid", "ptrace_scope", "states"),
    [
        (0, 1, 4, 1, ["missing", "missing", "missing"]),
        (0, 0, 2, 0, ["ok", "ok", "ok"]),
        (1 << 21, 1, 4, 1, ["ok", "ok", "missing"]),
        (1 << 38 | 1 << 19, 1, 4, 2, ["missing", "ok", "ok"]),
        (1 << 19, 0, 3, 3, ["ok", "missing", "missing"]),
        (0, None, None, None, ["missing", "missing", "ok"]),
    ],
)
def test_privileges_follow_the_kernel_and_the_capabilities(
    capabilities: int,
    restricted: int | None,
    paranoid: int | None,
    ptrace_scope: int | None,
    states: list[str],
) -> None:
    files = {
        "self/status": f"Name:\tpython\nCapEff:\t{capabilities:016x}\n",
        "driver/nvidia/params": f"Other: 0\nRmProfilingAdminOnly: {restricted}\n",
        "sys/kernel/perf_event_paranoid": f"{paranoid}\n",
        "sys/kernel/yama/ptrace_scope": f"{ptrace_scope}\n",
    }
    for name, text in files.items():
        if "None" not in text:
            Path("proc", name).parent.mkdir(parents=True, exist_ok=True)
            Path("proc", name).write_text(text)
    checks = _privileges.checks(Path("proc"), count_cycles=lambda: None)
    assert [check.key for check in checks] == ["gpu_counters", "cpu_counters", "ptrace"]
    assert [check.state for check in checks] == states
    has_mend = [check.mend is not None for check in checks]
    unmended = restricted is None
    assert has_mend == [state != "ok" and not unmended for state in states]


def test_counters_that_the_machine_lacks_are_reported_as_missing() -> None:
    Path("proc/sys/kernel").mkdir(parents=True)
    Path("proc/sys/kernel/perf_event_paranoid").write_text("2\n")

    def count_cycles() -> None:
        raise RuntimeError("performance event `cycles` cannot be counted: no such counter")

    (check,) = (
        check
        for check in _privileges.checks(Path("proc"), count_cycles=count_cycles)
        if check.key == "cpu_counters"
    )
    assert check.state == "missing"
    assert check.text.endswith("cannot be counted: no such counter")


def test_the_page_for_people_has_sections_marks_mends_and_a_conclusion() -> None:
    done = doctor(**double("fail cuptiSubscribe 39\n"))
    assert (done.exit_code, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    sections = [line for line in lines if line and not line.startswith(" ")]
    assert sections[:-1] == ["Python", "NVIDIA", "AMD", "Environment", "Privileges"]
    assert sections[-1] == lines[-1]
    assert lines[-1].startswith('Only the host side, and with hook="triton" launches of Triton')
    (broken,) = [at for at, line in enumerate(lines) if line.startswith("  broken  ")]
    assert "returned 39 (CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)" in lines[broken]
    assert lines[broken + 1].startswith("           -> end the other tool's session (")
    assert "\x1b" not in done.stdout


def test_control_characters_in_variables_are_escaped() -> None:
    done = doctor(MAREY_CHECKPOINT_SECS="3\n\x1b[31m\udcff\u00e9", PYTHONIOENCODING="ascii")
    assert done.stderr == ""
    assert "  ok       MAREY_CHECKPOINT_SECS=3\\n\\x1b[31m\\udcff\u00e9\n" in done.stdout


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_closed_pipe_is_no_error(options: list[str]) -> None:
    ours, its = os.pipe()
    os.close(ours)
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(
        command(*options), stdout=its, stderr=subprocess.PIPE, text=True, env=buffered
    )
    os.close(its)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("env", "is_colourful"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_terminals_get_colours_unless_no_color_is_set(
    env: dict[str, str], is_colourful: bool
) -> None:
    ours, its = pty.openpty()
    program = "import sys; from marey._doctor import _page; print(_page.is_colourful(sys.stdout))"
    environment = {**os.environ, "TERM": "xterm", **env}
    if "NO_COLOR" not in env:
        environment.pop("NO_COLOR", None)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        subprocess.run([sys.executable, "-c", program], stdout=its, env=environment, check=True)
        os.close(its)
        assert terminal.read(64).decode().strip() == str(is_colourful)


def test_the_doctor_loads_no_library_in_its_own_process() -> None:
    program = """
        import sys
        from marey import _doctor
        _doctor.examine()
        from marey import _native
        heavy = [name for name in sys.modules if name in ("marey._engine", "torch", "triton")]
        maps = open("/proc/self/maps").read()
        print(heavy, "libcupti" in maps, "libcuda" in maps)
        print(_native.sessions(), _native.gpu_level()[1])
    """
    assert run_well(program, **double()) == "[] False False\n[] no session records devices\n"


def test_help_is_printed_and_an_unknown_option_refused() -> None:
    done = doctor("--help")
    assert done.exit_code == 0
    assert "marey doctor --json" in done.stdout
    assert "--json  Print JSON with stable keys" in done.stdout
    assert doctor("--jsno").exit_code == 2
