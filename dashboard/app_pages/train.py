"""Train: a small transformer learns a task, and its heads are redrawn while it does; afterwards a timeline."""

from typing import Final

import streamlit as st

from attention.trained import model, training
from attention.trained.config import TrainConfig
from attention.trained.model import Model
from dashboard import chart, heatmap, lesson, sources, teaching, train_controls, train_panel
from dashboard.heatmap import Look, Picture, Says
from dashboard.runs import Status, View
from dashboard.training import RUNS, Moment, drawn_of, kept, visitor

KEY: Final = "train"
BEAT: Final = 0.4  # seconds from one picture to the next, while it trains
_WANTED: Final = "_wanted"  # what this visitor trains
ON_THE_WAY: Final = (Status.WAITING, Status.RUNNING)


def see(config: TrainConfig) -> View[Moment] | None:
    """The run, if anybody has asked for it."""
    return RUNS.look(config, visitor())


def start(config: TrainConfig) -> None:
    """Want it, and nothing that was wanted before."""
    stop()
    st.session_state[_WANTED] = config
    RUNS.join(config, visitor())


def stop() -> None:
    """Want nothing any more."""
    if before := st.session_state.pop(_WANTED, None):
        RUNS.leave(before, visitor())


def reset(config: TrainConfig) -> None:
    """Begin anew: the next press of the button trains from step 0."""
    stop()
    RUNS.forget(config)


def buttons(config: TrainConfig, view: View[Moment] | None) -> None:
    """Train, stop, go on, reset: those that make sense now."""
    mine = st.session_state.get(_WANTED) == config
    with st.container(horizontal=True):
        if mine and view and view.status in ON_THE_WAY:
            st.button("Stop", icon=":material/stop:", key="train_stop", on_click=stop)
        elif view is None or view.status is Status.STOPPED or (view.status in ON_THE_WAY):
            label = "Go on" if view and view.events else "Train"
            st.button(
                label, icon=":material/play_arrow:", type="primary", key="train_go", on_click=start, args=(config,)
            )
        if view and view.events and not (mine and view.status in ON_THE_WAY):
            st.button("Reset", icon=":material/restart_alt:", key="train_reset", on_click=reset, args=(config,))


def draw_run(config: TrainConfig, view: View[Moment] | None, at: int | None = None) -> None:
    """Where the run is, its curves, and the heads of the last model, or of the one at a place of the timeline."""
    st.markdown(train_panel.said(config, view))
    events = view.events if view else ()
    if view and view.status in ON_THE_WAY:
        st.progress(train_panel.share(config, view))
    words = train_panel.curves_in_words(config, events)
    for (name, figure), place in zip(train_panel.curves(config, events).items(), st.columns(2), strict=True):
        with place:
            chart.show(figure, words[name], key=f"{KEY}_{name}", identity=f"train-{name}-{config.task}")
    models = kept(events)
    moment = models[-1 if at is None else at] if models else None
    step, found = (moment.step, moment.model) if moment else (0, model.draw(config))
    assert found is not None
    draw_heads(config, step, found)


def draw_heads(config: TrainConfig, step: int, found: Model) -> None:
    """Every head of every layer on one sequence, its tokens named."""
    drawn: Picture = drawn_of(config, step, found)
    heatmap.show(
        drawn,
        Look(curve=st.session_state["curve"]),
        f"The heads of {config.layers} layers after {step} steps.",
        key=KEY,
        says=Says(f"Step {step}. {config.learns.says}", tallest=420),
    )


st.title("Train: watch heads form", anchor=False)
lesson.put(teaching.style(["controls"]))  # the scene's own: here nothing is random but the beginning
st.container(key="lead").markdown(
    "With random weights every head looks like noise. Choose a task, press **Train**, and the heads turn to where the "
    "answer is."
)
asked = train_controls.draw()
first = see(asked)
buttons(asked, first)
running = st.session_state.get(_WANTED) == asked and first is not None and first.status in ON_THE_WAY


@st.fragment(key="train_live", run_every=BEAT if running else None)
def live() -> None:
    """The run as it is now; once it is over, the page learns of it."""
    now = see(asked)
    if running and now and now.status not in ON_THE_WAY:
        st.rerun()
    models = kept(now.events) if now else []
    at = None
    if not running and len(models) > 1:
        steps = [moment.step for moment in models]
        at = steps.index(st.select_slider("Step", steps, steps[-1], key="train_at"))
    draw_run(asked, now, at)


live()
sources.draw((training.train, training.batch_of, model.Model))
