"""Governance classes: what the licence of a dataset allows. Every dataset, store, release and checkpoint carries one.

`open` (phantom) < `share-alike` (RJUA, CC BY-NC-SA) < `no-derivatives` (Open-i, CC BY-NC-ND: adaptations must not be
shared) < `credentialed` (MIMIC, PhysioNet DUA). A class can only become stricter. Data derived from several sources has
the strictest of their classes, and a part without a declared class counts as credentialed.

See also `minimum_class.py` (the class that content requires), `dataset_class.py` (the class of a loaded dataset) and
`upload_guards.py`.
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
        """Whether content derived from the rows may be shared."""
        return self in (Governance.OPEN, Governance.SHARE_ALIKE)

    @property
    def private(self) -> bool:
        """Whether files of this class are readable by their owner only (modes 0600 and 0700)."""
        return self is Governance.CREDENTIALED


def parse(value: str, where: str) -> Governance:
    """Parse a class name found at `where`. Raises GovernanceError if it is unknown.

    Examples:
        >>> parse("open", "manifest.json").value
        'open'
    """
    try:
        return Governance(value)
    except ValueError:
        allowed = ", ".join(Governance)
        raise GovernanceError(f"{where}: governance class {value!r} is unknown. Allowed: {allowed}") from None


def strictest(classes: Iterable[Governance]) -> Governance:
    """The class of data derived from all of `classes`; `credentialed` for none.

    Examples:
        >>> strictest([Governance.OPEN, Governance.SHARE_ALIKE]).value
        'share-alike'
    """
    return max(classes, key=lambda c: c.level, default=Governance.CREDENTIALED)


def check_not_lowered(current: Governance, wanted: Governance, what: str) -> Governance:
    """Return `wanted` if it is at least as strict as `current`. Raises GovernanceError otherwise.

    Examples:
        >>> check_not_lowered(Governance.OPEN, Governance.CREDENTIALED, "the answers").value
        'credentialed'
    """
    if wanted.level < current.level:
        raise GovernanceError(
            f"{what} is {current!s} and cannot become {wanted!s}: a governance class can be raised, never lowered. "
            f"Build it again from a source of class {wanted!s}"
        )
    return wanted


def check_endpoint_allowed(
    governance: Governance, endpoint: str | None, what: str, attestation: Attestation | None = None
) -> None:
    """Check that texts may be sent to `endpoint` (None: this process).

    Raises:
        GovernanceError: the texts are credentialed, and `endpoint` is another machine without an attestation.
    """
    if governance is not Governance.CREDENTIALED or endpoint is None or is_loopback(endpoint):
        return
    if attestation is not None and attestation.covers(endpoint):
        return
    unnamed = "the attestation does not name it; " if attestation is not None else ""
    raise GovernanceError(
        f"{what} would send credentialed text to {parse_host(endpoint) or repr(endpoint)}: {unnamed}allowed are "
        "in-process engines, servers on 127.0.0.1, localhost or [::1], and hosts that --attestation FILE names"
    )


def check_publishable(governance: Governance, what: str, where: str) -> None:
    """Check that content may be shared, also in private repositories.

    Raises:
        GovernanceError: `governance` is `no-derivatives` or `credentialed`.
    """
    if governance.publishable:
        return
    reason = (
        "the licence of its source (CC BY-NC-ND) does not allow sharing adaptations"
        if governance is Governance.NO_DERIVATIVES
        else "it contains or may contain credentialed rows, which must not be shared"
    )
    raise GovernanceError(
        f"{what} is of class {governance} and must not go to {where}: {reason}. Keep it on this machine"
    )
