"""The report in a real browser: it renders, nothing complains, no request leaves the page, tables sort."""

import base64

import pytest

from browser import PATH, Browser
from colonnade.report.run_pages import write_report
from synthetic_runs import HOSTILE, synthetic

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PATH is None, reason="no chromium is on PATH"),
]
CELLS = "[...document.querySelectorAll('table.sortable')[0].tBodies[0].rows].map(row => row.cells[{}].textContent)"
HEAD = "document.querySelectorAll('table.sortable')[0].tHead.rows[0].cells[{}]"


@pytest.fixture(scope="module")
def browser():
    found = Browser()
    yield found
    found.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    runs = [
        synthetic(name, parties=3, rounds=30, scale=scale, binary=True)
        for name, scale in (("b run", 10), ("a run", 900), (HOSTILE, 200))
    ]
    return write_report(runs, tmp_path_factory.mktemp("page") / "report.html")


def test_page_renders_and_asks_for_nothing(browser, page):
    browser.open(page)
    assert browser.complaints == []
    assert browser.requests == [page.resolve().as_uri()]
    assert browser.run("document.querySelectorAll('figure svg').length") > 10
    heights = browser.run("[...document.querySelectorAll('figure')].map(one => one.getBoundingClientRect().height)")
    assert min(heights) > 40
    assert browser.run("window.stolen") is None  # HOSTILE would have set it


def test_the_policy_forbids_requests_and_foreign_scripts(browser, page):
    browser.open(page)
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=\"http://example.invalid/x.png\">')")
    browser.run("document.body.append(Object.assign(document.createElement('script'), {text: 'window.stolen = 1'}))")
    assert browser.run("window.stolen") is None
    assert "Content Security Policy" in str(browser.complaints)


def test_tables_sort_by_mouse_and_keyboard(browser, page):
    browser.open(page)
    first = browser.run(CELLS.format(0))
    column = browser.run(
        "[...document.querySelectorAll('table.sortable')[0].tHead.rows[0].cells]"
        ".findIndex(cell => cell.textContent == 'Sent in training')"
    )
    browser.run(HEAD.format(column) + ".querySelector('button').click()")
    assert browser.run(CELLS.format(0)) == [first[0], first[2], first[1]]  # by bytes, not by how they are written
    assert browser.run(HEAD.format(column) + ".getAttribute('aria-sort')") == "ascending"
    browser.run(HEAD.format(column) + ".querySelector('button').focus()")
    browser.press("Enter", 13, "\r")
    assert browser.run(CELLS.format(0)) == [first[1], first[2], first[0]]
    browser.run(HEAD.format(0) + ".querySelector('button').click()")
    assert browser.run(CELLS.format(0))[-2:] == ["a run", "b run"]
    assert browser.run(HEAD.format(column) + ".getAttribute('aria-sort')") is None


def test_page_fits_a_phone_in_light_and_dark(browser, page):
    browser.ask("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
    browser.open(page)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    hidden = (
        "[...document.querySelectorAll('table.steps')].map(one => one.parentElement)"
        ".filter(one => one.scrollWidth > one.clientWidth).length"
    )
    assert browser.run("document.querySelectorAll('table.steps').length") == 3
    assert browser.run(hidden) == 0  # what left the house is read without moving it sideways
    papers = []
    for scheme in ("light", "dark"):
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        papers.append(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert papers == ["rgb(251, 250, 247)", "rgb(21, 23, 26)"]
    browser.ask("Emulation.clearDeviceMetricsOverride")
    browser.ask("Emulation.setEmulatedMedia", features=[])


def test_page_prints(browser, page):
    browser.open(page)
    printed = base64.b64decode(browser.ask("Page.printToPDF")["data"])
    assert printed.startswith(b"%PDF") and len(printed) > 10_000


def test_pictures_open_by_themselves(browser, page):
    write_report([synthetic("alone", parties=3, rounds=30, binary=True)], page.with_name("alone.html"), pictures=True)
    pictures = sorted(page.with_name("alone-files").glob("*.svg"))
    assert len(pictures) > 8
    for picture in pictures[:3]:
        browser.open(picture)
        assert browser.complaints == [] and len(browser.requests) == 1
        assert browser.run("document.documentElement.tagName") == "svg"


def test_bars_show_what_each_party_holds(browser, tmp_path):
    columns = {"party 1": {"count": 90, "names": ["age", HOSTILE, *(f"column {k}" for k in range(40))]}}
    runs = [synthetic("images", data={"load": "mnist", "parties": 3}), synthetic("table", columns=columns)]
    browser.open(write_report(runs, tmp_path / "held.html"))
    assert browser.complaints == [] and browser.run("window.stolen") is None
    inside = (
        "[...document.querySelectorAll('figure')].filter(one => one.textContent.startsWith('Importance'))[{}]"
        ".querySelectorAll('{}').length"
    )
    assert browser.run(inside.format(0, "rect.edge")) == 3
    reach = (
        "[...document.querySelectorAll('figure svg')].flatMap(svg => [...svg.querySelectorAll('text, .edge')].map("
        "one => one.getBoundingClientRect().right - svg.getBoundingClientRect().right))"
    )
    assert max(browser.run(reach)) < 1  # nothing is cut off at the right
    browser.run("[...document.querySelectorAll('details')].forEach(one => one.open = true)")
    assert "column 39 and 48 more" in browser.run("document.body.innerText")


def test_counts_stay_in_their_cells(browser, tmp_path):
    run = synthetic("counts")
    run["findings"]["confusion"] = [[123456 if k == j else 1234 for j in range(10)] for k in range(10)]
    browser.open(write_report([run], tmp_path / "counts.html"))
    outside = (
        "(() => { const drawn = document.querySelector('figure rect.cell').ownerSVGElement;"
        "const cells = [...drawn.querySelectorAll('rect.cell')], "
        "counts = [...drawn.querySelectorAll('.onfull, .strong')];"
        "return counts.map((one, k) => "
        "one.getBoundingClientRect().width - cells[k].getBoundingClientRect().width); })()"
    )
    over = browser.run(outside)
    assert len(over) == 100 and max(over) < 0


def test_a_large_page_opens(browser, tmp_path):
    large = write_report([synthetic("large", parties=14, rounds=500)], tmp_path / "large.html")
    browser.open(large)
    assert browser.complaints == []
    timing = browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
    print(f"opened in {timing:.0f} ms")
