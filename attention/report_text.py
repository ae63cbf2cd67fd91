"""A verdict as a report to be taken home: JSON with every number as it is, Markdown with a row for each step."""

import json
import math
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from urllib.parse import quote

from attention.compare import Check, Tolerance
from attention.scenes import Scene, config_of
from attention.verify import MATHS, Report, Verdict
from attention.verify_block import BlockConfig
from attention.verify_head import HeadConfig

_PACKAGES: Final = ("attention-lab", "torch", "numpy", "streamlit")
_COLUMNS: Final = (
    "step", "shape", "maths", "largest difference", "arithmetic", "largest difference", "relative", "worst cell",
    "of its tolerance", "ours off float64", "PyTorch's off float64",
)  # fmt: skip


_OF_LINKS: Final = "%/:?=&#+~.,;@[]!$'()*-_"  # what an address has besides letters and digits


@dataclass(frozen=True)
class About:
    """What a verdict is on: the scene, the tolerance of the arithmetic, a link to the scene, and a word if need be."""

    scene: Scene
    tolerance: Tolerance
    link: str = ""
    note: str = ""


def versions() -> dict[str, str]:
    """The versions of what the numbers depend on, and the kind of machine."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found | {"platform": f"{platform.system()} {platform.machine()}"}


def scene_as_dict(scene: Scene) -> dict[str, Any]:
    """A scene flat: the config's fields, and those of one head, of blocks, or of a mask."""
    config = asdict(config_of(scene))
    if isinstance(scene, tuple):
        return {"kind": "attention under a mask", **config, "mask": asdict(scene[1])}
    if isinstance(scene, HeadConfig):
        which = {"head": scene.head} if scene.scene.trained else {}
        return {"kind": "one head", **config, "head_dim": scene.head_dim, "value_dim": scene.value_dim} | which
    if isinstance(scene, BlockConfig):
        own = {"depth": scene.depth, "norm_first": scene.norm_first, "activation": scene.activation}
        return {"kind": "transformer blocks", **config, **own}
    return {"kind": "attention", **config}


def as_json(verdict: Verdict, about: About) -> str:
    """All of a verdict as strict JSON. What is no finite number is a string: "NaN", "Infinity" or "-Infinity"."""
    dtype = config_of(about.scene).dtype
    everything = {
        "scene": scene_as_dict(about.scene),
        "link": about.link,
        "note": about.note,
        "versions": versions(),
        "rule": "|ours - x| <= atol + rtol |x|, where x is PyTorch's number; scores have sqrt(D) times the atol",
        "tolerances": {
            "maths": {"dtype": "float64", **asdict(MATHS)},
            "arithmetic": {"dtype": dtype, **asdict(about.tolerance)},
        },
        "not finite": 'as a string: "NaN", "Infinity" or "-Infinity"',
        "equal": verdict.equal,
        "steps": [
            {
                "step": maths.step,
                "shape": maths.shape,
                "maths": _check(maths),
                "arithmetic": _check(arithmetic),
                "off the float64 answer": {"ours": distance.ours, "pytorch": distance.pytorch},
            }
            for maths, arithmetic, distance in verdict.rows
        ],
        "probe": [{"step": check.step, "shape": check.shape, **_check(check)} for check in verdict.probe.checks],
    }
    return json.dumps(_strict(everything), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_markdown(verdict: Verdict, about: About) -> str:
    """The verdict for a reader: what it is on, both tolerances, a row for each step, and what differs first."""
    dtype = config_of(about.scene).dtype
    parts = [
        "# Attention checked against PyTorch's, step by step",
        _escaped(about.note),
        "\n".join((*_listed(scene_as_dict(about.scene)), *_linked(about.link))),
        "\n".join(_listed(versions())),
        _rule(about.tolerance, dtype),
        "\n".join(_table(verdict)),
        *(_said(name, report) for name, report in _reports(verdict)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _rule(tolerance: Tolerance, dtype: str) -> str:
    return (
        "A step is equal if |ours − x| ≤ atol + rtol · |x|, where x is PyTorch's number. The maths: everything in "
        f"float64, {_tolerance(MATHS)}. The arithmetic: in {dtype}, {_tolerance(tolerance)}. Scores have √D times the "
        "atol."
    )


def _table(verdict: Verdict) -> Iterator[str]:
    yield _line(*_COLUMNS)
    yield _line(*("---" if place == 0 else "--:" for place in range(len(_COLUMNS))))
    for maths, check, distance in verdict.rows:
        yield _line(
            f"`{maths.step}`",
            " × ".join(map(str, maths.shape)),
            maths.outcome,
            number(maths.max_abs),
            check.outcome,
            number(check.max_abs),
            number(check.max_rel),
            ", ".join(map(str, check.worst or ())),
            f"{100 * check.margin:.3g} %",
            number(distance.ours),
            number(distance.pytorch),
        )


def _reports(verdict: Verdict) -> tuple[tuple[str, Report], ...]:
    return ("maths", verdict.maths), ("arithmetic", verdict.arithmetic), ("fixed probe", verdict.probe)


def _said(name: str, report: Report) -> str:
    checks, first = report.checks, report.first_difference
    if first is None:
        largest = max((check.max_abs for check in checks), default=0.0)
        return f"The {name}: all {len(checks)} steps equal, largest difference {number(largest)}."
    return f"The {name}: first at `{first.step}`: {_escaped(first.reason)}."


def _check(check: Check) -> dict[str, Any]:
    found = asdict(check)
    del found["step"], found["shape"]
    return found


def _strict(value: Any) -> Any:
    """The same with a string for each number that JSON has none for."""
    if isinstance(value, dict):
        return {key: _strict(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _listed(facts: dict[str, Any]) -> list[str]:
    return [f"- {name}: {_escaped(_plain(value))}" for name, value in facts.items()]


def _linked(link: str) -> list[str]:
    return [f"- link: <{quote(link, safe=_OF_LINKS)}>"] if link else []


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items() if one is not None)
    return str(value)


def _escaped(text: str) -> str:
    """A text that Markdown shows as it is, on one line."""
    return "".join(f"\\{sign}" if sign in "\\`*{}[]<>#|" else sign for sign in " ".join(text.split()))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _tolerance(tolerance: Tolerance) -> str:
    return f"rtol {tolerance.rtol:g} and atol {tolerance.atol:g}"


def number(value: float) -> str:
    """A difference; never rounded to 0 (N23)."""
    return "0" if value == 0 else f"{value:.2e}"
