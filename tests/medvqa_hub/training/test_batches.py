"""Study batches: which studies and questions, in which order, on any number of processes and workers."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset, List
from datasets import Image as ImageFeature
from PIL import Image
from swin_ved import SwinVedProcessor
from training_runs import FIRST_STUDY, recipe, study_rows

from medvqa_core.errors import ConfigError, InputError
from medvqa_hub.families.registry import find_family
from medvqa_hub.training.batch_loading import load_batches
from medvqa_hub.training.study_batches import StudiesInOrder, StudyBatches, StudyCollator
from medvqa_hub.training.study_questions import StudyQuestions


def make_questions(counts: list[int], **arguments) -> StudyQuestions:
    return StudyQuestions(study_rows(counts, **arguments), "split train")


def make_batches(
    questions: StudyQuestions, collate=lambda members, seed: {"members": members}, steps=6, per_step=4, per_batch=2,
    wanted=2, policy="take_all", seed=0,
) -> StudyBatches:  # fmt: skip
    training = {"studies_per_step": per_step, "studies_per_batch": per_batch, "seed": seed}
    settings = recipe(training=training, data={"questions_per_study": wanted, "questions_per_study_policy": policy})
    return StudyBatches(questions, collate, settings, steps)


def plans(batches: StudyBatches) -> list[list[tuple[int, list[int]]]]:
    return [[(study, list(places)) for study, places in batches.plan(number)] for number in range(len(batches))]


@pytest.fixture(scope="module")
def ten() -> StudyQuestions:
    return make_questions([3, 5, 1, 4, 6, 2, 4, 3, 5, 4])


def test_an_epoch_shows_every_study_once_and_the_next_one_again_in_another_order(ten):
    shown = [study for plan in plans(make_batches(ten, steps=5)) for study, _ in plan]
    assert len(shown) == 20  # two epochs of ten
    assert Counter(shown) == {study: 2 for study in range(10)}
    one_by_one = make_batches(ten, steps=20, per_step=1, per_batch=1)
    order = [plan[0][0] for plan in plans(one_by_one)]
    assert sorted(order[:10]) == sorted(order[10:]) == list(range(10))
    assert order[:10] != order[10:] and order[:10] != list(range(10))


def test_questions_are_distinct_drawn_anew_every_epoch_and_fair(ten):
    batches = make_batches(ten)
    draws = [tuple(batches.draw(epoch, 4)) for epoch in range(300)]
    assert all(len(set(draw)) == 2 for draw in draws)
    assert len(set(draws)) == 15  # every pair of its six questions
    counts = Counter(place for draw in draws for place in draw)
    assert all(70 < counts[place] < 130 for place in range(6))  # 100 expected, standard deviation 8


def test_draws_depend_on_seed_epoch_and_study_alone(ten):
    other = make_questions([3, 5, 1, 4, 6, 2])  # the same studies, fewer of them
    assert [list(make_batches(ten).draw(7, s)) for s in range(6)] == [
        list(make_batches(other).draw(7, s)) for s in range(6)
    ]
    assert [list(make_batches(ten, seed=1).draw(e, 4)) for e in range(9)] != [
        list(make_batches(ten).draw(e, 4)) for e in range(9)
    ]


def test_batches_of_a_step_are_sorted_by_length_and_hold_the_same_studies_as_unsorted(ten):
    small, whole = make_batches(ten), make_batches(ten, per_batch=4)
    for step in range(6):
        parts = [member for number in (2 * step, 2 * step + 1) for member in plans(small)[number]]
        assert parts == plans(whole)[step]  # the gradient of a step is of the same questions
        sizes = [len(places) for _, places in parts]
        assert sizes == sorted(sizes)
    chosen = small.plan(0)
    longest = [int(ten.lengths(study)[places].max()) for study, places in chosen]
    assert len({len(places) for _, places in chosen}) > 1 or longest == sorted(longest)


def test_a_study_with_fewer_questions_gives_what_it_has_or_is_refused(ten):
    batches = make_batches(ten, wanted=4)
    assert batches.short_studies == 4
    assert list(batches.draw(0, 2)) == [0] and len(batches.draw(0, 4)) == 4
    with pytest.raises(ConfigError, match="4 studies .*data.questions_per_study, 4 .*is 1"):
        make_batches(ten, wanted=4, policy="error")
    assert len(make_batches(ten, wanted=None).draw(0, 4)) == 6


def test_questions_without_an_answer_are_counted_and_never_drawn():
    answers = {(0, 0): None, (0, 1): "  \n", (1, 0): ""}
    questions = make_questions([3, 1, 2], answers=answers)
    assert questions.skipped["questions_without_answer"] == 3
    assert questions.skipped["studies_without_questions"] == 1
    assert list(questions.study_ids) == [FIRST_STUDY, FIRST_STUDY + 2]
    assert [list(questions.places(study)) for study in range(2)] == [[2], [0, 1]]


def test_studies_without_a_usable_image_are_counted():
    rows = study_rows([2, 2, 2])
    rows = rows.map(lambda row: {"images": [None] if row["study_id"] == FIRST_STUDY else row["images"]})
    questions = StudyQuestions(rows, "split train")
    assert questions.skipped["studies_without_image"] == 1 and len(questions) == 2
    with pytest.raises(InputError, match="3 studies"):
        StudyQuestions(rows, "split train", view_is_known=lambda view: view == "PA")


def test_rows_of_another_configuration_or_without_images_are_refused():
    rows = study_rows([2])
    with pytest.raises(InputError, match="images, views"):
        StudyQuestions(rows.remove_columns(["images", "views"]), "split train")
    with pytest.raises(InputError, match="image_root"):
        paths = rows.remove_columns("images").add_column("images", [["p/1.jpg"]])
        StudyQuestions(paths, "split train")


def test_one_by_one_every_question_is_shown_once_an_epoch_with_its_studys_images():
    questions = make_questions([3, 5, 1, 4]).one_by_one()
    assert len(questions) == 13
    batches = make_batches(questions, steps=2, per_step=13, per_batch=13, wanted=8)
    for epoch in range(2):
        shown = [(row["study_id"], int(place)) for row, places in batches[epoch]["members"] for place in places]
        assert sorted(shown) == [
            (FIRST_STUDY + study, place) for study, count in enumerate([3, 5, 1, 4]) for place in range(count)
        ]
    assert len(questions.grouped) == 4


@pytest.fixture(scope="module")
def processor():
    from swin_ved_tiny import tiny_processor

    return tiny_processor()[0]


def test_a_batch_encodes_each_study_once_and_pads_no_further_than_needed(processor):
    questions = make_questions([3, 2], images=2)
    batches = make_batches(questions, StudyCollator(processor, find_family("swin_ved")), 1, 2, 2, None)
    batch = batches[0]
    assert batch["image_mask"].tolist() == [[True, True, False]] * 2
    assert batch["study_index"].tolist() in ([0, 0, 1, 1, 1], [0, 0, 0, 1, 1])
    assert len(batch["rows"]) == 5 and batch["number"] == 0
    assert {"qa_id", "question", "answer", "category", "label_value", "study_id"} <= set(batch["rows"][0])
    assert batch["attention_mask"].all(0).any() and bool(batch["attention_mask"].any(0).all())
    prompts = StudyCollator(processor, find_family("swin_ved"), answers=False)(
        [(questions.read_row(0), questions.places(0))]
    )
    assert "labels" not in prompts


@pytest.mark.parametrize("workers", [0, 2])
def test_augmentation_and_batches_are_the_same_with_workers(processor, workers):
    questions = make_questions([2] * 4)
    collate = StudyCollator(processor, find_family("swin_ved"), augment=True)
    batches = make_batches(questions, collate, 2, 4, 2, 1, seed=5)
    for number, batch in enumerate(load_batches(batches, range(4), workers)):
        assert batch["number"] == number
        again = batches[number]
        assert np.array_equal(batch["pixel_values"], again["pixel_values"])
        assert [row["qa_id"] for row in batch["rows"]] == [row["qa_id"] for row in again["rows"]]
    plain = make_batches(questions, StudyCollator(processor, find_family("swin_ved")), 2, 4, 2, 1, seed=5)
    assert not all(np.array_equal(plain[n]["pixel_values"], batches[n]["pixel_values"]) for n in range(4))


def test_a_damaged_image_names_its_study(tmp_path):
    rows = study_rows([1])
    path = tmp_path / "image.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    rows = rows.remove_columns("images").add_column("images", [[{"path": str(path), "bytes": None}]])
    from datasets import Image, List

    questions = StudyQuestions(rows.cast_column("images", List(Image())), "split train")
    with pytest.raises(InputError, match=f"study {FIRST_STUDY}"):
        questions.read_row(0)


def grey_levels(processor, rows: Dataset, image_side: int | None) -> np.ndarray:
    """A study's image as the model gets it in training, in grey levels, over 20 draws of the augmentation."""
    collate = StudyCollator(processor, find_family("swin_ved"), augment=True)
    questions = StudyQuestions(rows, "split train", image_side=image_side)
    members = [(questions.read_row(0), questions.places(0))]
    pixels = np.stack([collate(members, seed)["pixel_values"][0, 0, 0] for seed in range(20)])
    return pixels * processor.image_std[0] * 255


