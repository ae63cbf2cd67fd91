"""What `streamlit run dashboard/app.py` starts: the ASGI app with its script, its route and its warm-up."""

import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.middleware import Middleware

from dashboard import assets, downloads


@asynccontextmanager
async def warm_up(_app: st.App) -> AsyncGenerator[None, None]:
    """Do before the first visitor what the first visitor would wait for."""
    import torch

    from attention import AttentionConfig, verify
    from attention.bugs.blind_spots import blind_spots
    from attention.four_ways import FourWays
    from attention.verify_block import BlockConfig, verify_block
    from attention.verify_head import HeadConfig, verify_head
    from dashboard import lesson, memory, page_controls  # noqa: F401 (imported here so that no visitor waits for it)

    # One thread a run: on a small machine a second one would take its core from other visitors, or the browser.
    torch.set_num_threads(1)
    memory.give_back_large()
    assets.packed("plotly.min.js")
    small = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5)
    verify(AttentionConfig())
    verify_head(HeadConfig(small, 4, 4))
    verify_block(BlockConfig(small))
    FourWays(small).answers()
    for scene in (AttentionConfig(), BlockConfig(AttentionConfig())):
        blind_spots(scene)
    # What is alive now stays: a collection of it after every run would cost each visitor time.
    gc.freeze()
    yield


app = st.App(
    "main.py",
    lifespan=warm_up,
    routes=[assets.route()],
    middleware=[Middleware(assets.Early), Middleware(downloads.Unpacked)],
)
