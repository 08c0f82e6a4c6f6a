"""`medvqa-hub push model`: check and push a model.

Weights of class `open` and `share-alike` can be pushed, `no-derivatives` cannot. `credentialed` weights need a written
acknowledgement and a memorisation check, and are pushed to a gated repository that is private by default.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_core.governance import Governance
from medvqa_core.model_folder import find_model_folder
from medvqa_core.runs.predictions import FILE
from medvqa_hub.evaluation.cxr.charts import draw_chart
from medvqa_hub.families.history import REPORTS
from medvqa_hub.publishing.audit_block import read_audit
from medvqa_hub.publishing.check_conditions import check_generation_settings
from medvqa_hub.publishing.foreign_folder import foreign_files, is_foreign, open_foreign_folder
from medvqa_hub.publishing.licences import (
    NOTICE,
    Licence,
    check_llama,
    check_llama_base,
    find_answer_llama,
    find_base_llama,
    find_own_source,
    get_foreign_licence,
    get_model_licence,
    get_own_licence,
)
from medvqa_hub.publishing.memorisation import Memorisation, check_predictions, report_phrases
from medvqa_hub.publishing.model_card import write_model_card
from medvqa_hub.publishing.model_folder import ModelFolder, list_files, open_model_folder
from medvqa_hub.publishing.push import MODEL, PushPlan, PushResult
from medvqa_hub.publishing.results import eval_results, read_results
from medvqa_hub.publishing.sending import Push, send
from medvqa_hub.publishing.staging import CARD

NOTICE_FILE, EVAL_RESULTS = "NOTICE.txt", ".eval_results/mimic_cxr_vqa.yaml"
CHART = "chart.png"
SHORTEST = 20  # characters of an acknowledgement


@dataclass(frozen=True)
class ModelPush(Push):
    """Options of `push model`.

    Attributes:
        folder: folder of a model or of a training run.
        repo_id, public, version: see `PushPlan`.
        scores: output of `medvqa-hub evaluate cxr` for this model.
        workspace: workspace of the training data. Sentences of its reports must not occur in any text file, and with
            `scores` memorisation is checked.
        acknowledgement: reason for pushing weights that were trained on credentialed data.
        dataset_id: repository of the evaluated dataset, for `.eval_results`.
        base_model: repository of an adapter's base model, if its folder names a local path.
        audit: output of `medvqa-hub audit cxr` for this model.
    """

    scores: Path | None = None
    workspace: Path | None = None
    acknowledgement: str | None = None
    dataset_id: str | None = None
    base_model: str | None = None
    audit: Path | None = None


def push_model(
    options: ModelPush, dry_run: bool = False, hub: Any = None, log: Callable[[str], None] = print
) -> PushResult | None:
    """Check, stage, scan and push a model. `dry_run` only prints what would be pushed.

    Raises:
        ConfigError: options are missing or contradict each other.
        GovernanceError: the model's class, a licence or the scan forbids the push.
        InputError: the folder, the scores or the workspace cannot be read or belongs to another model.
        OutputError: see `push_folder`.
    """
    folder = find_model_folder(options.folder)
    if is_foreign(folder):
        model = open_foreign_folder(folder, options.base_model)
    else:
        model = open_model_folder(folder)
        if options.base_model is not None:
            raise ConfigError(
                "--base-model only applies to models that are not of this project's own families. Remove it."
            )
    plan = PushPlan(
        options.repo_id,
        MODEL,
        model.governance,
        gated=model.governance is Governance.CREDENTIALED,
        public=options.public,
        version=options.version,
    )
    _refuse_reports(model)
    licence, llamas = _license(model, options.repo_id)
    if model.governance is Governance.CREDENTIALED:
        _refuse_without_words(options)
    if options.dataset_id is not None and options.scores is None:
        raise ConfigError("--dataset-id needs --scores")
    results = read_results(options.scores, model.checkpoint.fingerprint) if options.scores is not None else None
    memorisation, phrases = None, None
    if options.workspace is not None:
        phrases = report_phrases(options.workspace)  # whatever the class
        if options.scores is not None and results is not None:
            memorisation = _check_memory(options.scores, options.workspace, model, results)
    files = foreign_files(model) if model.foreign else list_files(model)
    audit = read_audit(options.audit, model.checkpoint.fingerprint) if options.audit is not None else None
    reason = options.acknowledgement
    card = write_model_card(model, options.repo_id, licence, results, memorisation, reason, audit=audit)
    files[CARD] = card.encode()
    if llamas:
        files[NOTICE_FILE] = "".join(NOTICE.format(version=version) for version in llamas).encode()
    if results is not None and options.dataset_id is not None:
        files[EVAL_RESULTS] = eval_results(results, options.dataset_id)
    if results is not None:
        files[CHART] = _draw_chart(results)
    return send(files, plan, dry_run, hub, log, phrases, image_tables=[CHART])


def _draw_chart(results: list[dict[str, Any]]) -> bytes:
    """The picture of the card, drawn again from the numbers, so that no other image can be pushed."""
    with TemporaryDirectory() as folder:
        draw_chart(results, Path(folder) / CHART)
        return (Path(folder) / CHART).read_bytes()


def _refuse_reports(model: ModelFolder) -> None:
    """Raise for models of report images, since the card describes models of radiographs."""
    if any(stage.get("data", {}).get("dataset") == REPORTS for stage in model.stages):
        raise ConfigError(
            f"{model.checkpoint.name} was trained on report images, but push model writes cards for radiographs. Push "
            "the folder with its README.md by push_to_hub."
        )


def _license(model: ModelFolder, repo_id: str) -> tuple[Licence, list[str]]:
    """The licence, and the versions of the Llamas that wrote the answers or that the model was made from."""
    data = [stage.get("data", {}) for stage in model.stages]
    llama = find_answer_llama((found.get("source"), found.get("answers", {}).get("model")) for found in data)
    base = find_base_llama(model.base, model.config) if model.foreign else None
    if own := find_own_source(model.stages):
        licence = get_own_licence(own, model.governance, llama)
    elif model.foreign:
        licence = get_foreign_licence(model.governance, model.base, llama, base)
    else:
        licence = get_model_licence(model.governance, llama)
    check_llama(llama, repo_id)
    check_llama_base(base, repo_id)
    return licence, sorted({version for version in (llama, base) if version})


def _refuse_without_words(options: ModelPush) -> None:
    if len((options.acknowledgement or "").strip()) < SHORTEST:
        raise GovernanceError(
            f"{options.folder} was trained on credentialed or unknown data, which weights can repeat. PhysioNet asks "
            "that models derived from MIMIC be shared there. To push to a gated repository on the Hub, state why you "
            "may: --acknowledge-credentialed-training TEXT"
        )
    missing = [name for name, path in (("--scores", options.scores), ("--workspace", options.workspace)) if not path]
    if missing:
        raise ConfigError(
            f"weights trained on credentialed data need a memorisation check. Pass {' and '.join(missing)} (output of "
            "medvqa-hub evaluate cxr, workspace of the training data)."
        )


def _check_memory(scores: Path, workspace: Path, model: ModelFolder, results: list[dict[str, Any]]) -> Memorisation:
    from mimic_cxr_vqa.release import open_release

    built = open_release(workspace).fingerprint
    if model.data_fingerprints and built not in model.data_fingerprints:
        raise ConfigError(
            f"{workspace} holds other data ({built}) than the model was trained on "
            f"({', '.join(sorted(model.data_fingerprints))}). Pass the workspace of its training data."
        )
    for result in results:
        check_generation_settings(model, result.get("generation") or {})
    return check_predictions(scores / FILE, workspace, model.checkpoint.fingerprint, model.governance)
