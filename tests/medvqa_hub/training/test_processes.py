"""Several processes and kills from outside: two train as one does, and a killed run ends like one that never was."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from builds import build_release
from paths import REPOSITORY
from training_runs import FAST, weights, without_speed

from medvqa_core.errors import ConfigError
from medvqa_hub import launching
from medvqa_hub.launching import CONFIGS, check_launcher, make_command
from medvqa_hub.training.training_log import read_log

KILLS = 4
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def command(build, out, *more: str, recipe: str = "tiny-swin-ved-stage2", model: str = "swin-ved") -> list[str]:
    arguments = ["train", model, "--recipe", recipe, "--data", str(build.workspace.root)]
    arguments += ["--image-root", str(build.tree), "--out", str(out)]
    for key, value in FAST.items():
        arguments += ["--set", f"{key}={'null' if value is None else value}"]
    return [sys.executable, "-m", "medvqa_hub.cli", *arguments, *more]


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("build"), studies=16)


@pytest.fixture(scope="module")
def one(build, tmp_path_factory):
    """A run of one process that nothing stopped, and its seconds."""
    out = tmp_path_factory.mktemp("one") / "out"
    started = time.monotonic()
    subprocess.run(command(build, out), check=True, capture_output=True)
    return out, time.monotonic() - started


@pytest.mark.slow
def test_two_processes_give_the_metrics_of_one(build, one, tmp_path):
    """Dropout included: each batch draws its own, whoever works on it."""
    launch = ["--launch", "--cpu --num_processes 2 --num_cpu_threads_per_process 1"]
    done = subprocess.run(command(build, tmp_path / "two", *launch), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("8 steps of 4 studies") == 1  # only the first process speaks
    ours, theirs = without_speed(read_log(tmp_path / "two")), without_speed(read_log(one[0]))
    assert len(ours) == len(theirs)
    for mine, their in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(their, abs=2e-5)
    found, expected = weights(tmp_path / "two" / "best"), weights(one[0] / "best")
    assert max((found[name] - expected[name]).abs().max().item() for name in expected) < 1e-3


def sharded(build, out, *more: str, **options: str) -> subprocess.CompletedProcess:
    """Two processes that share the weights (FSDP)."""
    script = str(REPOSITORY / "tests" / "helpers" / "sharded_on_cpu.py")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", script]
    arguments = [*launcher, *command(build, out, *more, **options)[3:]]
    return subprocess.run(arguments, capture_output=True, text=True, check=False, env={**os.environ, **ONE_THREAD})


def alone(build, out, *more: str) -> subprocess.CompletedProcess:
    return subprocess.run(command(build, out, *more), capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_sharded_run_gives_the_metrics_of_one_process_and_either_resumes_the_other(build, one, tmp_path):
    """Accumulation included: each process has one of a step's two batches, one process both."""
    done = sharded(build, tmp_path / "two")
    assert done.returncode == 0, done.stderr
    whole, expected = weights(tmp_path / "two" / "best"), weights(one[0] / "best")
    assert whole.keys() == expected.keys()
    assert max((whole[name] - expected[name]).abs().max().item() for name in expected) < 1e-3
    for mine, their in zip(*(without_speed(read_log(out)) for out in (tmp_path / "two", one[0])), strict=True):
        assert mine == pytest.approx(their, abs=2e-5)
    assert sorted(path.name for path in (tmp_path / "two" / "best").glob("*.py")) == sorted(
        path.name for path in (one[0] / "best").glob("*.py")
    )
    # A run that one process began: its first checkpoint is continued by two that share the weights, and back again.
    half = ["--set", "training.keep_checkpoints=9", "--set", "training.save_every=2"]
    subprocess.run(command(build, tmp_path / "mixed", *half), check=True, capture_output=True)
    for step, resume in ((2, sharded), (4, alone)):
        for path in (tmp_path / "mixed").glob("checkpoint-*"):
            if int(path.name[-6:]) > step:
                shutil.rmtree(path)
        (tmp_path / "mixed" / "finished.json").unlink()
        done = resume(build, tmp_path / "mixed", *half)
        assert done.returncode == 0, done.stderr
        assert f"Resuming after step {step} of 8" in done.stdout
        found = weights(tmp_path / "mixed" / "best")
        assert max((found[name] - expected[name]).abs().max().item() for name in expected) < 1e-3


