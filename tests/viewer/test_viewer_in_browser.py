"""The viewer's pages in Chromium: what is typed and clicked shows, and nobody else is asked."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chromium import Shown, chromium
from example_reports import NASTY
from report_folders import told, written

import calib8
from calib8.demo import MODEL_PATH

COUNT = 5


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The k-th report has 96 + k % and 30 − k dB; one has a name that wants to break out."""
    root = tmp_path_factory.mktemp("reports")
    for k in range(COUNT):
        page = told(f"net{k}.onnx", 96.0 + k, 30.0 - k)
        if k == 1:
            lost = tuple(
                replace(row, local_db=(row.local_db or 0.0) - int(row.name[-1])) for row in page.layers
            )
            page = replace(page, layers=lost, command="compare")
        written(root / ("deep/er" if k % 2 else ".") / f"run{k}.html", page)
    written(root / '"><img src=x>.html', told(NASTY, 50.0, 5.0))
    (root / "plain.html").write_text("no report")
    return root


@pytest.fixture(scope="module")
def viewer(folder: Path) -> Iterator[calib8.Viewer]:
    with calib8.view(folder, browser=False) as found:
        yield found


@pytest.fixture
def shown(driver: Any, viewer: calib8.Viewer) -> Iterator[Callable[..., Shown]]:
    """Opens pages of the viewer; at the end nothing was complained about, and nobody else was asked."""
    last: list[tuple[Shown, str]] = []

    def show(path: str = "", width: int = 1400, *, dark: bool = False, of: calib8.Viewer = viewer) -> Shown:
        last.append((Shown(driver, of.url + path, width, dark=dark), of.url))
        return last[-1][0]

    yield show
    one, url = last[-1]
    assert one.complaints() == []
    asked = one.requests()
    assert asked and all(address.startswith(url) for address in asked), asked


def names(one: Shown) -> list[str]:
    return [text for text in one.texts("#reports tbody th a") if text.startswith("net")]


def arrive(one: Shown, heading: str) -> None:
    """Waits until a page with this heading is there."""
    code = "return document.readyState === 'complete' && document.querySelector('h1').textContent"
    limit = time.monotonic() + 60
    while one.js(code) != heading:
        assert time.monotonic() < limit, one.driver.title
        time.sleep(0.05)


NET = [f"net{k}.onnx" for k in range(COUNT)]
PAIR = "pair?report=run0.html&report=deep%2Fer%2Frun1.html"


def test_reports_are_sorted_by_what_is_clicked(shown: Callable[..., Shown]) -> None:
    one = shown()
    assert (
        sorted(names(one)) == NET and one.one("#reports-found").text == f"{COUNT + 1} of {COUNT + 1} reports"
    )
    buttons = {button.text: button for button in one.all("#reports thead button")}
    assert set(buttons) == {"report", "verdict", "command", "first figure", "SQNR", "model", "int8 nodes",
                            "written"}  # fmt: skip
    for label, first in (("report", NET), ("first figure", NET[::-1]), ("SQNR", NET)):
        buttons[label].click()
        assert names(one) == first, label
        buttons[label].click()
        assert names(one) == first[::-1], label
        assert [e.text for e in one.all("th[aria-sort] button")] == [label]


def test_reports_are_searched_and_filtered(shown: Callable[..., Shown]) -> None:
    one = shown()
    search = one.one("input[type=search]")
    for words, found in (
        ("net3", ["net3.onnx"]),
        ("deep er", ["net1.onnx", "net3.onnx"]),
        ("nothing", []),
        ("", NET),
    ):
        search.clear()
        search.send_keys(words + " ")
        assert sorted(names(one)) == found, words
    assert one.one("#reports-found").get_attribute("role") == "status"
    choose = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))"
    verdict, command = one.all("select")
    one.js(choose, verdict, "kept")
    assert sorted(names(one)) == ["net3.onnx", "net4.onnx"]
    one.js(choose, verdict, "")
    one.js(choose, command, "compare")
    assert names(one) == ["net1.onnx"] and one.one("#reports-found").text == f"1 of {COUNT + 1} reports"


