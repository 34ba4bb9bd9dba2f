"""The tutorials, executed as notebooks where a kernel is installed, else block by block."""

import os
from pathlib import Path

import pytest

TREE = Path(os.environ.get("TACIT_TREE", Path(__file__).resolve().parents[2]))
PAGES = sorted(p for p in (TREE / "docs/tutorials").glob("*.md") if p.name != "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_tutorial(page):
    nbclient = pytest.importorskip("nbclient")
    import importlib.util

    spec = importlib.util.spec_from_file_location("site", TREE / "python/build_site.py")
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    book = site.notebook(page.read_text(encoding="utf-8"))
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": os.getcwd()}}).execute()
    code = [c for c in book.cells if c.cell_type == "code"]
    assert code and all(not any(o.output_type == "error" for o in c.outputs) for c in code)
    if page.stem == "first_model":  # a chart shows inline
        assert any("image/svg+xml" in o.get("data", {}) for c in code for o in c.outputs)
