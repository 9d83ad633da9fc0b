"""The report in a real browser: it renders, tabs and tooltips work, no panel is blank, nothing sticks out.

Headless Chromium, given file:// pages and a server of this process. `make test` installs it where it can; elsewhere
these are skipped.
"""

import io
import shutil

import numpy as np
import pytest

import squeak
from squeak.kernels import RBF
from tests.report.objects import numbers

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

SCREENS = {(width, scheme) for width in (1200, 360) for scheme in ("light", "dark")}
BACKGROUNDS = {"light": "rgb(251, 251, 250)", "dark": "rgb(20, 24, 27)"}


@pytest.fixture(scope="module")
def browser():
    """Return one headless Chromium for all tests, or skip."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no Chromium with chromedriver on this machine: the report was not looked at")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")  # no other name leads anywhere
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    except Exception as error:
        pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")
    found.set_page_load_timeout(60)
    found.set_script_timeout(60)
    yield found
    found.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return the pages of a model with data, and of a dictionary from a merge tree."""
    folder = tmp_path_factory.mktemp("pages")
    X, y, _ = numbers()
    model = squeak.KernelRidge(RBF(1.0), alpha=0.1, max_atoms=60, solver="falkon", random_state=0).fit(X, y)
    tree = squeak.Disqueak(RBF(1.0), ridge=1.0, n_leaves=8, random_state=0).fit(X)
    names = {f"column {place}": X[:, place] for place in range(3)} | {"<script>document.title='x'</script>": y}
    source = squeak.rows(squeak_frame(names), scale="standard")
    stream = squeak.Squeak(RBF("median"), ridge=1.0, random_state=0).fit(source)
    return {
        "model": squeak.report.write(model, folder / "model.html", X, y, name="model.sqk"),
        "tree": squeak.report.write(tree, folder / "tree.html", X, name="tree.sqk"),
        "names": squeak.report.write(stream, folder / "names.html", source, name="names.sqk"),
    }


def squeak_frame(columns):
    import pandas as pd

    return pd.DataFrame(columns)


def look(browser, page, width=1200, scheme="light", height=900):
    """Open a page on a screen of that width and colour scheme."""
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(page if isinstance(page, str) else page.as_uri())


def shown_tabs(browser):
    return browser.execute_script(
        "return Array.from(document.querySelectorAll('section.tab')).filter(s => s.offsetHeight > 0).map(s => s.id)"
    )


