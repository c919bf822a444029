"""One page per paper: every list entry that links a page of results becomes that page, collapsed.

The sources stay what they are: a list of links, and one file per table as `fedveil reproduce` writes it. A link to such
a file goes to its place on the paper's page.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results"
ENTRY = re.compile(r"^- \[(?P<title>[^\]]+)\]\((?P<page>(?:paper|small)/[\w.-]+\.md)\)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#|/)([^)\s]+)\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri.startswith(("results/paper/", "results/small/")):
        page.meta["search"] = {"exclude": True}  # its text stands on the paper's page, too
        return markdown
    return ENTRY.sub(_collapsed, markdown) if page.file.src_uri.startswith("results/") else markdown


def _collapsed(entry: re.Match[str]) -> str:
    """The linked page in a block that opens when it is clicked, its own links made relative to this page."""
    path = entry["page"]
    _title, _, body = (RESULTS / path).read_text().partition("\n")
    body = LINK.sub(lambda link: f"]({_seen_from_results(path, link[1])})", body)
    body = re.sub(r"^(#+) ", r"##\1 ", body, flags=re.MULTILINE)
    inner = "\n".join(f"    {line}" if line else "" for line in body.splitlines())
    return f'??? abstract "{entry["title"]}"\n{inner}\n'


def _seen_from_results(path: str, target: str) -> str:
    return target[3:] if target.startswith("../") else f"{path.split('/')[0]}/{target}"
