"""Data behind http addresses: what a folder of the same pictures gives, and what a server can say instead.

A server of the tests' own answers, on a free port of this machine.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import calib8
from calib8.data.opening import open_dataset
from calib8.data.remote import MOST_SAID, told
from calib8.errors import DataError
from needed import needed
from stored_data import INPUT, RECIPE, folder, model, parquet, shards


class Pages(SimpleHTTPRequestHandler):
    """Files of a folder; what is called secret is refused."""

    def send_head(self) -> Any:
        if "secret" in self.path:
            return self.send_error(403)
        return super().send_head()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with shards and Parquet files."""
    needed("fsspec")
    needed("aiohttp")
    place = tmp_path_factory.mktemp("web")
    shards(place / "tar")
    parquet(place / "parquet")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Pages, directory=str(place))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NO_PROXY", "127.0.0.1")
            yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_web_server_gives_the_statistics_of_the_folder(web: str, tmp_path: Path) -> None:
    out = tmp_path / "out.stats"
    calib8.collect_statistics(model(), folder(tmp_path / "f"), preprocess=RECIPE).statistics.save(out)
    expected = out.read_bytes()
    names = ",".join(file.name for file in sorted(parquet(tmp_path / "p").rglob("*.parquet")))
    for data in (f"{web}/tar/train-{{000..002}}.tar", f"{web}/parquet/{{{names}}}"):
        calib8.collect_statistics(model(), data, preprocess=RECIPE).statistics.save(out)
        assert out.read_bytes() == expected, data


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (
            "tar/train-003.tar",
            r"/tar/train-003\.tar: does not exist\. Check the bucket or host, and the",
        ),
        ("tar/secret.tar", r"/tar/secret\.tar: access was refused .*403"),
        ("tar/*.tar", r"a web server lists no files\. Name them in braces: train-\{000\.\.099\}\.tar\.$"),
    ],
)
def test_what_a_web_server_says(web: str, path: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        open_dataset(f"{web}/{path}", INPUT, RECIPE)


def test_a_web_server_that_is_not_there() -> None:
    needed("aiohttp")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/a.tar"
        with pytest.raises(DataError, match=r"cannot be read \(Cannot connect .*Check the address and the c"):
            open_dataset(address, INPUT, RECIPE)


def test_a_long_reason_is_cut() -> None:
    with pytest.raises(DataError) as caught, told("hdfs://host/a.tar"):
        raise OSError("no library here, " * 1000)
    assert len(str(caught.value)) < MOST_SAID + 100 and " …). Check" in str(caught.value)