@pytest.mark.slow
def test_training_sees_a_full_size_film_as_the_released_models_did_from_shrunk_files(processor, tmp_path):
    """The release augmented files of 512 pixels. Ours are decoded at a fraction and shrunk to 512 on the way: after the
    same augmentation the model's pixels differ by less than half a grey level in the mean."""
    y, x = np.mgrid[0:2200, 0:1800]
    smooth = (
        60 + 90 * np.exp(-(((x - 900) / 400) ** 2) - ((y - 1000) / 600) ** 2) + 20 * np.sin(x / 25) * np.sin(y / 40)
    )
    film = (smooth + np.random.default_rng(0).normal(0, 6, smooth.shape)).clip(0, 255).astype(np.uint8)
    full, shrunk = tmp_path / "full.jpg", tmp_path / "shrunk.png"
    Image.fromarray(film).save(full, quality=95)
    with Image.open(full) as image:
        image.resize((512, round(2200 * 512 / 1800)), Image.Resampling.BICUBIC).save(shrunk)
    reader = SwinVedProcessor(processor.tokenizer)
    rows = {path: with_image(study_rows([1]), path) for path in (full, shrunk)}
    released = grey_levels(reader, rows[shrunk], None)
    apart = {side: np.abs(grey_levels(reader, rows[full], side) - released).mean() for side in (512, 384, None)}
    assert apart[512] < 0.5
    assert min(apart[384], apart[None]) > apart[512]  # another side, or the full size as before, is farther off


