"""Cached features: the losses of training without them, nothing stale, kills, class, and what is refused."""

import re

import pytest
import torch
from blip2_multiview_models import make_plain_blip2
from builds import build_release
from safetensors.torch import load_file
from training_runs import fast_recipe, recipe, study_rows, without_speed

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_manifest
from medvqa_hub.families import feature_cache
from medvqa_hub.families.feature_cache import FeatureCache, digest_image
from medvqa_hub.purge import find_files
from medvqa_hub.training.arguments import TrainingRun
from medvqa_hub.training.cached_images import CacheCost, fill_cache
from medvqa_hub.training.recipes import load_recipe
from medvqa_hub.training.run import train
from medvqa_hub.training.trainer import SupervisedTrainer
from medvqa_hub.training.training_log import TrainingLog, read_log

ROWS = study_rows([2, 3, 2, 4, 3, 2], images=2)  # 12 images
TEXTS = [text for row in ROWS["questions"] for question in row for text in (question["question"], question["answer"])]
RATES = {"swin_ved": {"encoder": 0.0, "decoder": 1e-3}, "blip2_multiview": {"q_formers": 1e-3, "prefix": 1e-3}}


def make_trainer(out, kind="swin_ved", dtype="float32", governance=Governance.OPEN, features=None, **training):
    out.mkdir(exist_ok=True)
    settings = recipe(
        kind,
        data={"cache_features": dtype},
        training={"learning_rates": RATES[kind], "max_steps": 3, "studies_per_batch": 2, **training},
    )
    model, processor = settings.open_model(None, TEXTS)
    run = TrainingRun(settings, out, governance, TrainingLog(out), features=features)
    return SupervisedTrainer(model, processor, run, ROWS, ROWS)


def losses(out, *args, **kwargs) -> list[float]:
    trainer = make_trainer(out, *args, **kwargs)
    trainer.train()
    trainer.run.log.close()
    return [entry[name] for entry in read_log(out) for name in ("loss", "eval_loss") if name in entry]


def count_encoded(monkeypatch) -> list[int]:
    """The numbers of images in the encoder's passes from now on."""
    passes: list[int] = []
    encode = FeatureCache._encode
    monkeypatch.setattr(
        FeatureCache, "_encode", lambda self, images, *rest: passes.append(len(images)) or encode(self, images, *rest)
    )
    return passes


@pytest.mark.parametrize("kind", RATES)
def test_cached_features_give_the_losses_of_none(tmp_path, kind):
    plain = losses(tmp_path / "plain", kind, None)
    assert len(plain) == 6
    assert losses(tmp_path / "float32", kind, "float32") == plain
    assert losses(tmp_path / "bfloat16", kind, "bfloat16") == pytest.approx(plain, rel=2e-3)
    assert losses(tmp_path / "float16", kind, "float16") == pytest.approx(plain, rel=2e-4)


def test_the_encoder_does_not_run_after_the_cache_is_filled(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path / "out")
    fill_cache(trainer.cache, [trainer.train_questions, trainer.validation.questions], trainer.accelerator, 0)
    monkeypatch.setattr(trainer.model.model.encoder, "forward", lambda *a, **k: pytest.fail("the encoder ran"))
    assert len(trainer.cache) == 12
    trainer.train()


def test_a_killed_fill_continues_and_a_second_run_encodes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_cache, "IMAGES_AT_ONCE", 2)
    monkeypatch.setattr(feature_cache, "IMAGES_PER_FILE", 4)
    passes = count_encoded(monkeypatch)
    write, written = FeatureCache.write, []

    def killed(self, features):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(len(features))
        write(self, features)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(FeatureCache, "write", killed)
        make_trainer(tmp_path / "killed", features=tmp_path / "shared").train()
    assert written == [4, 4]
    passes.clear()
    expected = losses(tmp_path / "resumed", features=tmp_path / "shared")
    assert sum(passes) == 4
    passes.clear()
    assert losses(tmp_path / "again", features=tmp_path / "shared") == expected and not passes


def test_nothing_stale_is_used(tmp_path, monkeypatch):
    """Changed weights, pixels or precision have features of their own; a changed image is noticed."""
    shared = tmp_path / "shared"
    make_trainer(tmp_path / "first", features=shared).train()
    passes = count_encoded(monkeypatch)
    changed = make_trainer(tmp_path / "weights", features=shared)
    with torch.no_grad():
        next(changed.model.model.encoder.parameters())[0, 0, 0, 0] += 1e-6
    caches = {changed.cache.folder}
    changed.cache = changed._make_cache()
    caches |= {changed.cache.folder, make_trainer(tmp_path / "bf16", precision="bfloat16").cache.folder}
    changed.processing_class.image_mean = [0.5, 0.5, 0.5]
    caches |= {changed._make_cache().folder}
    assert len({folder.name for folder in caches}) == 4
    changed.processing_class.image_mean = [0.485, 0.456, 0.406]
    changed.train()
    assert sum(passes) == 12
    image = changed.train_questions.read_row(0)["images"][0]
    assert image.read().shape == (16, 128)
    with pytest.raises(InputError, match="has changed"):
        type(image)(image.cache, image.source + b" ").read()


