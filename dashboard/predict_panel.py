"""What the page of predictions shows besides its pictures: the fields, the buttons, and what an answer came to.

An answer is checked when the reader says so, and stands until a field is changed; what is right is shown only once it
is revealed. Both are forgotten with the session, and are not in the link: whoever opens it is asked anew.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import streamlit as st
import torch
from jaxtyping import Bool
from torch import Tensor

from attention.config import AttentionConfig
from attention.mask_config import MaskConfig
from attention.predicting import MaskAnswer, RowAnswer
from dashboard import cached, step_picture, tables
from dashboard.cell_panel import number
from dashboard.fragments import PICTURE, VERDICT, rerun
from dashboard.heatmap import Picture, Words
from dashboard.tables import Mark, Table, Value
from dashboard.token_names import named, names

_CHECKED = "_checked"  # the question, and the answer that was checked
_REVEALED = "_revealed"  # the question that was revealed
_SHOWN = "_shown_question"  # the question that the picture's fragment has drawn
_RIGHT = ":green-badge[:material/check_circle: right]"
_WRONG = ":red-badge[:material/cancel: not yet]"


@dataclass(frozen=True)
class Question:
    """What is asked: the kind ("row" or "mask"), of which scene, and of which row."""

    kind: str
    scene: tuple[AttentionConfig, MaskConfig]
    head: int = 0
    query: int = 0

    @property
    def key(self) -> str:
        """What tells its fields from those of another question: a new one begins empty."""
        return f"_said {self.kind} {cached.identity(self.scene)} {self.head} {self.query}"


def is_revealed(question: Question) -> bool:
    """Whether the reader has asked for the answer."""
    return bool(st.session_state.get(_REVEALED) == question)


def is_shown_revealed() -> bool:
    """Whether the reader has asked for the answer to the question on the page, for what stands below it."""
    return is_revealed(st.session_state[_SHOWN])


def fields(question: Question, keys: int) -> list[float | None]:
    """Draw a field for the weight of each key; returns what is in them, None where nothing is."""
    places, (_, columns) = st.columns(keys, gap="small"), names(question.scene)
    return [
        place.number_input(
            f"key {named(key, columns)}", 0.0, 1.0, value=None, step=0.01, format="%.3f", key=f"{question.key} {key}"
        )
        for key, place in enumerate(places)
    ]


def grid(question: Question, mask: MaskConfig) -> Bool[Tensor, "T S"]:
    """Draw a row of keys to pick from for each query; returns what is picked."""
    said = torch.zeros(mask.num_queries, mask.num_keys, dtype=torch.bool)
    rows, columns = names(question.scene)
    for query in range(mask.num_queries):
        picked = st.pills(
            f"Query {named(query, rows)} may attend to key",
            range(mask.num_keys),
            selection_mode="multi",
            format_func=lambda key: named(key, columns),
            key=f"{question.key} {query}",
        )
        said[query, list(picked)] = True
    return said


def grids(question: Question, said: Bool[Tensor, "T S"], right: Bool[Tensor, "T S"]) -> Picture:
    """The reader's mask, and beside it the right one once it is revealed: 1 where one may attend, hatched where not.

    Rows in which nothing is picked are blank until the reader has them checked: they may be meant so.
    """
    revealed = is_revealed(question)
    tiles = {"yours": said} | ({"right": right} if revealed else {})
    done = revealed or _is_checked(question, said.tolist())
    blank = () if done else tuple(query for query, row in enumerate(said) if not row.any())
    name = "".join(str(int(cell)) for cell in said.flatten()) + (" done" if done else "")
    words = Words(tiles="pictures", number="may attend")
    either = torch.stack(list(tiles.values())).any(0)
    numbers = [grid.float() for grid in tiles.values()]
    return step_picture.of_step("weights", numbers, list(tiles), question.scene, either, words, name, blank)


def buttons(question: Question, said: object) -> None:
    """Draw the buttons: check what is filled in; reveal, or hide again."""
    st.session_state[_SHOWN] = question
    with st.container(horizontal=True):
        st.button("Check", type="primary", key="check", on_click=_keep, args=(_CHECKED, (question, _frozen(said))))
        with st.container(key="reveal", width="content"):
            if is_revealed(question):
                st.button("Hide again", key="hide_again", on_click=_keep, args=(_REVEALED, None))
            else:
                st.button(
                    "Reveal", icon=":material/visibility:", key="do_reveal", on_click=_keep, args=(_REVEALED, question)
                )


def _keep(name: str, value: object) -> None:
    st.session_state[name] = value
    rerun(PICTURE, *([VERDICT] if name == _REVEALED else []))()  # below the verdict stands what can be taken home


def _frozen(said: object) -> Hashable:
    return tuple(map(_frozen, said)) if isinstance(said, list) else said


def _is_checked(question: Question, said: object) -> bool:
    return bool(st.session_state.get(_CHECKED) == (question, _frozen(said)))


def of_row(question: Question, answer: RowAnswer, scaled: Sequence[float], allowed: Sequence[bool]) -> str:
    """The row key by key, as HTML: what is given, what was said, and once it is checked or revealed how right it is."""
    said = [cell.said for cell in answer.cells]
    checked, revealed = _is_checked(question, said), is_revealed(question)
    seen = [score for score, may in zip(scaled, allowed, strict=True) if may]
    most, (named_rows, columns) = max(seen, default=0.0), names(question.scene)
    rows: list[Sequence[Value]] = []
    for cell, score, may in zip(answer.cells, scaled, allowed, strict=True):
        row: list[Value] = [
            f"key {named(cell.key, columns)}",
            number(score),
            "–" if cell.said is None else f"{cell.said:g}",
        ]
        if checked or revealed:
            row.append(Mark("✓ right", "good") if cell.close else Mark("✗ not within", "bad"))
        if revealed:
            exponential = number(math.exp(score - most)) if may else "masked"
            off = "" if cell.said is None else number(cell.said - cell.right)
            row += [exponential, Mark(number(cell.right), "strong"), off]
        rows.append(row)
    head = ["", "scaled", "yours", *(["verdict"] if checked or revealed else [])]
    head += ["exp(scaled − max)", "weight", "yours less it"] if revealed else []
    caption = (
        f"The row of query {named(question.query, named_rows)}, head {question.head}: right within {answer.within:g}"
    )
    return tables.html(Table(caption, head, rows), kind="predict")


def said_of_row(question: Question, answer: RowAnswer) -> str:
    """What the answer came to, as Markdown."""
    said = [cell.said for cell in answer.cells]
    filled = sum(one is not None for one in said)
    total = f"Yours sum to {answer.total:.3f}; a row of weights sums to 1, or to 0 where no key may be seen."
    if not _is_checked(question, said):
        return f"{filled} of {len(said)} filled in. {total}" if filled else "Nothing is filled in yet."
    right = sum(cell.close for cell in answer.cells)
    if answer.right:
        return f"{_RIGHT} **All {len(said)} weights are right** within {answer.within:g}."
    return f"{_WRONG} **{right} of {len(said)} are right** within {answer.within:g}. {total}"


def said_of_mask(question: Question, answer: MaskAnswer, said: object) -> str:
    """What the answer came to, as Markdown; which cells are wrong once it is revealed, before that only which rows."""
    if is_revealed(question):
        if answer.right:
            return f"{_RIGHT} **Yours is the right mask.**"
        wrong = {"Too many": answer.too_many, "Missing": answer.missing}
        listed = (f"**{name}**: {_cells(question, cells)}." for name, cells in wrong.items() if cells)
        return " ".join((_WRONG, *listed))
    if not _is_checked(question, said):
        return "Pick the keys that each query may attend to, then check."
    if answer.right:
        return f"{_RIGHT} **All {answer.cells} cells are right.**"
    off = len(answer.too_many) + len(answer.missing)
    asking, _ = names(question.scene)
    rows = ", ".join(named(row, asking) for row in answer.wrong_rows())
    return f"{_WRONG} **{answer.cells - off} of {answer.cells} cells are right.** Look again at query {rows}."


def _cells(question: Question, cells: Sequence[tuple[int, int]]) -> str:
    rows, columns = names(question.scene)
    return ", ".join(f"{named(query, rows)} → {named(key, columns)}" for query, key in cells)


def rules(mask: MaskConfig) -> str:
    """The rules of a mask in words, as Markdown: what there is to work it out from."""
    prefix = f", or the key is one of the first {mask.prefix}" if mask.prefix and mask.causal else ""
    said = [
        f"the key is not after the query{prefix}" if mask.causal else "",
        f"the key is fewer than {mask.window} positions away" if mask.window is not None else "",
        f"the key is not one of the first {mask.padding_left}, which are padding" if mask.padding_left else "",
        f"the key is not one of the last {mask.padding_right}, which are padding" if mask.padding_right else "",
        f"both are in the same document of {mask.document} tokens" if mask.document is not None else "",
        f"they are a multiple of {mask.stride} positions apart" if mask.stride is not None else "",
    ]
    listed = [text for text in said if text]
    where = ""
    if mask.num_queries != mask.num_keys:
        where = f" There are {mask.num_queries} queries and {mask.num_keys} keys, aligned at the {mask.corner}: " + (
            "the last query stands at the last key." if mask.corner == "bottom-right" else "query 0 stands at key 0."
        )
    if mask.num_queries > mask.num_keys and mask.corner == "bottom-right" and mask.document is not None:
        where += " Queries that stand before key 0 belong to the first document."
    if not listed:
        return f"**Which keys may each query attend to?** No rule forbids any.{where}"
    return f"**Which keys may each query attend to?** All of these hold: {'; '.join(listed)}.{where}"
