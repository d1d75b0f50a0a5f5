"""The page in Chromium: what is clicked changes what is seen, without an error and without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Shown, chromium
from example_reports import NASTY, report

from calib8.run_report.page import page
from calib8.run_report.told import RunReport

SEEN = 9
"""Layers of the usual page: 0 is the input's neighbour, 8 the worst."""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def shown(driver: Any, tmp_path: Path) -> Iterator[Callable[..., Shown]]:
    """Opens reports; at the end nothing may have been complained about or asked for."""
    opened: list[tuple[Shown, Path]] = []

    def show(told: RunReport, width: int = 1400, *, dark: bool = False) -> Shown:
        path = tmp_path / f"page{len(opened)}.html"
        path.write_text(page(told), encoding="utf-8")
        one = Shown(driver, path, width, dark=dark)
        opened.append((one, path))
        return one

    yield show
    one, path = opened[-1]
    assert one.complaints() == []
    assert {url.partition("#")[0] for url in one.requests()} <= {path.as_uri()}


def rows(one: Shown) -> list[str]:
    return one.texts("#layers-table tbody th")


def test_layers_are_sorted_by_what_is_clicked(shown: Callable[..., Shown]) -> None:
    one = shown(report(SEEN))
    worst_first = [f"layer {k}" for k in reversed(range(SEEN))]
    assert rows(one) == worst_first
    [name, *_, clipped] = one.all("#layers-table thead button")
    name.click()
    assert rows(one) == sorted(worst_first)
    assert name.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"
    name.click()
    assert rows(one) == sorted(worst_first, reverse=True)
    clipped.click()
    assert rows(one) == worst_first  # the k-th is clipped k times as much
    clipped.click()
    assert rows(one) == list(reversed(worst_first))
    assert [e.get_attribute("data-sort") for e in one.all("th[aria-sort] button")] == ["clipped"]


def test_layers_are_searched_by_name_op_and_reason(shown: Callable[..., Shown]) -> None:
    one = shown(report(SEEN))
    search = one.one("#search")
    for words, found in (("layer 3", ["layer 3"]), ("asked", ["layer 1"]), ("relu", None), ("nothing", [])):
        search.clear()
        search.send_keys(words)
        assert rows(one) == (found if found is not None else [f"layer {k}" for k in (8, 6, 4, 2, 0)])
        assert one.one("#found").text == f"{len(rows(one))} of {SEEN} layers"
    assert one.one("#found").get_attribute("role") == "status"


def test_a_link_in_the_table_shows_the_layer_everywhere(shown: Callable[..., Shown]) -> None:
    one = shown(report(SEEN))
    assert one.one("#layer-name").text == "layer 8"
    link = next(e for e in one.all("#layers-table tbody a") if e.text == "layer 3")
    one.js("arguments[0].click()", link)
    assert one.one("#layer-name").text == "layer 3"
    assert one.texts("tr[aria-current=true] th") == ["layer 3"]
    assert one.texts("#layer-tensors button") == ["yields layer out 3", "reads layer out 2"]
    assert one.js("return document.activeElement.id") == "layer-name"
    [chosen] = one.driver.find_elements("css selector", ".node.selected")
    assert one.js("return arguments[0].querySelector('title').textContent", chosen) == "layer 3"


def test_tensors_and_weights_are_drawn_when_they_are_shown(shown: Callable[..., Shown]) -> None:
    one = shown(report(SEEN))
    assert not one.one("#weights-figure").is_displayed()  # layer 8 is no Conv
    first = one.js("return document.querySelector('#histogram-chart .bars').getAttribute('d')")
    assert first.count("M") > 20 and len(one.all("#histogram-chart .clip")) == 1
    assert (
        one.js("return document.querySelectorAll('#histogram-chart .bound').length") == 2
        and len(one.all("#histogram-chart .zero")) == 1
    )
    one.all("#layer-tensors button")[1].click()
    assert one.one("#tensor-name").text == "layer out 7"
    assert one.js("return document.querySelector('#histogram-chart .bars').getAttribute('d')") != first
    pressed = [e.get_attribute("aria-pressed") for e in one.all("#layer-tensors button")]
    assert pressed == ["false", "true"]
    assert "values" in one.one("#histogram-chart").get_attribute("aria-label")
    one.driver.get(one.driver.current_url.partition("#")[0] + "#layer-1")
    assert one.one("#layer-name").text == "layer 7" and one.one("#weights-figure").is_displayed()
    assert one.js("return document.querySelector('#weights-chart .bars').getAttribute('d')").count("M") == 32


def test_what_is_under_the_pointer_is_told(shown: Callable[..., Shown]) -> None:
    one = shown(report(SEEN))
    chart = one.one("#codes-chart")
    one.js("arguments[0].scrollIntoView({block: 'center'})", chart)
    from selenium.webdriver import ActionChains

    ActionChains(one.driver).move_to_element(chart).perform()
    assert "values of code" in one.one("#codes-figure .readout").text


