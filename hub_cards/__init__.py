"""Jinja templates of dataset and model cards: finding and filling them; `croissant.py` is what catalogues read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def template_path(name: str) -> Path:
    """The file of the card template `name` (such as "mimic_cxr_vqa")."""
    return Path(__file__).parent / f"{name}.md.jinja"


def render(name: str, metadata: Mapping[str, Any], **values: Any) -> str:
    """The card of the template `name`, which may extend another one, with its metadata in front.

    Raises:
        jinja2.UndefinedError: the template uses a value that was not given.
    """
    import yaml
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.get_template(template_path(name).name).render(**values)
    front = yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=True, width=1_000)
    return f"---\n{front}---\n\n{page.strip()}\n"
