"""Scenes worth showing, each with one sentence of what to look for, and how to make a link for a class."""

import streamlit as st

from dashboard import controls, fragments, gallery, lesson, teaching
from dashboard.contents import TITLES

COLUMNS = 2

fragments.begin_page(has_more=False)
lesson.put(teaching.style(["controls"]))  # there is nothing here for them to change
st.title("Scenes worth showing", anchor=False)
st.markdown(
    "Each opens on its page with the settings made, and its sentence above the picture until something is moved. "
    "To send one to a class, open it and press **Teacher's link** in the sidebar: choose what to hide, copy the link."
)
for row in gallery.rows(gallery.SCENES, COLUMNS):
    for place, scene in zip(st.columns(COLUMNS, gap="medium"), row, strict=False):
        with place.container(border=True, key=f"scene_{scene.key}", height="stretch"):
            st.header(scene.title, anchor=False)
            st.markdown(scene.look)
            if st.button(
                f"Open in “{TITLES[scene.page]}”",
                key=f"open_{scene.key}",
                on_click=controls.set_scene,
                args=(dict(scene.values),),
                icon=":material/play_arrow:",
            ):
                gallery.go(scene)
