"""Pages of the site that are not written by hand. mkdocs runs this file as a hook (mkdocs.yml).

`python docs/site_pages.py` writes docs/reference/columns.md, which readers of the repository need too.

- Home, Contributing, Model folders, Examples, Changelog and the tables of report images are files outside docs/.
- Commands comes from the typer application, Columns from the features of the datasets and docs/columns.yaml.
"""

import posixpath
import re
from collections.abc import Iterator
from enum import EnumMeta
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parent.parent
PAGES = {  # file of the repository -> page of the site
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "models/README.md": "models.md",
    "examples/README.md": "examples.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/results/meddqa.md": "performance_reports.md",
}
COMMANDS, COLUMNS = "reference/commands.md", "reference/columns.md"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those of docs/."""
    from mkdocs.structure.files import File

    for uri, text in make_pages().items():
        files.append(File.generated(config, uri, content=text))
    return files


def make_pages() -> dict[str, str]:
    """The text of each page by its path in the site."""
    pages = {uri: copy_page(source) for source, uri in PAGES.items()}
    return pages | {COMMANDS: make_commands()}


def copy_page(source: str) -> str:
    """The text of a Markdown file outside docs/. Links into docs/ are kept, and links to other files become text."""
    text = (REPOSITORY / source).read_text(encoding="utf-8")
    folder = posixpath.dirname(source)

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if not target or target.startswith("http"):
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        page = PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        return f"[{label}]({page}{anchor})" if page.endswith(".md") else label

    text = PICTURE.sub(lambda match: f"![{match[1]}]({match[2].removeprefix('docs/')})", text)
    return LINK.sub(link, text)


def make_commands() -> str:
    """The page of all commands with their arguments and options, as `--help` shows them."""
    import typer

    from medvqa_hub.cli import app

    parts = ["# Commands\n\n`medvqa-hub COMMAND --help` prints the same."]
    parts += [_describe_command(name, command) for name, command in walk_commands(typer.main.get_command(app))]
    return "\n\n".join(parts) + "\n"


def walk_commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield each command that runs something with its name, such as `cxr answer`."""
    parts = getattr(command, "commands", None)
    if parts is None:
        yield " ".join(words), command
        return
    for name, part in parts.items():
        yield from walk_commands(part, (*words, name))


def _describe_command(name: str, command: Any) -> str:
    arguments = [given for given in command.params if given.param_type_name == "argument"]
    usage = " ".join([f"medvqa-hub {name}", *map(_usage, arguments), "[OPTIONS]"])
    lines = [f"## {name}", "", _cell(command.help or ""), "", f"```text\n{usage}\n```", ""]
    rows = [_describe_option(given) for given in command.params if given.name != "help"]
    return "\n".join(lines + (["| option | description |", "|---|---|", *rows] if rows else []))


def _usage(argument: Any) -> str:
    name = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _describe_option(given: Any) -> str:
    is_option = given.param_type_name == "option"
    names = [f"`{name}`" for name in (*given.opts, *given.secondary_opts)] if is_option else [f"`{given.name.upper()}`"]
    remarks = ["required"] if given.required else []
    if (
        not given.required
        and given.default not in (None, (), [])
        and given.default is not False
        and not callable(given.default)
    ):
        remarks.append(f"default: `{getattr(given.default, 'value', given.default)}`")
    annotation = given.type_descriptor.annotation
    if isinstance(annotation, EnumMeta):
        remarks.append("one of " + ", ".join(f"`{choice.value}`" for choice in annotation))
    text = _cell(given.help or "") + (f" ({'; '.join(remarks)})" if remarks else "")
    return f"| {', '.join(names)} | {text} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def make_columns() -> str:
    """The page of all columns: types from the datasets, descriptions from docs/columns.yaml. It is a file of docs/."""
    described = yaml.safe_load((REPOSITORY / "docs" / "columns.yaml").read_text(encoding="utf-8"))
    parts = ["# Columns\n\nTypes as `datasets` shows them. A list has its element type in brackets."]
    for dataset, configs in list_columns().items():
        parts.append(f"## {dataset}")
        for config, columns in configs.items():
            texts = described[dataset]
            lines = [f"### {config}", "", texts["configs"][config], "", "| column | type | content |", "|---|---|---|"]
            lines += [f"| `{name}` | {kind} | {texts['columns'][name]} |" for name, kind in columns.items()]
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def list_columns() -> dict[str, dict[str, dict[str, str]]]:
    """Dataset -> config -> column -> type, from the builders of the bundled samples."""
    from mimic_cxr_vqa import SAMPLE_DIR, MimicCxrVqa
    from rjua_meddqa import SAMPLE_DIR as PAGES_DIR
    from rjua_meddqa import RjuaMeddqa

    found: dict[str, dict[str, dict[str, str]]] = {}
    for name, builder, folder in (("mimic_cxr_vqa", MimicCxrVqa, SAMPLE_DIR), ("rjua_meddqa", RjuaMeddqa, PAGES_DIR)):
        configs = [config.name for config in builder.BUILDER_CONFIGS if config.name != "sample"]
        images = {"image_root": str(folder)} if name == "mimic_cxr_vqa" else {}
        made = {config: builder(config_name=config, data_dir=str(folder), **images) for config in configs}
        found[name] = {
            config: {column: _type(feature) for column, feature in builder.info.features.items()}
            for config, builder in made.items()
        }
    return found


def _type(feature: Any) -> str:
    inner = getattr(feature, "feature", None)
    if inner is not None:
        return f"list[{_type(inner)}]"
    if isinstance(feature, dict):
        if len(feature) > 9:  # the labels, all of one type
            return f"struct of {len(feature)} × {_type(next(iter(feature.values())))}"
        return "struct(" + ", ".join(f"{name}: {_type(part)}" for name, part in feature.items()) + ")"
    return getattr(feature, "dtype", None) if type(feature).__name__ == "Value" else type(feature).__name__


if __name__ == "__main__":
    (REPOSITORY / "docs" / COLUMNS).write_text(make_columns(), encoding="utf-8")
