"""People's ratings: a blinded sample out, ratings back in, and everything that is wrong with them named."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor

import openpyxl
import pytest
from builds import build_release
from hypothesis import given
from hypothesis import strategies as st
from xlsx_sheets import fill_csv, fill_xlsx, read_rows

from medvqa_core.errors import ConfigError, InputError, MedvqaError
from medvqa_core.governance import Governance
from medvqa_core.metrics.agreement_table import measure_sheet
from medvqa_core.metrics.ratings import read_ratings
from medvqa_hub.cli import run
from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.judging.dimensions import BEST, DIMENSIONS
from mimic_cxr_vqa.judging.pairs import Pair, iterate_pairs
from mimic_cxr_vqa.judging.review import open_review
from mimic_cxr_vqa.judging.review_export import export_review
from mimic_cxr_vqa.judging.review_import import import_ratings
from mimic_cxr_vqa.judging.sampling import draw_sample, share_evenly

WORST = {name: dimension.categories[0] for name, dimension in DIMENSIONS.items()}


def pair(number, answer="No edema is seen.", findings="No edema."):
    request = AnswerRequest(f"s{number}-edema-1", number, "Edema", "Is Edema observed?", "Cough.", findings)
    return Pair(request, answer, "negative", (f"p10/p{number}/s{number}/a.jpg",))


PAIRS = [pair(95_000_000 + number) for number in range(40)]


@pytest.fixture
def review(tmp_path):
    export_review(tmp_path / "review", PAIRS, Governance.OPEN, items=6, raters=2)
    return open_review(tmp_path / "review")


def sheet(review, rater, kind="csv"):
    return review.folder / "for_raters" / rater / f"sheet.{kind}"


def same(review, verdict=BEST):
    return {item.item: dict(verdict) for item in review.items}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_sample(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        export_review(tmp_path / name, PAIRS, Governance.OPEN, items=6, raters=2, seed=seed)
    files = {n: {p.relative_to(tmp_path / n): p.read_bytes() for p in (tmp_path / n).rglob("*.*")} for n in "abc"}
    assert files["a"] == files["b"] != files["c"] and len(files["a"]) == 3 + 2 * 4


def test_what_raters_are_handed_tells_neither_study_nor_stratum_nor_judge(tmp_path):
    (tmp_path / "images").mkdir()
    for one in PAIRS:
        path = tmp_path / "images" / one.images[0]
        path.parent.mkdir(parents=True)
        path.write_bytes(b"image")
    export_review(
        tmp_path / "review",
        PAIRS,
        Governance.OPEN,
        items=6,
        raters=2,
        judge="rules",
        stratum_of=lambda one: "flawed" if one.request.study_id % 10 == 0 else "flawless",
        image_prefix=tmp_path / "images",
    )
    review = open_review(tmp_path / "review")
    for path in (review.folder / "for_raters").rglob("*"):
        text = str(path.relative_to(review.folder)) + (read_text(path) if path.is_file() else "")
        assert "95000" not in text and "flaw" not in text and "rules" not in text and "negative" not in text, path
    key = review.key()
    assert sorted(entry.stratum for entry in key.values()) == ["flawed"] * 3 + ["flawless"] * 3
    assert {entry.stratum: entry.inclusion_probability for entry in key.values()} == {
        "flawed": 3 / 4,
        "flawless": 3 / 36,
    }
    assert sum(1 / entry.inclusion_probability for entry in key.values()) == pytest.approx(len(PAIRS))
    assert [path.read_bytes() for path in review.image_paths("item-001")] == [b"image"]


def read_text(path):
    return str(read_rows(path)) if path.suffix == ".xlsx" else path.read_text()


def test_every_rater_has_an_order_of_their_own(review):
    first, second = map(review.order, review.raters)
    assert sorted(first) == sorted(second) == [item.item for item in review.items] and first != second
    assert [row["item"] for row in csv.DictReader(sheet(review, "rater-1").open())] == list(first)


def test_a_plain_sample_is_drawn_with_equal_chances():
    """Over many seeds every pair is drawn about equally often: 6 of 40, 2,000 times, 300 expected, sd 16."""
    counts = dict.fromkeys((one.id for one in PAIRS), 0)
    for seed in range(2000):
        for drawn in draw_sample(PAIRS, 6, seed)[0]:
            counts[drawn.pair.id] += 1
    assert min(counts.values()) > 230 and max(counts.values()) < 370


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 50), min_size=1, max_size=4), st.data())
def test_strata_share_the_items_evenly(sizes, data):
    items = data.draw(st.integers(1, sum(sizes.values())))
    shares = share_evenly(sizes, items)
    assert sum(shares.values()) == items and all(0 <= shares[name] <= sizes[name] for name in sizes)
    open_ones = [shares[name] for name in sizes if shares[name] < sizes[name]]
    assert not open_ones or max(shares.values()) - min(open_ones) <= 1


def test_a_rating_is_kept_at_once_and_the_last_one_holds(review):
    review.save_rating("rater-1", "item-002", WORST, comment="unsure")
    review.save_rating("rater-1", "item-002", {"relevance": "Essential"})
    again = open_review(review.folder)
    assert again.ratings("rater-1") == {"item-002": {**WORST, "relevance": "Essential"}}
    assert again.comments("rater-1") == {"item-002": "unsure"} and again.ratings("rater-2") == {}


def test_ratings_saved_at_the_same_moment_are_all_kept(review):
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda item: review.save_rating("rater-1", item.item, BEST), review.items):
            pass
    assert review.ratings("rater-1") == same(review)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("rater-9", "item-001", BEST), "rater 'rater-9'"),
        (("../x", "item-001", BEST), "rater"),
        (("rater-1", "item-999", BEST), "item 'item-999'"),
        (("rater-1", "item-001", {"correctness": "Fine"}), "correctness is not one of Incorrect, Correct"),
        (("rater-1", "item-001", {"beauty": "Correct"}), "'beauty' is not a dimension"),
        (("rater-1", "item-001", {}), "rating is empty"),
        (("rater-1", "item-001", BEST, None, None, "maybe"), "mark 'maybe'"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(review, arguments, words):
    with pytest.raises(InputError, match=words):
        review.save_rating(*arguments)
    assert not list(review.folder.rglob("ratings/*.json"))


@pytest.mark.parametrize("kind, fill", [("csv", fill_csv), ("xlsx", fill_xlsx)])
def test_a_filled_sheet_comes_back_as_it_was_filled(review, kind, fill):
    wanted = {item.item: WORST if n % 2 else BEST for n, item in enumerate(review.items)}
    for rater in review.raters:
        fill(sheet(review, rater, kind), wanted)
    files = [sheet(review, rater, kind) for rater in review.raters]
    assert not import_ratings(review, files).missing
    assert all(review.ratings(rater) == wanted for rater in review.raters)
    first = (review.folder / "ratings.csv").read_bytes()
    assert import_ratings(review, files).problems == [] and (review.folder / "ratings.csv").read_bytes() == first
    agreement = measure_sheet(read_ratings(review.folder / "ratings.csv"), resamples=0)
    assert list(agreement) == list(DIMENSIONS) and all(one.ac1 == 1 for one in agreement.values())


def test_a_sheet_with_semicolons_is_read(review, tmp_path):
    """Spreadsheet programs write them where the comma is the decimal point."""
    fill_csv(sheet(review, "rater-1"), same(review, WORST))
    with sheet(review, "rater-1").open(newline="") as file:
        rows = list(csv.reader(file))
    with (tmp_path / "semicolons.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows(rows)
    assert not import_ratings(review, [tmp_path / "semicolons.csv"]).problems
    assert review.ratings("rater-1") == same(review, WORST)


def test_a_sheet_s_drop_downs_hold_the_categories(review):
    book = openpyxl.load_workbook(sheet(review, "rater-1", "xlsx"))
    rules = {str(rule.sqref): rule.formula1 for rule in book["ratings"].data_validations.dataValidation}
    assert rules["G2:G7"] == '"Correct,Incorrect"' and len(rules) == 4
    assert [cell.value for cell in book["ratings"][1]][6:10] == list(DIMENSIONS)


def test_a_text_that_looks_like_a_formula_is_not_one(tmp_path):
    evil = '=HYPERLINK("http://x")'
    export_review(tmp_path / "r", [pair(1, answer=evil, findings="-5\x01")], Governance.OPEN, items=1, raters=1)
    review = open_review(tmp_path / "r")
    row = next(csv.DictReader(sheet(review, "rater-1").open()))
    assert row["answer"] == "'" + evil and row["findings"].startswith("'-5")
    cell = openpyxl.load_workbook(sheet(review, "rater-1", "xlsx"))["ratings"]["F2"]
    assert (cell.value, cell.data_type) == (evil, "s")
    assert review.items[0].answer == evil


def label_studio(review, rater, verdicts):
    tasks = json.loads((review.folder / "for_raters" / rater / "tasks.json").read_text())
    for number, task in enumerate(tasks, start=1):
        result = [
            {"from_name": name, "type": "choices", "value": {"choices": [category]}}
            for name, category in verdicts[task["data"]["item"]].items()
        ]
        task |= {"id": number, "annotations": [{"result": result, "was_cancelled": False}]}
    return tasks


def test_label_studio_exports_come_back(review, tmp_path):
    tasks = label_studio(review, "rater-1", same(review, WORST))
    tasks[0]["annotations"].append({"result": [], "was_cancelled": True})
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    assert not import_ratings(review, [path]).problems
    assert review.ratings("rater-1") == same(review, WORST)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda task: task.update(data={"item": "item-001"}), "task 2 lacks item and rater"),
        (lambda task: task.update(annotations=7), "task 2: the annotations"),
        (lambda task: task.update(annotations=["x"]), "task 2: the annotation lacks its result list"),
        (lambda task: task["annotations"][0].pop("result"), "task 2: the annotation lacks its result list"),
        (lambda task: task["annotations"][0]["result"][0].pop("value"), "task 2: correctness is damaged"),
        (lambda task: choices(task)[0].append("Incorrect"), "task 2: correctness has 2 choices"),
        (
            lambda task: task["annotations"][0]["result"].append(task["annotations"][0]["result"][0]),
            "task 2: correctness occurs twice",
        ),
    ],
)
def test_a_damaged_export_is_refused_by_its_task(review, tmp_path, damage, said):
    tasks = label_studio(review, "rater-1", same(review))
    damage(tasks[1])
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    with pytest.raises(InputError, match=said):
        import_ratings(review, [path])
    assert review.ratings("rater-1") == {}


def test_a_cancelled_annotation_is_not_read_and_every_comment_is(review, tmp_path):
    tasks = label_studio(review, "rater-1", same(review))
    tasks[0]["annotations"].append({"was_cancelled": True})
    remarks = [{"from_name": "comment", "value": {"text": text}} for text in (["dark", "film"], "ask again")]
    tasks[0]["annotations"][0]["result"] += remarks
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    found = import_ratings(review, [tmp_path / "export.json"])
    assert not found.problems
    assert found.comments["rater-1"][tasks[0]["data"]["item"]] == "dark film ask again"


def test_a_rater_s_name_is_no_path(review):
    """A sample may come from elsewhere, and a rater's file is written under that name."""
    manifest = json.loads((review.folder / "manifest.json").read_text())
    for name in ("../../elsewhere", "a/b", "..", "", ".hidden"):
        orders = {name: manifest["orders"]["rater-1"]}
        (review.folder / "manifest.json").write_text(json.dumps(manifest | {"orders": orders}))
        with pytest.raises(InputError, match="rater name"):
            open_review(review.folder)


