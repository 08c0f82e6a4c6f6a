"""`medvqa-hub push rebuild-spec`: push what may be shared of a dataset whose rows may not be."""

from collections.abc import Callable
from typing import Any

from medvqa_core.files import MANIFEST
from medvqa_core.governance import check_publishable, parse
from medvqa_hub.publishing.push import DATASET, PushPlan, PushResult
from medvqa_hub.publishing.sending import Push, send


def push_rebuild_spec(
    options: Push, dry_run: bool = False, hub: Any = None, log: Callable[[str], None] = print
) -> PushResult | None:
    """Check, stage, scan and push a rebuild spec; with `dry_run` show what would be pushed.

    The study ids of a rebuild spec are MIMIC's, and are what it is for; `read_rebuild_spec` has checked that it holds
    nothing beside ids, the dataset's own words, settings and counts, and its card is the one that belongs to these.

    Raises:
        ConfigError, OutputError: see `send`.
        GovernanceError: the folder says a class that is not handed on, or the scan finds what must not leave.
        InputError: it is not a rebuild spec, holds more than one does, or was changed.
    """
    from mimic_cxr_vqa.rebuild_spec import check_card_matches
    from mimic_cxr_vqa.rebuild_spec_check import KIND, read_rebuild_spec

    folder = options.folder
    manifest = read_rebuild_spec(folder)
    governance = parse(manifest["governance"], str(folder))
    check_publishable(governance, f"rebuild spec {folder}", "the Hub")
    check_card_matches(folder, manifest)
    plan = PushPlan(options.repo_id, DATASET, governance, False, options.public, options.version, KIND)
    names = [MANIFEST, *sorted(manifest["files"])]
    tables = {name for name in names if name.endswith(".parquet")}
    return send({name: folder / name for name in names}, plan, dry_run, hub, log, ids_of=tables)
