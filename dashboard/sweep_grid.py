"""The mounted grid of a sweep: a table without a mask and one with; rows are layers, columns heads.

Every cell is a button with its accuracy, coloured from 0 to 1. The picture of the heads would show a cell that there is
no number for yet as a number; this one leaves it empty.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import streamlit as st

from attention.trained import SweepConfig, Swept, TrainConfig
from attention.trained.sweeping import CAUSAL, HEADS, LAYERS
from dashboard import assets, heatmap

TITLES: Final = {False: "no mask", True: "causal"}

_HTML: Final = '<div class="sweep" role="group"></div>'


def name(config: TrainConfig) -> str:
    """A cell in words."""
    return f"{_count(config.layers, 'layer')}, {_count(config.heads, 'head')}, {TITLES[config.causal]}"


def percent(accuracy: float) -> str:
    """An accuracy, with as many digits as the page says of a run."""
    return f"{accuracy:.1%}"


def show(
    config: SweepConfig,
    found: Mapping[TrainConfig, Swept],
    at: TrainConfig,
    summary: str,
    *,
    key: str,
    on_choose: Callable[[], None],
) -> None:
    """Mount or update the grid.

    Args:
        config: the sweep.
        found: how far each cell is that has begun.
        at: the settings on the page, whose cell is marked if there is one.
        summary: the grid's name, for those who do not see it.
        key: the component's name on the page.
        on_choose: called when a cell was clicked.
    """
    said = {
        "tables": [_table(causal) for causal in CAUSAL],
        "cells": [_cell(cell, found.get(cell), cell == at) for cell in config.cells],
        "stops": heatmap.stops("weights"),
        "summary": summary,
    }
    _mount(key=key, data=json.dumps(said).encode(), on_chosen_change=on_choose)


def chosen(config: SweepConfig, key: str) -> TrainConfig | None:
    """The cell that was clicked in the grid `key`, within its `on_choose`; None where there is none of that name."""
    clicked = str(st.session_state[key]["chosen"]).partition("#")[0]
    return next((cell for cell in config.cells if _id(cell.layers, cell.heads, cell.causal) == clicked), None)


_mount = st.components.v2.component("attention_sweep", html=_HTML, js=assets.script("sweep"), isolate_styles=False)


def _table(causal: bool) -> dict[str, Any]:
    rows = [
        {"title": _count(layers, "layer"), "cells": [_id(layers, heads, causal) for heads in HEADS]}
        for layers in LAYERS
    ]
    return {"title": TITLES[causal], "columns": [_count(heads, "head") for heads in HEADS], "rows": rows}


def _cell(cell: TrainConfig, one: Swept | None, is_set: bool) -> dict[str, Any]:
    """A cell's text, its number or none, its class, and all of it in words."""
    text, kind, what = "", "empty", "not trained yet"
    if one and one.accuracy is not None:
        text, kind, what = percent(one.accuracy), "", f"{percent(one.accuracy)} right"
    elif one and one.diverged:
        text, kind, what = "diverged", "diverged", one.diverged
    elif one:
        text, kind, what = "…", "now", f"step {one.step} of {cell.steps}"
    return {
        "name": _id(cell.layers, cell.heads, cell.causal),
        "text": text,
        "share": one.accuracy if one else None,
        "kind": kind,
        "says": f"{name(cell)}: {what}",
        "isSet": is_set,
    }


def _id(layers: int, heads: int, causal: bool) -> str:
    return f"{layers}-{heads}-{'causal' if causal else 'full'}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
