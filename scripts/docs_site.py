"""A hook of MkDocs: the pages of the repository as those of a site, with links that work in both places.

Pages that lie outside of docs/ (the README, the guide for contributors, the maps of the native code) are
added, links between them and docs/ are turned to where the site has the page, and links to headings get the
names that the site gives them. The page of the Python reference gets the docstring of each name that its
tables list.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]

OUTSIDE: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "csrc/README.md": "csrc/README.md",
    "csrc/engine/README.md": "csrc/engine/README.md",
    "LICENSE": "LICENSE.txt",
}
"""Path in the repository → on the site, of the files outside of docs/ that pages lead to."""

REFERENCE: Final = "api.md"
"""The page whose tables name what calib8 offers in Python."""

_LINK: Final = re.compile(r"(\]\()([^)\s#]*)(#[^)\s]*)?\)")
_LOADED: Final = re.compile(r"""(?:src|href|srcset|data)=["']?((?:https?:)?//[^"'\s>]+)""")
_CODE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Headings are named as a Git host names them."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from outside."""
    from mkdocs.structure.files import File

    for path, name in OUTSIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links to where the site has the page, and adds docstrings to the reference."""
    name = page.file.src_uri
    text = with_docstrings(markdown) if name == REFERENCE else markdown
    return linked(text, name)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuses a page that would ask another host for anything."""
    if asked := asks_other_hosts(output):
        from mkdocs.exceptions import PluginError

        raise PluginError(f"{page.file.src_uri}: the page loads {asked[0]}. Put a copy into docs/.")
    return output


def asks_other_hosts(page: str) -> list[str]:
    """What a browser would load from elsewhere with the page: links that one may follow do not count."""
    tags = re.findall(r"<(?!a[\s>])[^>]*>", page)
    return [address for tag in tags for address in _LOADED.findall(tag)]


def slug(title: str, separator: str) -> str:
    """The name of a heading as GitHub makes it: letters, digits, ``-`` and ``_``; a blank becomes ``-``."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", separator)


def linked(text: str, name: str) -> str:
    """The text of a page of the site with its links turned; blocks of code are left as they are."""
    pieces = _CODE.split(text)
    return "".join(
        piece if index % 2 else _LINK.sub(lambda link: turned(link, name), with_plain_pipes(piece))
        for index, piece in enumerate(pieces)
    )


def with_plain_pipes(text: str) -> str:
    """A Git host wants ``\\|`` in code within a table, MkDocs shows its backslash."""
    return re.sub(r"`[^`\n|]*\\\|[^`\n]*`", lambda span: span[0].replace("\\|", "|"), text)


def turned(link: re.Match[str], name: str) -> str:
    """One link of the page ``name`` of the site: to where the site has its page and its heading."""
    path, anchor = link[2], link[3] or ""
    if path.startswith(("http:", "https:", "mailto:")):
        return link[0]
    source = repository_path(name)
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path)) if path else source
    anchor = named_by_site(anchor, target) if anchor else ""
    place = posixpath.relpath(site_path(target), posixpath.dirname(name) or ".") if path else ""
    return f"]({place}{anchor})"


def site_path(path: str) -> str:
    """Where the site has a file of the repository."""
    return OUTSIDE.get(path, path.removeprefix("docs/"))


def repository_path(name: str) -> str:
    """Where the repository has a page of the site."""
    return next((path for path, there in OUTSIDE.items() if there == name), f"docs/{name}")


def named_by_site(anchor: str, target: str) -> str:
    """The name of a heading: a Git host ends that of a second namesake in -1, the site in _1."""
    title, _, number = anchor.rpartition("-")
    if not number.isdigit() or not (ROOT / target).is_file():
        return anchor
    text = _CODE.sub("", (ROOT / target).read_text(encoding="utf-8"))
    names = [slug(heading, "-") for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return f"{title}_{number}" if names.count(title.removeprefix("#")) > 1 else anchor


def with_docstrings(text: str) -> str:
    """The page of the reference with the docstring of every name behind the table that lists it."""
    lines, waiting, written = text.splitlines(), list[str](), list[str]()
    for line in [*lines, ""]:
        named = re.match(r"\| `([\w.]+)` \|", line)
        if not line.startswith("|") and waiting:
            written += ["", *(f"::: {name}\n" for name in waiting)]
            waiting = []
        written.append(line)
        if named:
            waiting.append(named[1])
    return "\n".join(written)