@pytest.mark.slow
def test_a_sharded_blip2_gives_the_metrics_of_one_process(build, tmp_path):
    """One process has no row of its query tokens, (1, queries, width), and no moments of them."""
    rates = ["--set", "training.learning_rates={q_formers: 1e-3, projections: 1e-3, prefix: 1e-3}"]
    rates += ["--set", "training.max_steps=4", "--set", "training.save_every=2"]
    blip2 = {"recipe": "tiny-blip2-multiview", "model": "blip2-multiview"}
    done = sharded(build, tmp_path / "two", *rates, **blip2)
    assert done.returncode == 0, done.stderr
    subprocess.run(command(build, tmp_path / "one", *rates, **blip2), check=True, capture_output=True)
    for mine, their in zip(*(without_speed(read_log(tmp_path / name)) for name in ("two", "one")), strict=True):
        assert mine == pytest.approx(their, rel=1e-4)
    files = [tmp_path / name / "checkpoint-000004" / "optimizer.pt" for name in ("two", "one")]
    states = [torch.load(file, weights_only=True) for file in files]
    assert states[0]["state"].keys() == states[1]["state"].keys()
    for number, moments in states[1]["state"].items():
        torch.testing.assert_close(states[0]["state"][number]["exp_avg"], moments["exp_avg"], atol=1e-4, rtol=1e-2)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_accelerate_reads_the_shipped_configurations(path):
    from accelerate.commands.config import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    config = load_config_from_file(str(path))
    options = vars(launch_command_parser().parse_args(["script.py"]))
    assert str(config.distributed_type).split(".")[-1] == {"one_gpu": "NO", "fsdp": "FSDP"}.get(path.stem, "MULTI_GPU")
    assert set(getattr(config, "fsdp_config", None) or {}) <= set(options)


@pytest.mark.slow
def test_what_cannot_be_sharded(build, tmp_path, monkeypatch):
    done = sharded(build, tmp_path / "scst", recipe="tiny-swin-ved-stage3")
    assert done.returncode and "self-critical training does not support FSDP" in done.stderr
    monkeypatch.setenv("FSDP_VERSION", "1")
    done = sharded(build, tmp_path / "old")
    assert done.returncode and "fsdp_version: 2" in done.stderr


