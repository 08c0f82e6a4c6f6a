"""Governance classes: what the licence of a row set allows. Carried by every row set, store, release and checkpoint.

`open` (phantom) < `share-alike` (RJUA, CC BY-NC-SA) < `no-derivatives` (Open-i, CC BY-NC-ND: adaptations may be made,
not shared) < `credentialed` (MIMIC, PhysioNet DUA). A class can be raised; whoever tries to lower one gets an error.
What is derived from several sources has the strictest class among them, and a part that does not say is credentialed.

The class that content itself demands is in `content_floor.py`, the class of a loaded dataset in `dataset_class.py`, the
guards at the ways out are in `ways_out.py`.
"""

from collections.abc import Iterable
from enum import StrEnum

from medvqa_core.addresses import is_loopback, parse_host
from medvqa_core.attestation import Attestation
from medvqa_core.errors import GovernanceError


class Governance(StrEnum):
    OPEN = "open"
    SHARE_ALIKE = "share-alike"
    NO_DERIVATIVES = "no-derivatives"
    CREDENTIALED = "credentialed"

    @property
    def level(self) -> int:
        """0 for `open` to 3 for `credentialed`: higher is stricter."""
        return tuple(Governance).index(self)

    @property
    def publishable(self) -> bool:
        """Whether what is made from the rows may be handed on."""
        return self in (Governance.OPEN, Governance.SHARE_ALIKE)

    @property
    def private(self) -> bool:
        """Whether files of this class are readable by their owner alone (modes 0600 and 0700)."""
        return self is Governance.CREDENTIALED


def parse(value: str, where: str) -> Governance:
    """Read a class name found at `where`.

    Raises:
        GovernanceError: `value` is none of the names. An unreadable class is never taken for an open one.
    """
    try:
        return Governance(value)
    except ValueError:
        allowed = ", ".join(Governance)
        raise GovernanceError(f"{where}: governance class {value!r} is unknown; allowed: {allowed}") from None


def strictest(classes: Iterable[Governance]) -> Governance:
    """The class of data derived from all of `classes` (`credentialed` when nothing is known)."""
    return max(classes, key=lambda c: c.level, default=Governance.CREDENTIALED)


def check_not_lowered(current: Governance, wanted: Governance, what: str) -> Governance:
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


def check_endpoint_allowed(
    governance: Governance, endpoint: str | None, what: str, attestation: Attestation | None = None
) -> None:
    """Let credentialed text go to in-process engines (`endpoint` None), loopback servers and attested hosts only.

    Raises:
        GovernanceError: `governance` is `credentialed` and `endpoint` names another machine that nobody attests.
    """
    if governance is not Governance.CREDENTIALED or endpoint is None or is_loopback(endpoint):
        return
    if attestation is not None and attestation.covers(endpoint):
        return
    unnamed = "the attestation does not name it; " if attestation is not None else ""
    raise GovernanceError(
        f"{what} would send credentialed text to {parse_host(endpoint) or repr(endpoint)}: {unnamed}allowed are "
        "in-process engines, servers on 127.0.0.1, localhost or [::1], and hosts that --attestation FILE names; run "
        "the model on this machine"
    )


def check_publishable(governance: Governance, what: str, where: str) -> None:
    """Let only `open` and `share-alike` content be handed on, to private repositories too.

    Raises:
        GovernanceError: `governance` is `no-derivatives` or `credentialed`.
    """
    if governance.publishable:
        return
    reason = (
        "the licence of its source (CC BY-NC-ND) lets adaptations be made, not shared"
        if governance is Governance.NO_DERIVATIVES
        else "it holds or may hold credentialed rows, which stay with whoever signed for them"
    )
    raise GovernanceError(
        f"{what} is of class {governance} and does not go to {where}: {reason}; keep it on this machine"
    )
