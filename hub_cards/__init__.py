"""Jinja templates of dataset and model cards, and their metadata."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def template_path(name: str) -> Path:
    """The file of a card template, such as "mimic_cxr_vqa"."""
    return Path(__file__).parent / f"{name}.md.jinja"


def render(name: str, metadata: Mapping[str, Any], **values: Any) -> str:
    """Render a card with its metadata. Raises jinja2.UndefinedError if a value is missing."""
    import yaml
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.get_template(template_path(name).name).render(**values)
    front = yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=True, width=1_000)
    return f"---\n{front}---\n\n{page.strip()}\n"
