"""What a reader takes home of a page: tensors as CSV and NPZ, the scene as a plain script, the verdict as a report.

Nothing is computed while it is closed. A file is built when its button is clicked, behind the gate of `cached`, from
the frozen scene that the button was drawn for: by then the reader may have moved on.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import streamlit as st

from attention import export, report_text, script
from attention.config import DTYPES
from attention.export import Part
from attention.report_text import About
from attention.scenes import Scene, config_of, in_dtype
from attention.tensors import Tensors, axes, inputs_of, of_scene
from attention.verify import Verdict
from attention.verify_block import BlockConfig
from attention.verify_head import HeadConfig
from dashboard import cached, controls, link, progress
from dashboard.step_picture import safe

LABEL: Final = "Take it home: tensors, script, report"
KINDS: Final = ("Tensors", "Script", "Report")
# bytes of an NPZ: the server holds a file until it is fetched, for each reader who clicks
LARGEST: Final = 64_000_000
_SCRIPT_HEIGHT: Final = 440  # pixels


@dataclass(frozen=True)
class Kept:
    """What a page lets its reader take home.

    `make` makes the tensors of a scene, by name, from what is frozen alone, since it runs on a thread without a
    session. `name` tells them from those of the same scene on other pages. `note` stands above it all, and in the
    report.
    """

    scene: Scene
    verdict: Verdict
    make: Callable[[Any], Tensors]
    name: str = ""
    note: str = ""

    def tensors(self) -> Tensors:
        """The tensors."""
        return self.make(self.scene)

    def inputs(self) -> bytes:
        """What its script reads, where the weights are trained."""
        return export.as_npz(inputs_of(self.scene), self.about)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Their shapes, found in float32: half precision takes several times as long."""
        return {name: tuple(found.shape) for name, found in self.make(in_dtype(self.scene, "float32")).items()}

    @property
    def about(self) -> dict[str, object]:
        """What an NPZ says of itself."""
        return {"scene": report_text.scene_as_dict(self.scene), "note": self.note, "versions": report_text.versions()}

    def file(self, *more: str) -> str:
        """A file's name, without what it ends in."""
        return safe(f"attention-{cached.identity(self.scene, ' '.join((self.name, *more)))}")


def draw(
    scene: Scene, verdict: Verdict, make: Callable[[Any], Tensors] = of_scene, name: str = "", note: str = ""
) -> None:
    """Draw the expander, inside of the verdict's fragment; see `Kept`. The tensors are the scene's own by default."""
    expander = st.expander(LABEL, icon=":material/download:", key="take_home", on_change="rerun")
    if not expander.open:
        return
    kept = Kept(scene, verdict, make, name, note)
    with expander:
        if note:
            st.caption(note)
        kind = st.segmented_control(
            "What", KINDS, default=KINDS[0], required=True, key="_take_home", label_visibility="collapsed"
        )
        {"Tensors": _tensors, "Script": _script, "Report": _report}[str(kind)](kept)


def _tensors(kept: Kept) -> None:
    """A select, and what was selected as CSV and NPZ; all of it as NPZ."""
    shapes = cached.facts(f"shapes {kept.name}", in_dtype(kept.scene, "float32"), kept.shapes)
    names, dtype = list(shapes), config_of(kept.scene).dtype
    if not names:  # both calls of PyTorch raised
        st.caption("There are no numbers to take.")
        return
    if st.session_state.get("_tensor") not in names:  # that of another page
        st.session_state["_tensor"] = next((name for name in names if name.endswith("weights")), names[0])
    one = st.selectbox("Tensor", names, key="_tensor")
    shape, whole = shapes[one], sum(_npz(each, dtype) for each in shapes.values())
    st.caption(_said(one, shape, dtype))
    part = _part(one, shape)

    def csv() -> bytes:
        return export.as_csv(one, kept.tensors()[one], part)

    def npz() -> bytes:
        return export.as_npz({one: kept.tensors()[one]}, kept.about)

    def everything() -> bytes:
        return export.as_npz(kept.tensors(), kept.about)

    rows = math.prod(shape[: part.axis]) * (part.stop - part.start) * math.prod(shape[part.axis + 1 :])
    binary = "application/octet-stream"
    files = [
        (f"CSV, {rows:,} rows", csv, kept.file(one, _called(part, shape)), "csv", "text/csv", ""),
        (f"NPZ{_large(_npz(shape, dtype))}", npz, kept.file(one), "npz", binary, ""),
    ]
    if whole <= LARGEST:
        files.append((f"NPZ of all {len(names)}{_large(whole)}", everything, kept.file("all"), "npz", binary, "all"))
    seconds = _seconds(kept.scene)
    with st.container(horizontal=True):
        for file in files:
            _prepared(*file, seconds) if seconds > 1 else _button(*file)
    if seconds > 1:
        st.caption(f"In {dtype} a file takes about {seconds:.0f} s to make.")
    if whole > LARGEST:
        st.caption(f"All {len(names)} in one NPZ would be {_megabytes(whole)}; the limit is {_megabytes(LARGEST)}.")


