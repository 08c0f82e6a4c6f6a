"""Answering on Ray: the bytes of one machine, whoever is killed, and nobody else is let in."""

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from chat_server import ChatServerDouble, completion, is_probe, last_line
from scripted_engine import ScriptedEngine, build

from medvqa_core.attestation import Attestation
from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.governance import Governance
from medvqa_core.llm.options import EngineOptions
from medvqa_core.runs.ray_workers import RayEngine
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.chosen_engine import ChosenEngine

HELPERS = Path(__file__).parents[2] / "helpers"
STUDIES = 24
KILLS = int(os.environ.get("KILLS", "2"))  # each costs ten seconds
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra ray")


def start(folder, trouble="none", **options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(HELPERS), *sys.path])
    command = [sys.executable, str(HELPERS / "ray_run.py"), str(folder), trouble]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, **options)


def run(folder, trouble="none"):
    process = start(folder, trouble)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return said


@pytest.fixture
def workspace(tmp_path):
    return build(tmp_path / "w", governance=Governance.CREDENTIALED, studies=STUDIES)


@pytest.fixture
def whole(tmp_path, workspace):
    """One machine's bytes."""
    shutil.copytree(workspace.root, tmp_path / "whole")
    answer_questions(type(workspace)(tmp_path / "whole"), ScriptedEngine())
    return (tmp_path / "whole" / "answers.jsonl").read_bytes()


@needs_ray
@pytest.mark.slow
def test_two_workers_write_one_machine_s_bytes_though_one_is_killed(workspace, whole):
    assert f"'asked': {6 * STUDIES}" in run(workspace.root, "kill")
    assert workspace.answers.read_bytes() == whole
    assert [len((workspace.root / f"pids-{number}").read_text().split()) for number in (0, 1)] == [2, 1]


@needs_ray
@pytest.mark.slow
def test_a_killed_driver_goes_on(workspace, whole):
    moments, killed = random.Random(0), 0
    for _ in range(KILLS):
        process = start(workspace.root)
        process.stdout.readline()
        try:
            process.wait(moments.uniform(0.0, 0.5))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        assert whole.startswith(workspace.answers.read_bytes() if workspace.answers.exists() else b"")
    run(workspace.root)
    assert killed
    assert workspace.answers.read_bytes() == whole


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "said"),
    [("broken", "no model here"), ("differ", "the workers' engines differ"), ("input", f"'failed': {6 * STUDIES}")],
)
def test_what_goes_wrong_in_a_worker_is_said_as_in_one_process(workspace, trouble, said):
    assert said in run(workspace.root, trouble)


@needs_ray
@pytest.mark.slow
def test_a_stranger_who_reaches_the_port_is_not_heard(workspace):
    process = start(workspace.root, "stranger", stdin=subprocess.PIPE)
    assert process.stdout.readline() == "go\n"
    address = process.stdout.readline().strip()
    code = f"from ray._raylet import GcsClient; GcsClient(address={address!r}).get_all_node_info()"  # as ray.init asks
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    strangers = [
        subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env=plain | key)
        for key in ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}, {})
    ]
    for stranger in strangers:
        assert "InvalidAuthToken" in stranger.communicate(timeout=300)[1] and stranger.returncode
    process.communicate("\n", timeout=300)
    assert process.returncode == 0


