"""The live page in headless Chromium, served by a real ``caveat serve`` process with real traffic."""

from __future__ import annotations

import re
import shlex
import urllib.parse
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import httpx
import numpy as np
import pytest
from tests.report.test_browser import STYLE, contrast, luminance
from tests.serve.conftest import CLASSES, draw, npy, npz, serving

from caveat import Outputs

pytestmark = pytest.mark.browser
KEY = "0123456789-of-the-test"
NAME = "<img src=x onerror=alert(1)>"
STATIC = files("caveat.serve") / "static"
NETWORK = "Failed to load resource"  # what Chromium itself writes where a test takes the service or the key away


def send(service, rows, labels=None):
    """Rows as a client sends them, and their labels later."""
    body, headers = npz(logits=rows.logits), {"content-type": "application/x-npz"}
    verdicts = service.client.post("/v1/verdicts", content=body, headers=headers).raise_for_status().json()["verdicts"]
    if labels is not None:
        known = [{"id": row["id"], "label": int(label)} for row, label in zip(verdicts, labels, strict=True)]
        service.client.post("/v1/labels", json={"labels": known}).raise_for_status()
    return verdicts


def changed(n, *, seed):
    """Inputs that the network is less sure of, and often wrong about."""
    rows, rng = draw(n, seed=seed), np.random.default_rng(seed)
    labels = np.where(rng.random(n) < 0.4, (rows.labels + 1) % CLASSES, rows.labels)
    return Outputs(logits=0.5 * rows.logits + rng.normal(size=rows.logits.shape), labels=labels)


@pytest.fixture(scope="module")
def empty(guards, tmp_path_factory):
    with serving(guards["logits"], tmp_path_factory.mktemp("empty") / "audit.sqlite") as service:
        yield service


@pytest.fixture(scope="module")
def quiet(guards, tmp_path_factory):
    with serving(guards["logits"], tmp_path_factory.mktemp("quiet") / "audit.sqlite") as service:
        for seed in range(20, 28):
            rows = draw(150, seed=seed)
            send(service, rows, rows.labels)
        service.live(rows=1200)
        yield service


@pytest.fixture(scope="module")
def drifted(guards, tmp_path_factory):
    with serving(guards["logits"], tmp_path_factory.mktemp("drifted") / "audit.sqlite", "--name", NAME) as service:
        send(service, draw(300, seed=30))
        rows = changed(600, seed=31)
        send(service, rows, rows.labels)
        service.live(rows=900)
        yield service


@pytest.fixture(scope="module")
def keyed(guards, tmp_path_factory):
    folder = tmp_path_factory.mktemp("keyed")
    (folder / "key").write_text(KEY)
    (folder / "key").chmod(0o600)
    with serving(guards["features"], folder / "audit.sqlite", "--key-file", str(folder / "key"), key=KEY) as service:
        yield service


@pytest.fixture
def visit(browser) -> Iterator[Any]:
    """Opens the page of a service; when the test ends, nothing may have gone wrong and no one else been asked."""
    contexts, problems, requests, addresses, allowed = [], [], [], set(), []

    def opened(service, *, width=1300, height=900, allow=None, wait="#tile-rows .big", **options) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        addresses.add(service.address)
        allowed.extend([] if allow is None else [allow])
        page = context.new_page()
        page.add_init_script("addEventListener('securitypolicyviolation', (e) => console.error('CSP', e.blockedURI))")
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(service.address)
        page.wait_for_selector(wait)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [text for text in problems if not any(part in text for part in allowed)] == []
    assert all(any(url.startswith(f"{address}/") for address in addresses) for url in requests)


def text(page, selector):
    return page.locator(selector).first.inner_text().replace("\xa0", " ")


def cells(page, table, column):
    return page.locator(f"{table} tbody tr").locator(f"td.{column}").all_inner_texts()


def row_of(part):
    return ", ".join(f"{value:.6g}" for value in part)


# -- what it shows ----------------------------------------------------------------------------------------------------


