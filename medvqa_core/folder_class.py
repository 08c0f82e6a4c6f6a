"""The governance class of a model folder: `governance.json` beside the weights.

Files without a format were written before the class `no-derivatives` existed. Their `share-alike` may mean Open-i.
"""

from pathlib import Path

from medvqa_core.governance import Governance, parse
from medvqa_core.json_files import read_object, write_json

GOVERNANCE = "governance.json"
GOVERNANCE_FORMAT = 2


def write_governance(folder: Path, governance: Governance) -> None:
    """Write the class into a folder."""
    write_json(folder / GOVERNANCE, {"governance": str(governance), "format": GOVERNANCE_FORMAT}, indent=None)


def read_governance(folder: Path) -> Governance:
    """The class of a model folder; `credentialed` if it does not declare one.

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
