"""Tiny trained-looking model folders to push, and processes that load from the loopback Hub as anybody would."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evaluation_models import save_blip2, save_swin_ved
from hub_server import HubDouble
from swin_ved_clean import PREAMBLE

from medvqa_core.folder_class import write_governance
from medvqa_core.governance import Governance
from medvqa_hub.families.history import write_stages
from medvqa_hub.publishing.model_card import write_folder_card

# Family -> function (folder, texts, seed) that saves a tiny random model and its processor. Every family needs one.
SAVE: dict[str, Callable[[Path, list[str], int], Any]] = {"swin_ved": save_swin_ved, "blip2_multiview": save_blip2}
TEXTS = ["Is there evidence of edema?", "Which support devices are present?", "no edema is seen .", "a tube ."]
STAGE = {
    "kind": "swin_ved", "stage": 2, "reward": None, "base": None,
    "data": {
        "source": "phantom", "fingerprint": "f" * 16, "studies": 17, "questions": 472,
        "answers": {"engine": "extractive", "model": "rules"},
    },
}  # fmt: skip


def save_model(
    folder: Path,
    kind: str = "swin_ved",
    governance: str | None = "open",
    seed: int = 0,
    texts: Any = TEXTS,
    **data: Any,
) -> Path:
    """A random model as training leaves it: class in the configuration and beside it, history, recipe, card.

    Args:
        data: of the last stage, in place of what is there.
    """
    SAVE[kind](folder, texts, seed)
    if governance is not None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(
            json.dumps({**config, "governance": governance}, indent=2, sort_keys=True) + "\n"
        )
        write_governance(folder, Governance(governance))
    write_stages(folder, [{**STAGE, "kind": kind, "data": {**STAGE["data"], **data}}], 40, 5400, 1)
    (folder / "recipe.yaml").write_text(f"model:\n  kind: {kind}\n")
    write_folder_card(folder, kind, Governance(governance or "credentialed"))
    return folder


def run_stranger(hub: HubDouble, code: str, folder: Path) -> str:
    """Run `code` in a process of its own without this project's packages, with a fresh cache and the loopback Hub."""
    environment = {
        **os.environ, "HF_ENDPOINT": hub.endpoint, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(folder / "cache"), "HF_TOKEN": hub.token, "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-I", "-c", PREAMBLE + code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
