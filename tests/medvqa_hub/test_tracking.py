"""Trackers get the numbers of a run. Restricted samples only go to trackers on this machine."""

import sys
from types import SimpleNamespace

import pytest
from PIL import Image

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_hub import tracking
from medvqa_hub.tracking import Sample, Trackers, check_trackers
from medvqa_hub.training.training_log import TrainingLog, read_log

ENTRY = {"step": 3, "epoch": 0.5, "loss": 1.25, "reward": 0.5, "note": "text", "missing": None}
NUMBERS = {"epoch": 0.5, "loss": 1.25, "reward": 0.5}
SAMPLE = Sample([Image.new("L", (100, 50), 255), Image.new("L", (50, 50))], "Is there edema?", "no edema .", "edema .")


@pytest.fixture
def calls(monkeypatch):
    """What scripted stand-ins for wandb and trackio receive."""
    found = SimpleNamespace(init=[], log=[])

    def log(values, step):
        found.log.append((step, values))

    def init(**options):
        found.init.append(options)
        return SimpleNamespace(log=log, finish=lambda: None)

    def make_image(value, caption):
        return (value.shape, caption)

    module = SimpleNamespace(init=init, log=log, finish=lambda: None, Image=make_image, Settings=SimpleNamespace)
    for name in ("wandb", "trackio"):
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("WANDB_MODE", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_DATASET_ID", "TRACKIO_BUCKET_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRACKIO_DIR", "unused")
    return found


ONLINE = {"wandb": ("WANDB_MODE", "online"), "trackio": ("TRACKIO_SPACE_ID", "me/space")}


@pytest.mark.parametrize("name", ["wandb", "trackio"])
@pytest.mark.parametrize("governance", list(Governance))
@pytest.mark.parametrize("online", [False, True])
def test_restricted_samples_stay_on_the_machine(name, governance, online, calls, tmp_path, monkeypatch):
    if online:
        monkeypatch.setenv(*ONLINE[name])
    trackers = Trackers([name], tmp_path / "run", governance, 0)
    trackers.log(ENTRY)
    read = []
    trackers.log_samples(lambda: read.append(1) or [SAMPLE], 3)
    trackers.close()
    assert calls.log[0] == (3, NUMBERS)
    may = not online or governance is Governance.OPEN
    assert (len(calls.log), len(read)) == ((2, 1) if may else (1, 0))
    if may:
        assert "((320, 960, 3)" in repr(calls.log[1]) and "Is there edema?" in repr(calls.log[1])
    if name == "wandb":
        assert calls.init[0]["mode"] == ("online" if online else "offline")


def test_a_resumed_run_continues_its_offline_wandb_run(calls, tmp_path):
    (tmp_path / "run/wandb/offline-run-20260102_030405-1a2b3c4d").mkdir(parents=True)
    (tmp_path / "run/wandb/offline-run-20260102_030506-1a2b3c4d").mkdir()
    for after, expected in ((0, None), (4, "1a2b3c4d")):
        Trackers(["wandb"], tmp_path / "run", Governance.CREDENTIALED, after).close()
        assert (calls.init[-1]["id"], calls.init[-1]["mode"]) == (expected, "offline")


def test_tensorboard_files_hold_numbers_and_images(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trackers = Trackers(["tensorboard"], tmp_path, Governance.CREDENTIALED, 0)
    trackers.log(ENTRY)
    trackers.log_samples(lambda: [SAMPLE], 3)
    trackers.close()
    found = EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert {name: found.Scalars(name)[0].value for name in found.Tags()["scalars"]} == NUMBERS
    (image,) = found.Images("samples/0")
    assert (image.step, image.width, image.height) == (3, 960, 320)


def test_lines_of_the_log_reach_the_trackers(tmp_path, monkeypatch):
    from tracking_double import RecordingTracker

    monkeypatch.setitem(tracking.TRACKERS, "wandb", RecordingTracker)
    log = TrainingLog(tmp_path)
    log.trackers = Trackers(["wandb"], tmp_path, Governance.OPEN, 2)
    log.append(ENTRY)
    log.close()
    tracker = RecordingTracker.opened[-1]
    assert (tracker.after, tracker.numbers, tracker.closed) == (2, [(3, NUMBERS)], True)
    assert read_log(tmp_path) == [ENTRY]


def test_unknown_and_missing_trackers_are_refused(monkeypatch):
    with pytest.raises(ConfigError, match="mlflow.*tensorboard, trackio, wandb"):
        check_trackers(["mlflow"])
    monkeypatch.setattr(tracking.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install wandb"):
        check_trackers(["wandb"])
