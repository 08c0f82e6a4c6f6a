"""The governance class of a model's folder: `governance.json` beside the weights.

Files without a format are older than the class `no-derivatives`: what they call `share-alike` learned from Open-i.
"""

from pathlib import Path

from medvqa_core.governance import Governance, parse
from medvqa_core.json_files import read_object, write_json

GOVERNANCE = "governance.json"
GOVERNANCE_FORMAT = 2  # the first named no format


def write_governance(folder: Path, governance: Governance) -> None:
    """Write the class beside what it is about."""
    write_json(folder / GOVERNANCE, {"governance": str(governance), "format": GOVERNANCE_FORMAT}, indent=None)


def read_governance(folder: Path) -> Governance:
    """The class that a model folder carries; `credentialed` where it does not state one, since nothing stricter exists.

    Raises:
        GovernanceError: the class is unknown.
        InputError: the file cannot be read.
    """
    path = folder / GOVERNANCE
    if not path.exists():
        return Governance.CREDENTIALED
    found = read_object(path, "choose another folder")
    governance = parse(str(found.get("governance")), str(path))
    if governance is Governance.SHARE_ALIKE and "format" not in found:
        return Governance.NO_DERIVATIVES
    return governance
