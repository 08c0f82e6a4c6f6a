"""The page in a real browser: open, filter, page, link, correct, rate, ask, reload; and what it asks for is counted."""

from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("gradio")

from builds import build_release
from chat_server import ChatServerDouble, completion, connect_to
from explorer_page import Watched, chromium, serve

from medvqa_core.governance import Governance
from medvqa_hub.cli import run
from medvqa_hub.explore.opening import ExploreOptions, open_folders
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS
from mimic_cxr_vqa.judging.review import open_review
from mimic_cxr_vqa.workspace import SAMPLE_DIR
from rjua_meddqa import SAMPLE_DIR as REPORTS
from rjua_meddqa.corrections import Corrections
from rjua_meddqa.released import read_annotations

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser(
    address, with_model
):  # started last: playwright has an event loop in this thread, and a build wants its own
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a build, a review of it, and corrections to come."""
    place = tmp_path_factory.mktemp("explorer")
    build = build_release(place, studies=30)
    options = ["--items", "3", "--raters", "2", "--image-root", str(build.tree)]
    assert run(["cxr", "review", "export", "--out", str(build.workspace.root), *options]) == 0
    return place


@pytest.fixture(scope="module")
def address(place):
    asked = ExploreOptions(image_root=place / "tree", corrections=place / "corrected")
    with serve(open_folders([place / "cxr", place / "cxr" / "review", REPORTS], asked), "the-key") as started:
        yield started


@pytest.fixture(scope="module")
def with_model():
    """The samples with a model that may see images that people bring."""
    with ChatServerDouble(lambda body: completion("Yes, on the left.")) as double:
        connect = lambda governance: connect_to(double, governance, i_run_this_server=True)  # noqa: E731
        with serve(open_folders([], ExploreOptions(connect=connect))) as started:
            yield started


@pytest.fixture
def watched(browser, address):
    opened = Watched(browser, address)
    yield opened
    opened.context.close()
    assert not opened.problems
    ours = urlsplit(address).netloc
    foreign = [
        url for url in opened.requests if not url.startswith(("data:", "blob:")) and urlsplit(url).netloc != ours
    ]
    assert opened.requests and foreign == []


def studies_of(page):
    return page.eval_on_selector_all(".studies li", "items => items.map((item) => item.dataset.study)")


def test_a_release_is_looked_at(watched):
    page = watched.page
    page.wait_for_selector(".question")
    assert page.inner_text(".class") == "open"
    assert "the-key" not in page.url
    first = studies_of(page)
    assert len(first) == 20
    page.click("text=Next →")
    watched.wait(lambda: studies_of(page)[0] != first[0])
    assert not set(first) & set(studies_of(page))
    page.go_back()
    watched.wait(lambda: studies_of(page) == first)

    page.select_option("select[aria-label=Category]", "Edema")
    page.select_option("select[aria-label=Label]", "positive")
    watched.wait(lambda: len(studies_of(page)) < 20)
    wanted = ".category:not(.dim) .chip"
    watched.wait(lambda: page.locator(wanted).all_inner_texts() == ["positive"])
    assert page.inner_text(".category:not(.dim) h2").startswith("Edema")
    page.fill("input[type=search]", "zebra stripes")
    page.press("input[type=search]", "Enter")
    page.wait_for_selector("text=No study matches.")
    page.click("text=Clear filters")
    watched.wait(lambda: len(studies_of(page)) == 20)


def test_keys_window_and_links_bring_back_the_state(watched, browser, address):
    page = watched.page
    page.wait_for_selector(".stage:not(.loading) img")
    for key in ("j", "j", "]", "+", "i"):
        page.keyboard.press(key)
        page.wait_for_timeout(60)
    watched.wait(lambda: "invert" in watched.state)
    state = parse_qs(watched.state.lstrip("?"))
    assert state["zoom"] == ["1.4"] and state["invert"] == ["1"] and "study" in state
    style = page.get_attribute(".stage img", "style")
    assert "scale(1.4)" in style and "url(" in style
    page.reload()
    page.wait_for_selector(".stage:not(.loading) img")
    assert page.get_attribute(".stage img", "style") == style
    assert page.inner_text("h1") == f"Study {state['study'][0]}"
    page.keyboard.press("0")
    watched.wait(lambda: "zoom" not in watched.state)

    other = Watched(browser, address)  # the link in another browser, by its key
    other.open(watched.state.lstrip("?"))
    other.page.wait_for_selector("h1")
    assert other.page.inner_text("h1") == f"Study {state['study'][0]}"
    other.context.close()


def test_without_the_key_the_page_says_what_to_do(browser, address):
    context = browser.new_context()
    page = context.new_page()
    page.goto(address.split("?")[0])
    assert "key is missing" in page.inner_text("body")
    context.close()


def test_boxes_and_text_point_at_each_other_and_a_correction_is_saved(watched, place):
    page = watched.page
    watched.open("view=reports&report=report0005.jpg")
    page.wait_for_selector(".boxes polygon")
    piece = page.locator(".piece", has_text="38岁")
    piece.hover()
    assert page.locator(".boxes polygon.on").count() == 1
    page.mouse.move(0, 0)
    page.locator(".boxes polygon").nth(3).hover()
    assert page.locator(".piece.on").count() == 1
    first = page.locator(".rows tbody tr").first
    first.locator("textarea").nth(1).fill("99.9")
    page.keyboard.press("Control+Enter")  # moves to the field for the name
    page.keyboard.type("Ann")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".findings >> text=99.9")  # what the check says of it
    (row,) = read_annotations(place / "corrected" / "annotations.csv")
    assert row.img_path == "report0005.jpg" and row.table[0].result == "99.9"
    page.reload()
    page.wait_for_selector(".rows tbody tr")
    assert page.locator(".rows tbody tr").first.locator("textarea").nth(1).input_value() == "99.9"
    assert page.locator("[data-report='report0005.jpg'] .state").inner_text() == "saved"


def test_two_people_choose_field_by_field_with_the_keys(browser, address, place):
    """Ann and Bob change one row each way, and Bob another. Only the row that both changed is left to choose."""
    people = {name: Watched(browser, address, viewport={"width": 1400, "height": 900}) for name in ("Ann", "Bob")}
    for name, shown in people.items():
        shown.open("view=reports&report=report0008.png")
        shown.page.wait_for_selector(".rows tbody tr")
        shown.page.keyboard.press("e")
        shown.page.locator(".rows textarea").nth(1).fill(name)
    bob = people["Bob"].page
    bob.locator(".rows textarea").nth(4).fill("by Bob")
    for name, shown in people.items():
        shown.page.keyboard.press("Control+Enter")
        shown.page.keyboard.type(name)
        shown.page.keyboard.press("Control+Enter")
        shown.page.wait_for_selector("dialog.versions" if name == "Bob" else "text=version 1")
    assert bob.locator("dialog fieldset").count() == 2 and bob.locator("dialog input:checked").count() == 1
    assert bob.inner_text("dialog button.primary") == "1 to choose"
    bob.keyboard.press("ArrowDown")  # in the row that both changed, from his to Ann's
    bob.keyboard.press("Enter")
    bob.wait_for_selector("text=version 2")
    corrections = Corrections(place / "corrected", Governance.OPEN)
    row = corrections.find("report0008.png")
    assert (row.table[0].result, row.table[1].result) == ("Ann", "by Bob")
    assert [edit.author for edit, _ in corrections.history("report0008.png")] == ["Ann", "Bob"]
    bob.keyboard.press("Escape")
    bob.keyboard.press("h")
    bob.wait_for_selector("dialog tbody tr")
    bob.keyboard.press("Tab")
    bob.locator("dialog button", has_text="Restore").focus()
    bob.keyboard.press("Enter")
    bob.wait_for_selector("text=version 3")
    assert len(Corrections(place / "corrected", Governance.OPEN).history("report0008.png")) == 3
    for name, shown in people.items():
        problems = [problem for problem in shown.problems if name == "Ann" or "409" not in problem]
        shown.context.close()
        assert problems == []


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)])
def test_the_tools_of_annotators_work_with_the_keys_and_fit(browser, address, place, width, height):
    shown = Watched(browser, address, viewport={"width": width, "height": height})
    page, press = shown.page, shown.page.keyboard.press
    study = page.evaluate("""async () => {
      for (const { study_id } of (await (await fetch("api/studies")).json()).studies)
        if ((await (await fetch(`api/study?study=${study_id}`)).json()).images.length > 1) return study_id;
    }""")
    shown.open(f"view=studies&study={study}")
    page.wait_for_selector(".stage:not(.loading) img")
    press("s")
    shown.wait(lambda: page.locator(".viewers .viewer:not([hidden])").count() == 2)
    page.wait_for_timeout(300)
    press("m")
    shown.wait(lambda: "px" in page.locator(".measured").first.inner_text())
    half = int(page.locator(".measured").first.inner_text().split()[0])
    press("Enter")
    for _ in range(10):
        press("ArrowLeft")
    ratio = page.locator(".measured").first.inner_text()  # ten steps of 1/200 of the width, from half of it
    assert ratio == f"{round(half * 0.9)} px, 0.90 of the line before"
    report = "report0009.png" if width > 400 else "report0010.png"
    shown.open(f"view=reports&report={report}")
    page.wait_for_selector(".pairs tbody tr")
    page.evaluate("localStorage.setItem('author', 'Eve')")
    rows = page.locator(".pairs tbody tr").count()
    for key in ("e", "Tab", "Tab", "Enter"):  # key, value, remove
        press(key)
    assert page.locator(".pairs tbody tr").count() == rows - 1
    press("z")
    assert page.locator(".pairs tbody tr").count() == rows
    press("Control+Enter")
    press("Escape")
    page.wait_for_selector(f"[data-report='{report}'] .state:has-text('saved')")
    corrections = Corrections(place / "corrected", Governance.OPEN)
    assert corrections.find(report) is not None
    for key in ("f", "b"):
        page.wait_for_timeout(400)
        press(key)
    page.wait_for_selector(".boxes polygon:focus")
    press("Shift+ArrowRight")
    press("Control+Enter")
    shown.wait(lambda: corrections.refresh() or corrections.boxes(report) is not None)
    assert corrections.mark(report) == "flagged"
    item = 1 if width > 400 else 2
    shown.open(f"view=review&rater=rater-1&item={item}")
    page.wait_for_selector("fieldset.active")
    for key in "1111":
        press(key)
        page.wait_for_timeout(150)
    if width > 400:  # nothing of the form is below the window
        lowest = page.locator("fieldset, .marks, .rating .pager").evaluate_all(
            "parts => Math.max(...parts.map((part) => part.getBoundingClientRect().bottom))"
        )
        assert lowest <= height
    assert page.evaluate("document.querySelector('#bar').offsetHeight") < 60  # one row
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    press("z")
    shown.wait(lambda: page.locator("fieldset input:checked").count() == 3)
    press("s")
    page.wait_for_selector(f"h1:has-text('Item {item + 1}')")
    assert not shown.problems
    shown.context.close()


def test_a_rater_rates_with_the_keys_and_goes_on_after_a_reload(watched, place):
    page = watched.page
    review = open_review(place / "cxr" / "review")
    watched.open("view=review")
    page.click("button:has-text('rater-2')")
    page.wait_for_selector("fieldset.active")
    item = review.order("rater-2")[0]
    for number, dimension in enumerate(DIMENSIONS.values(), start=1):
        page.keyboard.press("2")
        watched.wait(lambda number=number: len(review.ratings("rater-2").get(item, {})) == number)
        assert review.ratings("rater-2")[item][dimension.name] == dimension.categories[1]
    watched.wait(lambda: "1 of 3" in page.inner_text(".progress"))
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Item 2 of 3')")
    page.keyboard.press("1")
    watched.wait(lambda: len(review.ratings("rater-2")) == 2)
    watched.open("view=review&rater=rater-2")
    page.wait_for_selector("h1:has-text('Item 2 of 3')")
    assert page.locator("fieldset input:checked").count() == 1


def test_an_engine_is_asked_through_the_queue(watched):
    page = watched.page
    page.wait_for_selector(".question")
    page.keyboard.press("a")
    page.wait_for_selector(".suggested button")
    page.locator(".suggested button").first.click()
    page.wait_for_selector(".talk .quiet-text:has-text(' s')")
    said = page.locator(".talk .answer").all_inner_texts()
    assert len(said) == 2 and said[0] == said[1].removeprefix("reference").strip()  # the same rules made the release
    watched.open("view=ask&of=report&report=report0005.jpg")
    page.fill("textarea", "该报告中年龄是什么？")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".talk .answer:has-text('38岁')")
    assert "of=report" in watched.state


@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1440)])
def test_an_image_of_one_s_own_is_asked_about(browser, with_model, tmp_path, theme, width):
    """Chosen, shown from the browser's own memory, asked about; a file that is none says why."""
    film, text = next(SAMPLE_DIR.rglob("*.jpg")), tmp_path / "notes.png"
    text.write_text("no image")
    shown = Watched(browser, with_model, viewport={"width": width, "height": 860}, color_scheme=theme)
    page = shown.page
    shown.open("view=ask&of=image")
    page.wait_for_selector(".bring")
    assert "treated as credentialed" in page.inner_text(".asking")
    page.set_input_files("input[type=file]", text)
    page.wait_for_selector("#message.error:has-text('PNG')")
    assert [problem for problem in shown.problems if "400" not in problem] == []
    shown.problems.clear()  # the browser notes the refusal
    page.set_input_files("input[type=file]", film)
    page.wait_for_selector(".stage:not(.loading) img[src^='blob:']")
    assert page.inner_text("h1") == film.name
    page.select_option("select[aria-label='Content']", "radiograph PA")
    page.fill("textarea", "Is there a pleural effusion?")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".talk .answer:has-text('on the left')")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    shown.open("view=ask&of=study")
    page.wait_for_selector(".suggested button")
    assert not shown.problems
    assert all(url.startswith((with_model, "blob:", "data:")) for url in shown.requests)
    shown.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 900, 1440])
