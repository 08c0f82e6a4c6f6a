"""Weights go to the Hub only when their configuration says that the data they learned from may be handed on.

`config.governance` is the class of that data: `open` (synthetic), `share-alike`, `no-derivatives` (adaptations may be
made, not shared) or `credentialed` (MIMIC). Weights whose configuration does not say count as credentialed: a model
that learned from reports can reproduce them. Whoever knows better says so: `model.config.governance = "open"`.
"""

from typing import Any

CLASSES = ("open", "share-alike", "no-derivatives", "credentialed")
PUBLISHABLE = CLASSES[:2]


def check_class(governance: str | None) -> None:
    """Raise ValueError where `governance` is neither None nor one of CLASSES."""
    if governance is not None and governance not in CLASSES:
        raise ValueError(f"governance is {governance!r}; it must be None or one of {', '.join(CLASSES)}")


class GuardedPush:
    """Put in front of PreTrainedModel: nothing is uploaded, private repositories included, but publishable weights.

    Raises:
        PermissionError: the class of the weights is `no-derivatives` or `credentialed`, or not stated.
    """

    config: Any

    def push_to_hub(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse_upload()
        return super().push_to_hub(*args, **kwargs)  # type: ignore[misc]

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("push_to_hub"):
            self._refuse_upload()
        return super().save_pretrained(save_directory, *args, **kwargs)  # type: ignore[misc]

    def _refuse_upload(self) -> None:
        stated = getattr(self.config, "governance", None)
        check_class(stated)
        if stated not in PUBLISHABLE:
            raise PermissionError(
                f"these weights are of class {stated or 'credentialed (their configuration does not say)'} and do not "
                f"go to the Hub; keep them on this machine (only {' and '.join(PUBLISHABLE)} weights may be uploaded)"
            )
