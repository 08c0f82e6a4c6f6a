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
    """Check, stage, scan and push a rebuild spec. `dry_run` only prints what would be pushed.

    Its tables may hold MIMIC's study ids. `read_rebuild_spec` checks that it holds nothing else but our own texts,
    settings and counts.

    Raises:
        ConfigError, OutputError: see `send`.
        GovernanceError: the stated class may not be pushed, or the scan found something.
        InputError: the folder is not a rebuild spec, holds other data, or was changed.
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
    return send({name: folder / name for name in names}, plan, dry_run, hub, log, id_tables=tables)