def with_image(rows: Dataset, path: Path) -> Dataset:
    images = [[{"path": str(path), "bytes": None}] for _ in range(len(rows))]
    return rows.remove_columns("images").add_column("images", images).cast_column("images", List(ImageFeature()))


def test_batches_in_order_show_every_study_once_and_its_first_questions(ten):
    batches = StudiesInOrder(ten, lambda members: {"members": members}, 3, studies=5, questions_per_study=2)
    shown = [(row["study_id"], list(places)) for number in range(2) for row, places in batches[number]["members"]]
    assert len(batches) == 2
    assert shown == [(FIRST_STUDY + study, [0] if study == 2 else [0, 1]) for study in range(5)]
    assert len(StudiesInOrder(ten, dict, 3)) == 4


def test_questions_whose_answer_contradicts_their_label_are_left_out_on_request():
    rows = study_rows([2, 2])
    flagged = rows.to_list()
    for study in flagged:
        for number, question in enumerate(study["questions"]):
            question["label_conflict"] = number == 0
    rows = Dataset.from_list(flagged, features=None)
    assert StudyQuestions(rows, "split train").counts.tolist() == [2, 2]
    left = StudyQuestions(rows, "split train", label_conflicts="leave_out")
    assert left.counts.tolist() == [1, 1] and left.skipped["questions_with_label_conflict"] == 2
