"""Attention from scratch, step by step, and PyTorch's own answer to hold it against.

This package knows PyTorch and the equations. It imports neither Streamlit nor Plotly.
"""

from attention.compare import Tolerance
from attention.config import AttentionConfig
from attention.multi_head import AttentionTrace, attend
from attention.verify import Verdict, verify

__all__ = ["AttentionConfig", "AttentionTrace", "Tolerance", "Verdict", "attend", "verify"]
