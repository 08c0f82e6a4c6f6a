"""Copies of the `evaluate` modules that load without this package, for a Space or any folder.

OUT/NAME.py               the module; its imports name every other file, which makes `evaluate.load` copy them
OUT/medvqa_core_*.py, …   the source files that it uses, with relative imports and the tables that they read
OUT/README.md             card with the metadata of a Space
OUT/app.py                the widget of the Space
OUT/requirements.txt      third-party packages
"""

import ast
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from medvqa_core.errors import ConfigError
from medvqa_core.files import output_errors
from medvqa_core.metrics import FOLDER, MODULES

_ROOT = Path(__file__).parents[2]
_IMPORT = re.compile(r"^( *)from ((?:medvqa_core|mimic_cxr_vqa)[\w.]*) import (\(?[^\n]*)", re.MULTILINE)
_TABLE = re.compile(r"Path\(__file__\)\.with_name\(\"([\w.]+)\"\)\.read_text\(encoding=\"utf-8\"\)")
_PIP = {"PIL": "pillow", "yaml": "pyyaml"}
_SPACE = "sdk: gradio\napp_file: app.py\npinned: false\n"
# The widget of `evaluate` needs gradio 3.
_APP = """import json

import evaluate
import gradio

metric = evaluate.load("./{name}.py")
features = metric.features if isinstance(metric.features, dict) else metric.features[0]


def compute(rows, options):
    rows = [row for row in rows if any(str(value).strip() for value in row)]
    columns = dict(zip(features, map(list, zip(*rows))))
    return metric.compute(**columns, **json.loads(options or "{{}}"))


gradio.Interface(
    compute,
    [
        gradio.Dataframe(headers=list(features), datatype="str", type="array", label="Rows"),
        gradio.Textbox(value="{{}}", label="Other arguments of compute, as a JSON object"),
    ],
    gradio.JSON(),
    title="{name}",
    description=metric.info.description,
).launch(show_error=True)
"""


def export_module(name: str, out: Path, others: Mapping[str, Path] | None = None) -> list[str]:
    """Write the module `name` with everything that it imports to `out`, and return the file names.

    Args:
        others: name -> folder of modules outside of this package.

    Raises:
        ConfigError: the name is unknown, or `out` is not empty.
        OutputError: a file cannot be written.
    """
    folders = {module: FOLDER / module for module in MODULES} | dict(others or {})
    if name not in folders:
        raise ConfigError(f"metric {name!r} is unknown. Allowed: {', '.join(folders)}")
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} is not empty. Choose another folder")
    files: dict[str, str] = {}
    script = (folders[name] / f"{name}.py").read_text(encoding="utf-8")
    script = _rewrite(_load_by_path(script, name, f"{name}.py"), files)
    copied = "".join(f"from .{module} import __name__ as _{n}\n" for n, module in enumerate(files))
    head, _, rest = script.partition("import evaluate\n")
    packages = sorted(set().union(*map(_third_party, [script, *files.values()])))
    files = {
        f"{name}.py": f"{head}import evaluate\n\n{copied}{rest}",
        **{f"{module}.py": text for module, text in files.items()},
        "README.md": _make_card(name, folders[name]),
        "app.py": _APP.format(name=name),
        "requirements.txt": "".join(f"{package}\n" for package in packages),
    }
    with output_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (out / file).write_text(text, encoding="utf-8")
    return list(files)


def _rewrite(text: str, files: dict[str, str]) -> str:
    """Make the imports of this package relative, and add the imported files to `files`."""

    def relative(match: re.Match[str]) -> str:
        indent, package, names = match.groups()
        if (_ROOT / package.replace(".", "/")).is_dir():  # submodules of a package
            modules = [name.strip() for name in names.split(",")]
            return "\n".join(f"{indent}from . import {_add(f'{package}.{m}', files)} as {m}" for m in modules)
        return f"{indent}from .{_add(package, files)} import {names}"

    return _IMPORT.sub(relative, text)


def _add(module: str, files: dict[str, str]) -> str:
    name = module.replace(".", "_")
    if name not in files:
        files[name] = ""  # against circles
        source = (_ROOT / module.replace(".", "/")).with_suffix(".py")
        text = source.read_text(encoding="utf-8")
        text = _TABLE.sub(lambda found: repr(source.with_name(found[1]).read_text(encoding="utf-8")), text)
        files[name] = _rewrite(text, files)
    return name


def _third_party(text: str) -> set[str]:
    """Packages that a file imports when it is loaded."""
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return {_PIP.get(package, package) for package in found - set(sys.stdlib_module_names)}


def _load_by_path(text: str, name: str, path: str) -> str:
    """Replace the ways to load a module from this package by `evaluate.load`."""
    for line in (
        "from medvqa_core import metrics\n",
        "import medvqa_core.metrics\n",
        f"from mimic_cxr_vqa import {name}\n",
    ):
        text = text.replace(line, "import evaluate\n")
    for call in (f'medvqa_core.metrics.load("{name}")', f'metrics.load("{name}")', f"{name}.load()"):
        text = text.replace(call, f'evaluate.load("{path}")')
    return text


def _make_card(name: str, folder: Path) -> str:
    """The module's card as the README of a Space, with `evaluate.load` in the place of this package."""
    card = (folder / "README.md").read_text(encoding="utf-8")
    _, front, page = card.split("---\n", 2)
    page = _load_by_path(page, name, f"<this folder>/{name}.py")
    return f"---\n{front}{_SPACE}---\n{page}\n## Packages\n\n```bash\npip install -r requirements.txt\n```\n"
