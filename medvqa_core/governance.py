"""Governance classes: what the licence of a row set allows. Carried by every row set, store, release and checkpoint.

`open` (phantom) < `share-alike` (RJUA, Open-i) < `credentialed` (MIMIC, PhysioNet DUA). A class can be raised; whoever
tries to lower one gets an error. What is derived from several sources has the strictest class among them.
"""

from collections.abc import Iterable
from enum import StrEnum
from ipaddress import ip_address
from urllib.parse import urlsplit

from medvqa_core.errors import GovernanceError


class Governance(StrEnum):
    OPEN = "open"
    SHARE_ALIKE = "share-alike"
    CREDENTIALED = "credentialed"

    @property
    def level(self) -> int:
        """0 for `open`, 1 for `share-alike`, 2 for `credentialed`: higher is stricter."""
        return tuple(Governance).index(self)


def parse(value: str, where: str) -> Governance:
    """Read a class name found at `where`.

    Raises:
        GovernanceError: `value` is none of the three names. An unreadable class is never taken for an open one.
    """
    try:
        return Governance(value)
    except ValueError:
        allowed = ", ".join(Governance)
        raise GovernanceError(f"{where}: governance class {value!r} is unknown; allowed: {allowed}") from None


def strictest(classes: Iterable[Governance]) -> Governance:
    """The class of data derived from all of `classes` (`credentialed` when nothing is known)."""
    return max(classes, key=lambda c: c.level, default=Governance.CREDENTIALED)


def refuse_lowering(current: Governance, wanted: Governance, what: str) -> Governance:
    """Return `wanted` if it is at least as strict as `current`.

    Raises:
        GovernanceError: `wanted` is weaker than `current`.
    """
    if wanted.level < current.level:
        raise GovernanceError(
            f"{what} is {current!s} and cannot become {wanted!s}: a governance class can be raised, never lowered; "
            f"build it again from a source of class {wanted!s}"
        )
    return wanted


def refuse_remote(governance: Governance, endpoint: str | None, what: str) -> None:
    """Let credentialed text go to in-process engines (`endpoint` None) and loopback servers only.

    Raises:
        GovernanceError: `governance` is `credentialed` and `endpoint` names another machine.
    """
    if governance is not Governance.CREDENTIALED or endpoint is None or _is_loopback(endpoint):
        return
    raise GovernanceError(
        f"{what} would send credentialed text to {_host(endpoint) or repr(endpoint)}: allowed are in-process "
        "engines and servers on 127.0.0.1, localhost or [::1]; run the model on this machine"
    )


def _is_loopback(endpoint: str) -> bool:
    host = _host(endpoint)
    if host is None:
        return False
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a DNS name: it may point anywhere
        return False


def _host(endpoint: str) -> str | None:
    """The machine that an address names; None where that cannot be read, or where HTTP clients read it differently."""
    if "\\" in endpoint:  # http://a\@b is b for urllib and a for urllib3
        return None
    try:
        return urlsplit(endpoint).hostname
    except ValueError:
        return None


_DATASET_LINE = "governance class: "


def describe_dataset(what: str, governance: Governance) -> str:
    """A dataset description with a line for the class: `datasets` keeps it through map, filter, saving and joining."""
    return f"{what}\n{_DATASET_LINE}{governance}"


def governance_of_dataset(dataset) -> Governance:
    """The class of a loaded `datasets.Dataset` (or of a split of a DatasetDict).

    Concatenated datasets carry a line each: the strictest holds. A dataset that does not say is `credentialed`: the
    strictest guess cannot leak.
    """
    lines = (dataset.info.description or "").splitlines()
    names = [line.removeprefix(_DATASET_LINE) for line in lines if line.startswith(_DATASET_LINE)]
    return strictest(parse(name, "dataset description") for name in names)
