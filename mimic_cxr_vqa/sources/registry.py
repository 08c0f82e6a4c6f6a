"""The registry of sources that `cxr questions --source NAME` reads studies from.

To add a source, write its reader in its own file (`openi.py` is an example) and add a line to SOURCES. Every source
needs an entry in `medvqa_core/minimum_class.py`. At runtime, a missing one counts as credentialed.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError
from medvqa_core.registry import load_entry

if TYPE_CHECKING:  # pyarrow is not imported for `--help`
    from mimic_cxr_vqa.sources.study_set import StudySet

# Name -> module and function (root, SourceOptions) -> StudySet. Synthetic studies have PhysioNet's layout.
SOURCES = {
    "physionet": "mimic_cxr_vqa.sources.physionet:read_studies",
    "phantom": "mimic_cxr_vqa.sources.physionet:read_studies",
    "openi": "mimic_cxr_vqa.sources.openi:read_studies",
}


@dataclass(frozen=True)
class SourceOptions:
    """Options of all sources. Each source uses those that apply to it.

    Attributes:
        reports: folder of MIMIC-CXR, or its mimic-cxr-reports.zip. Default: the root.
        labeler: label table of MIMIC-CXR-JPG, `chexpert` or `negbio`.
        labels: where Open-i's labels come from, `text` or `mesh`.
        encoding: of the report texts.
        sections: MIMIC's `mimic_cxr_sectioned.csv`.
        studies: file with the ids of the studies that take part. `read_source` applies it to every source.
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


DEFAULTS = SourceOptions()


def read_source(name: str, root: Path, options: SourceOptions) -> "StudySet":
    """Return the studies of the source `name` below `root`, restricted to those in `options.studies`.

    Raises:
        ConfigError: the name is unknown.
        InputError: the file of studies cannot be read, or has a study that the source lacks.
    """
    if name not in SOURCES:
        raise ConfigError(f"source {name!r} is unknown. Allowed: {', '.join(SOURCES)}")
    found = load_entry(SOURCES[name])(root, options)
    if options.studies is None:
        return found
    from mimic_cxr_vqa.sources.chosen import choose_studies

    return replace(found, studies=choose_studies(found.studies, options.studies, f"the source {name!r}"))
