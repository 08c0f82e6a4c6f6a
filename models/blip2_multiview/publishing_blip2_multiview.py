"""Guard for uploads of weights: `config.governance` must allow them, and a card states class and licence.

The class is that of the training data: `open` (synthetic), `share-alike`, `no-derivatives` or `credentialed` (MIMIC).
Weights without a class count as credentialed, because a model can reproduce the reports that it was trained on. If you
know better, set `model.config.governance = "open"`.

Every model's folder has the same copy of this file, because the Hub copies one folder alone.
"""

import hashlib
from pathlib import Path
from typing import Any

CLASSES = ("open", "share-alike", "no-derivatives", "credentialed")
LICENCES = {"open": "apache-2.0", "share-alike": "cc-by-nc-sa-4.0"}  # of the classes that may be uploaded
ORIGINS = {"open": "synthetic data, or none", "share-alike": "RJUA-MedDQA (Jin et al., KDD 2024), under its licence"}
CARD = "README.md"
PLAIN_CARD = """---
license: {licence}
language: en
library_name: transformers
pipeline_tag: image-text-to-text
tags:
- medical
- radiology
- visual-question-answering
- custom_code
- governance-{governance}
---

# {name}: {title} for medical visual question answering

Not for clinical use. Answers can be fluent and wrong.

Training and scores are not described here, because these weights were uploaded without the folder of a training run.
Their governance class is `{governance}`: they were trained on {origin}.

```python
AutoModelForImageTextToText.from_pretrained("{repository}", trust_remote_code=True)
```
"""


class GuardedPush:
    """Mixin before PreTrainedModel that refuses to upload restricted weights, to private repositories too."""

    config: Any
    title: str = ""
    name_or_path: str = ""

    def push_to_hub(self, *args: Any, **kwargs: Any) -> Any:
        self.refuse_upload()
        return super().push_to_hub(*args, **kwargs)  # type: ignore[misc]

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("push_to_hub"):
            self.refuse_upload()
        return super().save_pretrained(save_directory, *args, **kwargs)  # type: ignore[misc]

    def _upload_modified_files(self, working_dir: Any, repo_id: str, *args: Any, **kwargs: Any) -> Any:
        self.write_card(working_dir, repo_id)
        return super()._upload_modified_files(working_dir, repo_id, *args, **kwargs)  # type: ignore[misc]

    def refuse_upload(self) -> None:
        """Raise PermissionError if these weights must not be uploaded, ValueError if their class is unknown."""
        governance = getattr(self.config, "governance", None)
        if governance is not None and governance not in CLASSES:
            raise ValueError(f"governance is {governance!r}. It must be None or one of {', '.join(CLASSES)}.")
        if governance not in LICENCES:
            raise PermissionError(
                f"These weights are of class {governance or 'credentialed (config.governance is not set)'}. Only "
                f"{' and '.join(LICENCES)} weights may be uploaded to the Hub."
            )
        source = self._training_folder()
        if source is not None and not (source / CARD).is_file():
            raise PermissionError(
                f"{source} has no card ({CARD}), for example because the licence of its answers requires a notice. "
                "Upload it with: medvqa-hub push model"
            )

    def write_card(self, folder: Any, repo_id: str) -> None:
        """Write README.md: the card of training if the weights in `folder` are unchanged, else a plain one."""
        governance, source = self.config.governance, self._training_folder()
        text = PLAIN_CARD.format(
            name=type(self).__name__, title=self.title, repository=repo_id, governance=governance,
            licence=LICENCES[governance], origin=ORIGINS[governance],
        )  # fmt: skip
        if source is not None and Path(folder).resolve() != source.resolve() and _digest(folder) == _digest(source):
            card = (source / CARD).read_text(encoding="utf-8")
            text = card.replace("OWNER/NAME", repo_id) if f"\n- governance-{governance}\n" in card else text
        (Path(folder) / CARD).write_text(text, encoding="utf-8")

    def _training_folder(self) -> Path | None:
        """The folder of a training run that the weights were loaded from, if any."""
        folder = Path(self.name_or_path)
        return folder if self.name_or_path and (folder / "training.json").is_file() else None


def _digest(folder: Any) -> list[tuple[str, str]]:
    files = sorted(Path(folder).glob("*.safetensors"))
    return [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]