def pixels(browser, box):
    """Return the part of the page within a box as an array."""
    import base64

    import matplotlib.image

    area = {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"], "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": area, "captureBeyondViewport": True})
    return matplotlib.image.imread(io.BytesIO(base64.b64decode(shot["data"])))[..., :3]


@pytest.mark.parametrize("name", ["model", "tree", "names"])
def test_pages_render_without_a_word_on_the_console(browser, pages, name):
    look(browser, pages[name])
    assert browser.get_log("browser") == []
    assert browser.title.endswith("· squeak")
    assert browser.execute_script("return document.documentElement.classList.contains('js')")


def test_the_policy_lets_no_other_script_run(browser, pages, tmp_path):
    """The page's own script runs; one that was smuggled past every escape does not."""
    text = pages["tree"].read_text().replace("</h1>", "</h1><script>document.title='x'</script>", 1)
    (tmp_path / "hostile.html").write_text(text)
    look(browser, tmp_path / "hostile.html")
    assert browser.title.endswith("· squeak")
    assert any("Content Security Policy" in entry["message"] for entry in browser.get_log("browser"))


def test_tabs_show_one_part_at_a_time_by_mouse_and_by_key(browser, pages):
    look(browser, pages["tree"])
    links = browser.find_elements("css selector", "nav a")
    assert len(links) == 4
    for link in links:
        link.click()
        assert shown_tabs(browser) == [link.get_attribute("aria-controls")]
        assert link.get_attribute("aria-selected") == "true"
    links[-1].send_keys("\ue014")  # the right arrow, around to the first
    assert shown_tabs(browser) == [links[0].get_attribute("aria-controls")]


def test_hovering_shows_the_numbers_and_leaving_hides_them(browser, pages):
    from selenium.webdriver.common.action_chains import ActionChains

    look(browser, pages["tree"])
    bar = browser.find_element("css selector", "section:not([hidden]) rect.bar")
    tip = browser.find_element("id", "tip")
    assert not tip.is_displayed()
    ActionChains(browser).move_to_element(bar).perform()
    assert tip.is_displayed()
    assert tip.text == bar.get_attribute("data-tip")
    ActionChains(browser).move_to_element(browser.find_element("css selector", "h1")).perform()
    assert not tip.is_displayed()


def test_without_a_script_the_whole_page_is_there(browser, pages, tmp_path):
    """The page without its script is what a browser shows that runs none."""
    text = pages["tree"].read_text()
    start, end = text.index("<script>"), text.index("</script>") + len("</script>")
    (tmp_path / "plain.html").write_text(text[:start] + text[end:])
    look(browser, tmp_path / "plain.html")
    assert len(shown_tabs(browser)) == 4
    assert browser.execute_script("return document.querySelectorAll('svg title').length") > 20
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 1200


@pytest.mark.parametrize(("width", "scheme"), sorted(SCREENS))
def test_no_panel_is_blank_and_nothing_sticks_out(browser, pages, width, scheme):
    for name in ("model", "tree"):
        look(browser, pages[name], width, scheme)
        assert (
            browser.execute_script("return getComputedStyle(document.body).backgroundColor") == BACKGROUNDS[scheme]
        )
        for link in browser.find_elements("css selector", "nav a"):
            browser.execute_script("arguments[0].click()", link)
            wide = browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, f"{name}, {link.text}: {wide} px on a screen of {width}"
            section = browser.execute_script(BOX, browser.find_element("css selector", "section:not([hidden])"))
            picture = pixels(browser, section)
            panels = browser.find_elements("css selector", "section:not([hidden]) figure.panel")
            for panel in panels:
                box = browser.execute_script(BOX, panel)
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
                left, top = int(box["x"] - section["x"]), int(box["y"] - section["y"])
                inside = picture[
                    top + 45 : top + int(box["height"]) - 10, left + 10 : left + int(box["width"]) - 10
                ]
                assert inside.size > 0
                assert inside.var() > 1e-4, f"{name}, {link.text}: a panel is blank"


BOX = (
    "const r = arguments[0].getBoundingClientRect();"
    "return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height}"
)


def test_labels_of_a_chart_do_not_overlap(browser, pages):
    """Tick labels of each axis stand apart, at both widths."""
    script = """
    const found = [];
    for (const svg of document.querySelectorAll('section:not([hidden]) svg.plot:not(.gauge)')) {
      const texts = Array.from(svg.querySelectorAll('text.tick, text.axis-label'));
      const boxes = texts.map(t => t.getBoundingClientRect());
      boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => {
        const over = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (over > 0.5 && tall > 2.5) found.push(svg.getAttribute('aria-label'));
      }));
    }
    return found"""
    for width in (1200, 360):
        for name in ("model", "tree", "names"):
            look(browser, pages[name], width)
            for link in browser.find_elements("css selector", "nav a"):
                browser.execute_script("arguments[0].click()", link)
                assert browser.execute_script(script) == [], f"{name} at {width} px, {link.text}"


def test_a_column_named_as_a_script_is_a_name(browser, pages):
    look(browser, pages["names"])
    assert browser.title.endswith("· squeak")
    text = browser.execute_script("return document.body.textContent")
    assert "<script>document.title='x'</script>" in text
    assert np.isclose(browser.execute_script("return document.scripts.length"), 1)


def test_a_row_is_typed_into_the_page_of_a_server(browser, tmp_path):
    """``squeak serve``: fields for every column, an answer, an error in words, and no text that is run."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: nothing was served")
    from selenium.webdriver.support.wait import WebDriverWait

    from tests.test_cli_serve import Running

    hostile = "<img src=x onerror=\"document.title='x'\">"
    table = squeak_frame({"size": np.arange(60.0), hostile: np.array(["a", hostile])[np.arange(60) % 2]})
    source = squeak.rows(table, np.arange(60.0), scale="standard")
    squeak.KernelRidge(max_atoms=20, random_state=0).fit(source).save(tmp_path / "m.sqk")
    running = Running(tmp_path)
    try:
        port = running("m").port
        for width in (1200, 360):
            look(browser, f"http://127.0.0.1:{port}/", width)
            WebDriverWait(browser, 30).until(lambda b: b.find_elements("css selector", "input"))
            fields = browser.find_elements("css selector", "input")
            assert [field.get_attribute("name") for field in fields] == ["size", hostile]
            assert fields[0].get_attribute("value") == "29.5"
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        answer = browser.find_element("id", "answer")
        browser.find_element("css selector", "button").click()
        WebDriverWait(browser, 30).until(lambda b: "90% interval" in answer.text)
        assert answer.text.startswith("Prediction: ")
        fields[0].clear()
        browser.find_element("css selector", "button").click()
        WebDriverWait(browser, 30).until(lambda b: "row 0: column 'size' is nan" in answer.text)
        assert browser.title == "m.sqk · squeak"
        seen = [entry["message"] for entry in browser.get_log("browser")]
        assert all("422" in message or "favicon" in message for message in seen), seen
    finally:
        running.end()
