"""The caches: plain keys, bounded, and nothing in them that one visitor can change for another."""

import dataclasses
import inspect
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, get_args

import pytest
import torch

from attention.claims import of_heads
from attention.compare import Tolerance
from attention.config import DTYPES, AttentionConfig
from attention.mask_config import MaskConfig
from attention.masks import Corner
from attention.multi_head import attend_as_configured
from attention.scenes import Scene
from attention.trained import TrainConfig
from attention.verify import ARITHMETIC, Report, Verdict, sides_of, verify
from attention.verify_block import BlockConfig
from attention.verify_head import HeadConfig
from dashboard import cached, heatmap
from tests.dashboard.helpers import SMALL, Reader, link, open_scene

USUAL: Final = ARITHMETIC["float32"]


@pytest.fixture(autouse=True)
def empty() -> None:
    """Each test begins with empty caches: the first call computes, the second is answered from the cache."""
    for function in cached_functions().values():
        function.clear()


def cached_functions() -> dict[str, Any]:
    return {name: value for name, value in vars(cached).items() if hasattr(value, "clear") and callable(value)}


def packed(config: AttentionConfig) -> heatmap.Picture:
    return heatmap.picture(attend_as_configured(config).weights[0].float().numpy(), None, cached.identity(config))


def picture(config: AttentionConfig) -> heatmap.Picture:
    return cached.picture("heads", config, lambda: packed(config))


def verdict(config: AttentionConfig, tolerance: Tolerance = USUAL) -> Verdict:
    return cached.verdict("heads", config, tolerance, lambda: verify(config, tolerance))


def test_each_cached_function_takes_plain_arguments() -> None:  # C01
    calls: dict[str, Callable[[], object]] = {
        "picture": lambda: picture(SMALL),
        "verdict": lambda: verdict(SMALL),
        "facts": lambda: cached.facts("claims", SMALL, lambda: of_heads(SMALL, sides_of(SMALL))),
    }
    assert set(calls) == set(cached_functions()), "a new cached function must be called here through its decorator too"
    for name, call in calls.items():
        first, second = call(), call()
        assert first == second, name


def test_keys_are_frozen_values() -> None:  # C01, C03, C07: no user's text, no optional trailing string, no tensor
    allowed = {cached.Key, Tolerance, str}
    plain = (AttentionConfig, HeadConfig, BlockConfig, MaskConfig, TrainConfig, Tolerance)
    assert get_args(cached.Key) == (*get_args(Scene), TrainConfig)
    for name, function in cached_functions().items():
        for parameter in inspect.signature(function).parameters.values():
            if not parameter.name.startswith("_"):  # Streamlit leaves those out of the key
                assert parameter.annotation in allowed, f"{name}({parameter})"
                assert parameter.default is inspect.Parameter.empty, f"{name}({parameter})"
    for kind in plain:
        assert dataclasses.fields(kind)
        assert kind.__hash__ is not None
        kinds = {field.type for field in dataclasses.fields(kind)}
        assert kinds <= {int, float, bool, str, "int", "float", int | None, Corner, AttentionConfig}


def test_the_trace_is_asked_for_once_a_scene() -> None:
    calls: list[AttentionConfig] = []

    def counted() -> heatmap.Picture:
        calls.append(SMALL)
        return packed(SMALL)

    for _ in range(3):
        cached.picture("heads", SMALL, counted)
    assert calls == [SMALL]


def test_the_name_tells_a_scenes_pictures_apart() -> None:  # C03
    first = cached.picture("heads", SMALL, lambda: packed(SMALL))
    other = cached.picture("pairs", SMALL, lambda: packed(dataclasses.replace(SMALL, seed=9)))
    assert first.numbers != other.numbers
    for name, answer in (("a", 1), ("b", 2), ("ab", 3)):
        assert cached.facts(name, SMALL, partial(int, answer)) == answer


def test_scenes_of_different_kinds_never_meet() -> None:  # C03: equal numbers in another kind of config
    mask = MaskConfig(num_queries=5, num_keys=5)
    names_of_two = ("window", "prefix", "document", "stride", "padding_left", "padding_right", "num_keys")
    changes: list[dict[str, Any]] = [{name: 2} for name in names_of_two]
    configs: list[Scene] = [
        SMALL,
        HeadConfig(SMALL, 4, 4),
        HeadConfig(SMALL, 4, 8),
        BlockConfig(SMALL),
        BlockConfig(SMALL, 2),
        BlockConfig(SMALL, norm_first=True),
        BlockConfig(SMALL, activation="relu"),
        (SMALL, mask),
        *((SMALL, dataclasses.replace(mask, **change)) for change in changes),
        (SMALL, dataclasses.replace(mask, corner=Corner.BOTTOM_RIGHT)),
    ]
    found = [cached.facts("place", config, partial(int, place)) for place, config in enumerate(configs)]
    assert found == list(range(len(configs)))
    names = {cached.identity(config) for config in configs}
    assert len(names) == len(configs)
    assert all(name.replace("-", "").isalnum() for name in names), "safe in a file's name"