@needs_ray
@pytest.mark.slow
def test_as_typed_each_worker_has_a_server_and_the_answers_are_one_machine_s(tmp_path):
    def reply(body):
        seen = "nothing" if is_probe(body) else last_line(body, "radiograph: ")
        return completion(json.dumps({"answer": f"Seen: {seen}"}))

    files = []
    with ChatServerDouble(reply) as first, ChatServerDouble(reply) as second:
        for name, options in (("one", []), ("ray", ["--engine", f"server:{second.endpoint}", "--ray", "local"])):
            workspace = build(tmp_path / name, governance=Governance.CREDENTIALED, studies=STUDIES)
            command = ["cxr", "answer", "--out", str(workspace.root), "--engine", f"server:{first.endpoint}", *options]
            code = f"import sys; from medvqa_hub.cli import run; sys.exit(run({command + ['--i-run-this-server']!r}))"
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
            files.append(workspace.answers.read_bytes())
        asked = [sum(not is_probe(body) for body in double.requests) for double in (first, second)]
    assert files[0] == files[1] and asked == [6 * STUDIES * 3 // 2, 6 * STUDIES // 2]


def test_credentialed_texts_go_to_no_other_cluster(monkeypatch):
    named = Attestation("A", (("https", "cluster.example", None),), "own", "0")
    clear = Attestation("A", (("http", "cluster.example", None),), "own", "0")
    RayEngine(lambda number: ScriptedEngine(), "ray://cluster.example:1", 2, Governance.CREDENTIALED, 0, clear)
    with pytest.raises(GovernanceError, match="RAY_USE_TLS"):
        RayEngine(lambda number: ScriptedEngine(), "ray://cluster.example:1", 2, Governance.CREDENTIALED, 0, named)
    monkeypatch.setenv("RAY_USE_TLS", "1")
    RayEngine(lambda number: ScriptedEngine(), "ray://cluster.example:1", 2, Governance.CREDENTIALED, 0, named)
    with pytest.raises(GovernanceError, match="'auto'"):
        RayEngine(lambda number: ScriptedEngine(), "auto", 2, Governance.CREDENTIALED, 0, named)
    with pytest.raises(GovernanceError, match="'ray://10.0.0.1:10001'"):
        RayEngine(lambda number: ScriptedEngine(), "ray://10.0.0.1:10001", 2, Governance.CREDENTIALED)


def test_an_attested_name_behind_another_scheme_is_no_cluster_of_that_name():
    """`anyscale://cluster.example` has Ray import `anyscale`, whose service may call a cluster so."""
    clear = Attestation("A", (("http", "cluster.example", None),), "own", "0")
    for address in ("anyscale://cluster.example:1", "://cluster.example", "ray+x://cluster.example:1"):
        with pytest.raises(ConfigError, match="local, auto"):
            RayEngine(lambda number: ScriptedEngine(), address, 2, Governance.CREDENTIALED, 0, clear)


@needs_ray
def test_what_ray_itself_raises_is_said_in_a_line(monkeypatch):
    monkeypatch.setitem(os.environ, "RAY_AUTH_MODE", "token")
    monkeypatch.setitem(os.environ, "RAY_AUTH_TOKEN", "0")
    from ray.exceptions import ActorDiedError, RayTaskError

    engine = RayEngine(lambda number: ScriptedEngine(), "local", 1, Governance.OPEN)
    foreign = ValueError(threading.Lock())  # cannot be sent from a worker
    for error, said in (
        (
            RayTaskError("answer", "a long\ntraceback", foreign),
            "RayError: Exception builtins.ValueError isn't serializ",
        ),
        (ActorDiedError(), "ActorDiedError: The actor died unexpectedly before finishing this task."),
    ):
        found = engine._raised(error)
        assert isinstance(found, ConfigError) and str(found).startswith(f"--ray local: a worker was lost ({said}")
        assert str(found).endswith("Run the same command again to resume") and "\n" not in str(found)
    assert engine._raised(RayTaskError("answer", "", own := InputError("no such study"))) is own


def test_an_engine_that_no_worker_would_ask_is_refused():
    chosen = ChosenEngine.choose(EngineOptions(("server:http://127.0.0.1:1/v1", "server:http://127.0.0.1:2/v1")))
    with (
        pytest.raises(ConfigError, match="--ray-workers 1 .* 2 engines"),
        chosen.on_ray(Governance.OPEN, "local", 1, 0.0),
    ):
        pass


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0")
    with pytest.raises(ConfigError, match=r"pip install -e .*\[ray\]"):
        RayEngine(lambda number: ScriptedEngine(), "local", 2, Governance.OPEN).__enter__()
