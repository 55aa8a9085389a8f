from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import hypothesis
import pytest

from own_cache import own_cache

# Shared machines stall now and then: how long an example takes says nothing about the code.
hypothesis.settings.register_profile(
    "levelfield", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile(
    "few", hypothesis.settings.get_profile("levelfield"), max_examples=12
)
hypothesis.settings.load_profile("levelfield")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# one process a core (see the Makefile), so one thread a process
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


class WithoutModels(MetaPathFinder, Loader):
    """Skips whatever loads a model library, a module of tests or a single test.

    `--fast` needs no list of tests: one that begins to need a model leaves the selection by itself.
    """

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in ("torch", "transformers") else None

    def exec_module(self, module: ModuleType) -> NoReturn:
        pytest.skip(f"--fast: needs {module.__name__}", allow_module_level=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="no test loads a model; fewer examples")


def pytest_configure(config: pytest.Config) -> None:
    _own_temporary_folder(config)
    if config.getoption("--fast"):
        sys.meta_path.insert(0, WithoutModels())
        hypothesis.settings.load_profile("few")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What modules and tests are made of stays to the end: no collection of garbage looks at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks a thinned test as slow, but for its first parameters."""
    taken: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("thinned"):
            test = item.nodeid.partition("[")[0]
            taken[test] += 1
            if taken[test] > 1:
                item.add_marker(pytest.mark.slow)


def _own_temporary_folder(config: pytest.Config) -> None:
    """Removes at the end what tests make with `tempfile` and keep for their process; the folders of
    `tmp_path` stay where pytest keeps them."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix="levelfield-tests-")
    Path(folder).chmod(0o755)  # some tests enter it as another user
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    tempfile.tempdir = folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("LEVELFIELD_CACHE", str(own_cache(tmp_path_factory.mktemp("cache"))))


@pytest.fixture
def put_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Any], None]]:
    """Makes `load` give another model of a kind: `put_model("causal", lambda name, loading: …)`."""
    from levelfield.models.load import LOADERS, forget

    def put(kind: Any, loader: Callable[..., Any]) -> None:
        monkeypatch.setitem(LOADERS, kind, loader)
        forget()

    yield put
    forget()


@pytest.fixture(scope="session")
def tiny_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with a random small model per family."""
    import tiny  # PyTorch comes with it, and reads the environment when it is imported

    root = tmp_path_factory.mktemp("models")
    return {family: tiny.save(family, root / family) for family in tiny.FAMILIES}


@pytest.fixture(scope="session")
def causal_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with a random small causal language model per family."""
    import tiny

    root = tmp_path_factory.mktemp("causal")
    return {family: tiny.save(family, root / family) for family in tiny.CAUSAL_FAMILIES}


@pytest.fixture(scope="session")
def rated_data() -> Path:
    """The folder of rated data sets."""
    folder = os.environ.get("LEVELFIELD_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("LEVELFIELD_DATA does not name a folder with the rated data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The one Chromium of a process: a test takes a context of its own, which shares nothing."""
    sync = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no chromium on this machine")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes `stub` the name of a technique that needs no model; `asked` has the ids it was asked
    for, and `before` is called with each request."""
    import stub_technique
    from levelfield.core import extensions

    entry = EntryPoint("stub", "stub_technique:ENTRY", "levelfield.techniques")
    installed = extensions.entries
    monkeypatch.setattr(
        extensions,
        "entries",
        lambda group: {**installed(group), **({"stub": entry} if group == entry.group else {})},
    )
    monkeypatch.setattr(stub_technique.Stub, "asked", [])
    monkeypatch.setattr(stub_technique.Stub, "before", None)
    return stub_technique.Stub
