"""Markdown as HTML."""

import pytest

from xlvin.report.markup import inline, to_html


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("**bold** and *soft*, 2 * 3 * 4", "<strong>bold</strong> and <em>soft</em>, 2 * 3 * 4"),
        ("`a < b` & **c**", "<code>a &lt; b</code> &amp; <strong>c</strong>"),
        ("V* and V*", "V* and V*"),
        ("[here](other.md), [web](https://arxiv.org)", 'here, <a href="https://arxiv.org">web</a>'),
        ("[below](#table1)", '<a href="#table1">below</a>'),
        ("<script>", "&lt;script&gt;"),
    ],
)
def test_marks_within_a_line(text: str, expected: str) -> None:
    assert inline(text) == expected


def test_blocks() -> None:
    text = "# Title\nfirst\nline\n\n- one\n  goes on\n- two\n\n1. a\n2. b"
    assert to_html(text).splitlines() == [
        "<h2>Title</h2>",
        "<p>first line</p>",
        "<ul><li>one goes on</li><li>two</li></ul>",
        "<ol><li>a</li><li>b</li></ol>",
    ]


def test_tables_keep_their_alignment() -> None:
    table = to_html("| agent | score |\n| --- | ---: |\n| `ppo` | 1.5 |")
    assert "<th>agent</th>" in table
    assert '<th class="right">score</th>' in table
    assert '<td><code>ppo</code></td><td class="right">1.5</td>' in table
