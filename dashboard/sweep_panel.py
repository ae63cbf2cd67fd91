"""The sweep below the page that trains: what it is asked, where it is, and the grid that fills in."""

from typing import Final

import streamlit as st

from attention.trained import LESSONS, SweepConfig, Swept, TrainConfig
from attention.trained.measuring import FRESH
from attention.trained.sweeping import asks_for_the_next
from dashboard import cached, sweep_grid, sweeping, train_controls, wanted
from dashboard.runs import ON_THE_WAY, Status, View
from dashboard.sweep_grid import name, percent
from dashboard.training import visitor

KEY: Final = "sweep"
BEAT: Final = 1.0  # seconds from one look to the next, while it runs
GOOD: Final = 0.9


def start(config: SweepConfig) -> None:
    """Want it, and no other that was wanted before; one that failed begins anew."""
    now = sweeping.SWEEPS.look(config, visitor())
    if now and now.status is Status.FAILED:
        sweeping.SWEEPS.forget(config)
    wanted.SWEEP.start(config)


def draw(config: TrainConfig) -> None:
    """Draw all of it; it looks again by itself only while a sweep of this task runs, whoever asked for it."""
    swept = sweeping.of(config)
    st.header("Sweep: heads × layers × mask", anchor=False)
    first = sweeping.SWEEPS.look(swept, visitor())
    is_on_the_way = first is not None and first.status in ON_THE_WAY
    is_mine = is_on_the_way and wanted.SWEEP.has(swept)
    _button(swept, first, is_mine)

    def choose() -> None:
        if cell := sweep_grid.chosen(swept, KEY):
            train_controls.set_up(cell)
        st.rerun()  # all of the page: the controls are not in the fragment

    @st.fragment(key="sweep_live", run_every=BEAT if is_on_the_way else None)
    def live() -> None:
        now = sweeping.SWEEPS.look(swept, visitor())
        if is_on_the_way and (now is None or now.status not in ON_THE_WAY):
            st.rerun()  # its button changes, and nothing need be looked at any more
        found = sweeping.latest(now.events if now else ())
        st.markdown(said(swept, now, is_mine))
        if now and now.status in ON_THE_WAY:
            st.progress(sweeping.share(swept, found))
        if ended := sweeping.ended(found):
            st.markdown(in_words(ended))
        sweep_grid.show(swept, found, config, "Accuracy of every setting", key=KEY, on_choose=choose)
        st.caption(_legend(swept, config))

    live()


def _button(config: SweepConfig, view: View[Swept] | None, is_mine: bool) -> None:
    """The one that makes sense now; none once it is done."""
    if is_mine:
        st.button("Stop", icon=":material/stop:", key="sweep_stop", on_click=wanted.SWEEP.stop)
        return
    if view is None or not view.events:
        label = "Sweep"
    elif view.status is Status.DONE:
        return
    else:
        label = {Status.STOPPED: "Go on", Status.FAILED: "Sweep again"}.get(view.status, "Keep it going")
    st.button(label, icon=":material/grid_on:", key="sweep_go", on_click=start, args=(config,))


def said(config: SweepConfig, view: View[Swept] | None, is_mine: bool) -> str:
    """Where the sweep is, as Markdown."""
    count = len(config.cells)
    if view is None:
        return (
            f":gray-badge[:material/grid_on: not swept] Press **Sweep**: the task is learnt {count} times, with each "
            f"number of heads, with 1 layer and 2, without a mask and with one. It takes a few minutes."
        )
    found = sweeping.latest(view.events)
    done = f"**{len(sweeping.ended(found))} of {count}** settings trained"
    whose = "" if is_mine else " Somebody else has asked for it, and it stops when nobody wants it any more."
    match view.status:
        case Status.WAITING:
            return f":orange-badge[:material/hourglass_top: waiting] Number {view.place} in the queue; {done}.{whose}"
        case Status.RUNNING:
            at = "".join(f"; now {name(one.cell)}" for one in found.values() if not one.is_over)
            return f":blue-badge[:material/model_training: sweeping] {done}{at}; {_left(config, view)}.{whose}"
        case Status.STOPPED:
            return f":orange-badge[:material/pause_circle: stopped] {done}."
        case Status.DONE:
            return f":green-badge[:material/check_circle: swept] {done}, after {view.seconds:.0f} s."
        case Status.FAILED:
            return f":red-badge[:material/cancel: failed] {view.message} {done}."


def _left(config: SweepConfig, view: View[Swept]) -> str:
    """About how long it will take yet."""
    done = sweeping.share(config, sweeping.latest(view.events))
    if not done:
        return "just begun"
    seconds = view.left(done)
    return f"about {seconds / 60:.0f} min left" if seconds >= 100 else f"about {seconds:.0f} s left"


def in_words(ended: list[Swept]) -> str:
    """What the grid shows, for those who do not see it, as Markdown: the best, the worst, how many learn the task."""
    known = sorted((one for one in ended if one.accuracy is not None), key=lambda one: -(one.accuracy or 0.0))
    parts = []
    if known:
        best, worst = (percent(known[place].accuracy or 0.0) for place in (0, -1))
        first = _those(known, best)
        parts.append(f"At best **{best}** of fresh positions are right: {first}.")
        if best != worst:
            parts.append(f"At worst **{worst}**: {_those(known, worst)}.")
        good = sum((one.accuracy or 0.0) >= GOOD for one in known)
        parts.append(f"{good} of {len(ended)} get {GOOD:.0%} or more.")
    if diverged := [one for one in ended if one.diverged]:
        parts.append(f"Diverged: {'; '.join(name(one.cell) for one in diverged)}.")
    return " ".join(parts)


def _those(known: list[Swept], accuracy: str) -> str:
    """The settings that have this accuracy as it is said, the first by name."""
    here = [one for one in known if percent(one.accuracy or 0.0) == accuracy]
    more = f" (and {len(here) - 1} more)" if len(here) > 1 else ""
    return f"{name(here[0].cell)}{more}"


def _legend(config: SweepConfig, at: TrainConfig) -> str:
    """How the grid is to be read."""
    lesson = LESSONS[config.task].works
    here = "the outlined cell has the settings above" if at in config.cells else "the settings above are none of these"
    read = (
        f"Positions right in {FRESH} fresh sequences after {lesson.steps} steps; colour from 0% (dark) to 100% "
        f"(bright); chance is {lesson.learns.chance:.1%}; {here}. A click on a cell sets it up above."
    )
    if cached.facts("asks for the next", lesson, lambda: asks_for_the_next(lesson.learns)):
        return f"{read} Without a mask this task is easy: what is asked for is the next token, there to be looked at."
    return read
