"""What the page that trains shows besides the heads: the curves, where the run is, the heads in numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attention.trained import TrainConfig, presets
from dashboard.runs import Status, View
from dashboard.tables import Mark, Table, Value
from dashboard.training import Moment

LEARNT: Final = 0.9  # accuracy: under it a run has ended, and the heads do not show what they were to learn
SHARP: Final = 0.8  # a head that puts so much on the right key is marked
_HEIGHT: Final = 230
_POINTS: Final = 150  # that are drawn of a curve: more would only cost time


def curves(config: TrainConfig, moments: Sequence[Moment]) -> dict[str, dict[str, Any]]:
    """Plotly figures by name: accuracy against chance, and the loss."""
    every = max(1, len(moments) // _POINTS)
    some = [*moments[::every], *moments[-1:]]
    steps = [moment.step for moment in some]
    chance = config.learns.chance
    accuracy = [
        _line("accuracy", steps, [moment.accuracy for moment in some], "%{y:.1%}"),
        _line("chance", [0, config.steps], [chance, chance], "%{y:.1%}", dash="dot"),
    ]
    loss = [_line("loss", steps, [moment.loss for moment in some], "%{y:.3f}")]
    return {
        "accuracy": _figure(accuracy, config.steps, {"range": [0, 1.04], "tickformat": ".0%"}),
        "loss": _figure(loss, config.steps, {"rangemode": "tozero"}),
    }


def _line(name: str, x: Sequence[float], y: Sequence[float], hover: str, dash: str = "solid") -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y), "line": {"dash": dash},
        "hovertemplate": f"{hover}<extra>{name}</extra>",
    }  # fmt: skip


def _figure(lines: list[dict[str, Any]], steps: int, y: dict[str, Any]) -> dict[str, Any]:
    return {
        "data": lines,
        "layout": {
            "height": _HEIGHT, "margin": {"l": 50, "r": 10, "t": 30, "b": 45},
            "xaxis": {"title": {"text": "step"}, "range": [0, steps]}, "yaxis": y,
            "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "xanchor": "left"},
        },
    }  # fmt: skip


def curves_in_words(config: TrainConfig, moments: Sequence[Moment]) -> dict[str, str]:
    """What the curves show, for those who do not see them."""
    if not moments:
        return {"accuracy": "Accuracy: nothing yet.", "loss": "Loss: nothing yet."}
    last = moments[-1]
    chance = f"chance is {config.learns.chance:.1%}"
    return {
        "accuracy": f"Accuracy on fresh sequences: {last.accuracy:.1%} at step {last.step}; {chance}.",
        "loss": f"Loss: {moments[0].loss:.3f} at step {moments[0].step}, {last.loss:.3f} at step {last.step}.",
    }


def said(config: TrainConfig, view: View[Moment] | None, shown: int) -> str:
    """Where the run is, as Markdown; `shown` is the step that is drawn."""
    task = config.learns.says
    if view is None:
        if shown:
            return f":green-badge[:material/check_circle: trained before] {task} {_reached(config)}"
        return f":gray-badge[:material/hourglass_empty: untrained] {task} Press **Train** and watch the heads."
    last = view.events[-1] if view.events else None
    at = f"**{last.accuracy:.1%}** of fresh positions right at step {last.step}" if last else "not begun yet"
    match view.status:
        case Status.WAITING:
            return f":orange-badge[:material/hourglass_top: waiting] Number {view.place} in the queue; {at}."
        case Status.RUNNING:
            return f":blue-badge[:material/model_training: training] {at}, {_left(config, view)}."
        case Status.STOPPED:
            return f":orange-badge[:material/pause_circle: stopped] {at}{f' of {config.steps}' if last else ''}."
        case Status.DONE:
            learnt = last is not None and last.accuracy >= LEARNT
            badge = (
                "green-badge[:material/check_circle: trained]" if learnt else "orange-badge[:material/help: not learnt]"
            )
            return f":{badge} {at}, after {view.seconds:.0f} s."
        case Status.FAILED:
            return f":red-badge[:material/cancel: failed] {view.message}"


def _reached(config: TrainConfig) -> str:
    """What the model that comes with the package reaches, and what fails."""
    preset = presets()[config.task]
    words = f"**{preset.accuracy:.1%}** of fresh positions right after {config.steps} steps."
    if preset.failed and preset.failed_accuracy is not None:
        words += f" {_change(config, preset.failed)} it gets to {preset.failed_accuracy:.1%}."
    return words


def _change(works: TrainConfig, fails: TrainConfig) -> str:
    """What differs, in words."""
    if works.layers != fails.layers:
        return f"With {fails.layers} {'layer' if fails.layers == 1 else 'layers'}"
    if works.heads != fails.heads:
        return f"With {fails.heads} {'head' if fails.heads == 1 else 'heads'}"
    return "Under a causal mask" if fails.causal else "Without a mask"


def said_of_knocked(layer: int, head: int, with_it: float, without: float) -> str:
    """The accuracy with a head and without it, as Markdown."""
    return (
        f":orange-badge[:material/block: knocked out] **Without layer {layer}, head {head}: {without:.1%}** of fresh "
        f"positions right; with it {with_it:.1%}."
    )


def share(config: TrainConfig, view: View[Moment]) -> float:
    """How much of the run is done, 0 to 1."""
    return view.events[-1].step / config.steps if view.events else 0.0


def _left(config: TrainConfig, view: View[Moment]) -> str:
    """About how long it will take yet."""
    done = share(config, view)
    if not done:
        return "just begun"
    return f"about {view.left(done):.0f} s left"


def heads_table(found: Mapping[str, Sequence[Sequence[float]]]) -> Table:
    """One row a head: how much of its attention lies on the right key, for each pattern of the task."""
    layers = next(iter(found.values()))
    rows: list[Sequence[Value]] = []
    for layer, heads in enumerate(layers):
        for head in range(len(heads)):
            shares = [by_layer[layer][head] for by_layer in found.values()]
            rows.append((f"layer {layer}, head {head}", *(_share(share) for share in shares)))
    return Table("Attention on the right key, mean over fresh sequences", ("head", *found), rows)


def _share(share: float) -> Value:
    return Mark(f"✓ {share:.1%}", "good") if share >= SHARP else f"{share:.1%}"
