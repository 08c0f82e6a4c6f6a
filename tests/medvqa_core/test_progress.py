"""Progress of long loops: items pass through unchanged; lines come at their interval and nowhere but standard error."""

import io

import pytest

from medvqa_core import progress
from medvqa_core.progress import track


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when a test says so."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def run(items, clock, seconds: float, **options) -> list:
    """Track `items`, each taking `seconds`."""
    done = []
    for item in track(items, "Reading", **options):
        done.append(item)
        clock[0] += seconds
    return done


def test_short_work_says_nothing(clock, capsys):
    assert run("abc", clock, 1.0) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def test_long_work_says_how_far_it_is_every_ten_seconds(clock, capsys):
    assert run(range(5), clock, 5.0) == [0, 1, 2, 3, 4]
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["Reading: 2/5, 5.0 s each, 15 s left", "Reading: 4/5, 5.0 s each, 5 s left"]


def test_an_unknown_total_is_not_made_up(clock, capsys):
    run(iter(range(3)), clock, 10.0)
    assert capsys.readouterr().err.splitlines() == [f"Reading: {n}/?, 10.0 s each" for n in (1, 2, 3)]


def test_a_total_that_is_given_wins(clock, capsys):
    run(iter(range(3)), clock, 10.0, total=30)
    assert "Reading: 3/30, 10.0 s each, 270 s left" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.001, "1000/s"), (0.1, "10/s"), (0.4, "2.5/s"), (1.0, "1.0/s"), (1.25, "1.2 s each")]
)
def test_the_rate_is_readable_for_fast_and_slow_work(clock, capsys, seconds, shown):
    run(range(round(12 / seconds)), clock, seconds)
    assert f", {shown}, " in capsys.readouterr().err


def test_a_terminal_gets_a_bar_and_the_same_items(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert list(track([1, 2, 3], "Reading")) == [1, 2, 3]
    assert "Reading" in terminal.getvalue() and "3/3" in terminal.getvalue()


@pytest.mark.parametrize("rank", ["1", "7"])
@pytest.mark.parametrize("terminal", [True, False])
def test_of_several_processes_only_the_first_speaks(monkeypatch, clock, capsys, rank, terminal):
    monkeypatch.setenv("RANK", "0")
    run(range(3), clock, 10.0)
    assert len(capsys.readouterr().err.splitlines()) == 3
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    assert run(iter("abc"), clock, 10.0) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")