def test_every_setting_is_part_of_the_key() -> None:  # C03
    others = (
        dataclasses.replace(SMALL, embed_dim=24),
        dataclasses.replace(SMALL, num_heads=4),
        dataclasses.replace(SMALL, num_tokens=6),
        dataclasses.replace(SMALL, seed=43),
        dataclasses.replace(SMALL, causal=False),
        dataclasses.replace(SMALL, dtype="float64"),
        # one and the other way round: keys that join their parts would mix them up
        dataclasses.replace(SMALL, num_tokens=1, seed=16),
        dataclasses.replace(SMALL, num_tokens=11, seed=6),
    )
    pictures = [picture(config) for config in (SMALL, *others)]
    assert len({(drawn.identity, drawn.numbers) for drawn in pictures}) == len(pictures)
    assert [drawn.identity for drawn in pictures] == [cached.identity(config) for config in (SMALL, *others)]
    verdicts = [verdict(config) for config in (SMALL, *others)]
    for config, found in zip((SMALL, *others), verdicts, strict=True):
        assert found == verify(config, USUAL)


def test_both_tolerances_are_part_of_the_key() -> None:  # C03
    for tolerance in (USUAL, Tolerance(rtol=USUAL.atol, atol=USUAL.rtol), Tolerance(rtol=0, atol=0)):
        found = verdict(SMALL, tolerance)
        unscaled = {check.tolerance for check in found.arithmetic.checks if check.step != "scores"}
        assert unscaled == {tolerance}
        assert found == verify(SMALL, tolerance)


def test_identities_tell_all_scenes_apart() -> None:
    # the browser redraws when it changes, and a downloaded file is named by it
    configs = [
        AttentionConfig(embed_dim=embed_dim, num_heads=heads, num_tokens=tokens, seed=seed, causal=causal, dtype=dtype)
        for embed_dim, heads, tokens, seed, causal, dtype in itertools.product(
            (12, 24, 132), (1, 12), (1, 2, 12, 121), (0, 1, 11), (True, False), DTYPES
        )
    ]
    names = {cached.identity(config) for config in configs}
    assert len(names) == len(configs)
    assert all(name.replace("-", "").isalnum() for name in names), "safe in a file's name"


def test_what_is_handed_out_is_frozen() -> None:  # C05
    found = verdict(SMALL)
    for value in (
        picture(SMALL), found, found.maths, found.probe, found.maths.checks[0], found.distances[0], USUAL, SMALL,
    ):  # fmt: skip
        name = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)
    assert isinstance(picture(SMALL).numbers, bytes)
    assert isinstance(found.maths.checks, tuple)


@pytest.mark.parametrize("filled", [False, True], ids=["the first call's", "a later call's"])
def test_a_changed_result_does_not_reach_the_next_visitor(filled: bool) -> None:  # C05
    truth = heatmap.Picture(**vars(picture(SMALL)))
    right = verify(SMALL, USUAL)
    if not filled:
        empty_caches()
    mine, my_verdict = picture(SMALL), verdict(SMALL)
    # past the frozen dataclass, as a determined bug would
    object.__setattr__(mine, "numbers", b"changed")
    object.__setattr__(mine, "titles", ())
    object.__setattr__(my_verdict.maths.checks[0], "max_abs", 99.0)
    object.__setattr__(my_verdict, "maths", Report(()))
    assert picture(SMALL) == truth
    assert verdict(SMALL) == right


def empty_caches() -> None:
    for function in cached_functions().values():
        function.clear()


def test_a_changed_trace_does_not_reach_the_next_visitor() -> None:  # C05: tensors can be changed, so none is kept
    before = picture(SMALL)
    mine = attend_as_configured(SMALL)
    mine.weights.add_(1)
    mine.q.zero_()
    again = attend_as_configured(SMALL)
    assert again.weights.max() <= 1
    assert again.q.abs().max() > 0
    empty_caches()
    assert picture(SMALL) == before


