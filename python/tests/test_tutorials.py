"""The tutorials are executed as the site's notebooks are, and the site's links are checked."""

import importlib.util
import os
from pathlib import Path

import pytest

TREE = Path(os.environ.get("TACIT_TREE", Path(__file__).resolve().parents[2]))
PAGES = sorted(p for p in (TREE / "docs/tutorials").glob("*.md") if p.name != "README.md")


@pytest.fixture
def site():
    spec = importlib.util.spec_from_file_location("build", TREE / "python/site/build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_tutorial(page, site):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = site.notebook(page.read_text(encoding="utf-8"))
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": os.getcwd()}}).execute()
    code = [c for c in book.cells if c.cell_type == "code"]
    assert code and all(not any(o.output_type == "error" for o in c.outputs) for c in code)
    if page.stem == "first_model":  # a chart shows inline, and progress did
        kinds = [kind for c in code for o in c.outputs for kind in o.get("data", {})]
        assert "image/svg+xml" in kinds and "text/html" in kinds


def test_there_are_tutorials_and_all_are_listed():
    listed = (TREE / "docs/tutorials/README.md").read_text(encoding="utf-8")
    assert len(PAGES) == 5 and all(f"({p.name})" in listed for p in PAGES)


def test_links_that_lead_nowhere_are_found(site, tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="here">A</h1><a href="b.html#there">b</a> <a href="#here">h</a>')
    (tmp_path / "b.html").write_text('<a href="a.html#here">a</a> <a href="c.html">c</a> <a href="https://x.y/">x</a>')
    assert sorted(site.check_links(tmp_path)) == [
        "a.html: b.html#there: no such place",
        "b.html: c.html: no such page",
    ]
