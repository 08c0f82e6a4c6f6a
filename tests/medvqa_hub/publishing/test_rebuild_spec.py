"""A spec reaches the Hub with its ids and nothing else; another reads it from there and rebuilds the rows."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import snapshot_download

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.json_files import read_object, write_json
from medvqa_hub.cli import run
from medvqa_hub.publishing.dataset import push_dataset
from medvqa_hub.publishing.rebuild_spec import push_rebuild_spec
from medvqa_hub.publishing.scanning import scan
from medvqa_hub.publishing.sending import Push
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.rebuild_spec import write_rebuild_spec
from mimic_cxr_vqa.sources.physionet import read_studies
from mimic_cxr_vqa.sources.registry import SourceOptions
from mimic_cxr_vqa.workspace import Workspace


@pytest.fixture
def spec(built, tmp_path):
    workspace = Workspace(tmp_path / "cxr")
    write_questions(read_studies(built.tree), workspace, 1, SourceOptions().described())
    for step in ("answer", "release"):
        assert run(["cxr", step, "--out", str(workspace.root)]) == 0
    write_rebuild_spec(workspace, tmp_path / "spec")
    return tmp_path / "spec"


def test_pushed_fetched_and_rebuilt(spec, built, hub, api, tmp_path, capsys):
    options = Push(spec, "me/spec")
    for _ in range(2):  # the same command goes on after a kill, and does nothing where all is done
        assert push_rebuild_spec(options, hub=api, log=lambda line: None).tag == "v1.0.0"
    got = snapshot_download(
        "me/spec", repo_type="dataset", revision="v1.0.0", local_dir=tmp_path / "got", endpoint=hub.endpoint,
        token=hub.token,
    )  # fmt: skip
    assert run(["cxr", "rebuild", got, "--root", str(built.tree), "--out", str(tmp_path / "again")]) == 0
    assert "every file has the spec's sha256" in capsys.readouterr().out


def test_a_rebuild_spec_and_a_dataset_do_not_overwrite_each_other(spec, built, hub, api):
    push_rebuild_spec(Push(spec, "me/spec"), hub=api, log=lambda line: None)
    with pytest.raises(ConfigError, match="me/spec .*another name"):
        push_dataset(Push(built.workspace.release, "me/spec"), hub=api, log=lambda line: None)
    push_dataset(Push(built.workspace.release, "me/rows"), hub=api, log=lambda line: None)
    with pytest.raises(ConfigError, match="me/rows .*another name"):
        push_rebuild_spec(Push(spec, "me/rows"), hub=api, log=lambda line: None)


def test_a_dry_run_sends_nothing(spec, hub, capsys):
    assert run(["push", "rebuild-spec", str(spec), "--repo-id", "me/spec", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "dry run: nothing is sent" in said and "medvqa-hub cxr rebuild SPEC" in said


def test_a_release_is_not_a_rebuild_spec_and_a_class_is_obeyed(spec, built, api):
    with pytest.raises(InputError, match="manifest"):
        push_rebuild_spec(Push(built.workspace.release, "me/spec"), hub=api)
    write_json(spec / "manifest.json", read_object(spec / "manifest.json", "") | {"governance": "credentialed"})
    with pytest.raises(GovernanceError, match="must not go to the Hub"):
        push_rebuild_spec(Push(spec, "me/spec"), hub=api)


def test_a_card_with_words_of_its_own_is_not_pushed(spec, api):
    """Nothing here knows the reports that such words could come from."""
    manifest, card = read_object(spec / "manifest.json", ""), spec / "README.md"
    card.write_text(card.read_text() + "\nSuch as: there is a small left effusion with adjacent atelectasis.\n")
    described = {"bytes": card.stat().st_size, "sha256": digest_file(card)}
    for files in (
        manifest["files"] | {card.name: described},
        {n: d for n, d in manifest["files"].items() if n != card.name},
    ):
        write_json(spec / "manifest.json", manifest | {"files": files})
        with pytest.raises(InputError, match="README.md"):
            push_rebuild_spec(Push(spec, "me/spec"), dry_run=True, hub=api)


def test_ids_of_mimic_s_range_pass_in_a_rebuild_spec_s_tables_alone(tmp_path):
    table = pa.table({"qa_id": ["s50414267-edema-1"], "study_id": [50414267]})
    pq.write_table(table, tmp_path / "train.parquet")
    scan(tmp_path, id_tables={"train.parquet"})
    with pytest.raises(GovernanceError, match="MIMIC"):
        scan(tmp_path)
    (tmp_path / "notes.md").write_text("s50414267")
    with pytest.raises(GovernanceError, match="notes.md"):
        scan(tmp_path, id_tables={"train.parquet"})
