"""Pages, docstrings and comments only name modules, functions and files that exist."""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest
from paths import PACKAGES, REPOSITORY

FOLDERS = (
    "medvqa_core",
    "mimic_cxr_vqa",
    "rjua_meddqa",
    "medvqa_hub",
    "models",
    "hub_cards",
    "benchmarks",
    "docs",
    "examples",
)
DOTTED = re.compile(rf"(?<![\w/.-])(?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_]\w*)+")
FILE = re.compile(r"(?<![\w/.-])(?:[\w-]+/)*[\w-]+\.(?:py|tsv)\b(?!\w)")
# Files of other programs, of the reader, or of a repository on the Hub.
OTHERS = re.compile(
    r"NAME|^FILE|^my_|^mine|^path/to|EXAMPLE|^(modeling|configuration|processing)_<?name|(^|/)app\.py$|^tasks\.py$"
)


def base(package: str) -> Path:
    folder = REPOSITORY / package
    return folder if folder.is_dir() else REPOSITORY / "models" / package


@cache
def names_of(file: Path) -> frozenset[str]:
    """Names that a module defines, imports, or gives to a class's attributes."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {alias.asname or alias.name for alias in node.names}
    return frozenset(found)


@cache
def exists(dotted: str) -> bool:
    """Whether `package.module.name` exists. Names behind the first one in a module may be attributes of any class."""
    package, *parts = dotted.split(".")
    place = base(package)
    while parts and (place / parts[0]).is_dir() and not (place / f"{parts[0]}.py").is_file():
        place /= parts.pop(0)
    module = place / f"{parts[0]}.py" if parts else place
    if parts and module.is_file():
        parts.pop(0)
    else:
        module = place / "__init__.py"
    return not parts or (module.is_file() and parts[0] in names_of(module))


@cache
def files() -> tuple[str, ...]:
    """Every file of the repository as `/path`."""
    places = [
        path for folder in (*FOLDERS, "tests", "harness", "spaces") for path in (REPOSITORY / folder).rglob("*.*")
    ]
    places += [*REPOSITORY.glob("*.py"), *(REPOSITORY / ".github").glob("*.py")]
    return tuple(f"/{path.relative_to(REPOSITORY).as_posix()}" for path in places)


def stale(text: str) -> list[str]:
    """The modules, names and files in `text` that do not exist."""
    missing = [name for name in DOTTED.findall(text) if not exists(name)]
    named = [name for name in FILE.findall(text) if not OTHERS.search(name)]
    return missing + [name for name in named if not any(path.endswith(f"/{name}") for path in files())]


def prose(file: Path) -> str:
    """Docstrings and comments of a Python file."""
    source = file.read_text(encoding="utf-8")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    comments = [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT]
    return "\n".join([*texts, *comments])


PAGES = [*REPOSITORY.glob("*.md"), *(page for place in ("docs", "models", "examples", "spaces", "harness")
                                     for page in (REPOSITORY / place).rglob("*.md"))]  # fmt: skip


@pytest.mark.parametrize("page", sorted(str(page.relative_to(REPOSITORY)) for page in PAGES))
def test_pages_name_existing_modules(page):
    assert stale((REPOSITORY / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "models/README.md"])
def test_names_are_in_the_files_that_a_page_gives(page):
    """`NAME` in `path/file.py`."""
    named = re.findall(r"`(\w+)` in\s+`([\w/]+\.py)`", (REPOSITORY / page).read_text(encoding="utf-8"))
    assert named
    assert [(name, file) for name, file in named if name not in names_of(REPOSITORY / file)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_and_comments_name_existing_modules(folder):
    found = {str(file.relative_to(REPOSITORY)): stale(prose(file)) for file in (REPOSITORY / folder).rglob("*.py")}
    assert {name: names for name, names in found.items() if names} == {}


def test_stale_names_are_found():
    text = (
        "`medvqa_core.errors.InputError`, medvqa_core.gone.X, `store.py`, `llm/no_such_file.py`, swin_ved.SwinVedConfig"
    )
    assert stale(text) == ["medvqa_core.gone.X", "llm/no_such_file.py"]