def test_an_empty_page_says_what_to_send_and_the_command_works(empty, visit):
    page = visit(empty)
    assert "No verdicts yet" in text(page, "#empty")
    assert text(page, "#tile-rows .big") == "0"
    assert page.locator("svg.chart").count() == 4
    assert page.locator("#promises li").count() == 3
    assert page.locator("#alarm *").count() == 0
    command = shlex.split(text(page, "#empty-command"))  # curl -H "name: value" -d body address
    assert command[0] == "curl"
    name, value = command[command.index("-H") + 1].split(": ")
    answer = httpx.post(command[-1], headers={name: value}, content=command[command.index("-d") + 1])
    assert answer.status_code == 200
    page.wait_for_selector("#last .verdicts")  # by itself, at the next round
    assert not page.locator("#empty").is_visible()
    assert text(page, "#tile-rows .big") == "1"


def test_a_quiet_page_shows_the_numbers_of_the_service(quiet, visit):
    page, live = visit(quiet), quiet.live()
    assert live["alarms"] == []
    assert text(page, "h1") == "Guard: logits"
    assert text(page, "#tile-rows .big") == f"{live['rows']:,}"
    outliers, errors, drift = (text(page, f"#tile-{name}") for name in ("outliers", "errors", "drift"))
    assert f"{100 * live['counts']['outlier'] / live['rows']:.1f} %" in outliers
    assert "at most 5 % of in-distribution inputs" in outliers
    error = live["live"]["error"]
    assert f"{100 * error['rate']:.1f} %" in errors
    assert f"[{100 * error['lower']:.1f}, {100 * error['upper']:.1f}]" in errors
    assert f"{error['errors']} of {error['labels']:,} labels" in errors
    assert "at most 20 %" in errors
    worst = max(live["drift"]["streams"], key=lambda stream: stream["now"])
    assert "Quiet" in drift
    assert f"{worst['now']:.2f} of {worst['line']:.2f}".replace("-", "−") in drift
    assert page.locator("#promises li").count() == len(live["promises"]) == 3
    for shown, promise in zip(page.locator("#promises li").all_inner_texts(), live["promises"], strict=True):
        assert promise["sentence"] in shown.replace("\xa0", " ")
    assert page.locator("#alarm *").count() == 0
    assert page.title() == "logits"
    assert [count.replace(",", "") for count in cells(page, "#verdicts-table", "number")[::3]] == [
        str(live["counts"][kind]) for kind in ("accept", "abstain", "outlier")
    ]


def test_figures_show_the_data_and_say_it_in_words(quiet, visit):
    page, live = visit(quiet), quiet.live()
    words = page.locator("svg.chart").evaluate_all("a => a.map(e => e.getAttribute('aria-label'))")
    assert len(words) == 4
    assert f"{sum(live['minutes']['accept']):,} accept" in words[0]
    assert f"alarm line is at {live['drift']['streams'][0]['line']:.2f}" in words[1]
    assert all(stream["label"] in words[1] for stream in live["drift"]["streams"])
    assert ", ".join(map(str, live["p_values"]["counts"])) in words[2]
    assert f"after {live['live']['error']['labels']:,} labels" in words[3]
    assert page.locator("#plot-drift .line").count() == 3
    bars = page.locator("#plot-p .bar").evaluate_all("a => a.map(e => +e.getAttribute('height'))")
    counts = live["p_values"]["counts"]
    assert np.array(bars) / bars[0] == pytest.approx(np.array(counts) / counts[0], abs=0.05)
    stacked = page.locator("#plot-verdicts rect:not(.hover)").evaluate_all("a => a.map(e => +e.getAttribute('height'))")
    busiest = max(map(sum, zip(*(live["minutes"][kind] for kind in live["counts"]), strict=True)))
    pixels = (232 - 12 - 22) / 1.08 / busiest  # height of the figure without its margins
    assert sum(stacked) == pytest.approx(pixels * live["rows"], rel=0.03)
    dashes = page.locator("#plot-drift .line").evaluate_all("a => a.map(e => getComputedStyle(e).strokeDasharray)")
    assert len(set(dashes)) == 3  # streams differ by more than color


def test_the_last_verdicts_have_reasons(quiet, visit):
    page, live = visit(quiet), quiet.live()
    assert cells(page, "#last", "reason") == [row["reason"] for row in live["last"]]
    assert cells(page, "#last", "id") == [row["id"] for row in live["last"]]
    assert cells(page, "#last", "verdict") == [row["kind"] for row in live["last"]]
    assert cells(page, "#last", "set") == [f"{{{', '.join(map(str, row['set']))}}}" for row in live["last"]]


