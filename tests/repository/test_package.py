"""The package as it ships, and rules of the house that a tool does not check."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from paths import REPOSITORY

PACKAGES = ("medvqa_hub", "medvqa_core", "mimic_cxr_vqa", "rjua_meddqa", "hub_cards", "models")
CODE = sorted(path for name in (*PACKAGES, "benchmarks", "tests") for path in (REPOSITORY / name).rglob("*.py"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel, built from a copy: building leaves folders behind."""
    copy = tmp_path_factory.mktemp("source")
    for name in (*PACKAGES, "pyproject.toml", "README.md", "LICENSE"):
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return zipfile.ZipFile(next((copy / "dist").glob("*.whl")))


def test_wheel_holds_every_module_and_every_file_of_the_sample(wheel):
    shipped = set(wheel.namelist())
    for name in PACKAGES[:-1]:
        for path in (REPOSITORY / name).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert str(path.relative_to(REPOSITORY)) in shipped
    for path in (REPOSITORY / "models").rglob("*.py"):
        assert str(path.relative_to(REPOSITORY / "models")) in shipped
    assert not [name for name in shipped if name.startswith(("models/", "tests/", "benchmarks/"))]


def test_every_dependency_is_pinned():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    pins = dict(
        line.lower().replace("_", "-").split("==")
        for line in (REPOSITORY / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    )
    assert pins["torch"] == "2.13.0"
    wanted = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]
    for dependency in wanted:
        name = re.split(r"[>=<;\[ ]", dependency)[0].lower()
        assert name == project["name"] or name in pins, dependency  # an extra may name extras of the package itself


def test_the_oldest_versions_are_those_of_the_lower_bounds(monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / ".github"))
    from oldest_versions import oldest_versions

    stated = 'dependencies = ["a>=5", "b[c]>=2.2; x == 1", "d-e>=0.4.6,<1"]'
    extras = 'optional-dependencies = {f = ["p[f]", "g>=1.0"]}'
    assert oldest_versions(f"[project]\n{stated}\n{extras}") == ["a==5.0.*", "b==2.2.*", "d-e==0.4.6", "g==1.0.*"]


def test_import_contracts_hold():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports")], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_nobody_imports_models_by_folder():
    """`models.x` would be a second copy of every class of `x`."""
    assert not [path for path in CODE if re.search(r"^\s*(from|import) models\b", path.read_text(), re.MULTILINE)]


def test_no_file_is_too_long_to_read():
    assert not {str(path): n for path in CODE if (n := len(path.read_text().splitlines())) > 600}


def test_nothing_is_evaluated_as_code():
    pattern = re.compile(r"(?<![\w.])(?:eval|exec)\(|pickle\.loads?\(|torch\.load\((?!.*weights_only=True)")
    found = [path for path in CODE if "tests" not in path.parts and pattern.search(path.read_text())]
    assert not found


def test_no_identifier_of_mimic_s_range_is_in_the_repository():
    """Patients p1xxxxxxx and studies s5xxxxxxx; the documentation's two published examples are allowed."""
    pattern = re.compile(r"\b(?:p1\d{7}|s5\d{7})\b")
    allowed = {"p10000032", "s50414267"}
    files = [*CODE, *REPOSITORY.glob("*.md"), *(REPOSITORY / "mimic_cxr_vqa" / "sample").rglob("*.md")]
    found = {match for path in files for match in pattern.findall(path.read_text())}
    assert found <= allowed


def test_sample_has_synthetic_patients_only():
    from mimic_cxr_vqa import SAMPLE_DIR, open_release
    from mimic_cxr_vqa.sources.physionet import PHANTOM_FIRST_ID

    for batch in open_release(SAMPLE_DIR).iterate_all():
        assert min(batch["subject_id"].to_pylist()) >= PHANTOM_FIRST_ID
    assert all(path.parts[-3].startswith("p9") for path in SAMPLE_DIR.rglob("*.jpg"))
