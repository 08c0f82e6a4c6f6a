"""Weights go to the Hub only when their configuration says that the data they learned from may be handed on.

`config.governance` is the class of that data: `open` (synthetic), `share-alike`, `no-derivatives` (adaptations may be
made, not shared) or `credentialed` (MIMIC). Weights whose configuration does not say count as credentialed: a model
that learned from reports can reproduce them. Whoever knows better says so: `model.config.governance = "open"`.

The card that goes with them is the README.md of the folder that they were loaded from, where it is theirs still: a
folder of training, the same weights, the same class. Otherwise it says what the configuration says, and no more.

This file stands in the folder of every model of ours, the same to the letter: the Hub copies one model's folder alone,
and the guard goes with it. Change one, and copy it to the others; a test compares them.
"""

import hashlib
from pathlib import Path
from typing import Any

CLASSES = ("open", "share-alike", "no-derivatives", "credentialed")
PUBLISHABLE = CLASSES[:2]
LICENCES = {"open": "apache-2.0", "share-alike": "cc-by-nc-sa-4.0"}
CARD, HISTORY, WEIGHTS = "README.md", "training.json", "*.safetensors"  # of a folder that training wrote
REPOSITORY = "OWNER/NAME"  # stands in that card where the repository's name belongs


def check_class(governance: str | None) -> None:
    """Raise ValueError where `governance` is neither None nor one of CLASSES."""
    if governance is not None and governance not in CLASSES:
        raise ValueError(f"governance is {governance!r}; it must be None or one of {', '.join(CLASSES)}")


class GuardedPush:
    """Put in front of PreTrainedModel: nothing is uploaded, private repositories included, but publishable weights.

    Raises:
        PermissionError: the class of the weights is `no-derivatives` or `credentialed`, or not stated; or training
            wrote no card, as where a licence asks for more than a class.
    """

    config: Any
    title: str = ""  # what people call the model
    name_or_path: str = ""  # where the weights were loaded from

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

    def write_card(self, folder: Any, repo_id: str) -> None:
        """Write the README.md for the weights that were saved into `folder` and go to `repo_id`."""
        source, tag = self._trained_in(), f"\n- governance-{self.config.governance}\n"
        text = self._plain_card(repo_id)
        if source is not None and Path(folder).resolve() != source.resolve() and _digest(folder) == _digest(source):
            card = (source / CARD).read_text(encoding="utf-8")
            text = card.replace(REPOSITORY, repo_id) if tag in card else text
        (Path(folder) / CARD).write_text(text, encoding="utf-8")

    def _trained_in(self) -> Path | None:
        """The folder of training that the weights were loaded from; None where there is none."""
        return Path(self.name_or_path) if self.name_or_path and (Path(self.name_or_path) / HISTORY).is_file() else None

    def _plain_card(self, repo_id: str) -> str:
        governance = self.config.governance
        made = "RJUA-MedDQA (Jin et al., KDD 2024), under its licence: the same terms, no commercial use"
        return PLAIN_CARD.format(
            name=type(self).__name__,
            title=self.title,
            repository=repo_id,
            governance=governance,
            licence=LICENCES[governance],
            origin="synthetic data, or nothing" if governance == "open" else made,
        )

    def refuse_upload(self) -> None:
        """Raise a PermissionError where these weights may not be uploaded."""
        stated = getattr(self.config, "governance", None)
        check_class(stated)
        if stated not in PUBLISHABLE:
            raise PermissionError(
                f"these weights are of class {stated or 'credentialed (their configuration does not say)'} and do not "
                f"go to the Hub; keep them on this machine (only {' and '.join(PUBLISHABLE)} weights may be uploaded)"
            )
        source = self._trained_in()
        if source is not None and not (source / CARD).is_file():
            raise PermissionError(
                f"{source} was trained and has no card ({CARD}), as where the licence of its answers asks for a name "
                "and a notice; push it with: medvqa-hub push model, which sees to that"
            )


def _digest(folder: Any) -> list[tuple[str, str]]:
    """Names and hashes of the weight files in `folder`."""
    found = []
    for path in sorted(Path(folder).glob(WEIGHTS)):
        with open(path, "rb") as file:
            found.append((path.name, hashlib.file_digest(file, "sha256").hexdigest()))
    return found


# The text of a card: its lines of Python are for its readers, nothing here runs them.
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

What these weights were trained on, and how well they answer, is not told here: they were pushed by themselves, without
the folder of a training run. Their configuration says governance class `{governance}`: trained on {origin}.

## Use

```python
from transformers import AutoModelForImageTextToText, AutoProcessor

repository = "{repository}"
model = AutoModelForImageTextToText.from_pretrained(repository, trust_remote_code=True).eval()
processor = AutoProcessor.from_pretrained(repository, trust_remote_code=True)
```

`model.push_to_hub` sends weights, configuration and code; the processor comes by `processor.push_to_hub`.
"""
