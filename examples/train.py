"""Train a tiny SwinVED for a few steps by a modified recipe, like `medvqa-hub train`."""

import sys
from pathlib import Path

from medvqa_hub.training.recipes import load_recipe
from medvqa_hub.training.run import train

out = Path(sys.argv[1])
recipe = load_recipe(
    "tiny-swin-ved-stage1",
    [
        "training.epochs=null",
        "training.max_steps=15",
        "training.learning_rates.encoder=0.003",
        "training.studies_per_batch=4",
        "training.studies_per_step=4",
        "selection.metric=loss",
    ],
)
train(recipe, data=out / "cxr", out=out / "stage1", image_root=out / "phantom")  # resumes
print("the best model:", out / "stage1")
