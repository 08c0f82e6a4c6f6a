"""Functions that a user names: `package.module:function`, or `path/to/file.py:function`.

The module is imported, so its code runs with the user's rights. Only name code, and only run recipes, that you trust.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, InputError


def load_function(name: str) -> Callable[..., Any]:
    """Import the function `name`. Errors of the user's code are not caught.

    Raises:
        InputError: the file does not exist.
        ConfigError: the module does not exist, or has no such function.
    """
    _, _, function = name.rpartition(":")
    found = getattr(_load(name), function, None)
    if not callable(found):
        raise ConfigError(f"{name}: there is no function {function!r}. Expected MODULE:FUNCTION or FILE.py:FUNCTION")
    return found


def digest_module(name: str) -> str:
    """Digest of the file of the module in which the function `name` is."""
    return digest_file(Path(str(_load(name).__file__)))


def _load(name: str) -> ModuleType:
    source, _, _ = name.rpartition(":")
    return _load_file(Path(source)) if source.endswith(".py") else _load_module(source)


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"{path} is not a file. Expected FILE.py:FUNCTION")
    name = f"medvqa_hub_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # of every file that ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # of an import inside of the user's module
        raise ConfigError(
            f"there is no module {name!r}. Install it, set PYTHONPATH, or name a file: path/to/file.py:function"
        ) from error
