"""Rules of the source that no single run would show broken."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.dashboard.helpers import ROOT

DASHBOARD: Final = sorted((ROOT / "dashboard").rglob("*.py"))
ATTENTION: Final = sorted((ROOT / "attention").rglob("*.py"))
ALL: Final = (*DASHBOARD, *ATTENTION)

# each is a switch of the whole process: what one visitor sets, all visitors get (X03)
SWITCHES: Final = {
    "set_default_dtype",
    "set_default_device",
    "set_default_tensor_type",
    "set_num_threads",
    "set_num_interop_threads",
    "set_grad_enabled",
    "set_fastpath_enabled",
    "set_flush_denormal",
    "set_float32_matmul_precision",
    "set_printoptions",
    "set_rng_state",
    "use_deterministic_algorithms",
}
# seeds of the whole process (X01)
GLOBAL_SEEDS: Final = {"manual_seed", "manual_seed_all", "seed", "setstate", "set_state"}
# ways to run what a visitor sends, or to put it into the page as markup (Z01, Z02, Z03)
UNSAFE_NAMES: Final = {"unsafe_allow_html", "unsafe_allow_javascript", "allow_pickle"}
UNSAFE_MODULES: Final = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle", "subprocess", "ctypes"}
UNSAFE_CALLS: Final = {"eval", "exec", "__import__", "compile"}

SHARED_KEYS: Final = {
    "embed_dim", "num_heads", "num_tokens", "seed", "causal", "dtype", "curve", "scale", "rtol", "atol", "pin", "head",
}  # fmt: skip


CONTROLS: Final = [ROOT / "dashboard" / file for file in ("controls.py", "scene_controls.py")]


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def nodes(file: Path) -> Iterator[ast.AST]:
    return ast.walk(tree(file))


def imports(file: Path) -> set[str]:
    """The packages that a file imports, anywhere in it."""
    found = set()
    for node in nodes(file):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(file)}: imports are absolute"
            found.add(node.module or "")
    return {module.partition(".")[0] for module in found}


def dotted(node: ast.AST) -> str:
    """`torch.random.manual_seed` for that expression; "" for what is no plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def caches(file: Path) -> list[tuple[str, ast.expr]]:
    """Every use of a Streamlit cache: its name, and the whole call (a decorator without arguments is no call)."""
    everything = list(nodes(file))
    calls = {id(node.func): node for node in everything if isinstance(node, ast.Call)}
    return [
        (dotted(node), calls.get(id(node), node))
        for node in everything
        if isinstance(node, ast.Attribute | ast.Name)
        and dotted(node).rpartition(".")[2] in ("cache_data", "cache_resource")
    ]


def test_there_is_something_to_read() -> None:
    assert len(DASHBOARD) > 8
    assert len(ATTENTION) > 5


def test_every_cache_is_bounded() -> None:  # C08
    found = {name(file): caches(file) for file in DASHBOARD if caches(file)}
    assert found, "there are caches, or this test reads the wrong files"
    for file, uses in found.items():
        for cache, use in uses:
            assert isinstance(use, ast.Call), f"{file}: @{cache} without arguments has no bound"
            options = {keyword.arg: keyword.value for keyword in use.keywords}
            entries = options.get("max_entries")
            assert isinstance(entries, ast.Constant), f"{file}: {cache} needs max_entries"
            assert isinstance(entries.value, int)
            assert 0 < entries.value <= 10_000


def test_results_are_cached_as_data_and_in_one_file() -> None:  # C05: cache_resource hands out the object itself
    assert {name(file) for file in DASHBOARD if caches(file)} == {"dashboard/cached.py"}
    assert {cache for file in DASHBOARD for cache, _ in caches(file)} == {"st.cache_data"}


@pytest.mark.parametrize("file", ALL, ids=name)
def test_no_switch_of_the_whole_process(file: Path) -> None:  # X03
    used = {node.attr for node in nodes(file) if isinstance(node, ast.Attribute)}
    used |= {node.id for node in nodes(file) if isinstance(node, ast.Name)}
    # once at start, before the first visitor; and by a command, which nobody shares
    starts = ("dashboard/app.py", "attention/trained/make.py")
    allowed = {"set_num_threads"} if name(file) in starts else set()
    assert (used & SWITCHES) - allowed == set()


