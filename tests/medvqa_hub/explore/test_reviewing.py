"""Rating in the page: blinded, in the rater's own order, on disk at once, and read by `cxr review import`."""

import json

import pytest
from builds import build_release

from medvqa_core.edit_log import EditConflictError
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
    for look in (lambda: opened.review.item("rater-2"), lambda: opened.review.save("rater-2", "item-001", {"base": 0})):
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
            edit = {"base": 0, "ratings": dict([first])}
            assert not view().save(rater, item["item"], edit)["is_done"]
            assert view().item(rater)["number"] == number  # not done with one of four
            with pytest.raises(EditConflictError, match=item["item"]):  # another tab shows the item unrated
                view().save(rater, item["item"], edit)
            edit = {"base": 1, "ratings": dict(others), "comment": "seen"}
            assert view().save(rater, item["item"], edit)["is_done"]
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
        edit = {"base": 0, "ratings": ratings, "comment": comment}
        open_folders([workspace / "review"]).review.save("rater-1", item, edit)


@pytest.mark.parametrize(
    "edit",
    [
        {},
        {"base": "0"},
        {"base": 0, "ratings": "x"},
        {"base": 0, "mark": 0},
        {"base": 0, "comment": 0},
        {"base": 0, "mark": "bad"},
        {"base": 0, "ratings": {"correctness": 1}},
        {"base": 0, "comment": "\ud83d"},
    ],
)
def test_edits_of_another_form_are_refused_and_nothing_is_written(workspace, edit):
    view = open_folders([workspace / "review"]).review
    before = view.item("rater-2", 5)
    with pytest.raises(InputError):
        view.save("rater-2", before["item"], edit)
    assert view.item("rater-2", 5) == before


def test_items_are_skipped_flagged_and_undone(tmp_path):
    build = build_release(tmp_path, studies=4)
    assert run(["cxr", "review", "export", "--out", str(build.workspace.root), "--items", "2", "--raters", "1"]) == 0
    folder = build.workspace.root / "review"
    view = open_folders([folder]).review
    first, second = (view.item("rater-1", number)["item"] for number in (1, 2))
    view.save("rater-1", first, {"base": 0, "mark": "skipped"})
    assert view.item("rater-1")["item"] == second
    view.save("rater-1", second, {"base": 0, "ratings": BEST})
    assert view.item("rater-1")["item"] == first  # skipped items come last
    view.save("rater-1", first, {"base": 1, "ratings": {"correctness": BEST["correctness"]}, "mark": "flagged"})
    undone = view.save("rater-1", first, {"base": 2, "ratings": {"correctness": ""}, "mark": "skipped"})
    assert undone["ratings"] == {} and [edit["version"] for edit in undone["history"]] == [1, 2, 3]
    (folder / "ratings" / "rater-1.json").write_text(json.dumps({"ratings": {first: BEST}, "comments": {}}))
    with pytest.raises(InputError, match="rater-1.json has ratings of an earlier version"):
        open_folders([folder]).review.item("rater-1", 1)


@pytest.mark.parametrize("number", [0, 6, -1])
def test_there_is_no_other_item_and_no_other_image(workspace, number):
    view = open_folders([workspace / "review"]).review
    with pytest.raises(InputError):
        view.item("rater-1", number)
    with pytest.raises(InputError):
        view.image("rater-1", view.item("rater-1", 1)["item"], number or 7)
