"""Runs beside the reference: which answer is a row's own, and what counts as a difference."""

import pytest

from medvqa_core.digests import blake2b_files
from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import FILE, Prediction, PredictionStore
from medvqa_hub.explore.opening import ExploreOptions, open_folders
from medvqa_hub.explore.row_filters import RowFilter
from medvqa_hub.explore.runs import differs, open_runs
from mimic_cxr_vqa.release import open_release
from mimic_cxr_vqa.workspace import SAMPLE_DIR

SETTINGS = {"model": "a"}


def write_run(folder, answers, governance=Governance.OPEN):
    """answers: (qa_id, answer or None, request); one record each."""
    with PredictionStore(folder / FILE, governance, SETTINGS) as store:
        store.append(
            Prediction(store.key(**request), qa_id, answer, None if answer is not None else "cut off")
            for qa_id, answer, request in answers
        )
    return folder


@pytest.fixture(scope="module")
def rows():
    release = open_release(SAMPLE_DIR)
    return [row for batch in release.iterate_all() for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("difference", "said", "reference", "label", "expected"),
    [
        ("from reference", ["positive"], "negative", "negative", True),
        ("from reference", ["negative"], "negative", "positive", False),
        ("from reference", ["undecided"], "negative", "negative", False),  # it says neither: no difference is known
        ("from reference", ["positive"], "undecided", "negative", False),
        ("from reference", ["failed", "absent"], "negative", "negative", False),  # a failure is no answer
        ("from label", ["negative"], "negative", "positive", True),
        ("from label", ["negative"], "negative", "not_mentioned", False),  # no truth to differ from
        ("between runs", ["negative", "positive"], "negative", "negative", True),
        ("between runs", ["negative", "failed", "undecided"], "negative", "negative", False),
        ("failed", ["negative", "failed"], "negative", "negative", True),
        ("failed", ["absent"], "negative", "negative", False),
    ],
)
def test_what_counts_as_a_difference(difference, said, reference, label, expected):
    assert differs(difference, said, reference, label) is expected


def test_of_several_answers_the_one_to_the_own_images_is_shown(tmp_path, rows):
    """evaluate --shuffle-images --blank-images writes three answers under one id; the first need not be the own one."""
    row = next(row for row in rows if len(row["images"]) == 2)
    paths = [SAMPLE_DIR / "files" / path for path in row["images"]]
    digests = list(blake2b_files(paths, "").values())
    own = {"images": digests, "views": row["views"], "question": row["question"]}
    blank = {**own, "images": ["blank", "blank"]}
    run = write_run(tmp_path, [(row["qa_id"], "blank says no", blank), (row["qa_id"], "own says yes", own)])
    view = open_folders([SAMPLE_DIR], ExploreOptions(predictions=(run,))).studies
    shown = next(q for q in view.study(row["study_id"], RowFilter())["questions"] if q["qa_id"] == row["qa_id"])
    assert [answer["answer"] for answer in shown["runs"]] == ["own says yes"]

    elsewhere = tmp_path / "no-images"
    elsewhere.mkdir()
    view = open_folders([SAMPLE_DIR], ExploreOptions(predictions=(run,), image_root=elsewhere)).studies
    shown = next(q for q in view.study(row["study_id"], RowFilter())["questions"] if q["qa_id"] == row["qa_id"])
    assert shown["runs"][0]["answer"] is None and shown["runs"][0]["is_unclear"]  # never a guess


def test_differences_are_found_and_the_page_has_the_strictest_class(tmp_path, rows):
    chosen = [row for row in rows if row["category"] == "Edema"][:12]
    answers = [
        (row["qa_id"], "Yes, there is edema." if n % 2 else row["answer"], {"n": n}) for n, row in enumerate(chosen)
    ]
    answers.append((rows[0]["qa_id"], None, {"n": "failed"}))
    run = write_run(tmp_path, answers, Governance.CREDENTIALED)
    opened = open_folders([SAMPLE_DIR], ExploreOptions(predictions=(run,)))
    assert opened.governance is Governance.CREDENTIALED
    expected = {row["study_id"] for n, row in enumerate(chosen) if n % 2 and row["answer"].lower().startswith("no")}

    def found(difference):
        studies, at = set(), 0
        while at is not None:  # a page gives up after a tenth of a second, and says where to go on
            page = opened.studies.page(RowFilter(difference=difference), at)
            studies, at = studies | {line["study_id"] for line in page["studies"]}, page["next"]
        return studies

    assert expected and found("from reference") == expected
    assert found("failed") == {rows[0]["study_id"]}


@pytest.mark.parametrize("content", [None, "", "no json", '{"store": 1, "kind": "predictions"}'])
def test_what_is_no_run_is_refused(content, tmp_path):
    if content is not None:
        (tmp_path / FILE).write_text(content)
    with pytest.raises(Exception, match="predictions|governance"):
        open_runs([tmp_path])
    with pytest.raises(InputError, match="--predictions"):
        open_folders([SAMPLE_DIR.parents[1] / "rjua_meddqa" / "sample"], ExploreOptions(predictions=(tmp_path,)))