def _script(kept: Kept) -> None:
    """The script, and what it prints."""
    head, query = _row(kept.scene)
    inputs = kept.file("inputs")
    code = script.text(kept.scene, head, query, f"{inputs}.npz")
    is_trained = config_of(kept.scene).trained is not None
    libraries = "`math`, `numpy` and `torch`" if is_trained else "`math` and `torch`"
    st.markdown(
        f"The same scene with {libraries} alone. Run, it prints what stands below it: to the last digit on a "
        "machine as this server's, while another processor or another PyTorch may round the last digits otherwise."
    )
    with st.container(horizontal=True):
        _button("Script", lambda: code, kept.file(), "py", "text/x-python")
        if is_trained:
            _button("Its tokens and weights, NPZ", kept.inputs, inputs, "npz", "application/octet-stream", "inputs")
    if is_trained:
        st.caption(f"Trained weights come of no seed: put `{inputs}.npz` beside the script.")
    st.code(code, language="python", height=_SCRIPT_HEIGHT)
    st.code(_prints(kept.scene, head, query), language=None, wrap_lines=True)


def _prints(scene: Scene, head: int, query: int) -> str:
    """What the script prints; under a bar where that takes over a second."""
    name, seconds = f"prints head {head} query {query}", _seconds(scene)
    make = partial(script.expected, scene, head, query)
    if seconds > 1 and cached.known(name, scene) is None:
        found = progress.during(partial(cached.gated, make), seconds, f"The scene in {config_of(scene).dtype}")
        make = partial(str, found)
    prints: str = cached.facts(name, scene, make)
    return prints


def _report(kept: Kept) -> None:
    """The verdict on screen as Markdown and JSON."""
    about = About(kept.scene, controls.asked().tolerance, controls.address(), kept.note)
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


def _prepared(
    label: str, build: Callable[[], bytes], name: str, ending: str, mime: str, key: str, seconds: float
) -> None:
    """A file that takes long: a button that makes it under a bar, and then the button that hands it out.

    It is held until the reader does anything else, and by nobody else.
    """
    if st.button(f"Prepare {label}", icon=":material/hourglass_top:", key=f"_prepare_{ending}{key}"):
        made = progress.during(partial(cached.gated, build), seconds, label)
        _button(label, lambda: made, name, ending, mime, key)


def _part(name: str, shape: tuple[int, ...]) -> Part:
    """The part of a tensor that goes into a CSV: all of it, or one of several, which the reader chooses."""
    cut = export.parts(shape)
    if len(cut) == 1:
        return cut[0]
    axis = axes(name, len(shape))[cut[0].axis]
    told = {f"{axis} {part.start} to {part.stop - 1}": part for part in cut}
    said = st.session_state.get("_part")
    link.say("_part", said if said in told else next(iter(told)))
    chosen = st.segmented_control(
        f"A CSV has at most {export.MOST_ROWS:,} rows, as many as a spreadsheet takes. Of this tensor it has",
        list(told), required=True, key="_part",
    )  # fmt: skip
    return told[str(chosen)]


def _called(part: Part, shape: tuple[int, ...]) -> str:
    """A part in the file's name; nothing where it is all."""
    return "" if part.stop - part.start == shape[part.axis] else f"{part.start} to {part.stop - 1}"


def _npz(shape: tuple[int, ...], dtype: str) -> int:
    """About how many bytes of an NPZ a tensor takes."""
    return math.prod(shape) * (4 if dtype == "bfloat16" else DTYPES[dtype].itemsize)


def _said(name: str, shape: tuple[int, ...], dtype: str) -> str:
    """What a tensor is, before it is made."""
    exact = ", which NumPy has not: in the files as float32, which holds each exactly" if dtype == "bfloat16" else ""
    return f"`{name}`: {' × '.join(map(str, shape))} = {math.prod(shape):,} numbers of {dtype}{exact}"


def _row(scene: Scene) -> tuple[int, int]:
    """Head and query of the pinned cell, or the nearest that the scene has."""
    pin, config = controls.asked().look.pin, config_of(scene)
    queries = scene[1].num_queries if isinstance(scene, tuple) else config.num_tokens
    if pin is None:
        return 0, queries - 1
    return 0 if isinstance(scene, HeadConfig) else min(pin.head, config.num_heads - 1), min(pin.query, queries - 1)


def _seconds(scene: Scene) -> float:
    """About how long the tensors of a scene take in half precision, which is slow here; a rule from five sizes.

    Elsewhere they take less than a second: 0. Those of blocks do in any precision, as `limits` sees to.
    """
    config = config_of(scene)
    width, tokens = config.embed_dim, config.num_tokens
    if config.dtype not in ("bfloat16", "float16") or isinstance(scene, BlockConfig):
        return 0.0
    return 0.05 + 4e-9 * width**2 * tokens + 8e-9 * width * tokens**2


def _large(count: int) -> str:
    """How large a file will be, where that matters."""
    return f", {_megabytes(count)}" if count >= 1e5 else ""


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
