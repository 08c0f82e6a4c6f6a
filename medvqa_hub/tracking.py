"""Experiment trackers that receive the log of a run or the numbers of an audit: tensorboard, trackio and wandb.

They are offline unless the environment names a server (WANDB_MODE=online, TRACKIO_SPACE_ID). Samples of restricted data
go to trackers on this machine only. Others receive numbers.
"""

import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance

if TYPE_CHECKING:
    import numpy as np

PROJECT = "medvqa-hub"
ReportTo = Annotated[
    list[str] | None, typer.Option(help="Tracker: tensorboard, trackio or wandb, offline by default. Repeatable.")
]
_TRACKIO_SERVERS = ("SPACE_ID", "SERVER_URL", "DATASET_ID", "BUCKET_ID", "WEBHOOK_URL")


@dataclass(frozen=True)
class Sample:
    """A question about a study, with the current answer of the model."""

    images: Sequence[Any]
    question: str
    reference: str
    answer: str
    reward: float | None = None

    def describe(self) -> str:
        reward = "" if self.reward is None else f"\n\nreward: {self.reward:.4f}"
        return f"question: {self.question}\n\nreference: {self.reference}\n\nanswer: {self.answer}{reward}"

    def show_images(self, height: int = 320) -> "np.ndarray":
        """The images side by side, (height, width, 3) bytes."""
        import numpy as np

        resized = [image.resize((round(image.width * height / image.height), height)) for image in self.images]
        return np.concatenate([np.asarray(image.convert("RGB")) for image in resized], axis=1)


class Tracker(ABC):
    """Receives the log of one run.

    Attributes:
        is_local: nothing is sent to another machine.
    """

    is_local = True

    @abstractmethod
    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Record numbers of a step."""

    @abstractmethod
    def log_samples(self, samples: Sequence[Sample], step: int) -> None:
        """Record samples with their images."""

    @abstractmethod
    def close(self) -> None:
        """Write what is pending."""


class TensorBoard(Tracker):
    """Event files in OUT/tensorboard."""

    def __init__(self, out: Path, after: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(out / "tensorboard"), purge_step=after + 1 if after else None)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def log_samples(self, samples: Sequence[Sample], step: int) -> None:
        for number, sample in enumerate(samples):
            self._writer.add_image(f"samples/{number}", sample.show_images(), step, dataformats="HWC")
            self._writer.add_text(f"samples/{number}", sample.describe(), step)

    def close(self) -> None:
        self._writer.close()


class Wandb(Tracker):
    """A run in OUT/wandb, which `wandb sync` may upload later. A resumed run adds a part to it."""

    def __init__(self, out: Path, after: int) -> None:
        import wandb

        mode = os.environ.get("WANDB_MODE", "offline")
        self.is_local = mode in ("offline", "disabled")
        settings = wandb.Settings(console="off", disable_code=True, disable_git=True, disable_job_creation=True)
        settings.x_disable_machine_info = True  # its metadata holds paths and the command
        earlier = sorted((out / "wandb").glob("*run-*-*")) if after else []  # offline-run-DATE_TIME-ID
        self._run = wandb.init(
            project=PROJECT,
            name=out.name,
            dir=str(out),
            mode=mode,
            settings=settings,
            id=earlier[0].name.rpartition("-")[2] if earlier else None,
            resume="allow" if earlier and mode == "online" else None,
        )
        self._make_image = wandb.Image

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self._run.log(dict(numbers), step=step)

    def log_samples(self, samples: Sequence[Sample], step: int) -> None:
        images = [self._make_image(sample.show_images(), caption=sample.describe()) for sample in samples]
        self._run.log({"samples": images}, step=step)

    def close(self) -> None:
        self._run.finish()


class Trackio(Tracker):
    """A run in OUT/trackio (or TRACKIO_DIR), or on the server that the environment names."""

    def __init__(self, out: Path, after: int) -> None:
        os.environ.setdefault("TRACKIO_DIR", str(out.absolute() / "trackio"))
        import trackio

        self.is_local = not any(os.environ.get(f"TRACKIO_{name}") for name in _TRACKIO_SERVERS)
        self._trackio = trackio
        trackio.init(project=PROJECT, name=out.name, resume="allow", auto_log_gpu=False, auto_log_cpu=False)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self._trackio.log(dict(numbers), step=step)

    def log_samples(self, samples: Sequence[Sample], step: int) -> None:
        make = self._trackio.Image
        images = [make(sample.show_images(), caption=sample.describe()) for sample in samples]
        self._trackio.log({f"samples/{number}": image for number, image in enumerate(images)}, step=step)

    def close(self) -> None:
        self._trackio.finish()


TRACKERS: dict[str, Callable[[Path, int], Tracker]] = {"tensorboard": TensorBoard, "trackio": Trackio, "wandb": Wandb}


def check_trackers(names: Iterable[str]) -> None:
    """Raise a ConfigError if a tracker is unknown or not installed."""
    for name in names:
        if name not in TRACKERS:
            raise ConfigError(f"--report-to {name!r} is unknown. Allowed: {', '.join(TRACKERS)}.")
        if importlib.util.find_spec(name) is None:
            raise ConfigError(f"--report-to {name} needs the package {name}. Run: pip install {name}")


class Trackers:
    """All trackers of a run.

    Args:
        names: keys of TRACKERS.
        out: folder of the run.
        governance: class of its data.
        after: last step before the run was resumed, else 0.
    """

    def __init__(self, names: Iterable[str], out: Path, governance: Governance, after: int = 0) -> None:
        self._trackers = [TRACKERS[name](out, after) for name in names]
        self._for_samples = [one for one in self._trackers if one.is_local or governance is Governance.OPEN]

    def log(self, entry: Mapping[str, Any]) -> None:
        """Record the numbers of a line of the log."""
        numbers = {name: value for name, value in entry.items() if isinstance(value, int | float) and name != "step"}
        for tracker in self._trackers:
            tracker.log(numbers, entry["step"])

    def log_samples(self, read: Callable[[], Sequence[Sample]], step: int) -> None:
        """Record samples where they may go. `read` is only called if there is such a tracker."""
        samples = read() if self._for_samples else []
        for tracker in self._for_samples:
            tracker.log_samples(samples, step)

    def close(self) -> None:
        for tracker in self._trackers:
            tracker.close()