def test_an_alarm_cannot_be_missed(drifted, visit):
    page, live = visit(drifted), drifted.live()
    assert {"score", "risk"} <= set(live["alarms"])
    banner = text(page, "#alarm")
    rows = {stream["label"]: stream["alarmed_at"] for stream in live["drift"]["streams"]}
    assert banner.startswith("Alarm: ")
    assert f"inputs (row {rows['inputs']:,})" in banner
    assert f"errors among the accepted passed the promise (label {live['live']['error']['alarmed_at']:,})" in banner
    assert page.locator("#alarm").get_attribute("role") == "alert"
    assert page.locator("#alarm").bounding_box()["y"] < 200
    assert page.title().startswith("⚠ Alarm")
    assert "⚠ Alarm" in text(page, "#tile-drift")
    assert "Alarm" in text(page, "#tile-errors")
    assert page.locator("#promises li", has_text="In doubt").count() == 2
    assert page.locator("#promises li", has_text="Broken").count() == 1
    assert page.locator("#plot-drift .rung").count() == sum(row is not None for row in rows.values())
    outside = sum(
        not low <= n <= high
        for n, low, high in zip(*(live["p_values"][name] for name in ("counts", "least", "most")), strict=True)
    )
    assert page.locator("#plot-p .bar.outside").count() == outside > 0
    assert f"{outside} bars are outside" in text(page, "#p-cap")


def test_what_the_service_says_is_text_never_markup(drifted, visit):
    page = visit(drifted)
    assert text(page, "h1") == f"Guard: {NAME}"
    assert page.locator("img").count() == 0


def test_no_file_has_inline_script_or_style_or_sets_markup():
    page = (STATIC / "live.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\bsrc=)|https?://", page)
    scripts = [path.read_text(encoding="utf-8") for path in STATIC.iterdir() if path.name.endswith(".js")]
    assert len(scripts) == 3
    for script in scripts:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|\.style\b", script)
        assert set(re.findall(r"https?://[^\"]*", script)) <= {"http://www.w3.org/2000/svg"}


# -- how it looks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["empty", "quiet", "drifted"])
def test_the_page_never_scrolls_sideways(request, visit, name):
    page = visit(request.getfixturevalue(name))
    page.locator("#field-0").fill("5 0 0\n0 0 0")
    page.locator("#send").click()
    page.wait_for_selector("#answer-table .verdicts")
    for width in (320, 390, 700, 900, 1300, 1900):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(100)  # figures are drawn again
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        cards = page.locator(".card:visible").evaluate_all("a => a.map(e => [e.scrollWidth - e.clientWidth, e.id])")
        assert [card for card in cards if card[0] > 0] == []


def test_on_a_phone_figures_keep_their_text_size_and_rows_are_blocks(quiet, visit):
    page = visit(quiet, width=390, height=844)
    wide = page.locator("#plot-drift svg").evaluate("e => e.viewBox.baseVal.width / e.getBoundingClientRect().width")
    assert wide == pytest.approx(1, abs=0.02)
    reason, row = (page.locator(f"#last tbody tr{part}").first.bounding_box() for part in (" .reason", ""))
    assert reason["width"] > 0.95 * row["width"]  # a line of its own
    assert page.locator("#last [role=row]").first.is_visible() or page.locator("#last [role=cell]").count() > 0
    tiles = page.locator(".tile").evaluate_all("a => a.map(e => Math.round(e.getBoundingClientRect().left))")
    assert len(set(tiles)) == 1
    assert page.locator("#drift-table th").nth(1).is_visible()