@pytest.mark.slow
def test_a_killed_run_ends_like_one_that_never_was(build, one, tmp_path):
    expected, seconds = one
    moments = random.Random(1)
    out = tmp_path / "out"
    kills = 0
    for _ in range(20):
        process = subprocess.Popen(command(build, out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            # Imports take most of the run; most kills should strike after them.
            _, errors = process.communicate(timeout=seconds * moments.uniform(0.5, 1.0) if kills < KILLS else None)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
        else:
            assert process.returncode == 0, errors
            break
    assert (out / "finished.json").exists()
    assert without_speed(read_log(out)) == without_speed(read_log(expected))
    for name in ("best", "checkpoint-000008"):
        ours, theirs = weights(out / name), weights(expected / name)
        assert all((ours[key] == theirs[key]).all() for key in theirs)


def test_accelerate_launches_except_for_several_processes_on_a_cpu():
    accelerate, none = make_command("--num_processes 8 --mixed_precision bf16", ["train", "swin-ved"])
    assert accelerate[1:] == [
        "-m", "medvqa_hub.launching", "accelerate.commands.launch", "--num_processes", "8",
        "--mixed_precision", "bf16", "-m", "medvqa_hub.cli",
        "train", "swin-ved",
    ]  # fmt: skip
    assert none == {}
    shipped, _ = make_command("fsdp --num_processes 4", ["train"])
    assert shipped[3] == "accelerate.commands.launch" and shipped[6:9] == ["--num_processes", "4", "-m"]
    several, variables = make_command("--cpu --num_processes 2", ["train"])
    assert several[2:6] == ["medvqa_hub.launching", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    assert several[6:] == ["-m", "medvqa_hub.cli", "train"]
    assert variables["ACCELERATE_USE_CPU"] == "true"
    assert int(variables["OMP_NUM_THREADS"]) >= 1 and os.environ.get("ACCELERATE_USE_CPU") is None
    assert "accelerate.commands.launch" in make_command("--cpu", ["train"])[0]


@pytest.mark.slow
def test_accelerate_that_starts_one_process_of_several_is_refused():
    """The real launcher: asked for two processes on a CPU it starts one, which must not train as if it were all."""
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes"]
    train = ["-m", "medvqa_hub.cli", "train", "swin-ved", "--help"]
    done = subprocess.run([*launcher, "2", *train], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "--launch '--cpu --num_processes N'" in done.stderr
    done = subprocess.run([*launcher, "1", *train], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "--launch" in done.stdout


def test_only_a_lone_process_of_a_group_is_refused():
    alone = {"ACCELERATE_USE_CPU": "True", "MASTER_ADDR": "127.0.0.1"}
    for variables in ({}, {"ACCELERATE_USE_CPU": "True"}, {**alone, "WORLD_SIZE": "2"}, {"MASTER_ADDR": "a"}):
        check_launcher(variables)
    with pytest.raises(ConfigError, match="started one"):
        check_launcher(alone)


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        ("--cpu --num_processes 2 --mixed_precision bf16", "--mixed_precision bf16"),
        ("--config 'file", "No closing quotation"),
        ("--num_processes two", "invalid int value"),
        ("deepspeed", "eight_gpus, fsdp, one_gpu"),
    ],
)
def test_what_cannot_be_launched(launch, expected):
    with pytest.raises(ConfigError, match=expected):
        make_command(launch, ["train"])


def test_a_stopped_command_terminates_its_launcher(tmp_path, monkeypatch):
    ready, ended = tmp_path / "ready", tmp_path / "ended"
    script = f"trap 'echo > {ended}; exit' TERM; echo > {ready}; while :; do sleep 0.05; done"
    monkeypatch.setattr(launching, "make_command", lambda *_: (["sh", "-c", script], {}))

    def stop_once_ready():
        while not ready.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGUSR1)

    previous = signal.signal(signal.SIGUSR1, lambda *_: sys.exit(143))
    try:
        threading.Thread(target=stop_once_ready).start()
        with pytest.raises(SystemExit):
            launching.run_launcher("", [])
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert ended.exists()


@pytest.mark.slow
def test_a_configuration_error_of_launched_processes_is_printed_once(build, tmp_path):
    launch = ["--launch", "--cpu --num_processes 2", "--set", "training.studies_per_batch=4"]
    done = subprocess.run(command(build, tmp_path / "out", *launch), capture_output=True, text=True, check=False)
    (line,) = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.returncode == 1 and line.startswith("error: 2 processes") and "studies_per_batch=2" in line


@pytest.mark.slow
def test_the_launcher_names_a_killed_process_and_leaves_tracebacks_to_the_others(tmp_path):
    script = tmp_path / "dies.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    launcher = ["torch.distributed.run", "--standalone", "--nproc_per_node=1", str(script)]
    done = subprocess.run([*launching.LAUNCHER, *launcher], capture_output=True, text=True, check=False)
    assert done.returncode == 128 + 9 and "process 0" in done.stderr and "SIGKILL" in done.stderr
    assert "Traceback" not in done.stderr
    script.write_text("raise RuntimeError('a bug')")
    done = subprocess.run([*launching.LAUNCHER, *launcher], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.count("Traceback") == done.stderr.count("RuntimeError: a bug") == 1
