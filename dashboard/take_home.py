"""What a reader takes home of a page: tensors as CSV and NPZ, the scene as a plain script, the verdict as a report.

Nothing is computed while it is closed. A file is built when its button is clicked, behind the gate of `cached`, from
the frozen scene that the button was drawn for: by then the reader may have moved on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlencode

import streamlit as st

from attention import export, report_text, script
from attention import tensors as named
from attention.report_text import About
from attention.scenes import Scene, config_of
from attention.tensors import Tensors
from attention.verify import Verdict
from attention.verify_head import HeadConfig
from dashboard import cached, controls
from dashboard.step_picture import safe, size

LABEL: Final = "Take it home: tensors, script, report"
KINDS: Final = ("Tensors", "Script", "Report")
# bytes of an NPZ: the server holds a file until it is fetched, for each reader who clicks
LARGEST: Final = 64_000_000
# rows that a spreadsheet takes
_SPREADSHEET: Final = 2**20 - 1
_SCRIPT_HEIGHT: Final = 440  # pixels


@dataclass(frozen=True)
class Kept:
    """What a page lets its reader take home.

    `make` makes the tensors by name from frozen values alone, since it runs on a thread without a session; `name`
    tells them from those of the same scene on other pages. `note` stands in the report.
    """

    scene: Scene
    verdict: Verdict
    make: Callable[[], Tensors]
    name: str = ""
    note: str = ""

    def file(self, *more: str) -> str:
        """A file's name, without what it ends in."""
        return safe(f"attention-{cached.identity(self.scene, ' '.join((self.name, *more)))}")


@dataclass(frozen=True)
class _Size:
    """What is said of a tensor before it is made."""

    shape: str
    dtype: str
    numbers: int
    npz: int


def draw(
    scene: Scene, verdict: Verdict, make: Callable[[], Tensors] | None = None, name: str = "", note: str = ""
) -> None:
    """Draw the expander, inside of the verdict's fragment; see `Kept`. The tensors are the scene's own by default."""
    expander = st.expander(LABEL, icon=":material/download:", key="take_home", on_change="rerun")
    if not expander.open:
        return
    kept = Kept(scene, verdict, make or partial(named.of_scene, scene), name, note)
    with expander:
        kind = st.segmented_control(
            "What", KINDS, default=KINDS[0], required=True, key="_take_home", label_visibility="collapsed"
        )
        {"Tensors": _tensors, "Script": _script, "Report": _report}[str(kind)](kept)


def _tensors(kept: Kept) -> None:
    """A select, and what was selected as CSV and NPZ; all of it as NPZ."""
    sizes: dict[str, _Size] = cached.facts(f"sizes {kept.name}", kept.scene, lambda: _sizes(kept.make()))
    names = list(sizes)
    if not names:  # both calls of PyTorch raised
        st.caption("There are no numbers to take.")
        return
    if st.session_state.get("_tensor") not in names:  # that of another page
        st.session_state["_tensor"] = next((name for name in names if name.endswith("weights")), names[0])
    one = st.selectbox("Tensor", names, key="_tensor")
    found, whole = sizes[one], sum(each.npz for each in sizes.values())
    st.caption(_said(one, found))
    about = {"scene": report_text.scene_as_dict(kept.scene), "note": kept.note, "versions": report_text.versions()}

    def csv() -> bytes:
        return export.as_csv(one, kept.make()[one])

    def npz() -> bytes:
        return export.as_npz({one: kept.make()[one]}, about)

    def everything() -> bytes:
        return export.as_npz(kept.make(), about)

    with st.container(horizontal=True):
        _button(f"CSV, {found.numbers:,} rows", csv, kept.file(one), "csv", "text/csv")
        _button(f"NPZ{_large(found.npz)}", npz, kept.file(one), "npz", "application/octet-stream")
        if whole <= LARGEST:
            label = f"NPZ of all {len(names)}{_large(whole)}"
            _button(label, everything, kept.file("all"), "npz", "application/octet-stream", "all")
    if whole > LARGEST:
        st.caption(f"All {len(names)} in one NPZ would be {_megabytes(whole)}; the limit is {_megabytes(LARGEST)}.")


def _script(kept: Kept) -> None:
    """The script, and what it prints."""
    head, query = _row(kept.scene)
    code = script.text(kept.scene, head, query)
    prints = cached.facts(
        f"prints head {head} query {query}", kept.scene, lambda: script.expected(kept.scene, head, query)
    )
    st.markdown(
        "The same scene with `math` and `torch` alone. It prints what stands below it, to the last digit on this "
        "machine; another processor or PyTorch may round the last digits otherwise."
    )
    _button("Script", lambda: code, kept.file(), "py", "text/x-python")
    st.code(code, language="python", height=_SCRIPT_HEIGHT)
    st.code(prints, language=None, wrap_lines=True)


def _report(kept: Kept) -> None:
    """The verdict on screen as Markdown and JSON."""
    about = About(kept.scene, controls.asked().tolerance, _link(), kept.note)
    st.markdown(
        "The verdict above as a file: versions, scene and seed, tolerances, every step's shape, outcomes and errors, "
        "the fixed probe, and the link to this page."
    )
    with st.container(horizontal=True):
        _button(
            "Markdown", lambda: report_text.as_markdown(kept.verdict, about), kept.file("report"), "md", "text/markdown"
        )
        _button(
            "JSON", lambda: report_text.as_json(kept.verdict, about), kept.file("report"), "json", "application/json"
        )


def _button(label: str, build: Callable[[], str | bytes], name: str, ending: str, mime: str, key: str = "") -> None:
    """A button that builds its file once it is clicked, when the gate lets it in."""
    st.download_button(
        label,
        partial(cached.gated, build),
        f"{name}.{ending}",
        mime,
        key=f"_take_{ending}{key}",
        on_click="ignore",
        icon=":material/download:",
    )


def _sizes(found: Tensors) -> dict[str, _Size]:
    return {
        name: _Size(size(x), str(x.dtype).removeprefix("torch."), x.numel(), export.npz_bytes({name: x}))
        for name, x in found.items()
    }


def _said(name: str, found: _Size) -> str:
    """What a tensor is, before it is made."""
    exact = " (as float32, which NumPy has and which holds it exactly)" if found.dtype == "bfloat16" else ""
    many = "; as CSV more rows than a spreadsheet takes" if found.numbers > _SPREADSHEET else ""
    return f"`{name}`: {found.shape} = {found.numbers:,} numbers of {found.dtype}{exact}{many}"


def _row(scene: Scene) -> tuple[int, int]:
    """Head and query of the pinned cell, or the nearest that the scene has."""
    pin, config = controls.asked().look.pin, config_of(scene)
    queries = scene[1].num_queries if isinstance(scene, tuple) else config.num_tokens
    if pin is None:
        return 0, queries - 1
    return 0 if isinstance(scene, HeadConfig) else min(pin.head, config.num_heads - 1), min(pin.query, queries - 1)


def _link() -> str:
    """The address of what the reader sees."""
    asked = [(key, value) for key in st.query_params for value in st.query_params.get_all(key)]
    return f"{st.context.url or ''}{'?' if asked else ''}{urlencode(asked)}"


def _large(count: int) -> str:
    """How large a file will be, where that matters."""
    return f", {_megabytes(count)}" if count >= 1e5 else ""


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
