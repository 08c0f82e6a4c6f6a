"""The page as a Space: put together from the repository, run by itself, and open data only."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from types import SimpleNamespace

import pytest
from paths import REPOSITORY

pytest.importorskip("gradio")

from medvqa_core.errors import GovernanceError
from medvqa_core.governance import Governance
from medvqa_hub.explore.public import serve_publicly, serve_samples
from medvqa_hub.explore.server import make_server


@pytest.mark.parametrize("governance", [g for g in Governance if g is not Governance.OPEN])
def test_nothing_but_open_data_is_served_to_everyone(governance):
    with pytest.raises(GovernanceError, match="open"):
        serve_publicly(SimpleNamespace(governance=governance))


def test_a_port_that_cannot_be_had_is_said_in_a_line(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for asked, said in ((str(port), rf"port {port} .* PORT=NUMBER"), ("80 80", "PORT='80 80'")):
            monkeypatch.setenv("PORT", asked)
            with pytest.raises(SystemExit, match=said):
                serve_samples()


def test_the_space_s_own_name_is_answered_and_no_other():
    from fastapi.testclient import TestClient

    from medvqa_hub.explore.opening import open_folders

    client = TestClient(make_server(open_folders([]), hosts=("someone-explorer.hf.space",)))
    for host, status in (("someone-explorer.hf.space", 200), ("another.hf.space", 403)):
        assert client.get("/api/about", headers={"host": host}).status_code == status
    policy = client.get("/", headers={"host": "localhost"}).headers["content-security-policy"]
    assert "frame-ancestors https://huggingface.co" in policy


@pytest.mark.slow
def test_the_space_runs_from_its_own_folder(tmp_path):
    """Started where it lies, with nothing of the repository on the path."""
    space = tmp_path / "space"
    subprocess.run([sys.executable, REPOSITORY / "spaces" / "build.py", space], check=True, capture_output=True)
    probe = f"""
import runpy, sys
sys.path[:] = [{str(space)!r}, *(path for path in sys.path if path not in ("", {str(REPOSITORY)!r}))]
import medvqa_hub
assert medvqa_hub.__file__.startswith({str(space)!r}), medvqa_hub.__file__
runpy.run_path("app.py", run_name="__main__")
"""
    with open(tmp_path / "log", "w+") as log:
        started = subprocess.Popen(
            [sys.executable, "-c", probe], cwd=space, stdout=log, stderr=log, env={**os.environ, "PORT": "7958"}
        )
        try:
            about = _ask(started, log, "http://127.0.0.1:7958/api/about")
        finally:
            started.terminate()
            started.wait(30)
    assert about["governance"] == "open" and about["studies"]["studies"] == 39 and about["reports"]["reports"] == 14
    assert about["reports"]["saves"] is None and "review" not in about


def _ask(started, log, address):
    for _ in range(240):
        if started.poll() is not None:
            log.seek(0)
            raise AssertionError(log.read())
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return json.load(answer)
        except OSError:
            time.sleep(0.25)
    raise AssertionError("the Space did not start")