def test_two_visitors_cannot_change_each_others_page() -> None:  # C05, X01
    first, second = open_scene(SMALL), Reader(**{**link(SMALL), "seed": "7", "dtype": "float64"})
    message, said = first.message, first.verdict
    second.set("seed", 42).set("rtol", 0.0).set("atol", 0.0).set("num_tokens", 9).set("dtype", "float32")
    assert second.faults == []
    assert open_scene(SMALL).message == message
    first.rerun()
    assert (first.message, first.verdict) == (message, said)
    # and with equal settings both see the same numbers
    assert second.set("num_tokens", 5).scene.numbers == first.scene.numbers


def test_a_visitor_changes_nothing_in_the_process() -> None:  # X03, R07
    def state() -> tuple[object, ...]:
        return (
            torch.get_default_dtype(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.get_rng_state().tolist(),
        )

    before = state()
    for dtype in DTYPES:
        open_scene(SMALL, dtype=dtype).set("seed", 3)
    assert state() == before


def test_a_trace_carries_no_gradients() -> None:  # P25: such a tensor refuses to become an array
    trace = attend_as_configured(SMALL)
    assert not any(getattr(trace, field.name).requires_grad for field in dataclasses.fields(trace))
    assert torch.is_grad_enabled()


# Several visitors at once ---------------------------------------------------------------------------------------------


def together(*asked: Callable[[], object]) -> list[object]:
    """Each in a thread of its own, all at once; what each got."""
    ready = threading.Barrier(len(asked))

    def run(ask: Callable[[], object]) -> object:
        ready.wait(10)
        return ask()

    with ThreadPoolExecutor(len(asked)) as pool:
        return [future.result(30) for future in [pool.submit(run, ask) for ask in asked]]


def test_what_many_ask_for_at_once_is_made_once() -> None:
    made: list[int] = []
    # the maker goes on only when all the others have come: they then wait for it, or come too late to make it too
    come = threading.Barrier(8)

    def make() -> int:
        made.append(1)
        return 42

    def ask() -> object:
        come.wait(10)
        return cached.facts("asked for by many", SMALL, make)

    assert together(*[ask] * 8) == [42] * 8
    assert len(made) == 1


def test_no_more_are_made_at_once_than_there_are_cores() -> None:
    cores = os.cpu_count() or 1
    lock, now, most = threading.Lock(), 0, 0
    full = threading.Semaphore(0)

    def make() -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        if now == cores:
            full.release(cores)
        full.acquire(timeout=0.2)  # until as many are in as may be, or nobody else comes
        with lock:
            now -= 1
        return 1

    names = [f"one of many {place}" for place in range(3 * cores)]
    together(*[partial(cached.facts, name, SMALL, make) for name in names])
    assert most == cores


def test_one_within_another_is_refused() -> None:
    # two visitors, each in with what needs the other's, would wait for ever
    with pytest.raises(RuntimeError, match="made within another"):
        cached.facts("outer", SMALL, lambda: cached.facts("inner", SMALL, lambda: 1))
    assert cached.facts("outer", SMALL, lambda: 2) == 2, "and whoever failed has left the gate"
    assert cached.facts("inner", SMALL, lambda: 3) == 3


def test_what_failed_is_tried_again_by_whoever_waited() -> None:
    tried: list[int] = []

    def make() -> int:
        tried.append(1)
        if len(tried) == 1:
            raise ValueError("once")
        return 7

    def ask() -> object:
        try:
            return cached.facts("fails once", SMALL, make)
        except ValueError as error:
            return str(error)

    found = together(*[ask] * 5)
    assert sorted(map(str, found)) == ["7"] * 4 + ["once"]
    assert cached.facts("fails once", SMALL, make) == 7


def test_what_runs_for_long_gives_way_while_somebody_waits_for_a_value() -> None:
    cached.give_way(60)  # at once: nobody needs anything
    inside, may_end, gone_on = threading.Event(), threading.Event(), threading.Event()

    def make() -> int:
        inside.set()
        assert may_end.wait(60)
        return 7

    def long() -> None:
        cached.give_way(60)
        gone_on.set()

    visitors = [threading.Thread(target=cached.gated, args=(make,)) for _ in range(2)]
    for visitor in visitors:
        visitor.start()
    assert inside.wait(60)
    background = threading.Thread(target=long)
    background.start()
    assert not gone_on.wait(0.05)
    may_end.set()
    assert gone_on.wait(60)
    for thread in (*visitors, background):
        thread.join(60)


def test_in_a_class_that_never_rests_it_goes_on_after_a_while() -> None:
    cached.gated(lambda: cached.give_way(0.001))  # while a value is being made
