"""Rating in the page: blinded, in the rater's own order, on disk at once, and read by `cxr review import`."""

import json

import pytest
from builds import build_release

from medvqa_core.errors import InputError
from medvqa_hub.cli import run
from medvqa_hub.explore.opening import ExploreOptions, open_folders
from mimic_cxr_vqa.judging.dimensions import BEST, DIMENSIONS


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("review")
    build = build_release(folder, studies=12)
    options = ["--items", "5", "--raters", "2", "--image-root", str(build.tree)]
    assert run(["cxr", "review", "export", "--out", str(build.workspace.root), *options]) == 0
    return build.workspace.root


def test_a_rater_sees_no_key_no_study_and_nobody_else(workspace):
    opened = open_folders([workspace / "review"], ExploreOptions(rater="rater-1"))
    assert opened.studies is None and opened.ask is None
    seen = json.dumps([opened.about(), *(opened.review.item("rater-1", number) for number in range(1, 6))])
    key = json.loads((workspace / "review" / "key.json").read_text())["items"]
    for entry in key:
        assert entry["qa_id"] not in seen and str(entry["study_id"]) not in seen
    assert "rater-2" not in seen
    for look in (lambda: opened.review.item("rater-2"), lambda: opened.review.save("rater-2", "item-001", BEST, None)):
        with pytest.raises(InputError, match="rater"):
            look()
    with pytest.raises(InputError, match="rater"):
        open_folders([workspace / "review"], ExploreOptions(rater="nobody"))


def test_ratings_are_kept_resumed_and_imported(workspace, capsys):
    def view():
        return open_folders([workspace / "review"]).review

    for rater in ("rater-1", "rater-2"):
        for number in range(1, 6):
            item = view().item(rater)  # a page opened anew: the first that is not rated
            assert item["number"] == number and item["ratings"] == {}
            first, *others = BEST.items()
            assert not view().save(rater, item["item"], dict([first]), None)["is_done"]
            assert view().item(rater)["number"] == number  # not done with one of four
            assert view().save(rater, item["item"], dict(others), "seen")["is_done"]
    assert all(view().item("rater-1", 5)["done"])
    assert run(["cxr", "review", "import", "--out", str(workspace)]) == 0
    ratings = (workspace / "review" / "ratings.csv").read_text().splitlines()
    assert ratings[0] == "rater,item," + ",".join(DIMENSIONS) and len(ratings) == 11
    capsys.readouterr()


@pytest.mark.parametrize(
    ("item", "ratings", "comment"),
    [
        ("item-999", BEST, None),
        ("../key", BEST, None),
        ("item-001", {"correctness": "Fine"}, None),
        ("item-001", {"style": "Correct"}, None),
        ("item-001", BEST, "x" * 5000),
    ],
)
def test_what_is_no_rating_is_refused(workspace, item, ratings, comment):
    with pytest.raises(InputError):
        open_folders([workspace / "review"]).review.save("rater-1", item, ratings, comment)


@pytest.mark.parametrize("number", [0, 6, -1])
def test_there_is_no_other_item_and_no_other_image(workspace, number):
    view = open_folders([workspace / "review"]).review
    with pytest.raises(InputError):
        view.item("rater-1", number)
    with pytest.raises(InputError):
        view.image("rater-1", view.item("rater-1", 1)["item"], number or 7)