@pytest.mark.parametrize("file", ALL, ids=name)
def test_no_seed_of_the_whole_process(file: Path) -> None:  # X01
    for node in nodes(file):
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            first, _, last = called.rpartition(".")
            # a generator's own seed is what we want: torch.Generator(...).manual_seed(...)
            if first.split(".")[0] in ("torch", "np", "numpy", "random"):
                assert last not in GLOBAL_SEEDS, f"{name(file)}:{node.lineno}: {called}"
            if called in ("torch.randn", "torch.rand", "torch.randint", "torch.randperm", "torch.normal"):
                assert "generator" in {keyword.arg for keyword in node.keywords}, f"{name(file)}:{node.lineno}"
    assert "random" not in imports(file)


@pytest.mark.parametrize("file", ALL, ids=name)
def test_nothing_runs_or_trusts_what_a_visitor_sends(file: Path) -> None:  # Z01, Z02, Z03
    for node in nodes(file):
        place = f"{name(file)}:{getattr(node, 'lineno', '?')}"
        if isinstance(node, ast.keyword):
            assert node.arg not in UNSAFE_NAMES, place
        if isinstance(node, ast.Constant):
            assert node.value not in UNSAFE_NAMES, f"{place}: not by way of **options either"
        if isinstance(node, ast.Call):
            assert dotted(node.func) not in UNSAFE_CALLS, place
            assert dotted(node.func) not in ("torch.load", "torch.jit.load", "np.load", "numpy.load"), place
    allowed = {"ctypes"} if name(file) == "dashboard/memory.py" else set()
    assert imports(file) & UNSAFE_MODULES == allowed


@pytest.mark.parametrize("file", ATTENTION, ids=name)
def test_the_library_knows_no_page(file: Path) -> None:
    assert imports(file) & {"dashboard", "streamlit", "plotly", "starlette"} == set()


@pytest.mark.parametrize("file", DASHBOARD, ids=name)
def test_only_the_controls_name_a_shared_key(file: Path) -> None:
    if file in CONTROLS:
        return
    hides = name(file) == "dashboard/teaching.py"  # the names in a link of what it can hide
    for node in nodes(file):
        place = f"{name(file)}:{getattr(node, 'lineno', '?')}"
        if isinstance(node, ast.keyword) and node.arg == "key" and isinstance(node.value, ast.Constant):
            assert node.value.value not in SHARED_KEYS, place
        if isinstance(node, ast.Subscript) and dotted(node.value) in ("st.session_state", "st.query_params"):
            assert not (isinstance(node.slice, ast.Constant) and node.slice.value in SHARED_KEYS), place
        if isinstance(node, ast.Constant):
            assert hides or node.value not in ("embed_dim", "num_heads", "num_tokens"), place


def test_the_controls_do_name_them() -> None:
    constants = {node.value for file in CONTROLS for node in nodes(file) if isinstance(node, ast.Constant)}
    assert constants >= SHARED_KEYS


def test_every_bound_widget_has_a_key_of_its_own() -> None:
    # the key is the name in the URL: two widgets with one key would write over each other
    keys = []
    for node in (node for file in CONTROLS for node in nodes(file)):
        if isinstance(node, ast.Call):
            options = {keyword.arg: keyword.value for keyword in node.keywords}
            if "bind" in options:
                assert "key" in options, f"line {node.lineno}: bind needs a key"
                if isinstance(options["key"], ast.Constant):
                    keys.append(options["key"].value)
    assert len(keys) == len(set(keys)) >= 8


def test_no_folder_that_streamlit_would_take_for_pages() -> None:
    assert not (ROOT / "dashboard" / "pages").exists()


def test_pages_write_no_html_of_their_own() -> None:
    # HTML comes from files whose escaping is tested: a page is prose, picture, verdict, source
    for file in (ROOT / "dashboard" / "app_pages").glob("*.py"):
        for node in nodes(file):
            if isinstance(node, ast.Call):
                assert dotted(node.func) not in ("st.html", "st.iframe", "st.components.v1.html"), name(file)
