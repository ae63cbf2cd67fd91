"""Tables as plain HTML: one element each, however many cells.

`st.table` reads every cell as Markdown, which costs the browser more than drawing all heads does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Mark:
    """A cell with a class of the style sheet on it: "good", "bad", "strong" or "code"."""

    text: str
    kind: str


Value = str | Mark


@dataclass(frozen=True)
class Table:
    """A caption, the head row, and the rows; the first cell of a row names it.

    `groups` are titles over the head row, each with the number of columns it spans.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Value]]
    groups: Sequence[tuple[str, int]] = ()

    def html(self) -> str:
        """The table with every text escaped."""
        head = "".join(_over(text, 'scope="col"') for text in self.head)
        groups = "".join(_over(text, f'scope="colgroup" colspan="{span}"') for text, span in self.groups)
        above = f'<tr class="groups">{groups}</tr>' if groups else ""
        body = "".join(f"<tr>{_row(row)}</tr>" for row in self.rows)
        return (
            f"<table><caption>{escape(self.caption)}</caption>"
            f"<thead>{above}<tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def html(*tables: Table, kind: str) -> str:
    """Tables side by side (below each other where there is no room); `kind` names them for the style sheet.

    What is too wide scrolls, by keyboard too: so it can have the focus, and then needs a name.
    """
    name = escape("; ".join(table.caption for table in tables))
    inside = "".join(table.html() for table in tables)
    return f'<div class="tables {kind}" tabindex="0" role="group" aria-label="{name}">{inside}</div>'


def _over(text: str, attributes: str) -> str:
    """What stands over columns; an empty header would name nothing."""
    return f"<th {attributes}>{escape(text)}</th>" if text else f"<td {attributes.partition(' ')[2]}></td>"


def _row(row: Sequence[Value]) -> str:
    first, *others = row
    return f'<th scope="row"{_class(first)}>{_text(first)}</th>' + "".join(
        f"<td{_class(value)}>{_text(value)}</td>" for value in others
    )


def _class(value: Value) -> str:
    return f' class="{value.kind}"' if isinstance(value, Mark) else ""


def _text(value: Value) -> str:
    return escape(value.text if isinstance(value, Mark) else value)