def test_a_doubled_column_of_a_workbook_is_named(review, tmp_path):
    book = openpyxl.load_workbook(sheet(review, "rater-1", "xlsx"))
    column = book["ratings"].max_column + 1
    for row, text in enumerate(("relevance", "Incorrect and Misleading"), start=1):
        book["ratings"].cell(row, column).value = text
    book.save(tmp_path / "doubled.xlsx")
    with pytest.raises(InputError, match="doubled.xlsx: column 'relevance'"):
        import_ratings(review, [tmp_path / "doubled.xlsx"])


def choices(task):
    return [entry["value"]["choices"] for entry in task["annotations"][0]["result"]]


def test_every_missing_doubled_and_unknown_rating_is_named_and_nothing_is_taken(review, tmp_path):
    verdicts = same(review)
    del verdicts["item-003"]
    verdicts["item-004"] = {**BEST, "relevance": ""}
    verdicts["item-005"] = {**BEST, "completeness": "Perfect"}
    fill_csv(sheet(review, "rater-1"), verdicts)
    extra = tmp_path / "extra.csv"
    rows = [["rater-1", "item-001"], ["rater-9", "item-001"], ["rater-1", "item-777"]]
    extra.write_text("rater,item," + ",".join(DIMENSIONS) + "\n" + "".join(f"{a},{b},Correct,,,\n" for a, b in rows))
    found = import_ratings(review, [sheet(review, "rater-1"), extra])
    said = "\n".join(found.problems)
    assert "category 'Perfect' is unknown" in said and "rater 'rater-9' is unknown" in said
    assert "item 'item-777' is unknown" in said and "rater-1, item-001: rated 2 times" in said
    assert found.missing == [
        "rater-1, item-003: correctness, consistency, completeness, relevance missing",
        "rater-1, item-004: relevance missing",
        "rater-1, item-005: completeness missing",
    ]
    assert len(found.problems) == 4 and review.ratings("rater-1") == {} and not (review.folder / "ratings.csv").exists()


