"""Train: a small transformer learns a task, its heads redrawn while it does; a timeline; heads knocked out."""

from dataclasses import replace
from typing import Final

import streamlit as st

from attention.trained import TrainConfig, knocked_out, model, presets, sweep, verify_model
from attention.trained import training as steps
from attention.trained.model import Model
from attention.trained_layers import TRAINED_LAYERS
from attention.verify import ARITHMETIC
from dashboard import (
    cached,
    chart,
    controls,
    fragments,
    heatmap,
    lesson,
    scene_controls,
    sources,
    sweep_panel,
    tables,
    teaching,
    train_controls,
    train_panel,
    training,
    wanted,
)
from dashboard.heatmap import Look, Says
from dashboard.runs import ON_THE_WAY, Status, View
from dashboard.training import SHOWN, Moment, Take, drawn_of, finished, kept, knocked, on_patterns, shown, visitor
from dashboard.verdict_panel import Line, table

KEY: Final = "train"
BEAT: Final = 0.4  # seconds from one picture to the next, while it trains
_KNOCKED: Final = "_knocked"  # the head that is knocked out: of which settings, and its tile


def knock(config: TrainConfig) -> None:
    """Take out the head whose map was clicked; with a second click on it, none any more."""
    clicked = heatmap.clicked(KEY)
    tile = None if clicked == "none" else int(clicked.split("-")[0])
    st.session_state[_KNOCKED] = None if tile == out(config) else (config, tile)


def out(config: TrainConfig) -> int | None:
    """The tile of the head that is knocked out, if it was under these settings."""
    of, tile = st.session_state.get(_KNOCKED) or (None, None)
    return tile if of == config else None


def buttons(take: Take, view: View[Moment] | None) -> None:
    """Train, stop, go on, begin anew: those that make sense now."""
    is_going = view is not None and view.status in ON_THE_WAY
    with st.container(horizontal=True):
        if is_going and wanted.TRAINING.has(take):
            st.button("Stop", icon=":material/stop:", key="train_stop", on_click=wanted.TRAINING.stop)
            return
        if view is None or view.status not in (Status.DONE, Status.FAILED):
            label = "Keep it going" if is_going else "Go on" if view and view.events else "Train"
            icon, go = ":material/play_arrow:", wanted.TRAINING.start
            st.button(label, icon=icon, type="primary", key="train_go", on_click=go, args=(take,))
        if view and view.events:
            st.button("Reset", icon=":material/restart_alt:", key="train_reset", on_click=wanted.anew, args=(take,))


def draw_curves(config: TrainConfig, events: tuple[Moment, ...]) -> None:
    """Accuracy against chance, and the loss."""
    words = train_panel.curves_in_words(config, events)
    for (name, figure), place in zip(train_panel.curves(config, events).items(), st.columns(2), strict=True):
        with place:
            chart.show(figure, words[name], key=f"{KEY}_{name}", identity=f"train-{name}-{config.task}")


def draw_heads(config: TrainConfig, of: str, step: int, found: Model) -> None:
    """Every head of every layer on one sequence, its tokens named."""
    drawn = cached.picture(f"heads, {of}", config, lambda: drawn_of(config, step, found))
    tile = out(config)
    titles = (f"{title}, out" if place == tile else title for place, title in enumerate(drawn.titles))
    heatmap.show(
        replace(drawn, titles=tuple(titles)),
        Look(curve=controls.asked().look.curve),
        f"The heads of {config.layers} layers after {step} steps.",
        key=KEY,
        says=Says(f"Step {step}. Click a head's map to knock it out.", "knocked out, below", 420),
        on_pin=lambda: knock(config),
    )


def draw_numbers(config: TrainConfig, of: str, found: Model) -> None:
    """What each head is good for: how much it looks at the right key, and the accuracy without it."""
    tile = out(config)
    if tile is not None:
        layer, head = divmod(tile, config.heads)
        name = f"without layer {layer}, head {head}, {of}"
        with_it, without = cached.facts(name, config, lambda: knocked(found, layer, head))
        st.markdown(train_panel.said_of_knocked(layer, head, with_it, without))
    shares = cached.facts(f"on patterns, {of}", config, lambda: on_patterns(found))
    lesson.put(tables.html(train_panel.heads_table(shares), kind="ways"))


def draw_verdict(line: Line, config: TrainConfig, of: str, found: Model) -> None:
    """Every step of every layer against PyTorch, on the sequence that is drawn."""
    tolerance = ARITHMETIC["float32"]
    tokens = shown(config).tokens
    verdict = cached.verdict(f"trained, {of}", config, tolerance, lambda: verify_model(found, tokens, tolerance))
    line.end((KEY, config, of), verdict)
    st.header("Step by step against PyTorch", anchor=False)
    table(verdict, "float32")


def elsewhere(config: TrainConfig) -> None:
    """To the other pages, where each layer of the model that comes with the package is a scene: this sequence first."""
    if config != presets()[config.task].config:
        return
    layers = [layer for layer in TRAINED_LAYERS.values() if layer.task == config.task]
    with st.container(horizontal=True, key="elsewhere"):
        for layer in layers:
            if st.button(
                f"Layer {layer.layer} on the other pages",
                key=f"elsewhere_{layer.slug}",
                on_click=scene_controls.show_layer,
                args=(layer, SHOWN),
                icon=":material/grid_view:",
            ):
                st.switch_page("app_pages/heads.py", query_params={})


fragments.begin_page(has_more=False)
st.title("Train: watch heads form", anchor=False)
line = Line(list)
lesson.put(teaching.style(["controls"]))  # the scene's own: here nothing is random but the beginning
st.container(key="lead").markdown(
    "With random weights every head looks like noise. Choose a task, press **Train**, and the heads turn to where the "
    "answer is."
)
config = train_controls.draw()
take = wanted.take_of(config)
first = training.RUNS.look(take, visitor())
buttons(take, first)
is_going = first is not None and first.status in ON_THE_WAY


@st.fragment(key="train_live", run_every=BEAT if is_going else None)
def live() -> None:
    """The run as it is now, whoever wants it; once it is over, or gone, the page learns of it."""
    now = training.RUNS.look(take, visitor())
    if (now.status if now else None) != (first.status if first else None):
        st.rerun()
    events = now.events if now else ()
    models = kept(events)
    if not models:
        step, found = finished(config) if now is None else (0, model.draw(config))
    else:
        at = models[-1].step
        if not is_going and len(models) > 1:
            at = st.select_slider("Step", [one.step for one in models], at, key=f"train_at {take} {at}")
        moment = next(one for one in models if one.step == at)
        assert moment.model is not None
        step, found = moment.step, moment.model
    # what is shown, for the caches: weights that come with the package may have been made on another machine
    of = f"{'trained here' if models else 'as it comes'}, step {step}"
    line.begin((KEY, config, of))
    st.markdown(train_panel.said(config, now, step))
    if now and is_going:
        st.progress(train_panel.share(config, now))
    if events:
        draw_curves(config, events)
    draw_heads(config, of, step, found)
    if not is_going:
        draw_numbers(config, of, found)
        draw_verdict(line, config, of, found)


live()
elsewhere(config)
sweep_panel.draw(config)
sources.draw((steps.train, steps.batch_of, model.Model, knocked_out, sweep))