def test_the_class_of_the_images_is_kept_and_only_becomes_stricter(tmp_path):
    for number, governance in enumerate((Governance.OPEN, Governance.CREDENTIALED, Governance.OPEN)):
        trainer = make_trainer(tmp_path / str(number), governance=governance, features=tmp_path / "shared")
        trainer.cache.open()
        expected = Governance.OPEN if number == 0 else Governance.CREDENTIALED
        assert read_manifest(trainer.cache.folder, "")["governance"] == str(expected)
    trainer.train()
    (file,) = trainer.cache.folder.glob("*.safetensors")
    assert file in find_files([tmp_path / "shared"], Governance.CREDENTIALED)
    assert file.stat().st_mode & 0o077 == 0  # only its owner reads it


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"data.augment": "true"}, "augment"),
        ({"training.learning_rates": "{encoder: 1e-4, decoder: 1e-3}"}, "trains the image encoder"),
        ({"training.rest_frozen": "false"}, "dropout"),
    ],
)
def test_a_recipe_that_changes_the_features_is_refused(changes, expected):
    settings = {"data.cache_features": "bfloat16", "training.learning_rates": "{encoder: 0, decoder: 1e-3}"}
    load_recipe("tiny-swin-ved-stage1", [f"{key}={value}" for key, value in settings.items()])
    with pytest.raises(ConfigError, match=expected):
        load_recipe("tiny-swin-ved-stage1", [f"{key}={value}" for key, value in (settings | changes).items()])


def test_a_dry_run_counts_the_cache(tmp_path):
    build = build_release(tmp_path, studies=8)
    settings = {"data__cache_features": "float16", "training__learning_rates": "{encoder: 0, decoder: 1e-3}"}
    chosen = fast_recipe("tiny-swin-ved-stage1", selection__studies=None, **settings)
    lines: list[str] = []
    train(chosen, build.workspace.root, tmp_path / "out", build.tree, dry_run=True, log=lines.append)
    (line,) = [line for line in lines if "cached features" in line]
    assert not (tmp_path / "out").exists()
    train(chosen, build.workspace.root, tmp_path / "out", build.tree, log=lines.append, features=tmp_path / "shared")
    (folder,) = (tmp_path / "shared").iterdir()
    count = int(line.split("up to ")[1].split()[0])
    bytes_each = 16 * 128 * 2  # 64 x 64 pixels in patches of 4, merged twice; width 128, float16
    assert f"{count * bytes_each / 1e6:,.1f} MB" in line
    assert re.search(
        r"minutes of one process with this machine's cpu .*\d\.\d{3} s to decode and \d+\.\d{3} s to", line
    )
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")]
    assert count * bytes_each <= sum(sizes) < count * (bytes_each + 200)  # with their names
    assert digest_image(b"") == "cae66941d9efbd404e4d88758ea67670"


def test_the_time_of_a_cache_is_that_of_its_slower_half():
    cost = CacheCost(values=8, decoding=0.3, encoding=0.2, device="cpu")
    assert cost.estimate_seconds(10, workers=0) == pytest.approx(5.0)  # one after the other
    assert cost.estimate_seconds(10, workers=1) == pytest.approx(3.0)
    assert cost.estimate_seconds(10, workers=2) == pytest.approx(2.0)


def test_the_cost_of_a_model_that_is_not_here_is_not_known(tmp_path):
    changes = {"model.size": "null", "model.from_blip2": "owner/not-in-the-cache", "data.cache_features": "bfloat16"}
    chosen = load_recipe("tiny-blip2-multiview", [f"{key}={value}" for key, value in changes.items()])
    assert chosen.family.make_encoder(chosen.model, None) is None
    plain = make_plain_blip2()
    plain.save_pretrained(tmp_path)
    local = chosen.model.model_copy(update={"from_blip2": str(tmp_path)})
    assert chosen.family.make_encoder(local, None).config.image_size == plain.config.vision_config.image_size


@pytest.mark.slow
def test_the_second_pass_reads_the_same_cache(tmp_path, monkeypatch):
    build = build_release(tmp_path, studies=8)
    logs = []
    for dtype in (None, "float32"):
        out = tmp_path / str(dtype)
        passes = count_encoded(monkeypatch)
        rates = "{encoder: 0, decoder: 1e-3}"
        changes = {"data__cache_features": dtype, "training__learning_rates": rates, "training__max_steps": 4}
        second = {"training__hard_negatives": "true", "training__scheduler": "constant"}
        train(fast_recipe("tiny-swin-ved-stage1", **changes, **second), build.workspace.root, out, build.tree)
        logs.append(without_speed(read_log(out / "hard_negatives")))
    assert logs[0] == logs[1]
    (folder,) = (tmp_path / "float32" / "features").iterdir()
    assert sum(passes) == len({name for path in folder.glob("*.safetensors") for name in load_file(path)})
