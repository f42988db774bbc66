"""The first words of doc comments say a value or an effect, and the glossary lists words in use."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

from paths import ROOT

UNCLEAR = {"What", "Has", "That", "It", "Is", "How"}
"""A comment that begins so describes its item by a clause, in place of naming it."""

RUST_COMMENT = re.compile(r"^(?!\s*//[/!]).*\n\s*//[/!] (\S+)", re.MULTILINE)
"""The first word of a block of doc comments."""


def test_no_doc_comment_of_rust_begins_with_a_clause() -> None:
    sources = tracked("*.rs")
    words = [
        (str(source.relative_to(ROOT)), word)
        for source in sources
        for word in RUST_COMMENT.findall("\n" + source.read_text())
    ]
    assert len(words) > 5_000
    assert [(source, word) for source, word in words if word in UNCLEAR] == []


def test_no_docstring_begins_with_a_clause() -> None:
    docstrings = [
        (f"{source.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", docstring.split()[0])
        for source in tracked("*.py", "*.pyi")
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if (docstring := ast.get_docstring(node))
    ]
    assert len(docstrings) > 1_500
    assert [(place, word) for place, word in docstrings if word in UNCLEAR] == []


def test_the_words_of_the_glossary_are_in_order_and_in_use() -> None:
    page = ROOT / "docs/glossary.md"
    words = re.findall(r"^\| ([a-z][a-z ]+) \|", page.read_text(), re.MULTILINE)[1:]
    assert len(words) >= 40
    assert words == sorted(words)
    sources = [source for source in tracked("*.rs", "*.py", "*.md") if source != page]
    text = " ".join(source.read_text() for source in sources).lower()
    text = re.sub(r"\s*\n\s*(//[/!]?|#)?\s*|_", " ", text)
    assert [word for word in words if f" {word}" not in text] == []


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / path for path in listed.stdout.split("\0") if path]
