"""Each public name of the C++ headers has a comment that Doxygen reads."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cpp_programs import HEADERS

SETTINGS = f"""
INPUT = {HEADERS / "marey.hpp"} {HEADERS / "marey"}
RECURSIVE = YES
DISTRIBUTE_GROUP_DOC = YES
EXCLUDE_SYMBOLS = *detail*
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = __cplusplus=201703L __cpp_lib_memory_resource=201603L \
    MAREY_FN_= MAREY_PROTON_HIDDEN= MAREY_PROTON_VERSION=v MAREY_HPP_VERSION_=v \
    MAREY_TRY_= "MAREY_CATCH_ALL_=if (false)" __attribute__(x)=
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
QUIET = YES
"""


@pytest.mark.skipif(shutil.which("doxygen") is None, reason="there is no Doxygen here")
def test_each_public_name_is_documented(tmp_path: Path) -> None:
    (tmp_path / "Doxyfile").write_text(SETTINGS)
    done = subprocess.run(["doxygen"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
    pages = "".join(path.read_text() for path in (tmp_path / "xml").glob("*.xml"))
    assert "enableProfiler" in pages
    assert "RECORD_FUNCTION" in pages
