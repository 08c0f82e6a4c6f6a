"""`medvqa-hub push recipe`: what may be shared of a dataset whose rows may not (`mimic_cxr_vqa/recipe.py`)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from medvqa_core.governance import parse, refuse_publishing
from medvqa_hub.publishing.push import DATASET, Pushed, PushPlan, push_folder
from medvqa_hub.publishing.scanning import scan
from medvqa_hub.publishing.showing import show_push
from medvqa_hub.publishing.staging import staged

KIND = "recipe"


def push_recipe(
    folder: Path,
    repo_id: str,
    public: bool | None = None,
    version: str | None = None,
    dry_run: bool = False,
    hub: Any = None,
    say: Callable[[str], None] = print,
) -> Pushed | None:
    """Check, stage, scan and push a recipe; with `dry_run` show what would be pushed.

    The study ids of a recipe are MIMIC's, and are what it is for; `read_recipe` has checked that its tables hold
    nothing beside ids and the dataset's own words.

    Raises:
        ConfigError: as `PushPlan`.
        GovernanceError: the folder says a class that is not handed on, or the scan finds what must not leave.
        InputError: it is no recipe, or was changed.
        OutputError: see `push_folder`.
    """
    from mimic_cxr_vqa.recipe import read_recipe

    manifest = read_recipe(folder)
    governance = parse(manifest["governance"], str(folder))
    refuse_publishing(governance, f"recipe {folder}", "the Hub")
    plan = PushPlan(repo_id, DATASET, governance, public=public, version=version)
    names = ["manifest.json", *sorted(manifest["files"])]
    with staged({name: folder / name for name in names}, KIND, governance) as staging:
        scan(staging, ids_of={name for name in names if name.endswith(".parquet")})
        if dry_run:
            show_push(staging, plan, (folder / "README.md").read_text(encoding="utf-8"), say)
            return None
        return push_folder(staging, plan, hub, say)
