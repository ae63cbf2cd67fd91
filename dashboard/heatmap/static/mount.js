// How what is drawn comes to its place on the page, and leaves it.

// What Streamlit calls with each message: one view for each place, which stays until the place is taken away. A view has
// `root`, `markup`, `drawn`, `show(message)` and `leave()`.
export function mounting(View) {
  const views = new WeakMap();
  return (message) => {
    const { parentElement } = message;
    let view = views.get(parentElement);
    if (!view) views.set(parentElement, (view = new View(parentElement)));
    view.show(message);
    return () => {
      view.leave();
      views.delete(parentElement);
    };
  };
}

// Leave the place as it was: the page may draw into it again, which would then have all twice.
export function clear({ root, markup, drawn }, plot) {
  drawn?.finally(() => Plotly.purge(plot)); // not in the middle of it
  root.outerHTML = markup;
}
