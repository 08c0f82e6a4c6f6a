"""A Hub copy under a version of transformers that is too old: one line that says which is needed."""

import subprocess
import sys

import pytest
from paths import REPOSITORY

FILES = [
    "configuration_swin_ved",
    "processing_blip2_multiview",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("processing_swin_ved", "configuration_blip2_multiview")),
]


@pytest.mark.parametrize("file", FILES)
def test_an_older_version_is_named_before_anything_else_fails(file):
    """In an interpreter whose transformers has what we import taken out, as an older one has not."""
    package = file.split("_", 1)[1]
    code = (
        "import importlib.metadata as m, sys, types\n"
        f"sys.path.insert(0, {str(REPOSITORY / 'models')!r})\n"
        "version = m.version\n"
        "m.version = lambda name: '4.57.3' if name == 'transformers' else version(name)\n"
        "import transformers\n"
        "for name in ('PreTrainedConfig', 'SwinConfig', 'Blip2VisionConfig'):\n"
        "    transformers._class_to_module.pop(name, None)\n"
        "sys.modules['transformers.models.blip.image_processing_pil_blip'] = None\n"
        f"package = types.ModuleType({package!r}); package.__path__ = [{str(REPOSITORY / 'models' / package)!r}]\n"
        f"sys.modules[{package!r}] = package\n"
        f"import {package}.{file}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = [line for line in done.stderr.splitlines() if line.startswith("ImportError")]
    assert last and "transformers>=5.9 is required" in last[-1] and "found transformers==4.57.3" in last[-1], (
        done.stderr
    )
    assert "pip install -U transformers" in done.stderr


@pytest.mark.parametrize("name", ["swin_ved", "blip2_multiview"])
def test_the_card_names_the_version(name):
    card = (REPOSITORY / "hub_cards" / f"{name}.md.jinja").read_text(encoding="utf-8")
    code = (REPOSITORY / "models" / name / f"configuration_{name}.py").read_text(encoding="utf-8")
    assert "5.9 or later" in card and 'require_version("transformers>=5.9"' in code
