"""`medvqa-hub evaluate cxr`: results, controls, errors; what credentialed data leaves behind."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from builds import Build, build_release
from evaluation_models import save_blip2, save_swin_ved, texts_of
from radeval_stand_in import asked, write_stand_in

from medvqa_core.clinical.clinical_scores import digest_pair
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.metrics.bert_score import PAPER_BASELINE, PAPER_LAYER, BertScorer
from medvqa_core.metrics.caption_row import score_row
from medvqa_core.runs.predictions import Prediction
from medvqa_hub.cli import run
from medvqa_hub.evaluation.cxr import answer_sources
from medvqa_hub.evaluation.cxr.clinical import add_clinical, open_clinical
from medvqa_hub.evaluation.cxr.evaluating import evaluate_cxr
from medvqa_hub.evaluation.cxr.finding_accuracy import answer_polarity
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions, GenerationSettings, ScoreOptions
from medvqa_hub.evaluation.cxr.scoring import score
from medvqa_hub.evaluation.cxr.studies import load_studies
from medvqa_hub.evaluation.cxr.text_scores import TextScorer
from medvqa_hub.families.checkpoint import open_checkpoint
from mimic_cxr_vqa.release import open_release


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("build"), studies=24, seed=1)


@pytest.fixture(scope="module")
def swin_ved(build, tmp_path_factory) -> Path:
    return save_swin_ved(tmp_path_factory.mktemp("swin_ved"), texts_of(open_release(build.workspace.release)))


@pytest.fixture(scope="module")
def blip2(build, tmp_path_factory) -> Path:
    return save_blip2(tmp_path_factory.mktemp("blip2"), texts_of(open_release(build.workspace.release)))


def command(build: Build, model: Path, out: Path, *more: str) -> list[str]:
    paths = {"--model": model, "--data": build.workspace.root, "--image-root": build.tree, "--out": out}
    given = [part for name, path in paths.items() for part in (name, str(path))]
    return ["evaluate", "cxr", *given, "--split", "train", "--limit", "6", "--max-new-tokens", "6", *more]


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_whole_evaluation_with_both_controls_and_a_free_second_run(build, swin_ved, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    arguments = command(build, swin_ved, out, "--shuffle-images", "--blank-images")
    assert run(arguments) == 0
    printed = capsys.readouterr().out
    assert "Table 4 row" in printed and "questions/s" in printed and "shuffled (seed 0)" in printed
    names = ("results.json", "results-shuffled.json", "results-blank.json")
    own, shuffled, blank = (read(out / name) for name in names)
    for picture in ("chart.png", "examples.png", "examples-shuffled.png", "examples-blank.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG"), picture
    release = open_release(build.workspace.release)
    assert own["model"]["fingerprint"] == open_checkpoint(str(swin_ved)).fingerprint
    assert own["data"] == {**own["data"], "fingerprint": release.fingerprint, "split": "train", "studies": 6}
    assert own["scored_with"]["profile"] == "default" and own["libraries"]["torch"]
    assert own["generation"] == {"num_beams": 2, "max_new_tokens": 6, "dtype": "float32"}
    assert [result["images"] for result in (own, shuffled, blank)] == ["own", "shuffled (seed 0)", "blank"]
    counts = own["counts"]
    assert counts["answered"] == counts["questions"] == counts["scored"] and counts["failed"] == 0
    assert sum(part["rows"] for part in own["by_category"].values()) == counts["scored"]
    assert sum(part["rows"] for part in own["by_label"].values()) == counts["scored"]
    assert own["ceiling"]["accuracy"] == 1.0 and own["ceiling"] == shuffled["ceiling"] == blank["ceiling"]
    assert own["findings"]["majority"] == blank["findings"]["majority"]

    def never(*_):
        raise AssertionError("the model was loaded although every prediction is there")

    before = (out / "predictions.jsonl").read_bytes()
    monkeypatch.setattr(answer_sources, "StudyAnswerer", never)
    assert run(arguments) == 0
    assert "had been answered before" in capsys.readouterr().out
    assert (out / "predictions.jsonl").read_bytes() == before
    again = read(out / "results.json")
    assert {**again, "asked_now": 0} == {**own, "asked_now": 0}
    monkeypatch.undo()
    assert run(command(build, swin_ved, out, "--beams", "1")) == 1
    assert "num_beams was 2, now 1" in capsys.readouterr().err


def test_multi_view_through_the_command(build, blip2, tmp_path, capsys):
    assert run(command(build, blip2, tmp_path / "out", "--limit", "2", "--examples", "0")) == 0
    own = read(tmp_path / "out" / "results.json")
    assert own["model"]["kind"] == "blip2_multiview" and own["counts"]["failed"] == 0
    assert not (tmp_path / "out" / "examples.png").exists()


def test_numbers_that_no_run_can_have(build, tmp_path):
    with pytest.raises(ConfigError, match="--examples is -1"):
        ScoreOptions(examples=-1)
    with pytest.raises(ConfigError, match="'zero'.*exclude, empty"):
        ScoreOptions(failed="zero")
    release = open_release(build.workspace.release)
    assert len(load_studies(release, "train", None, limit=10**23)) == len(load_studies(release, "train", None))


def test_failures_and_empty_references_are_counted_and_never_answers(build):
    study = load_studies(open_release(build.workspace.release), "train", build.tree, limit=1)[0]
    rows = tuple({**row, "answer": " "} if place == 1 else row for place, row in enumerate(study.rows))
    studies = [type(study)(**{**vars(study), "rows": rows})]
    made = [
        Prediction("0" * 32, row["qa_id"], None, "no image") if place == 0 else
        Prediction("0" * 32, row["qa_id"], row["answer"])
        for place, row in enumerate(rows)
    ]  # fmt: skip
    scorer = TextScorer()
    left_out, lines = score(studies, [made], scorer)
    assert left_out["counts"] == {**left_out["counts"], "failed": 1, "without_reference": 1, "scored": len(rows) - 2}
    assert left_out["table_4"]["bleu_1"] == pytest.approx(1)
    assert [line["qa_id"] for line in lines] == [row["qa_id"] for row in rows]
    assert lines[0]["error"] == "no image" and lines[0]["answer"] is lines[0]["polarity"] is lines[0]["bleu_1"] is None
    assert lines[1]["reference"] == " " and lines[1]["rouge_l"] is None
    assert all(line["rouge_l"] == pytest.approx(1) for line in lines[2:])
    as_empty, lines = score(studies, [made], scorer, "empty")
    assert lines[0]["answer"] is None and lines[0]["rouge_l"] == 0
    assert as_empty["counts"]["scored"] == len(rows) - 1 and as_empty["table_4"]["rouge_l"] < 1
    assert as_empty["scored_with"]["failed_answers"] == "empty"
    blank = [type(study)(**{**vars(study), "rows": tuple({**row, "answer": ""} for row in rows)})]
    with pytest.raises(InputError, match=f"{len(rows)} have no reference answer"):
        score(blank, [made], scorer)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--split", "dev"], "'dev'. It has train, validate, test"),
        (["--limit", "0"], "--limit is 0"),
        (["--limit", "1", "--shuffle-images"], "exchanged between patients"),
        (["--beams", "0"], "num_beams is 0"),
        (["--questions-per-batch", "0"], "questions_per_batch is 0"),
        (["--image-root", "{tmp}"], "is absent"),
        (["--model", "{tmp}/none"], "no such folder"),
        (["--model", "{tmp}"], "no model found (looked for config.json"),
        (["--data", "{tmp}"], "does not hold a release"),
        (["--encoder", "{tmp}/none"], "none"),
        (["--baseline", "computed"], "Add --encoder"),
        (["--baseline", "{tmp}/none", "--encoder", "minilm"], "no such file"),
        (["--baseline", "computed", "--profile", "paper"], "published baseline"),
        (["--launch", "--cpu --num_processes two"], "invalid int value"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(more, expected, build, swin_ved, tmp_path, capsys):
    more = [part.format(tmp=tmp_path) for part in more]
    assert run(command(build, swin_ved, tmp_path / "out", *more)) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("error: ") and expected in lines[-1], lines
    assert not (tmp_path / "out" / "results.json").exists()


def test_images_must_be_named(build, swin_ved, tmp_path, capsys):
    arguments = command(build, swin_ved, tmp_path / "out")
    place = arguments.index("--image-root")
    assert run(arguments[:place] + arguments[place + 2 :]) == 1
    assert "--image-root" in capsys.readouterr().err


def damaged(folder: Path, source: Path, change) -> str:
    shutil.copytree(source, folder)
    change(folder)
    return str(folder)


def test_checkpoints_that_cannot_be_used_are_refused(build, swin_ved, tmp_path, capsys):
    def other_kind(folder):
        (folder / "config.json").write_text(json.dumps({**read(folder / "config.json"), "model_type": "bert"}))

    def other_tokenizer(folder):
        from swin_ved import SwinVedConfig, SwinVedProcessor, train_tokenizer

        tokenizer = train_tokenizer(["is there edema ?", "no"])
        SwinVedProcessor.from_config(SwinVedConfig.tiny(len(tokenizer)), tokenizer).save_pretrained(folder)

    def without_a_weight(folder):
        from safetensors.torch import load_file, save_file

        weights = load_file(folder / "model.safetensors")
        save_file(dict(list(weights.items())[1:]), folder / "model.safetensors", metadata={"format": "pt"})

    changes = {
        "model of type 'bert'": other_kind,
        "do not belong together": other_tokenizer,
        "lacks 1 weights": without_a_weight,
        "no *.safetensors": lambda folder: (folder / "model.safetensors").unlink(),
        "cannot be loaded": lambda folder: (folder / "model.safetensors").write_bytes(b"torn"),
        "has no tokenizer": lambda folder: [path.unlink() for path in folder.glob("tokenizer*")],
        "cannot be read": lambda folder: (folder / "config.json").write_text("{"),
    }
    for number, (expected, change) in enumerate(changes.items()):
        model = damaged(tmp_path / f"model-{number}", swin_ved, change)
        assert run(command(build, model, tmp_path / "out")) == 1, expected
        assert expected in capsys.readouterr().err
    assert not (tmp_path / "out" / "predictions.jsonl").exists(), "it would refuse the right checkpoint"


def test_the_fingerprint_follows_weights_and_not_logs(swin_ved, tmp_path):
    from safetensors.torch import load_file, save_file

    same = damaged(tmp_path / "same", swin_ved, lambda f: (f / "trainer_state.json").write_text("{}"))

    def nudge(folder):
        weights = load_file(folder / "model.safetensors")
        name = sorted(weights)[0]
        weights[name] = weights[name] + 1e-3
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    other = damaged(tmp_path / "other", swin_ved, nudge)
    prints = [open_checkpoint(str(folder)).fingerprint for folder in (swin_ved, same, other)]
    assert prints[0] == prints[1] != prints[2]


def test_credentialed_results_are_private_and_nothing_is_said_of_texts(build, swin_ved, tmp_path, capfd):
    data = tmp_path / "data"
    shutil.copytree(build.workspace.release, data)
    manifest = read(data / "manifest.json")
    (data / "manifest.json").write_text(json.dumps({**manifest, "governance": "credentialed"}))
    out = tmp_path / "out"
    assert run(command(build, swin_ved, out, "--data", str(data), "--shuffle-images")) == 0
    said = "".join(capfd.readouterr())
    rows = [row for batch in open_release(data).iterate_all() for row in batch.select(["answer"]).to_pylist()]
    answers = {json.loads(line)["answer"] for line in (out / "predictions.jsonl").read_text().splitlines()[1:]}
    sentences = {text for text in {row["answer"] for row in rows} | answers if " " in (text or "")}
    assert sentences and not [text for text in sentences if text in said]
    assert out.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o600}
    results = read(out / "results.json")
    assert results["governance"] == "credentialed"
    assert not [text for text in sentences if text in (out / "results.json").read_text()]


def test_a_checkpoint_of_stricter_data_makes_strict_predictions(build, swin_ved, tmp_path):
    def open_class(folder):
        (folder / "governance.json").write_text('{"governance": "open"}')

    assert open_checkpoint(str(swin_ved)).governance == "credentialed"  # it does not say
    model = damaged(tmp_path / "open", swin_ved, open_class)
    data = DataOptions(build.workspace.root, "train", image_root=build.tree, limit=1)
    generation = GenerationSettings(num_beams=1, max_new_tokens=2)
    for folder, governance in ((model, "open"), (str(swin_ved), "credentialed")):
        answers = AnswerOptions(folder, generation=generation)
        (found,) = evaluate_cxr(tmp_path / governance, data, answers, ScoreOptions(examples=0))
        assert found["governance"] == governance


@pytest.mark.slow
def test_a_computed_baseline_is_named_and_serves_as_a_file(build, swin_ved, tmp_path, monkeypatch, capsys):
    opened = []

    class Counting(BertScorer):
        def __init__(self, *arguments, **options):
            opened.append(1)
            super().__init__(*arguments, **options)

    monkeypatch.setattr("medvqa_core.metrics.caption_row.BertScorer", Counting)
    monkeypatch.setattr("medvqa_hub.evaluation.cxr.text_scores.PAIRS", 200)
    few = ["--limit", "2", "--beams", "1", "--examples", "0", "--blank-images"]
    arguments = command(build, swin_ved, tmp_path / "out", "--encoder", "minilm", "--layer", "6", *few)
    assert run(arguments) == 0
    raw = read(tmp_path / "out" / "results.json")
    assert run([*arguments, "--baseline", "computed"]) == 0
    assert len(opened) == 2, "once for each run, whatever the number of conditions"
    assert "baseline computed: 200 random pairs of" in capsys.readouterr().out
    computed = read(tmp_path / "out" / "results.json")
    *_, f1 = computed["scored_with"]["bertscore_settings"]["baseline"]
    expected = (raw["table_4"]["bertscore"] - f1) / (1 - f1)
    assert computed["table_4"]["bertscore"] == pytest.approx(expected) and 0 < f1 < 1
    assert computed["scored_with"]["bertscore_settings"]["layer"] == 6
    assert raw["scored_with"]["baseline_source"] is None
    table = tmp_path / "out" / "baseline.csv"
    assert run([*arguments, "--baseline", str(table)]) == 0
    by_file = read(tmp_path / "out" / "results.json")
    assert by_file["table_4"] == computed["table_4"]
    assert by_file["scored_with"]["baseline_source"] == f"file: {table}"


def test_rows_are_exported_for_their_owner_alone(build, swin_ved, tmp_path):
    out = tmp_path / "out"
    assert run(command(build, swin_ved, out, "--blank-images", "--limit", "3", "--examples", "0", "--scored")) == 0
    own, blank = ([json.loads(line) for line in (out / name).open()] for name in ("scored.jsonl", "scored-blank.jsonl"))
    assert [row["qa_id"] for row in own] == [row["qa_id"] for row in blank] and own != blank
    results = read(out / "results.json")
    assert len(own) == results["counts"]["questions"]
    mean = sum(row["rouge_l"] for row in own) / len(own)
    assert mean == pytest.approx(results["table_4"]["rouge_l"])
    for row in own:
        heart = row["category"] == "Heart"
        assert row["polarity"] == (None if heart else answer_polarity(row["answer"], row["category"]))
    right = sum(row["polarity"] == row["label_value"] for row in own if row["label_value"] in ("positive", "negative"))
    assert right == round(results["findings"]["accuracy"] * results["findings"]["rows"])
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o600}, "the checkpoint does not say its class"


def test_clinical_scores_are_added_to_results_and_rows(build, swin_ved, tmp_path, capsys, monkeypatch):
    folder = write_stand_in(tmp_path / "radeval", monkeypatch)
    few = ["--limit", "2", "--beams", "1", "--examples", "0", "--blank-images", "--scored"]
    arguments = command(build, swin_ved, tmp_path / "out", *few)
    assert run(arguments) == 0
    plain = read(tmp_path / "out" / "results.json")
    assert "clinical" not in plain and "RadEval" not in capsys.readouterr().out
    assert run([*arguments, "--clinical-python", sys.executable]) == 0
    printed = capsys.readouterr().out
    assert "Clinical scores (RadEval 2.2.1)" in printed and "radgraph_partial" in printed
    for suffix in ("", "-blank"):
        result = read(tmp_path / "out" / f"results{suffix}.json")
        scores, rows = result["clinical"]["scores"], result["clinical"]["rows"]
        assert rows == result["counts"]["scored"]
        lines = [json.loads(line) for line in (tmp_path / "out" / f"scored{suffix}.jsonl").open()]
        assert sum(line["radgraph_simple"] for line in lines) / rows == pytest.approx(scores["radgraph_simple"])
        assert scores["f1chexbert_all_micro_f1"] == pytest.approx(scores["f1chexbert_sample_acc_all"])
    assert not (tmp_path / "out" / "clinical-pairs.jsonl").exists()
    with_clinical = read(tmp_path / "out" / "results.json")
    del with_clinical["clinical"]
    assert with_clinical["hashes"]["predictions"] == plain["hashes"]["predictions"]
    assert with_clinical["hashes"]["scores"] != plain["hashes"]["scores"], "rows have more scores"
    same = {"asked_now": 0, "hashes": 0}
    assert {**with_clinical, **same} == {**plain, **same}, "nothing else changes"
    count = len(asked(folder))
    again = [*command(build, swin_ved, tmp_path / "two", *few), "--clinical-scores"]
    assert run([*again, str(tmp_path / "out" / "clinical.jsonl")]) == 0
    assert len(asked(folder)) == count, "nothing is scored again"
    for name in ("results.json", "scored-blank.jsonl"):
        one, two = ((tmp_path / place / name).read_text() for place in ("out", "two"))
        assert one.partition('"asked_now"')[0] == two.partition('"asked_now"')[0]


def test_clinical_scores_of_other_answers_are_refused(build, swin_ved, blip2, tmp_path, capsys, monkeypatch):
    write_stand_in(tmp_path / "radeval", monkeypatch)
    few = ["--limit", "1", "--beams", "1", "--examples", "0"]
    assert run(command(build, swin_ved, tmp_path / "a", *few, "--clinical-python", sys.executable)) == 0
    scores = str(tmp_path / "a" / "clinical.jsonl")
    assert run(command(build, blip2, tmp_path / "b", *few, "--clinical-scores", scores)) == 1
    assert "other answers" in capsys.readouterr().err
    assert "clinical" not in read(tmp_path / "b" / "results.json")


def test_clinical_scores_leave_failures_out_or_score_them_as_empty(tmp_path, monkeypatch):
    write_stand_in(tmp_path / "radeval", monkeypatch)
    options = ScoreOptions(clinical_python=Path(sys.executable))
    scorer = open_clinical(options, tmp_path)
    texts = [("no edema", "no edema"), (None, "no edema"), ("no", " "), ("no", None)]
    rows = [{"answer": answer, "reference": reference} for answer, reference in texts]
    result = {}
    add_clinical(result, rows, scorer)
    assert result["clinical"]["rows"] == 1
    assert [row["radgraph_simple"] for row in rows] == [1.0, None, None, None]
    add_clinical(result, [{"answer": row["answer"], "reference": row["reference"]} for row in rows], scorer, "empty")
    assert result["clinical"]["rows"] == 2 and result["clinical"]["scores"]["radgraph_simple"] == 0.5


def test_a_score_does_not_replace_a_text_score_of_the_same_name(tmp_path):
    pair = {"pair": digest_pair("a", "a"), "scores": {"bleu": 0.25, "bertscore": 0.5}}
    header = {"kind": "clinical-scores", "metrics": ["bleu"], "RadEval": "2.2.1"}
    (tmp_path / "s.jsonl").write_text(f"{json.dumps(header)}\n{json.dumps(pair)}\n")
    rows, result = [{"answer": "a", "reference": "a", "bertscore": 1.0}], {}
    add_clinical(result, rows, open_clinical(ScoreOptions(clinical_scores=tmp_path / "s.jsonl"), tmp_path))
    assert rows[0]["bertscore"] == 1.0 and rows[0]["bertscore (RadEval)"] == 0.5 and rows[0]["bleu"] == 0.25


@pytest.mark.parametrize(
    ("broken", "expected"),
    [(None, "cannot be imported"), ({"load": "radgraph"}, "cannot load radgraph"), ({"score": "radgraph"}, "KeyError")],
    ids=["not installed", "no weights", "broken"],
)
def test_a_radeval_that_does_not_work_is_reported_before_any_answer(
    broken, expected, build, swin_ved, tmp_path, capsys, monkeypatch
):
    if broken is not None:
        write_stand_in(tmp_path / "radeval", monkeypatch, **broken)
    assert run(command(build, swin_ved, tmp_path / "out", "--clinical-python", sys.executable)) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("error: ") and expected in lines[-1]
    assert not (tmp_path / "out").exists()


def test_a_radeval_that_fails_in_the_end_leaves_the_row(build, swin_ved, tmp_path, capsys, monkeypatch):
    write_stand_in(tmp_path / "radeval", monkeypatch, spoil="several")
    few = ["--limit", "1", "--beams", "1", "--examples", "0", "--clinical-python", sys.executable]
    assert run(command(build, swin_ved, tmp_path / "out", *few)) == 1
    assert "did not return" in capsys.readouterr().err
    result = read(tmp_path / "out" / "results.json")
    assert result["table_4"]["rouge_l"] is not None and "clinical" not in result
    assert (tmp_path / "out" / "chart.png").exists() and not (tmp_path / "out" / "clinical-pairs.jsonl").exists()


@pytest.mark.slow
def test_two_processes_score_what_one_does(build, swin_ved, tmp_path):
    """`--launch` starts them; they answer alternate batches, and the first one scores."""
    more = ["--questions-per-batch", "8", "--examples", "0", "--shuffle-images", "--beams", "1"]
    assert run(command(build, swin_ved, tmp_path / "one", *more)) == 0
    arguments = command(build, swin_ved, tmp_path / "two", *more, "--launch", "--cpu --num_processes 2")
    done = subprocess.run(
        [sys.executable, "-m", "medvqa_hub.cli", *arguments], capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Table 4 row") == 1
    for name in ("results.json", "results-shuffled.json"):
        one, two = (read(tmp_path / folder / name) for folder in ("one", "two"))
        assert (one["asked_now"]["processes"], two["asked_now"]["processes"]) == (1, 2)
        assert {**one, "asked_now": 0} == {**two, "asked_now": 0}
    predictions = [(tmp_path / folder / "predictions.jsonl").read_text().splitlines() for folder in ("one", "two")]
    assert sorted(predictions[0][1:]) == sorted(predictions[1][1:])
    assert not list((tmp_path / "two").glob("*.part-*"))


def test_a_layer_without_an_encoder_is_refused():
    for encoder in (None, "none"):
        with pytest.raises(ConfigError, match="--layer 999 .*--encoder"):
            TextScorer(encoder=encoder, layer=999)


def test_the_paper_s_profile_takes_no_other_encoder_s_scorer():
    for layer, baseline in ((6, None), (PAPER_LAYER, PAPER_BASELINE)):  # the second reads texts as they stand
        scorer = SimpleNamespace(layer=layer, baseline=baseline, text=None)
        with pytest.raises(ConfigError, match="layer 5"):
            score_row(["a"], ["a"], "paper", scorer=scorer)
