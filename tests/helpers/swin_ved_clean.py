"""Run code where none of this project can be imported, only what the checkpoints carry."""

import os
import subprocess
import sys
from pathlib import Path

from paths import PACKAGES

# -I leaves out the current folder and PYTHONPATH; the finder stops what is installed in this environment.
PREAMBLE = f"""
import importlib
import sys
packages = {PACKAGES!r}
"""
PREAMBLE += """
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in packages:
            raise ModuleNotFoundError(f"{name} is not installed here", name=name)
sys.meta_path.insert(0, Blocked())
for package in packages:
    try:
        importlib.import_module(package)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"the clean interpreter is not clean: it has {package}")
"""


def run_clean(code: str, folder: Path, cache: Path) -> str:
    """Run `code` in `folder` with a module cache of its own; its standard output. Fails where the code fails."""
    environment = {**os.environ, "HF_HOME": str(cache), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", PREAMBLE + code], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
