"""The samples of docs/python.md, one after the other."""

import os
import re
from pathlib import Path

import pytest

PAGE = Path(os.environ.get("TACIT_TREE", Path(__file__).resolve().parents[2])) / "docs" / "python.md"


def test_samples_run():
    pytest.importorskip("sklearn")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert len(blocks) >= 8
    here: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), here)  # noqa: S102