def test_the_first_screen_shows_tiles_and_two_figures(drifted, visit):
    page = visit(drifted)
    bottoms = page.locator(".tile, #plot-verdicts, #plot-drift").evaluate_all(
        "a => a.map(e => e.getBoundingClientRect().bottom)"
    )
    assert max(bottoms) <= 900


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out(quiet, drifted, visit, scheme):
    for service in (quiet, drifted):
        page = visit(service, color_scheme=scheme)
        page.locator("#field-0").fill("no number")
        page.locator("#send").click()
        paper = page.locator("body").evaluate(STYLE, "backgroundColor")
        assert (luminance(paper) < 0.1) == (scheme == "dark")
        card = page.locator(".card").first.evaluate(STYLE, "backgroundColor")
        for selector in (".sub", ".state", ".tile h2", ".tile .big", ".tile p", "h2", ".cap", "thead th", "td",
                         ".mark", ".field label", "#answer-text", "footer", ".pill.accept"):  # fmt: skip
            color = page.locator(selector).first.evaluate(STYLE, "color")
            assert min(contrast(color, paper), contrast(color, card)) >= 4.5, selector  # WCAG 2.1, 1.4.3
        assert contrast(page.locator("svg.chart text").first.evaluate(STYLE, "fill"), card) >= 4.5
        button = page.locator("#send")
        assert contrast(button.evaluate(STYLE, "color"), button.evaluate(STYLE, "backgroundColor")) >= 4.5
        for line in page.locator("#plot-drift .line").all():
            assert contrast(line.evaluate(STYLE, "stroke"), card) >= 3  # WCAG 2.1, 1.4.11
        for alarm in page.locator(".banner.alarm h2, .tile.alarm .note, .tile.alarm .big").all():
            behind = alarm.locator("xpath=..").evaluate(STYLE, "backgroundColor")
            assert contrast(alarm.evaluate(STYLE, "color"), behind) >= 4.5
        for pill in page.locator(".pill.outlier").all()[:1]:
            assert contrast(pill.evaluate(STYLE, "color"), pill.evaluate(STYLE, "backgroundColor")) >= 4.5


def test_nothing_moves_and_everything_has_a_name(quiet, visit):
    page = visit(quiet, reduced_motion="reduce")
    assert page.evaluate("document.getAnimations().length") == 0
    controls = page.locator("button:visible, input:visible, textarea:visible")
    assert controls.count() >= 4
    for control in controls.all():
        assert control.evaluate("e => (e.labels && e.labels.length ? e.labels[0] : e).textContent.trim()")
    for section in page.locator("main section").all():
        label = section.get_attribute("aria-labelledby")
        assert section.get_attribute("aria-label") or page.locator(f"#{label}").count() == 1
    assert page.locator("svg[role=img]:not([aria-label])").count() == 0
    assert page.locator("table [role=columnheader]").count() > 0


# -- asking -----------------------------------------------------------------------------------------------------------


def test_it_follows_the_service_and_rests_when_nobody_looks(quiet, visit):
    page = visit(quiet)
    before = quiet.live()["rows"]
    send(quiet, draw(7, seed=40))
    page.locator("#tile-rows .big", has_text=f"{before + 7:,}").wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    look = "h => { Object.defineProperty(document, 'hidden', {value: h, configurable: true});"
    page.evaluate(look + "document.dispatchEvent(new Event('visibilitychange')) }", True)
    page.wait_for_timeout(2600)
    assert asked == []
    page.evaluate(look + "document.dispatchEvent(new Event('visibilitychange')) }", False)
    page.wait_for_timeout(500)
    assert [urllib.parse.urlparse(url).path for url in asked] == ["/v1/live"]
    page.get_by_role("button", name="Pause").click()
    asked.clear()
    page.wait_for_timeout(2600)
    assert asked == []
    assert text(page, "#state") == "Paused"
    page.get_by_role("button", name="Resume").click()
    page.wait_for_selector("#state[data-state=live]")


def test_unchanged_parts_are_left_alone(quiet, visit):
    page = visit(quiet)
    page.evaluate("document.querySelector('#last td').id = 'kept'; document.querySelector('#plot-p svg').id = 'same'")
    page.locator("#field-0").fill("1 2")
    stamp = text(page, "#updated")
    page.locator("#updated").filter(has_not_text=stamp).wait_for()
    assert page.locator("#kept").count() == page.locator("#same").count() == 1
    assert page.locator("#field-0").input_value() == "1 2"


