"""Guard for uploads of weights: `config.governance`, the class of the training data, must be `open`.

Weights without a class count as credentialed, because a model can repeat the reports that it was trained on. If you
know better, set `model.config.governance = "open"`. Every model's folder has the same copy of this file.
"""

from pathlib import Path
from typing import Any

CLASSES = ("open", "share-alike", "no-derivatives", "credentialed")
COMMAND = "Upload them with a card: medvqa-hub push model"


class GuardedPush:
    """Mixin before PreTrainedModel that refuses to upload restricted weights, to private repositories too."""

    def push_to_hub(self, *args: Any, **kwargs: Any) -> Any:
        self.refuse_upload()
        return super().push_to_hub(*args, **kwargs)  # type: ignore[misc]

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("push_to_hub"):
            self.refuse_upload()
        return super().save_pretrained(save_directory, *args, **kwargs)  # type: ignore[misc]

    def refuse_upload(self) -> None:
        """Raise PermissionError if these weights must not be uploaded, ValueError if their class is unknown."""
        governance = getattr(self.config, "governance", None)  # type: ignore[attr-defined]
        if governance is not None and governance not in CLASSES:
            raise ValueError(f"governance is {governance!r}. It must be None or one of {', '.join(CLASSES)}.")
        if governance != CLASSES[0]:
            class_name = governance or "credentialed (config.governance is not set)"
            raise PermissionError(f"These weights are of class {class_name}. Only open ones may be uploaded. {COMMAND}")
        folder = Path(getattr(self, "name_or_path", None) or "/")
        if (folder / "training.json").is_file() and not (folder / "README.md").is_file():
            raise PermissionError(f"{folder} has no card, but its licence may require one. {COMMAND}")