def test_missing_ratings_are_taken_as_missing_only_when_said_so(review):
    fill_csv(sheet(review, "rater-1"), {"item-001": BEST})
    assert len(import_ratings(review, [sheet(review, "rater-1")]).missing) == 5 and not review.ratings("rater-1")
    import_ratings(review, [sheet(review, "rater-1")], allow_missing=True)
    assert list(review.ratings("rater-1")) == ["item-001"]


def test_a_changed_mind_has_to_be_said(review):
    fill_csv(sheet(review, "rater-1"), same(review))
    import_ratings(review, [sheet(review, "rater-1")])
    fill_csv(sheet(review, "rater-1"), same(review) | {"item-001": WORST})
    found = import_ratings(review, [sheet(review, "rater-1")])
    assert len(found.problems) == 4 and "--replace" in found.problems[0]
    import_ratings(review, [sheet(review, "rater-1")], replace=True)
    assert review.ratings("rater-1")["item-001"] == WORST


def test_a_sample_that_people_rated_is_not_drawn_over(review):
    review.save_rating("rater-1", "item-001", BEST)
    with pytest.raises(ConfigError, match="already contains ratings"):
        export_review(review.folder, PAIRS, Governance.OPEN, items=6, raters=2)


@pytest.mark.parametrize("file, content", [("items.json", "[]"), ("items.json", "{}"), ("manifest.json", "{}")])
def test_a_damaged_sample_is_an_error_that_says_what_to_do(review, file, content):
    (review.folder / file).write_text(content)
    with pytest.raises(MedvqaError, match="medvqa-hub cxr review export"):
        open_review(review.folder)


