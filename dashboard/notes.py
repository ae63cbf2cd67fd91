"""What is said above a picture: what to look for, what of the scene was made smaller, and on paper the settings."""

from dashboard import controls, gallery, limits, link, mistakes, page_controls, scene_controls, teaching, weights


def notes() -> list[str]:
    """All that there is to be said, as Markdown."""
    smaller = _made_smaller()
    config = controls.asked().config
    trained = weights.said(config, scene_controls.tokens_asked(), link.page())
    if trained and link.page() == "break_it" and mistakes.asked(config).in_block:
        trained = "A block has random weights."
    settings = " · ".join(config.in_words.values()) if teaching.is_handout() else ""
    return [
        *([f":material/school: {looked}"] if (looked := gallery.to_look_for(link.page())) else []),
        *([f":material/model_training: {trained}"] if trained else []),
        *([f":material/info: {smaller}"] if smaller else []),
        *([f":material/tune: {settings}"] if settings else []),
    ]


def _made_smaller() -> str:
    """What of the reader's scene is too large for the page, and was made smaller, in words; empty where nothing."""
    page, scene = link.page(), scene_controls.scene_asked()
    shown = limits.within(page, scene)
    depths = page_controls.depths(shown) if page == "block" else (1, 1)
    return limits.said(scene, shown, *depths, page=page)
