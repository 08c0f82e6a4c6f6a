"""The audit's table: scripted answerers, and tiny models of every family, trained here or given.

    python benchmarks/audit.py [--out out/audit] [--model "SwinVED stage 3=out/learning/stage3"] …

`--model` also takes transformers:FOLDER, an image-text model. Without it, these are trained on synthetic studies with
fewer steps than the tiny recipes have: a SwinVED of stages 1 to 3, a BLIP-2-MultiView and an image-text model (`train
vlm`). All are audited on the same studies of the test split, whose patients they have not seen. A part that is finished
is kept in OUT, and an interrupted one is resumed.

The scripted answerers are those of `audit_dummies.py`. Their share of looking is known, so the table also shows whether
the audit finds it.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from audit_dummies import Dummy
from learning_blip2 import CHANGES as SMALL_BLIP2
from timing import write_result
from tiny_vlm import write_tiny_vlm

from medvqa_core.llm.options import EngineOptions
from medvqa_hub.demo.demo import EPOCHS, quick_overrides
from medvqa_hub.demo.encoder import EncoderSettings
from medvqa_hub.demo.training import STAGES, DemoContext, make_release, train_encoder, train_stage
from medvqa_hub.evaluation.cxr.audit_boxes import open_boxes
from medvqa_hub.evaluation.cxr.audit_conditions import list_items
from medvqa_hub.evaluation.cxr.auditing import audit_cxr, audit_source
from medvqa_hub.evaluation.cxr.evaluation_data import open_data
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions, GenerationSettings

STUDIES, AUDITED, SEED = 2_000, 50, 0
BLIP2_STEPS, VLM_STEPS = 100, 120
DUMMIES: tuple[dict[str, float], ...] = (
    {"looker": 1.0},
    {"prior_answer": 1.0},
    {"text": 1.0},
    {"wrong_region": 1.0},
    {"reversed": 1.0},
    {"looker_80": 1.0},
    *({"looker": share, "prior_answer": 1 - share} for share in (0.25, 0.5, 0.75)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/audit"))
    parser.add_argument(
        "--model", action="append", default=[], help="NAME=FOLDER of a trained model, instead of training"
    )
    args = parser.parse_args()
    start, cpu = time.monotonic(), time.process_time()
    release, tree = make_release(args.out, STUDIES, SEED)
    data = DataOptions(release, "test", image_root=tree, limit=AUDITED)
    models = dict(name.split("=", 1) for name in args.model) or train_models(release, tree, args.out)
    audits = audit_dummies(data, args.out / "dummies")
    for name, folder in models.items():
        audits[name] = audit_model(folder, data, args.out / "audits" / name.replace(" ", "-"))
    print("\n".join(make_markdown(audits)))
    seconds = {"wall": round(time.monotonic() - start), "cpu": round(time.process_time() - cpu)}
    print(f"{seconds['wall']} s, {seconds['cpu']} s of CPU time in this process")
    figures = {name: collect_figures(audit) for name, audit in audits.items()}
    write_result("audit", {"studies": STUDIES, "audited": AUDITED, "seconds": seconds, "audits": figures})


def collect_figures(audit: Mapping[str, Any]) -> dict[str, Any]:
    """The measures of a row of the table, with value, interval and numbers of rows and studies."""
    calibration = audit["calibration"] or {}
    found = {"accuracy": audit["accuracy"]["own"], **audit["shares"], **audit["behaviour"]}
    return {**found, **{name: calibration.get(name) for name in ("aurc", "ece")}}


def train_models(release: Path, tree: Path, out: Path) -> dict[str, str]:
    """Folders of the trained models by name."""
    from medvqa_hub.training.recipes import load_recipe
    from medvqa_hub.training.run import train
    from medvqa_hub.training.vlm.recipe import load_vlm_recipe
    from medvqa_hub.training.vlm.run import train_vlm

    context = DemoContext(release, tree, out, EncoderSettings(epochs=int(EPOCHS["encoder"])), quick_overrides())
    train_encoder(context)
    models = {}
    for stage in STAGES:
        models[f"SwinVED stage {stage}"] = str(train_stage(context, stage))
    changes = [change for change in SMALL_BLIP2 if not change.startswith("data.")]
    changes += [f"training.max_steps={BLIP2_STEPS}", "training.epochs=null", "selection.every=null"]
    run = train(load_recipe("tiny-blip2-multiview", changes), release, out / "blip2", tree)
    models["BLIP-2-MultiView"] = str(run)
    start = out / "vlm-start"
    if not start.exists():
        _write_vlm(release, start)
    recipe = load_vlm_recipe("tiny-vlm-sft", [f"training.max_steps={VLM_STEPS}"])
    models["image-text model"] = f"transformers:{train_vlm(recipe, str(start), release, out / 'vlm', tree) / 'best'}"
    return models


def _write_vlm(release: Path, folder: Path) -> None:
    from medvqa_hub.training.recipes import DataSettings
    from medvqa_hub.training.training_data import load_data

    data = load_data(release, None, DataSettings(validation_split=None), images=False)
    write_tiny_vlm(folder, data.texts(), data.governance)


def audit_dummies(data: DataOptions, out: Path) -> dict[str, dict[str, Any]]:
    """Audits of the scripted answerers by name."""
    found = open_data(data)
    table, items = open_boxes(None, data.image_root, found.studies), list_items(found.studies)
    make = partial(Dummy, items, table.boxes)
    audits = [audit_source(make(shares), found, out, table, with_text=True) for shares in DUMMIES]
    return {audit["model"]["name"].replace("100% ", ""): audit for audit in audits}


def audit_model(folder: str, data: DataOptions, out: Path) -> dict[str, Any]:
    """The audit of a checkpoint of ours, or of an image-text model at `transformers:FOLDER`."""
    if folder.startswith("transformers:"):
        generation = GenerationSettings(max_new_tokens=48)
        engine = EngineOptions((folder,))
        options = AnswerOptions(engine=engine, generation=generation, bare_question=True, confidence=True)
    else:
        options = AnswerOptions(folder, generation=GenerationSettings(1, 48), questions_per_batch=384)
    return audit_cxr(out, data, options)


def make_markdown(audits: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    """A row for each audited answerer."""
    heads = list(collect_figures(next(iter(audits.values()))))
    titles = [{"aurc": "AURC", "ece": "ECE"}.get(head, head.replace("_", " ")) for head in heads]
    lines = [f"| | {' | '.join(titles)} |", f"|---|{'---|' * len(heads)}"]
    for name, audit in audits.items():
        cells = ["-" if value is None else f"{value['value']:.2f}" for value in collect_figures(audit).values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