def test_a_node_selects_its_layer_and_colours_switch(shown: Callable[..., Shown]) -> None:
    one = shown(report(SEEN))
    one.js("document.getElementById('network').scrollIntoView()")
    one.one("#zoom-all").click()
    nodes = one.driver.find_elements("css selector", ".node")
    assert len(nodes) == SEEN
    title = "return arguments[0].querySelector('title').textContent"
    second = next(node for node in nodes if one.js(title, node) == "layer 2")
    second.click()
    assert one.one("#layer-name").text == "layer 2"
    assert one.texts("tr[aria-current=true] th") == ["layer 2"]
    assert "layer 2" in one.one("#network-chosen").text
    looks = "return Array.from(document.querySelectorAll('.node .stripe'), (e) => e.getAttribute('class'))"
    local = one.js(looks)
    one.one("input[name=colour][value=cumulative]").click()
    assert one.js(looks) != local
    one.one("input[name=colour][value=precision]").click()
    assert sorted(one.js(looks)) == ["stripe float", *["stripe int8"] * (SEEN - 1)]
    assert not one.one("#legend-loss").is_displayed() and one.one("#legend-precision").is_displayed()


def view(one: Shown) -> list[float]:
    box = one.js("return document.getElementById('network-svg').getAttribute('viewBox')")
    return [float(x) for x in box.split()]


def test_the_drawing_is_zoomed_and_moved(shown: Callable[..., Shown]) -> None:
    one = shown(report(SEEN))
    from selenium.webdriver import ActionChains

    drawing = one.one("#network-svg")
    one.js("arguments[0].scrollIntoView({block: 'center'})", drawing)
    before = view(one)
    one.one("#zoom-in").click()
    assert view(one)[2] == pytest.approx(before[2] / 1.25, rel=1e-3)
    one.one("#zoom-out").click()
    assert view(one) == pytest.approx(before, abs=0.1)
    one.js("arguments[0].focus()", drawing)
    drawing.send_keys("+")
    assert view(one)[2] == pytest.approx(before[2] / 1.25, rel=1e-3)
    zoomed = view(one)
    one.js("arguments[0].dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown'}))", drawing)
    assert view(one)[1] > zoomed[1] and view(one)[0] == zoomed[0]
    one.js("arguments[0].dispatchEvent(new KeyboardEvent('keydown', {key: '0'}))", drawing)
    ActionChains(one.driver).move_to_element_with_offset(drawing, 0, 0).click_and_hold().move_by_offset(
        30, 20
    ).release().perform()
    dragged = view(one)
    one.js("arguments[0].dispatchEvent(new KeyboardEvent('keydown', {key: '0'}))", drawing)
    fitted = view(one)
    assert dragged[0] < fitted[0] and dragged[1] < fitted[1] and dragged[2] == fitted[2]
    how = "{deltaY: -300, ctrlKey: arguments[1], cancelable: true}"
    wheel = f"arguments[0].dispatchEvent(new WheelEvent('wheel', {how}))"
    one.js(wheel, drawing, False)
    assert view(one) == fitted  # the page is scrolled, not the drawing zoomed
    one.js(wheel, drawing, True)
    assert view(one)[2] < fitted[2]


def test_two_fingers_zoom(shown: Callable[..., Shown]) -> None:
    one = shown(report(SEEN), 390)
    before = view(one)
    fingers = """
    const svg = document.getElementById("network-svg"), box = svg.getBoundingClientRect();
    const touch = (type, id, x, y) => svg.dispatchEvent(new PointerEvent(type, {
      pointerId: id, pointerType: "touch", clientX: box.left + x, clientY: box.top + y, bubbles: true }));
    svg.setPointerCapture = () => {};
    touch("pointerdown", 11, 100, 100); touch("pointerdown", 12, 200, 100);
    touch("pointermove", 12, 300, 100); touch("pointerup", 11, 100, 100); touch("pointerup", 12, 300, 100);
    """
    one.js(fingers)
    assert view(one)[2] == pytest.approx(before[2] / 2, rel=1e-3)


def test_long_chains_are_blocks_that_open(shown: Callable[..., Shown]) -> None:
    one = shown(report(200, skips=False))
    assert len(one.driver.find_elements("css selector", ".node")) == 1
    block = one.one(".node.block")
    assert "200 nodes" in one.js("return arguments[0].textContent", block)
    one.js("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", block)
    assert len(one.driver.find_elements("css selector", ".node")) == 200
    button = one.one("#open-all")
    button.click()
    button.click()
    assert len(one.driver.find_elements("css selector", ".node")) == 1
    one.driver.get(one.driver.current_url.partition("#")[0] + "#layer-5")
    assert one.one("#layer-name").text == "layer 194"
    [chosen] = one.driver.find_elements("css selector", ".node.selected")  # out of its block
    assert one.js("return arguments[0].querySelector('title').textContent", chosen) == "layer 194"


