"""How `load_dataset("mimic_cxr_vqa")` finds our builder. These tests fail when `datasets` changes what is wrapped."""

import socket
import subprocess
import sys
import urllib.request

import datasets
import datasets.load
import pytest
from datasets.exceptions import DatasetNotFoundError

import mimic_cxr_vqa
from medvqa_core import load_dataset_hook
from medvqa_core.load_dataset_hook import register_builder


def run_python(code: str, folder) -> str:
    """Output of `code` in a fresh interpreter, started in `folder`."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# --- what the hook stands on


# --- what it does


@pytest.mark.parametrize("call", [lambda f: f("mimic_cxr_vqa"), lambda f: f(path="mimic_cxr_vqa", revision="main")])
def test_our_name_gets_our_builder(call):
    module = call(datasets.load.dataset_module_factory)
    assert isinstance(module, datasets.load.DatasetModule)
    assert (module.module_path, module.builder_kwargs) == ("mimic_cxr_vqa.builder", {"dataset_name": "mimic_cxr_vqa"})
    builder = datasets.load.get_dataset_builder_class(module)
    assert builder is mimic_cxr_vqa.MimicCxrVqa


def test_every_call_gets_arguments_of_its_own():
    """`datasets` takes entries out of builder_kwargs."""
    factory = datasets.load.dataset_module_factory
    factory("mimic_cxr_vqa").builder_kwargs.clear()
    assert factory("mimic_cxr_vqa").builder_kwargs == {"dataset_name": "mimic_cxr_vqa"}


def test_other_names_go_on_to_datasets(tmp_path):
    (tmp_path / "rows.json").write_text('{"a": 1}\n{"a": 2}\n')
    rows = datasets.load_dataset("json", data_files=str(tmp_path / "rows.json"), split="train")
    assert rows["a"] == [1, 2]
    rows = datasets.load_dataset(str(tmp_path), split="train")
    assert rows["a"] == [1, 2]


@pytest.mark.parametrize("name", ["mimic_cxr_vqa_2", "someone/mimic_cxr_vqa", "MIMIC_CXR_VQA"])
def test_names_like_ours_are_not_ours(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((DatasetNotFoundError, ConnectionError, FileNotFoundError)):
        datasets.load.dataset_module_factory(name, cache_dir=str(tmp_path))  # not what other tests have prepared


def test_arguments_reach_the_original_unchanged(monkeypatch):
    seen = []

    def original(path, revision=None, **kwargs):
        seen.append((path, revision, kwargs))
        return "theirs"

    stand_in = type("load", (), {"dataset_module_factory": staticmethod(original), "DatasetModule": tuple})
    load_dataset_hook._wrap_factory(stand_in)
    assert stand_in.dataset_module_factory("other", "main", data_dir="x") == "theirs"
    assert stand_in.dataset_module_factory(path="other") == "theirs"
    assert seen == [("other", "main", {"data_dir": "x"}), ("other", None, {})]


def test_a_second_name_and_a_newer_version_are_found(monkeypatch):
    monkeypatch.setattr(load_dataset_hook, "_BUILDERS", dict(load_dataset_hook._BUILDERS))
    register_builder("another_set", "another_set.builder", version="1")
    register_builder("another_set", "another_set.builder", version="2")
    factory = datasets.load.dataset_module_factory
    assert (factory("another_set").module_path, factory("another_set").hash) == ("another_set.builder", "2")
    assert factory("mimic_cxr_vqa").module_path == "mimic_cxr_vqa.builder"


def test_a_datasets_without_the_function_is_noticed_at_once():
    with pytest.raises(AttributeError, match="dataset_module_factory"):
        load_dataset_hook._wrap_factory(type("load", (), {}))


# --- whatever is imported first

FIND = "print(datasets.load.dataset_module_factory('mimic_cxr_vqa').module_path)"


@pytest.mark.parametrize(
    "imports",
    [
        "import datasets, mimic_cxr_vqa",
        "import mimic_cxr_vqa, datasets",
        pytest.param("import mimic_cxr_vqa; import datasets.load", marks=pytest.mark.slow),
    ],
)
def test_the_order_of_imports_does_not_matter(tmp_path, imports):
    assert run_python(f"{imports}; {FIND}", tmp_path) == "mimic_cxr_vqa.builder"


def test_importing_our_package_imports_nothing_heavy(tmp_path):
    heavy = {"datasets", "torch", "transformers", "pyarrow", "numpy", "PIL", "matplotlib"}
    assert run_python(f"import sys, mimic_cxr_vqa; print({heavy} & set(sys.modules))", tmp_path) == "set()"


# --- and the tests themselves have no network


@pytest.mark.parametrize(
    "leave",
    [
        lambda: socket.create_connection(("192.0.2.1", 80), timeout=1),  # addresses and names set aside for examples
        lambda: socket.create_connection(("example.com", 80), timeout=1),
        lambda: socket.socket().connect_ex(("192.0.2.1", 80)),
        lambda: urllib.request.urlopen("http://example.com", timeout=1),
    ],
)
def test_a_test_that_leaves_this_machine_fails(leave):
    with pytest.raises(AssertionError, match="tests must not use the network"):
        leave()


def test_a_test_may_talk_to_a_server_of_its_own():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1]), timeout=5).close()
