"""The mounted line chart: a Plotly figure, drawn by the Plotly that draws the pictures, and downloaded as they are.

`st.plotly_chart` would have the browser load Streamlit's own Plotly too, a second of 4.7 MB, and draw the chart anew at
every change.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import streamlit as st
from plotly.utils import PlotlyJSONEncoder

from dashboard import assets

_HTML: Final = """
<div class="chart">
  <div class="bar"><span class="status" role="status"></span></div>
  <div class="plot" role="img"></div>
</div>
"""


def show(figure: Mapping[str, Any], summary: str, *, key: str, identity: str) -> None:
    """Mount or update a chart.

    Args:
        figure: `data` and `layout`, plain lists and numbers; NaN and infinities are gaps.
        summary: says in words what is shown, for those who do not see it.
        key: the component's name on the page.
        identity: what tells its files from those of other scenes.
    """
    said = {"figure": figure, "summary": summary, "file": f"attention-{identity}"}
    _mount(key=key, data=json.dumps(said, cls=PlotlyJSONEncoder).encode())


_mount = st.components.v2.component("attention_chart", html=_HTML, js=assets.script("chart"), isolate_styles=False)
