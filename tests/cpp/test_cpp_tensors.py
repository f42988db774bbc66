"""Shapes, strides and values of tensors of Eigen and ATen."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from cpp_programs import Report, compile_program, run_case
from trace_files import run_rows

SOURCE = Path(__file__).parent / "programs" / "tensors.cpp"
EIGEN = Path("/usr/include/eigen3")


def report(path: Path, **changes: str) -> Report:
    return Report(run_case(path, **changes)[-1])


@pytest.mark.skipif(not EIGEN.exists(), reason="there is no Eigen here")
def test_matrices_of_eigen_are_inputs(tmp_path: Path) -> None:
    path = compile_program(tmp_path / "eigen", SOURCE, options=(f"-isystem{EIGEN}",))
    result = report(path)
    tensors = result["tensors"]
    assert tensors["dtypes"] == ["float", "double", "int", "float"]
    assert tensors["shapes"] == [[2, 3], [2, 2], [2, 1], [3, 2]]
    assert tensors["strides"] == [[1, 2], [2, 1], [1, 2], [1, 3]]
    assert tensors["values"] == [
        "tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])",
        "tensor([[1.0, 2.0], [3.0, 4.0]])",
        "tensor([[1], [1]])",
        "tensor([[1.0, 5.0], [4.0, 3.0], [2.0, 6.0]])",
    ]
    others = result["other numbers"]
    assert others["dtypes"] == ["c10::complex<float>", ""]
    assert others["values"] == ["tensor([[(1.0+2.0j)], [(0.5-1.0j)]])", "tensor([[1.5, -2.0]])"]


@pytest.mark.parametrize("order", ["aten first", "marey first"])
def test_tensors_of_aten_are_inputs_and_its_operators_are_in_the_run(
    tmp_path: Path, order: str
) -> None:
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("there is no PyTorch here")
    torch = Path(spec.origin).parent
    libraries = (f"-L{torch / 'lib'}", "-Wl,--no-as-needed", "-ltorch_cpu", "-lc10")
    flags = ("-DATEN", "-DMAREY_FIRST") if order == "marey first" else ("-DATEN",)
    options = (*flags, f"-isystem{torch / 'include'}", *libraries)
    path = compile_program(tmp_path / "aten", SOURCE, standard="c++20", options=options)
    folders = [str(torch / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    result = report(path, LD_LIBRARY_PATH=os.pathsep.join(folders))
    tensors = result["tensors"]
    assert tensors["dtypes"] == ["float", "float", "long int", ""]
    assert tensors["shapes"] == [[2, 3], [3, 2], [3], []]
    assert tensors["strides"] == [[3, 1], [1, 3], [1], []]
    assert tensors["values"] == [
        "tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])",
        "tensor([[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]])",
        "tensor([0, 1, 2])",
        "",
    ]
    assert result["list"]["shapes"] == [[2, 3], [3]]
    assert "of ATen" not in result.names(), "ATen's macro is not ours"
    paths = [path for (path,) in run_rows("run.marey", "SELECT path FROM spans")]
    assert "around/of ATen/aten::add.Tensor" in paths
