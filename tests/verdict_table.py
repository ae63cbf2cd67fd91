"""What the verdict catches, and how often it cries wolf: `python -m tests.verdict_table`.

First every known mistake: is it caught in the scene that its page begins with, and on the fixed probe, and is the
first step named right? Then correct code over 2,000 random configurations: how often is it called wrong? It ends with
1 if a mistake goes unseen on both or is named at a wrong step, if what is right is called wrong, or at any false alarm.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import torch

from attention import verify
from attention.bugs.catalogue import BUGS, Bug
from attention.bugs.caught import ATTENTION, BLOCK, Scene, first_step, verify_with
from attention.config import DTYPES, AttentionConfig
from attention.gradients import verify_gradients
from attention.mask_config import MaskConfig
from attention.masks import Corner
from attention.properties import broken, properties
from attention.verify import Report, Verdict
from attention.verify_block import BlockConfig, verify_block
from attention.verify_head import HeadConfig, verify_head

CONFIGURATIONS: Final = 2000
# in which correct code keeps the usual tolerance; halves are over it by their rounding, which the verdict says
_WHOLE: Final = ("float64", "float32")


def main() -> int:
    """Print both tables; 1 if the verdict has missed something or cried wolf, else 0."""
    torch.set_num_threads(1)
    missed = mistakes()
    alarms = false_alarms(CONFIGURATIONS)
    print(
        "\nThe verdict can be trusted." if not missed + alarms else f"\nWRONG: {missed} missed, {alarms} false alarms."
    )
    return 1 if missed + alarms else 0


def mistakes() -> int:
    """Print what is caught of each mistake; returns how many are missed or named at a wrong step."""
    print(f"{'mistake':22} {'in':18} {'default scene':26} {'probe':26} first step")
    missed = 0
    for bug in BUGS:
        for where, scene in scenes_of(bug):
            found = verify_with(scene, bug.pieces)
            norm_first = scene.norm_first if isinstance(scene, BlockConfig) else None
            wanted = None if bug.right else bug.first_step(norm_first)
            # the probe of blocks begins with the norms after
            on_probe = None if bug.right else bug.first_step(None if norm_first is None else False)
            told = told_of(found.maths, wanted), told_of(found.probe, on_probe)
            fine = "WRONG" not in "".join(told) and (bug.right or "caught" in "".join(told))
            missed += not fine
            step = "stays equal, as it must" if bug.right else wanted
            print(f"{bug.key:22} {where:18} {told[0]:26} {told[1]:26} {step}{'' if fine else '   <-- MISSED'}")
    return missed


def scenes_of(bug: Bug) -> tuple[tuple[str, Scene], ...]:
    """The scenes that pages begin with: an attention, and a block with its norms after and before."""
    blocks = ("block, post-norm", BLOCK), ("block, pre-norm", replace(BLOCK, norm_first=True))
    return blocks if bug.of_block else (("attention", ATTENTION), *blocks)


def told_of(report: Report, wanted: str | None) -> str:
    """What a report told, beside the step that it has to name first; None where it has to be equal."""
    found = first_step(report)
    if found is None:
        return "equal" if wanted is None else "not shown here"
    return f"caught at {found.removeprefix('attention.')}" if found == wanted else f"WRONG: {found}"


def false_alarms(count: int) -> int:
    """Print how often correct code is called wrong; returns how often."""
    draw = random.Random(20)  # not the process's own state
    alarms: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    rounding: Counter[str] = Counter()
    start = time.perf_counter()
    for number in range(count):
        kind, dtype, judge = scene(draw, number)
        found = judge()
        runs[kind] += 1
        runs[dtype] += 1
        alarms[kind] += not (found.maths.equal and found.probe.equal)
        # few numbers under a norm make much of a rounding: there the line says "rounding", and no alarm
        over = not found.arithmetic.equal
        rounding[dtype] += over
        alarms[kind] += over and dtype in _WHOLE and kind != "block"
    for _ in range(count // 10):
        config = random_config(draw, 24)
        gradients = verify_gradients(config)
        runs.update(("gradients", "properties"))
        alarms["gradients"] += not gradients.maths.equal
        alarms["gradients"] += config.dtype in _WHOLE and not gradients.arithmetic.equal
        alarms["properties"] += any(broken(properties(config)))
    print(f"\nCorrect code over {count} random configurations, {time.perf_counter() - start:.0f} s:")
    for kind in ("attention", "under a mask", "one head", "block", "gradients", "properties"):
        print(f"  {kind:13} {runs[kind]:5} runs, {alarms[kind]} false alarms")
    print("  over the usual tolerance by rounding, the maths equal, as the verdict then says:")
    print("  " + ", ".join(f"{dtype} {rounding[dtype]} of {runs[dtype]}" for dtype in DTYPES))
    return alarms.total()


def scene(draw: random.Random, number: int) -> tuple[str, str, Callable[[], Verdict]]:
    """A random scene: what it is, its dtype, and how to judge it."""
    config = random_config(draw, 48)
    kind = ("attention", "under a mask", "attention", "one head", "block")[number % 5]
    judges: dict[str, Callable[[], Verdict]] = {
        "attention": lambda: verify(config),
        "under a mask": lambda: verify(config, mask=random_mask(draw, config)),
        "one head": lambda: verify_head(HeadConfig(config, draw.randint(1, 40), draw.randint(1, 40))),
        "block": lambda: verify_block(
            BlockConfig(config, draw.randint(1, 3), draw.random() < 0.5, draw.choice(["gelu", "relu"]))
        ),
    }
    return kind, config.dtype, judges[kind]


def random_config(draw: random.Random, most_tokens: int) -> AttentionConfig:
    """Small sizes as often as large ones: there correct code is nearest to its tolerance."""
    heads, head_dim = draw.choice([1, 2, 3, 4, 5, 8, 12]), round(2 ** draw.uniform(0, 5.5))
    return AttentionConfig(
        embed_dim=heads * head_dim,
        num_heads=heads,
        num_tokens=(round(2 ** draw.uniform(0, 5.6)) - 1) % most_tokens + 1,
        seed=draw.randrange(2**32),
        causal=draw.random() < 0.5,
        dtype=draw.choice(list(DTYPES)),
    )


def random_mask(draw: random.Random, config: AttentionConfig) -> MaskConfig:
    """Any rules together, empty rows and unequal numbers of queries and keys included."""
    most = config.num_tokens

    def maybe(smallest: int) -> int | None:
        return draw.randint(smallest, most) if draw.random() < 0.4 else None

    return MaskConfig(
        num_queries=draw.randint(1, most),
        num_keys=draw.randint(1, most),
        causal=config.causal,
        window=maybe(1),
        prefix=maybe(0),
        padding_left=maybe(0) or 0,
        padding_right=maybe(0) or 0,
        document=maybe(1),
        stride=maybe(1),
        corner=draw.choice(list(Corner)),
    )


if __name__ == "__main__":
    sys.exit(main())
