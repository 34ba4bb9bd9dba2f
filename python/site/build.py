"""The documentation site: the API reference from the installed package, the tutorials as executed notebooks, to be read
and to be downloaded, and the pages of docs/, with every link between them checked.

    scripts/build-site [FOLDER]      default: build/site

Needs the packages of the extra ``docs`` and the installed package.
"""

from __future__ import annotations

import html
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parents[2]
MODULES = ("tacit", "tacit.sklearn", "tacit.session", "tacit.flower", "tacit.errors")
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
pre { overflow-x: auto; padding: .7rem; border-radius: .4rem; background: rgb(127 127 127 / 12%); }
pre.out { border-left: 3px solid rgb(127 127 127 / 50%); background: none; }
table { border-collapse: collapse; } td, th { padding: .2rem .6rem; border-bottom: 1px solid rgb(127 127 127 / 30%); text-align: left; }
nav { margin-bottom: 1.5rem; } img, svg { max-width: 100%; height: auto; }
"""


def notebook(text: str) -> Any:
    """A page with ```python blocks as a notebook, the same for the same text."""
    import nbformat

    book = nbformat.v4.new_notebook()
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for k, part in enumerate(re.split(r"^```python\n(.*?)^```\n?", text, flags=re.S | re.M)):
        if part.strip():
            make = nbformat.v4.new_code_cell if k % 2 else nbformat.v4.new_markdown_cell
            source = part.strip() if k % 2 else _portable(part.strip())
            book.cells.append(make(source, id=f"cell-{len(book.cells)}"))
    return book


def _portable(text: str) -> str:
    """Links to other tutorials lead to their notebooks; what is not beside them becomes text."""

    def one(m: "re.Match[str]") -> str:
        label, target = m[1], m[2]
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return m[0]
        if re.fullmatch(r"[a-z_]+\.md", target):
            return f"[{label}]({target[:-3]}.ipynb)"
        return f"`{label}`"

    return re.sub(r"\[([^\]]*)\]\(([^)\s]*)\)", one, text)


def execute(book: Any) -> "list[str]":
    """Runs a notebook with a Jupyter kernel, in an empty folder, and keeps what it shows; what went wrong."""
    import nbclient

    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(book, timeout=600, allow_errors=True, resources={"metadata": {"path": folder}})
        client.execute()
    return [
        f"{o.ename}: {o.evalue}"
        for cell in book.cells
        if cell.cell_type == "code"
        for o in cell.outputs
        if o.output_type == "error"
    ]


def _page(title: str, body: str, depth: int) -> str:
    up = "../" * depth
    nav = f'<nav><a href="{up}index.html">Tacit</a> · <a href="{up}python.html">Python</a> · '
    nav += f'<a href="{up}tutorials/README.html">Tutorials</a> · <a href="{up}api/tacit.html">API</a></nav>'
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    return f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head><body>{nav}{body}</body></html>\n'


def _slug(text: str) -> str:
    text = re.sub(r"<[^>]*>", "", text)
    return re.sub(r"[^\w\- ]", "", html.unescape(text).lower()).strip().replace(" ", "-")


def _markdown(text: str) -> str:
    import markdown

    made = markdown.markdown(text, extensions=["tables", "fenced_code"])
    return re.sub(r"<h([1-6])>(.*?)</h\1>", lambda m: f'<h{m[1]} id="{_slug(m[2])}">{m[2]}</h{m[1]}>', made, flags=re.S)


def _linked(body: str, file: Path) -> str:
    """Links to pages of the site become .html; links to the tree beyond docs/ become text."""

    def one(m: "re.Match[str]") -> str:
        target, _, anchor = m[1].partition("#")
        if re.match(r"[a-z]+:", m[1]) or not target:
            return m[0]
        found = (file.parent / target).resolve()
        if found.is_dir():
            found = found / "README.md"
        docs = TREE / "docs"
        if found.suffix == ".md" and docs in found.parents:
            relative = os.path.relpath(found.with_suffix(".html"), file.parent)
        elif docs in found.parents and (found.exists() or found.suffix == ".ipynb"):
            relative = os.path.relpath(found, file.parent)
        else:
            return 'data-source="' + html.escape(m[1]) + '"'
        return f'href="{relative}' + (f"#{anchor}" if anchor else "") + '"'

    return re.sub(r'href="([^"]*)"', one, body)


def _output(o: Any) -> str:
    if o.output_type == "stream":
        return f'<pre class="out">{html.escape(o.text)}</pre>' if o.name == "stdout" else ""
    data = o.get("data", {})
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:
            return f"<div>{data[kind]}</div>"
    return f'<pre class="out">{html.escape(data["text/plain"])}</pre>' if "text/plain" in data else ""


def tutorial(book: Any, name: str) -> str:
    """An executed notebook as a page, with what its blocks show."""
    parts = [f'<p><a href="{name}.ipynb" download>This page as a notebook</a></p>']
    for cell in book.cells:
        if cell.cell_type == "markdown":
            parts.append(_markdown(re.sub(r"\(([a-z_]+)\.ipynb\)", r"(\1.md)", cell.source)))
        else:
            parts.append(f"<pre><code>{html.escape(cell.source)}</code></pre>")
            parts += [_output(o) for o in cell.outputs]
    return "\n".join(parts)


def check_links(site: Path) -> "list[str]":
    """Relative links and pictures of the site that lead nowhere, anchors included."""
    bad, texts = [], {p.resolve(): p.read_text(encoding="utf-8") for p in sorted(site.rglob("*.html"))}
    for page, text in texts.items():
        for link in re.findall(r'<(?:a [^>]*href|img [^>]*src)="([^"]*)"', text):
            if re.match(r"[a-z]+:", link) or "${" in link:  # elsewhere; or a template of pdoc's search
                continue
            target, _, anchor = link.partition("#")
            if "api" in page.relative_to(site.resolve()).parts[:1]:
                anchor = ""  # pdoc also names what is inherited from private classes
            found = (page.parent / target).resolve() if target else page
            if not found.exists():
                bad.append(f"{page.relative_to(site.resolve())}: {link}: no such page")
            elif anchor and found in texts and f'id="{anchor}"' not in texts[found]:
                bad.append(f"{page.relative_to(site.resolve())}: {link}: no such place")
    return bad


def build(out: Path) -> int:
    import nbformat
    import pdoc

    out.mkdir(parents=True, exist_ok=True)
    docs = TREE / "docs"
    bad = []
    for file in sorted(docs.rglob("*")):
        to = out / file.relative_to(docs)
        if file.is_dir():
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix != ".md":
            to.write_bytes(file.read_bytes())
            continue
        text = file.read_text(encoding="utf-8")
        if file.parent.name == "tutorials" and file.name != "README.md":
            book = notebook(text)
            wrong = execute(book)
            bad += [f"{file.relative_to(TREE)}: {line}" for line in wrong]
            nbformat.write(book, to.with_suffix(".ipynb"))
            body = tutorial(book, file.stem)
            print(f"executed {file.relative_to(TREE)}{', which failed' if wrong else ''}", flush=True)
        else:
            body = _markdown(text)
        title = text.lstrip("# ").split("\n")[0]
        depth = len(file.relative_to(docs).parts) - 1
        page = _page(title, _linked(body, file), depth)
        to.with_suffix(".html").write_text(page, encoding="utf-8")
    (out / "index.html").write_text((out / "README.html").read_text(encoding="utf-8"), encoding="utf-8")
    pdoc.render.configure(docformat="restructuredtext")
    pdoc.pdoc(*MODULES, output_directory=out / "api")
    links = check_links(out)
    for line in bad + links:
        print(line)
    pages, books = (sum(1 for _ in out.rglob(kind)) for kind in ("*.html", "*.ipynb"))
    print(f"{pages} pages and {books} notebooks in {out}, {len(links)} links that lead nowhere")
    return 1 if bad or links else 0


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]) if len(sys.argv) > 1 else TREE / "build/site"))