def test_the_real_ratings_go_out_in_and_give_the_digits_of_table_3(real_data, tmp_path, capsys):
    """Export of 100 pairs, the four raters' sheets filled with what they said, import, `cxr agreement`."""
    build = build_release(tmp_path, studies=12)
    out = str(build.workspace.root)
    assert run(["cxr", "review", "export", "--out", out, "--items", "100", "--raters", "4"]) == 0
    review = open_review(build.workspace.review)
    assert len([one for study in iterate_pairs(build.workspace) for one in study]) > 100
    with (real_data / "agreement" / "ratings.csv").open() as file:
        real = list(csv.DictReader(file))
    people = dict(zip(sorted({row["rater"] for row in real}), review.raters, strict=True))
    for person, rater in people.items():
        said = {f"item-{int(row['number']):03}": row for row in real if row["rater"] == person}
        fill_xlsx(sheet(review, rater, "xlsx"), {item: {n: row[n] for n in DIMENSIONS} for item, row in said.items()})
    files = [str(sheet(review, rater, "xlsx")) for rater in review.raters]
    assert run(["cxr", "review", "import", "--out", out, *files]) == 0
    capsys.readouterr()
    assert run(["cxr", "agreement", str(review.folder / "ratings.csv"), "--resamples", "0"]) == 0
    lines = {line.split()[0]: line.split()[4:] for line in capsys.readouterr().out.splitlines() if line}
    assert lines["correctness"] == ["0.2843", "0.9443", "0.9443", "0.9443", "0.9443"]
    assert lines["consistency"] == ["0.3291", "0.7778", "0.9255", "0.7417", "0.8953"]
    assert lines["completeness"] == ["0.3720", "0.7410", "0.8962", "0.6851", "0.8586"]
    assert lines["relevance"] == ["0.3395", "0.8479", "0.9227", "0.8312", "0.8858"]


def test_the_command_names_problems_and_takes_nothing(tmp_path, capsys):
    out = str(build_release(tmp_path, studies=3).workspace.root)
    assert run(["cxr", "review", "export", "--out", out, "--items", "2", "--raters", "1"]) == 0
    path = tmp_path / "cxr" / "review" / "for_raters" / "rater-1" / "sheet.csv"
    assert run(["cxr", "review", "import", "--out", out, str(path)]) == 1
    errors = capsys.readouterr().err
    assert "rater-1, item-001: correctness" in errors and "2 problems, listed above" in errors
    assert run(["cxr", "review", "export", "--out", out, "--items", "100000"]) == 1
    assert "from 1 to 147" in capsys.readouterr().err