def test_every_part_fits_and_can_be_read(browser, address, theme, width):
    shown = Watched(browser, address, viewport={"width": width, "height": 860}, color_scheme=theme)
    for view, ready in (("studies", ".question"), ("reports", ".piece"), ("review", ".choose"), ("ask", ".suggested")):
        shown.open(f"view={view}")
        shown.page.wait_for_selector(ready)
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width, view
        assert shown.page.evaluate(CONTRAST) == [], view
    assert not shown.problems
    shown.context.close()


# Texts whose contrast with what lies behind them is below 4.5 to 1 (WCAG 2, AA); but what is disabled or dimmed.
CONTRAST = """() => {
  const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const rgba = (text) => { const v = text.match(/[\\d.]+/g).map(Number); return [v.slice(0, 3), v[3] ?? 1]; };
  const behind = (e) => { for (; e; e = e.parentElement) { const [c, a] = rgba(getComputedStyle(e).backgroundColor); if (a === 1) return c; } return [255, 255, 255]; };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !e.offsetParent || e.closest(":disabled, .dim, .stage, [aria-busy=true], noscript, option")) continue;
    const [a, b] = [light(rgba(getComputedStyle(e).color)[0]), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push([e.className, e.textContent.slice(0, 30), ratio.toFixed(2)]);
  }
  return found;
}"""  # noqa: E501 - a script