@pytest.mark.slow  # starts two services of its own
def test_it_says_when_the_service_is_gone_and_goes_on_when_it_is_back(guards, tmp_path, visit):
    with serving(guards["logits"], tmp_path / "audit.sqlite") as service:
        send(service, draw(50, seed=41))
        last = service.live(rows=50)["last"]
        page = visit(service, allow=NETWORK)
        assert text(page, "#tile-rows .big") == "50"
    page.wait_for_selector("#notice .banner")
    assert "does not answer" in text(page, "#notice")
    assert re.search(r"from (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d", text(page, "#notice"))
    assert text(page, "#state") == "No answer"
    assert page.title() == "No answer: logits"
    assert text(page, "#tile-rows .big") == "50"  # the old numbers stay, in gray
    assert page.locator("#content").evaluate(STYLE, "filter") == "grayscale(1)"
    page.locator("#field-0").fill("1 2 3")
    page.locator("#send").click()
    page.wait_for_selector("#answer-text.problem")
    assert "did not answer" in text(page, "#answer-text")
    port = str(urllib.parse.urlparse(service.address).port)
    with serving(guards["logits"], tmp_path / "audit.sqlite", "--port", port):
        page.wait_for_selector("#state[data-state=live]")
        assert page.locator("#notice *").count() == 0
        assert text(page, "#tile-rows .big") == "50"
        assert cells(page, "#last", "reason") == [row["reason"] for row in last]


def test_a_problem_of_the_service_is_shown_in_its_words(quiet, visit):
    page = visit(quiet, allow=NETWORK)
    page.route("**/v1/live", lambda route: route.fulfill(status=503, json={"error": "the audit cannot be written."}))
    page.wait_for_selector("#notice .banner")
    assert "the audit cannot be written." in text(page, "#notice")
    page.unroute("**/v1/live")
    page.wait_for_selector("#state[data-state=live]")


def test_the_key_is_asked_for_and_kept_in_this_tab_only(keyed, visit):
    page = visit(keyed, allow=NETWORK, wait="#key-form:not([hidden])")
    assert not page.locator("#content").is_visible()
    assert page.evaluate("document.activeElement.id") == "key"
    page.keyboard.type("a wrong key of some length")
    page.keyboard.press("Enter")
    page.wait_for_selector("#key-problem")
    assert "refused" in text(page, "#key-problem")
    page.locator("#key").fill(KEY)
    page.get_by_role("button", name="Use this key").click()
    page.wait_for_selector("#tile-rows .big")
    assert not page.locator("#key-form").is_visible()
    assert "Authorization: Bearer $CAVEAT_SERVE_KEY" in text(page, "#empty-command")
    assert page.evaluate("[JSON.stringify(localStorage), document.cookie]") == ["{}", ""]
    assert KEY not in page.content() + page.url
    page.locator("#field-0").fill(row_of(draw(1, seed=42).features[0]))
    page.locator("#send").click()
    page.wait_for_selector("#answer-table .verdicts")
    page.reload()
    page.wait_for_selector("#tile-rows .big")  # the same tab knows it
    assert not page.locator("#key-form").is_visible()
    visit(keyed, allow=NETWORK, wait="#key-form:not([hidden])")  # another one does not


# -- try it -----------------------------------------------------------------------------------------------------------


def answered(page):
    page.wait_for_selector("#answer-table .verdicts")
    kinds, sets, reasons = (cells(page, "#answer-table", name) for name in ("verdict", "set", "reason"))
    return list(zip(kinds, sets, reasons, strict=True))


def expected(guard, logits):
    rows = guard(Outputs(logits=np.asarray(logits, dtype=float).reshape(-1, CLASSES))).rows()
    return [(row["kind"], f"{{{', '.join(map(str, row['set']))}}}", row["reason"]) for row in rows]


PASTED = ["5, 0.5, -1", "5 0.5\t-1e0", "5\n0.5\n-1\n", "[[5., 0.5,\n -1.]]", "5;0.5;-1"]


def test_a_pasted_row_gets_the_verdict_of_the_guard(quiet, logit_guard, visit):
    page = visit(quiet)
    for pasted in PASTED:  # with commas, spaces, lines, as numpy prints it, with semicolons
        page.locator("#field-0").fill(pasted)
        page.get_by_role("button", name="Get verdicts").click()
        assert answered(page) == expected(logit_guard, [5, 0.5, -1]), pasted
        page.locator("#answer-table").evaluate("e => e.replaceChildren()")


