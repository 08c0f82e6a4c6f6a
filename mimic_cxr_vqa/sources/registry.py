"""The registry of sources that `cxr questions --source NAME` reads studies from. A new one is a file and a line here.

Its governance class is in `medvqa_core/minimum_class.py`. A source without an entry there is credentialed.
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError

if TYPE_CHECKING:  # pyarrow is not imported for `--help`
    from mimic_cxr_vqa.sources.study_set import StudySet

# Name -> module and function (root, SourceOptions) -> StudySet. Synthetic studies have PhysioNet's layout.
SOURCES = {
    "physionet": "mimic_cxr_vqa.sources.physionet:read",
    "phantom": "mimic_cxr_vqa.sources.physionet:read",
    "openi": "mimic_cxr_vqa.sources.openi:read",
}


@dataclass(frozen=True)
class SourceOptions:
    """Options of all sources. Each source uses those that apply to it.

    Attributes:
        reports: folder or zip of MIMIC-CXR's reports. Default: the root.
        labeler: label table of MIMIC-CXR-JPG.
        labels: where Open-i's labels come from.
        encoding: of the report texts.
        sections: MIMIC's file of sections.
        studies: file with the ids of the studies that take part.
    """

    reports: Path | None = None
    labeler: str = "chexpert"
    labels: str = "text"
    encoding: str = "utf-8"
    sections: Path | None = None
    studies: Path | None = None

    def described(self) -> dict[str, str | None]:
        """Return what determines the studies, without paths: files are given by their sha256."""
        files = {name: getattr(self, name) for name in ("sections", "studies")}
        digests = {name: None if path is None else digest_file(path) for name, path in files.items()}
        return {"labeler": self.labeler, "labels": self.labels, "encoding": self.encoding, **digests}


def read_source(name: str, root: Path, options: SourceOptions) -> "StudySet":
    """Return the studies of the source `name` below `root`. Raises ConfigError if the name is unknown."""
    if name not in SOURCES:
        raise ConfigError(f"source {name!r} is unknown. Allowed: {', '.join(SOURCES)}")
    module, _, function = SOURCES[name].partition(":")
    return getattr(importlib.import_module(module), function)(root, options)
