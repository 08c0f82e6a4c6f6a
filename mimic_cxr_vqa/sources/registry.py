"""The table of sources: where `cxr questions --source NAME` reads its studies. A new one is a file and a line here.

Its governance class stands in `medvqa_core/minimum_class.py`; a source that is not there is credentialed.
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError

if TYPE_CHECKING:
    from mimic_cxr_vqa.sources.study_set import StudySet

# Name -> module and function: (root, SourceOptions) -> StudySet. Drawn studies lie as PhysioNet's do.
SOURCES = {
    "physionet": "mimic_cxr_vqa.sources.physionet:read",
    "phantom": "mimic_cxr_vqa.sources.physionet:read",
    "openi": "mimic_cxr_vqa.sources.openi:read",
}


@dataclass(frozen=True)
class SourceOptions:
    """What the command line can say of a source; each takes what it knows.

    Attributes:
        reports: folder of MIMIC-CXR's reports, or their zip; None: the root.
        labeler: label table of MIMIC-CXR-JPG.
        labels: where Open-i's labels come from.
        encoding: of the report texts.
        sections: MIMIC's file of sections.
        studies: file of the study ids that take part.
    """

    reports: Path | None = None
    labeler: str = "chexpert"
    labels: str = "text"
    encoding: str = "utf-8"
    sections: Path | None = None
    studies: Path | None = None

    def described(self) -> dict[str, str | None]:
        """What decides about the studies, without a path: files by their sha256."""
        files = {name: getattr(self, name) for name in ("sections", "studies")}
        digests = {name: None if path is None else digest_file(path) for name, path in files.items()}
        return {"labeler": self.labeler, "labels": self.labels, "encoding": self.encoding, **digests}


def read_source(name: str, root: Path, options: SourceOptions) -> "StudySet":
    """The studies of the source `name` below `root`. Raises ConfigError for an unknown one."""
    if name not in SOURCES:
        raise ConfigError(f"source {name!r} is unknown; allowed: {', '.join(SOURCES)}")
    module, _, function = SOURCES[name].partition(":")
    return getattr(importlib.import_module(module), function)(root, options)