def test_several_lines_are_several_rows(quiet, logit_guard, visit):
    page, rows = visit(quiet), draw(30, seed=43).logits.round(3)
    page.locator("#field-0").fill("\n".join(map(row_of, rows)))
    page.get_by_role("button", name="Get verdicts").click()
    assert answered(page) == expected(logit_guard, [[float(f"{value:.6g}") for value in row] for row in rows])
    assert text(page, "#answer-text").startswith("30 verdicts: ")


REFUSED = {
    "": "at least one row",
    "1, two, 3": '"two" is not a number',
    "1 2\n3 4": "3 numbers a row, got 4 numbers",
    "1 2 NaN": "not a number",
}


def test_what_is_not_a_row_is_not_sent(quiet, visit):
    page = visit(quiet)
    methods: list[str] = []
    page.on("request", lambda request: methods.append(request.method))
    for pasted, sentence in REFUSED.items():
        page.locator("#field-0").fill(pasted)
        page.get_by_role("button", name="Get verdicts").click()
        assert sentence in text(page, "#answer-text.problem")
    assert "POST" not in methods


def test_what_is_not_a_row_of_numbers_is_sent_as_a_file(guards, tmp_path, visit):
    pytest.importorskip("onnxruntime")
    from tests.serve.test_model import write

    model = write(tmp_path / "images.onnx", shape=("n", 2, 4))
    options = ("--model", str(model), "--model-output", "logits=dense")
    with serving(guards["logits"], tmp_path / "audit.sqlite", *options) as service:
        page = visit(service)
        assert "send a file" in text(page, "#fields")
        assert page.locator("#fields textarea").count() == 0
        assert page.locator("#send").is_hidden()


def test_files_are_chosen_or_dropped(quiet, logit_guard, visit):
    page, logits = visit(quiet), draw(250, seed=44).logits
    for name, body in (("rows.npz", npz(logits=logits)), ("rows.NPY", npy(logits))):
        page.locator("#file").set_input_files({"name": name, "mimeType": "", "buffer": body})
        page.locator("#answer-text", has_text="250 verdicts").wait_for()
        assert "The first 200 are shown" in text(page, "#answer-text")
        assert answered(page) == expected(logit_guard, logits)[:200]
        page.locator("#field-0").fill("")
        page.get_by_role("button", name="Get verdicts").click()  # clears the answer
    dropped = page.evaluate_handle(
        """body => {
            const carried = new DataTransfer();
            carried.items.add(new File([new Uint8Array(body)], "few.npz"));
            return carried;
        }""", list(npz(logits=logits[:3])),
    )  # fmt: skip
    page.dispatch_event("#drop h2", "dragover", {"dataTransfer": dropped})
    assert "over" in page.locator("#drop").get_attribute("class")
    page.dispatch_event("#drop h2", "drop", {"dataTransfer": dropped})
    assert answered(page) == expected(logit_guard, logits[:3])


def test_a_file_that_cannot_be_used_gets_a_sentence(quiet, visit):
    page = visit(quiet, allow=NETWORK)
    page.locator("#file").set_input_files({"name": "rows.csv", "mimeType": "", "buffer": b"1,2,3"})
    assert "not a .npz, .npy or .json file" in text(page, "#answer-text")
    page.locator("#file").set_input_files({"name": "w.npz", "mimeType": "", "buffer": npz(logits=np.ones((2, 5)))})
    page.locator("#answer-text", has_text="columns").wait_for()
    assert "logits must have 3 columns, got 5" in text(page, "#answer-text")
    assert page.locator("#answer-table *").count() == 0


def test_everything_works_with_the_keyboard_alone(quiet, logit_guard, visit):
    page = visit(quiet)
    order = []
    for _ in range(5):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        order.append(focused.get_attribute("id"))
        outline = focused.evaluate("e => [getComputedStyle(e).outlineStyle, getComputedStyle(e).outlineWidth]")
        assert outline == ["solid", "3px"]
        if order[-1] == "field-0":
            page.keyboard.type("0 6 0")
        if order[-1] == "send":
            page.keyboard.press("Enter")
            assert answered(page) == expected(logit_guard, [0, 6, 0])
        if order[-1] == "file":
            break
    assert order == ["pause", "field-0", "send", "file"]
    page.locator("#field-0").focus()
    page.keyboard.type(" 1 1 1")  # with the three from above: two rows
    page.keyboard.press("Control+Enter")
    page.locator("#answer-text", has_text="2 verdicts").wait_for()
