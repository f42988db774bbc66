"""ARCHITECTURE.md leads to files that exist, and each addition has what its table asks for."""

from __future__ import annotations

import re

from paths import ROOT

FOLDERS = (".ci", "bench", "crates", "docs", "fuzz", "include", "python", "tests", "xtask")
A_FILE = re.compile(r"\.(rs|py|sql|md|h|hpp|toml|json)$")


def test_the_starting_points_of_changes_exist() -> None:
    found = [path for folder in FOLDERS for path in (ROOT / folder, *(ROOT / folder).rglob("*"))]
    places = [path.relative_to(ROOT) for path in found]
    endings = {ending for place in places for ending in suffixes(place.parts)}

    page = (ROOT / "ARCHITECTURE.md").read_text()
    table = page.partition("## To change X, start at Y")[2].partition("\n## ")[0]
    words = re.findall(r"`([^`\s]+)`", table)
    named = [word for word in words if "/" in word or A_FILE.search(word)]
    named = [word.rstrip("/") for word in named if "NAME" not in word and word != "time/ms"]
    assert len(named) > 40
    assert [word for word in named if word not in endings] == []


def test_each_rule_is_on_the_page_of_findings_and_has_tests() -> None:
    rules = [path.stem for path in (ROOT / "crates/marey-analysis/rules").glob("*.sql")]
    assert len(rules) > 10
    page = (ROOT / "docs/findings.md").read_text()
    assert [rule for rule in rules if f"| `{rule}` |" not in page] == []
    tests = ROOT / "tests/analysis/rules"
    assert [rule for rule in rules if not (tests / f"test_{rule}.py").exists()] == []


def test_each_view_of_the_analyses_has_its_formula_on_the_page() -> None:
    views = [path.stem for path in (ROOT / "tests/golden").glob("*.golden")]
    assert len(views) > 20
    page = (ROOT / "docs/analysis.md").read_text()
    assert [view for view in views if f"`{view}`" not in page] == []


def test_each_fuzz_target_is_built_and_has_seeds() -> None:
    fuzz = ROOT / "fuzz"
    targets = [path.stem for path in (fuzz / "fuzz_targets").glob("*.rs")]
    assert len(targets) > 5
    manifest = (fuzz / "Cargo.toml").read_text()
    assert [target for target in targets if f'name = "{target}"' not in manifest] == []
    assert [target for target in targets if not (fuzz / "corpus" / target).is_dir()] == []


def test_each_command_is_in_the_list_of_crates_and_on_a_page() -> None:
    source = (ROOT / "crates/marey/src/cli.rs").read_text()
    variants = source.partition("enum Command {")[2].partition("\n}")[0]
    visible = re.sub(r"#\[command\(hide = true\)\]\n +\w+", "", variants)
    verbs = [verb.lower() for verb in re.findall(r"^    ([A-Z][a-z]+)\b", visible, re.MULTILINE)]
    assert len(verbs) > 20
    lines = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    [crate] = [line for line in lines if line.startswith("| `marey` |")]
    assert [verb for verb in verbs if f"`{verb}`" not in crate] == []
    paths = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    pages = "".join(path.read_text() for path in paths)
    assert [verb for verb in verbs if not re.search(rf"\bmarey {verb}\b", pages)] == []


def suffixes(parts: tuple[str, ...]) -> list[str]:
    """Returns `a/b/c`, `b/c` and `c` for the parts of `a/b/c`."""
    return ["/".join(parts[begin:]) for begin in range(len(parts))]