def test_two_reports_are_chosen_with_the_keyboard_and_stand_side_by_side(
    shown: Callable[..., Shown], folder: Path
) -> None:
    from selenium.webdriver.common.keys import Keys

    one = shown()
    one.all("#reports thead button")[0].click()
    boxes = {box.get_attribute("value"): box for box in one.all("#reports input")}
    button = one.one("#compare")
    assert not button.is_enabled() and one.one("#chosen").text == "Choose two reports."
    boxes["run0.html"].send_keys(Keys.SPACE)
    assert not button.is_enabled() and one.one("#chosen").text == "1 of 2 chosen."
    boxes["deep/er/run1.html"].send_keys(Keys.SPACE)
    assert button.is_enabled() and sum(box.is_enabled() for box in boxes.values()) == 2
    boxes["run0.html"].send_keys(Keys.SPACE)
    assert not button.is_enabled() and all(box.is_enabled() for box in boxes.values())
    boxes["run0.html"].send_keys(Keys.SPACE)
    button.send_keys(Keys.ENTER)
    arrive(one, "net0.onnx and net1.onnx")
    figures = dict(
        zip(one.texts("#figures tbody th"), one.texts("#figures tbody td:last-child"), strict=True)
    )
    assert (
        figures["agreement"] == "+1.00 points"
        and figures["SQNR of boxes"] == "−1.0 dB"
        and figures["size"] == ""
    )
    one.driver.back()
    arrive(one, folder.name)
    assert sum(box.is_selected() for box in one.all("#reports input")) in (0, 2)
    assert one.one("#compare").is_enabled() == (one.one("#chosen").text == "2 of 2 chosen.")


def test_layers_of_both_the_greatest_loss_first(shown: Callable[..., Shown]) -> None:
    one = shown(PAIR)
    rows = one.texts("#layers tbody th")
    assert rows == [f"layer {k}" for k in (5, 4, 3, 2, 1, 0)]  # the k-th loses k dB
    assert one.texts("#layers tbody td:nth-child(5)")[0] == "−5.0"
    one.all("#layers thead button")[0].click()
    assert one.texts("#layers tbody th") == rows[::-1]
    one.one("input[type=search]").send_keys("relu")
    assert one.texts("#layers tbody th") == ["layer 0", "layer 2", "layer 4"]
    link = next(e for e in one.all("nav a") if e.text == "Exchange A and B")
    link.click()
    arrive(one, "net1.onnx and net0.onnx")
    assert one.texts("#layers tbody td:nth-child(5)")[-1] == "+5.0"


def test_both_pages_run_in_frames_from_which_they_reach_nothing(shown: Callable[..., Shown]) -> None:
    one = shown(PAIR)
    frames = one.all("iframe")
    assert [frame.get_attribute("title") for frame in frames] == ["A: net0.onnx", "B: net1.onnx"]
    one.js("arguments[0].scrollIntoView()", frames[1])
    one.driver.switch_to.frame(frames[1])
    try:
        limit = time.monotonic() + 60
        while not one.driver.find_elements("css selector", "#layer-name") and time.monotonic() < limit:
            time.sleep(0.1)
        assert one.texts("h1") == ["net1.onnx"]
        link = next(
            e
            for e in one.driver.find_elements("css selector", "#layers-table tbody a")
            if e.text == "layer 3"
        )
        one.js("arguments[0].click()", link)
        assert one.one("#layer-name").text == "layer 3"  # its script runs
        assert one.js("return window.origin") == "null"
        reach = "try { return String(parent.document.title); } catch (error) { return error.name; }"
        assert one.js(reach) == "SecurityError"
    finally:
        one.driver.switch_to.default_content()


def test_a_link_opens_a_report(shown: Callable[..., Shown], viewer: calib8.Viewer) -> None:
    one = shown()
    next(e for e in one.all("#reports tbody th a") if e.text == "net2.onnx").click()
    arrive(one, "net2.onnx")
    assert one.driver.current_url == f"{viewer.url}open?report=run2.html"
    assert one.violations() == []
    one.driver.get(f"{viewer.url}page/run2.html")
    assert one.driver.current_url == f"{viewer.url}open?report=run2.html"


TRIES = (
    "fetch(there)", "new Image().src = there", "location.href = there", "open(there)", "top.location = there",
    "navigator.sendBeacon(there)", "new WebSocket(there.replace('http', 'ws'))",
    "document.body.innerHTML = `<iframe src='${there}'></iframe>`",
    "document.body.innerHTML = `<form action='${there}'></form>`; document.forms[0].submit()",
    "document.head.innerHTML += `<meta http-equiv='refresh' content='0;url=${there}'>`",
    "document.head.innerHTML += `<link rel='stylesheet' href='${there}'>`",
)  # fmt: skip


