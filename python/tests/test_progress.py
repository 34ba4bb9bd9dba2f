import io
import math

import tacit
from tacit import _json, _progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_one_line_that_changes_and_is_gone_at_the_end(monkeypatch, rows, others):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    tacit.train(data=rows, test=others, epsilon=2.0, rounds=20, keep=False)
    text = terminal.getvalue()
    assert "round 20 of 20, ε 2" in text and "accuracy" in text
    assert "\n" not in text and text.endswith("\r\x1b[K")


def test_no_terminal_no_text(monkeypatch, rows):
    file = io.StringIO()
    monkeypatch.setattr("sys.stderr", file)
    tacit.train(data=rows, epsilon=2.0, rounds=5, keep=False)
    tacit.train(data=rows, epsilon=2.0, rounds=5, keep=False, progress=False)
    assert file.getvalue() == ""


def test_an_epsilon_is_never_shown_below_what_it_is():
    for epsilon in (1.0, 1.00001, 0.123456, 1999.51, 3.0000000001, 1e-7, 9.99999, 123456.7):
        shown = float(_json.up(epsilon))
        assert epsilon <= shown <= epsilon * 1.002
    assert _json.up(0) == "0" and _json.up(2.0, 6) == "2" and _json.up(math.inf) == "inf"
    assert _json.up(2.0000000001, 6) == "2.00001"


def test_what_is_not_private_is_called_so():
    terminal = Terminal()
    shown = _progress.Progress(terminal)
    shown(1, 2, math.inf, 0.0, "")
    assert "not private" in terminal.getvalue()