def test_names_that_want_to_break_out_are_read_and_do_nothing(shown: Callable[..., Shown]) -> None:
    one = shown(report(SEEN, NASTY))
    assert one.driver.find_elements("css selector", "img[src=x]") == []
    for link in one.all("#layers-table tbody a"):
        one.js("arguments[0].click()", link)
        assert "onerror" in one.one("#layer-name").text
    assert one.driver.title.startswith("</script>")


@pytest.mark.slow
def test_a_thousand_tensors(shown: Callable[..., Shown]) -> None:
    one = shown(report(1000))
    assert len(one.driver.find_elements("css selector", "#layers-table tbody tr")) == 1000
    one.one("#search").send_keys("layer 77")
    assert one.one("#found").text == "19 of 1000 layers"
    one.driver.get(one.driver.current_url.partition("#")[0] + "#layer-229")
    assert one.one("#layer-name").text == "layer 770"
    assert one.texts("tr[aria-current=true] th") == ["layer 770"]
    assert len(one.driver.find_elements("css selector", ".node")) < 1000


def test_a_report_without_layers_runs_no_script_that_fails(shown: Callable[..., Shown]) -> None:
    from dataclasses import replace

    one = shown(replace(report(2), layers=(), network=(), tensors=()))
    assert one.texts("h1") == ["layer"]
    assert len(one.all("#candidates-chart .point")) == 3 and len(one.all("#candidates-chart .ring")) == 1


def test_candidates_that_were_timed_are_drawn_over_time(shown: Callable[..., Shown]) -> None:
    """The slowest one is furthest to the right, though it has the least in float."""
    from dataclasses import replace

    plain = report(2)
    assert plain.candidates is not None
    timed = tuple(
        replace(one, latency=ms) for one, ms in zip(plain.candidates.shown, (9.0, 3.0, 1.0), strict=True)
    )
    for told, order in ((plain.candidates.shown, [0, 1, 2]), (timed, [2, 1, 0])):
        one = shown(replace(plain, candidates=replace(plain.candidates, shown=told)))
        points = "[...document.querySelectorAll('#candidates-chart .point')]"
        places = one.js(f"return {points}.map((point) => Number(point.getAttribute('cx')))")
        assert sorted(range(3), key=places.__getitem__) == order
        assert ("time of a run, ms" in one.one("#candidates-chart").text) == (told is timed)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["layer", "a/very/long/name.of_some.layer" * 4])
def test_it_can_be_read_by_everybody(shown: Callable[..., Shown], width: int, dark: bool, name: str) -> None:
    one = shown(report(SEEN, name), width, dark=dark)
    assert one.violations() == []
    wide = one.js("return document.documentElement.scrollWidth")
    assert wide <= width
    paper = one.js("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) < 200) == dark


def test_numbers_of_the_table_are_whole_on_a_phone(shown: Callable[..., Shown]) -> None:
    one = shown(report(SEEN), 390)
    cut = """
    return Array.from(document.querySelectorAll("#layers-table td, .tiles dd.value"))
      .filter((e) => e.offsetParent !== null && e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent);
    """
    assert one.js(cut) == []
    boxes = "return Array.from(document.querySelectorAll('.scroll'), (e) => e.scrollWidth - e.clientWidth)"
    assert set(one.js(boxes)) == {0}  # no table is cut at its right side


def test_on_paper_the_whole_table_is_printed(shown: Callable[..., Shown]) -> None:
    one = shown(report(60), 720)
    one.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert one.js("return document.getElementById('layers-list').clientHeight > 1500")
        assert one.all("nav") == [] and one.all("#network") == []
        assert len(one.all("#layers-table tbody tr")) == 60
        assert one.js("return document.documentElement.scrollWidth") <= 720
    finally:
        one.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_node_brings_its_row_into_the_list_and_a_row_its_node_into_the_drawing(
    shown: Callable[..., Shown],
) -> None:
    one = shown(report(60))
    inside = """
    const outer = arguments[0].getBoundingClientRect(), inner = arguments[1].getBoundingClientRect();
    return inner.top >= outer.top && inner.bottom <= outer.bottom + 1;
    """
    list_, drawing = one.one("#layers-list"), one.one("#network-svg")
    [last] = one.driver.find_elements("css selector", "tr[data-index='59']")
    assert not one.js(inside, list_, last)
    node = one.js("return document.querySelector('.node[data-node=\"0\"]')")  # the best layer
    one.js("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", node)
    assert one.texts("tr[aria-current=true] th") == ["layer 0"]
    assert one.js(inside, list_, last)
    first = one.js("return document.querySelector('#layers-table tbody a')")  # the worst, at the bottom
    one.js("arguments[0].click()", first)
    chosen = one.js("return document.querySelector('.node.selected')")
    assert one.js(inside, drawing, chosen)
