"""`train vlm`: one run of TRL's trainers from a recipe."""

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, one_line
from medvqa_core.governance import strictest
from medvqa_core.install_hint import install
from medvqa_core.json_files import read_object
from medvqa_hub.families import history
from medvqa_hub.families.folders import ANOTHER
from medvqa_hub.training.arguments import TrainingRun
from medvqa_hub.training.checkpoints import MANIFEST, complete_checkpoints
from medvqa_hub.training.job import Log, TrainingJob
from medvqa_hub.training.recipe_files import count_steps
from medvqa_hub.training.rewards import make_reward, refuse_missing_columns
from medvqa_hub.training.vlm.model import StartModel, find_start, load_model
from medvqa_hub.training.vlm.recipe import GRPO, VlmData, VlmRecipe
from medvqa_hub.training.vlm.report_rows import holds_reports, load_report_rows
from medvqa_hub.training.vlm.rewards import REFERENCE, AnswerReward
from medvqa_hub.training.vlm.rows import VlmRows, load_rows
from mimic_cxr_vqa.release import open_release
from rjua_meddqa.data_folder import open_folder

ADD_TRL = f"train vlm needs TRL, which is not installed: {install('trl')}"


def train_vlm(
    recipe: VlmRecipe,
    model: str,
    data: Path,
    out: Path,
    image_root: Path | None = None,
    model_class: str | None = None,
    dry_run: bool = False,
    log: Log = print,
    report_to: Sequence[str] = (),
) -> Path:
    """Train `model` by `recipe` into `out`.

    Args:
        model: a folder (of a model, an adapter or a run), or a repository on the Hub.
        data: a release, the folder it was built in, the authors' CSV files, or a folder of RJUA-MedDQA.
        model_class: governance class of a `model` whose folder does not declare one.
        report_to: experiment trackers that receive the log, see `medvqa_hub.tracking`.
        dry_run: print what would be done and stop. Needs neither GPU nor TRL.

    Returns:
        `out`. The model or adapter is in `out/best`.

    Raises:
        MedvqaError: a problem that the user can solve.
    """
    if not dry_run and importlib.util.find_spec("trl") is None:
        raise ConfigError(ADD_TRL)
    if not dry_run and recipe.grpo is not None and recipe.grpo.vllm and importlib.util.find_spec("vllm") is None:
        raise ConfigError(f"grpo.vllm is true, but vLLM is not installed: {install('vllm')}. Or set it to false")
    job = VlmJob(recipe, data, out, image_root, log, report_to)
    job.model = find_start(model, model_class)
    job.start = job.model.folder
    return job.execute(dry_run)


def open_rows(data: Path, image_root: Path | None, settings: VlmData) -> VlmRows:
    """The rows of either dataset. Raises InputError and ConfigError, as `load_rows` and `load_report_rows`."""
    load = load_report_rows if holds_reports(data) else load_rows
    return load(data, image_root, settings)


@dataclass
class VlmJob(TrainingJob):
    """A run that trains any image-text model.

    Attributes:
        model: the starting model.
        rows: see VlmRows.
        reward: of stage grpo.
    """

    model: StartModel = field(init=False)
    rows: VlmRows = field(init=False)
    reward: AnswerReward | None = field(default=None, init=False)

    def fingerprint_data(self) -> str:
        return open_folder(self.data).fingerprint() if holds_reports(self.data) else open_release(self.data).fingerprint

    def prepare(self) -> None:
        recipe, model = self.recipe, self.model
        self.rows = rows = open_rows(self.data, self.image_root, recipe.data)
        if recipe.reward is not None:
            refuse_missing_columns(recipe.reward.name, rows.train.column_names)
        self.steps, self.validates = count_steps(recipe, len(rows.train)), rows.validation is not None
        self.governance = strictest([rows.governance, model.governance])
        stage = {
            "kind": "vlm",
            "stage": recipe.training.stage,
            "reward": recipe.reward and recipe.reward.name,
            "base": history.name_source(model.base or model.name),
            "data": {**rows.described, "governance": str(rows.governance)},
        }
        self.stages = [*history.read_stages(model.folder), stage]

    def describe(self) -> list[str]:
        recipe, rows, model = self.recipe, self.rows, self.model
        unit = "conversations" if recipe.data.turns == "study" else "questions"
        lines = [f"training: {len(rows.train):,} {unit}"]
        lines += [f"left out: {count:,}, {reason}" for reason, count in rows.left_out.items() if count]
        if rows.validation is not None:
            lines.append(f"validation: {len(rows.validation):,} {unit}")
        answers, sequences = (f" x {recipe.grpo.answers} answers", "answers") if recipe.grpo else ("", unit)
        lines.append(
            f"{self.steps:,} steps of {recipe.training.rows_per_step} {unit}{answers}, in batches of "
            f"{recipe.training.rows_per_batch} {sequences}"
        )
        trained = f"adapter on {model.base or model.name}" if recipe.lora else f"all weights of {model.name}"
        lines.append(f"model: {trained}, class {model.governance} (--model-class, if its folder does not declare one)")
        return [*lines, f"governance class: {self.governance}"]

    def make_trainer(self, run: TrainingRun, checkpoint: Path | None) -> Any:
        warnings.filterwarnings("ignore", category=FutureWarning, module="transformers|trl|peft")
        from medvqa_hub.training.vlm.trainers import make_trainer

        start = replace(self.model, folder=checkpoint) if checkpoint else self.model
        model, processor = load_model(start, self.recipe)
        if self.recipe.training.stage == GRPO:
            self.reward = self._make_reward()
        run = replace(run, base=self.model.base or self.model.name)
        try:
            return make_trainer(run, model, processor, self.rows, self.steps, self.reward)
        except ValueError as error:  # such as an unsupported chat template, or a quantised model without adapter
            raise ConfigError(f"TRL cannot train {self.model.name}: {one_line(error)}") from error

    def _make_reward(self) -> AnswerReward:
        settings = self.recipe.reward
        assert settings is not None
        reward = AnswerReward(make_reward(settings, self.rows.train.with_format(None)[REFERENCE]), settings.name)
        for _, last in complete_checkpoints(self.out)[-1:]:
            saved = read_object(last / MANIFEST, ANOTHER)
            reward.counts = {name: saved[name] for name in reward.counts}
        return reward

    def finish(self, trainer: Any) -> dict[str, Any]:
        """Report the numbers of answers with and without a reward."""
        if self.reward is None:
            return {}
        counts = self.reward.counts
        self.log(", ".join(f"{name.replace('_', ' ')}: {count:,}" for name, count in counts.items()))
        return counts