def heard(other: socket.socket) -> bytes:
    """What a server is asked; a browser may connect before it knows that it may not ask."""
    try:
        connection, _ = other.accept()
    except TimeoutError:
        return b""
    with connection:
        connection.settimeout(1.0)
        try:
            return connection.recv(100)
        except TimeoutError:
            return b""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("code", TRIES, ids=lambda code: code.split("(")[0].split(" =")[0])
def test_a_report_cannot_leave_this_viewer(driver: Any, tmp_path: Path, code: str) -> None:
    """Its script tries to ask another server, which hears nothing."""
    with calib8.view(tmp_path, browser=False) as viewer:
        with socket.create_server(("127.0.0.1", 0)) as other:
            other.settimeout(1.0)
            there = f"http://127.0.0.1:{other.getsockname()[1]}/"
            page = written(tmp_path / "run.html", told("net"))
            script = f'<script>"use strict"; const there = "{there}"; {code};</script></body>'
            text = page.read_text(encoding="utf-8").replace("</body>", script)
            page.write_text(text.replace("Content-Security-Policy", "nothing"), encoding="utf-8")
            one = Shown(driver, f"{viewer.url}open?report=run.html")
            assert heard(other) == b""
        assert one.driver.current_url == f"{viewer.url}open?report=run.html"


def test_names_that_want_to_break_out_are_read_and_do_nothing(shown: Callable[..., Shown]) -> None:
    one = shown()
    odd = next(e for e in one.all("#reports tbody th a") if "onerror" in e.text)
    assert one.driver.find_elements("css selector", "img") == []
    address = odd.get_attribute("href").partition("?")[2]
    one = shown(f"pair?report=run0.html&{address}")
    assert "onerror" in one.one("h1").text and one.driver.find_elements("css selector", "img") == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("path", ["", PAIR, "nothing"])
def test_pages_can_be_read_by_everybody(
    shown: Callable[..., Shown], width: int, dark: bool, path: str
) -> None:
    one = shown(path, width, dark=dark)
    assert one.violations() == []
    assert one.js("return document.documentElement.scrollWidth") <= width
    paper = one.js("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) < 200) == dark
    if path == "nothing":
        assert [text for text in one.complaints() if "404" not in text] == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["report", "float", "int8", "plan", "program", "tflite"])
def test_one_report_or_a_model(shown: Callable[..., Shown], folder: Path, kind: str, tmp_path: Path) -> None:
    path = folder / "run0.html" if kind == "report" else model_file(kind, tmp_path)
    with calib8.view(path, browser=False) as alone:
        one = shown(of=alone)
        assert one.violations() == []
        assert one.js("return document.documentElement.scrollWidth") <= 1400
        assert one.one("h1").text == ("net0.onnx" if kind == "report" else path.name)
        said = one.one("main").text
        assert len(one.all("iframe")) == (kind == "report")
        assert one.complaints() == []
    wanted = {
        "report": "", "float": "20 of 20 would be in int8", "int8": "20 of 20 in int8",
        "plan": "bytes of the arena", "program": "Integer program", "tflite": "Operators",
    }  # fmt: skip
    assert wanted[kind] in said
    assert kind not in ("float", "int8") or "stem/conv" in said


def model_file(kind: str, folder: Path) -> Path:
    """A file of every kind that can be looked at."""
    if kind == "float":
        return MODEL_PATH
    int8 = folder / "digits.int8.onnx"
    recipe = calib8.Preprocess(color="gray", mean=(128.0,), scale=(1 / 128,))
    data = MODEL_PATH.parent / "digits_calibration.npz"
    calib8.quantize(MODEL_PATH, data, preprocess=recipe, samples=16, effort="fast").save(int8)
    if kind == "int8":
        return int8
    if kind == "plan":
        calib8.compile(int8, folder / "digits.c8")
        return folder / "digits.c8"
    form, name = ("program", "digits.c8p") if kind == "program" else ("tflite", "digits.tflite")
    calib8.export(int8, folder / name, form)
    return folder / name
