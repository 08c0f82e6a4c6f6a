"""Jinja templates of dataset and model cards. A package, so that they ship; no code but `template_path`."""

from pathlib import Path


def template_path(name: str) -> Path:
    """The file of the card template `name` (such as "mimic_cxr_vqa")."""
    return Path(__file__).parent / f"{name}.md.jinja"
