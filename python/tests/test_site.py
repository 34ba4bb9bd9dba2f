"""The site is built by its command: the tutorials are executed with a Jupyter kernel and kept as notebooks that anybody can
open, the API reference is made from what is installed, and no link leads nowhere."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(os.environ.get("TACIT_TREE", Path(__file__).resolve().parents[2]))
PAGES = sorted(p for p in (TREE / "docs/tutorials").glob("*.md") if p.name != "README.md")


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("build", TREE / "python/site/build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(site, tmp_path_factory):
    """(exit code, folder), after everything was built once."""
    for needed in ("nbclient", "nbformat", "ipykernel", "markdown", "pdoc", "sklearn"):
        pytest.importorskip(needed)
    out = tmp_path_factory.mktemp("site")
    return site.build(out), out


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_tutorials_are_executed_notebooks(page, built):
    import nbformat

    book = nbformat.read(built[1] / "tutorials" / f"{page.stem}.ipynb", as_version=4)
    nbformat.validate(book)
    assert book.metadata["kernelspec"]["name"] == "python3"
    code = [c for c in book.cells if c.cell_type == "code"]
    assert len(code) == page.read_text(encoding="utf-8").count("```python")
    assert all(c.execution_count for c in code)
    assert [o for c in code for o in c.outputs if o.output_type == "error"] == []
    if page.stem == "first_model":  # a chart shows inline, and progress did
        kinds = [kind for c in code for o in c.outputs for kind in o.get("data", {})]
        assert "image/svg+xml" in kinds and "text/html" in kinds
        (trains,) = [c for c in code if "tacit.train(" in c.source]
        bars = [o.data["text/html"] for o in trains.outputs if "<code>" in o.get("data", {}).get("text/html", "")]
        assert len(bars) == 1, bars  # one line that changed, and not one a round
        assert "█" * 30 + " round 60 of 60, ε 2, accuracy " in bars[0]


def test_the_site_is_whole(built):
    code, out = built
    assert code == 0
    for page in ("index.html", "python.html", "api/tacit.html", "api/tacit/sklearn.html", "api/tacit/flower.html"):
        assert (out / page).exists(), page
    text = (out / "tutorials/first_model.html").read_text(encoding="utf-8")
    assert 'href="first_model.ipynb"' in text and "<svg" in text
    api = (out / "api/tacit.html").read_text(encoding="utf-8")
    for name in ("train", "Session", "Accountant", "Certificate", "Ledger"):
        assert f'id="{name}"' in api, name


def digest(tree):
    return subprocess.run([str(tree / "scripts/package-digest")], capture_output=True, text=True, check=True).stdout.strip()


def test_the_site_is_of_the_package_in_this_tree():
    """scripts/build-site installs it anew where this differs."""
    kept = Path(sys.prefix) / "tacit-sources"
    if not kept.exists():
        pytest.skip("not installed by scripts/test-python or scripts/build-site")
    assert kept.read_text().strip() == digest(TREE)


def test_a_changed_source_is_another_package(tmp_path):
    for part in ("CMakeLists.txt", "pyproject.toml", "cmake", "src", "apps/cli/cpu", "apps/cli/cpu_check.cc", "python", "scripts/package-digest"):
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (TREE / part).is_dir() else shutil.copy)(TREE / part, tmp_path / part)
    before = digest(tmp_path)
    assert before == digest(TREE)
    (tmp_path / "docs").mkdir()
    (tmp_path / "python/tests/new.py").write_text("")
    assert digest(tmp_path) == before
    for part in ("src/core/result.h", "python/tacit/_run.py", "python/src/runs.cc"):
        with open(tmp_path / part, "a") as file:
            file.write("\n")
        after = digest(tmp_path)
        assert after != before
        before = after


def test_there_are_five_tutorials_and_all_are_listed():
    listed = (TREE / "docs/tutorials/README.md").read_text(encoding="utf-8")
    assert len(PAGES) == 5 and all(f"({p.name})" in listed for p in PAGES)


def test_notebooks_are_the_same_for_the_same_page_and_stand_alone(site):
    pytest.importorskip("nbformat")
    text = "# A\n\nSee [b](b.md), [all](../x.md) and [there](https://x.y/).\n\n```python\n1 + 1\n```\n"
    book = site.notebook(text)
    assert book == site.notebook(text)
    assert [c.cell_type for c in book.cells] == ["markdown", "code"]
    assert book.cells[0].source.endswith("See [b](b.ipynb), `all` and [there](https://x.y/).")


def test_a_tutorial_that_fails_is_named(site):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    assert site.execute(site.notebook("```python\n1 / 0\n```\n")) == ["ZeroDivisionError: division by zero"]


def test_links_that_lead_nowhere_are_found(site, tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="here">A</h1><a href="b.html#there">b</a> <a href="#here">h</a><img src="i.svg">')
    (tmp_path / "b.html").write_text('<a href="a.html#here">a</a> <a href="c.html">c</a> <a href="https://x.y/">x</a>')
    assert sorted(site.check_links(tmp_path)) == [
        "a.html: b.html#there: no such place",
        "a.html: i.svg: no such page",
        "b.html: c.html: no such page",
    ]
