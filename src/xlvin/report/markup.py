"""The Markdown that tables and summaries here are written in, as HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator


def to_html(text: str) -> str:
    """Headings, paragraphs, lists and tables, with code, bold, italics and links inside them."""
    return "\n".join(_block(block) for block in _blocks(text))


def inline(text: str) -> str:
    """One line's marks; links to other files keep their words only."""
    parts = re.split(r"`([^`]+)`", text)
    return "".join(
        f"<code>{html.escape(part)}</code>" if i % 2 else _words(part) for i, part in enumerate(parts)
    )


def _words(text: str) -> str:
    text = html.escape(text, quote=False)
    text = re.sub(r"\[([^\]]+)\]\(((?:https://|#)[^)\s]+)\)", r'<a href="\2">\1</a>', text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)\s]+\)", r"\1", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"(?<!\w)\*(?=\S)(.+?)(?<=\S)\*(?!\w)", r"<em>\1</em>", text)


def _blocks(text: str) -> Iterator[list[str]]:
    """Lines that belong together; a heading is a block of its own."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if not line.strip() or line.startswith("#"):
            if block:
                yield block
            block = []
            if line.strip():
                yield [line]
        else:
            block.append(line)


def _block(lines: list[str]) -> str:
    if heading := re.match(r"(#{1,6})\s+(.*)", lines[0]):
        level = min(6, len(heading.group(1)) + 1)  # the page has its own first heading
        return f"<h{level}>{inline(heading.group(2))}</h{level}>"
    if len(lines) > 1 and lines[0].startswith("|") and set(lines[1]) <= set("|-: "):
        return _table(lines)
    for mark, tag in ((r"[-*]\s+", "ul"), (r"\d+\.\s+", "ol")):
        if re.match(mark, lines[0]):
            items = re.split(rf"^{mark}", "\n".join(lines), flags=re.MULTILINE)[1:]
            listed = "".join(f"<li>{inline(' '.join(item.split()))}</li>" for item in items)
            return f"<{tag}>{listed}</{tag}>"
    return f"<p>{inline(' '.join(line.strip() for line in lines))}</p>"


def _table(lines: list[str]) -> str:
    header, rule, *body = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines)
    right = [' class="right"' if mark.endswith(":") else "" for mark in rule]

    def row(cells: list[str], tag: str) -> str:
        pairs = zip(cells, [*right, *[""] * len(cells)], strict=False)
        return "<tr>" + "".join(f"<{tag}{style}>{inline(cell)}</{tag}>" for cell, style in pairs) + "</tr>"

    content = "".join(row(cells, "td") for cells in body)
    return (
        f'<div class="wide"><table><thead>{row(header, "th")}</thead><tbody>{content}</tbody></table></div>'
    )
