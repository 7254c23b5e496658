"""Imports point one way, nothing imports in circles, and every public name resolves."""

import ast
import importlib
import inspect
from functools import cache
from pathlib import Path

import pytest

import understudy as us

ROOT = Path(us.__file__).parent

# From the bottom up. A module may import from its own row and from those above it in this table, never from one further
# down. The longest name that fits a module counts: ``data.checks`` lies lower than the rest of ``data``.
LAYERS = [
    "errors",
    "store",
    "samples comparison.comparison_options",
    "maths",
    "data.checks models",
    "labels",
    "data",
    "objective method_options features",
    "io",
    "inference llm web serving parallel.executors parallel.ray_tasks",
    "acquisition methods reconciling training comparison.candidates hf.text",
    "comparison auditing inference.export inference.export_folder hf lightning sklearn",
    "active parallel training.job model",
    "report",
    "cli __main__ __init__",
]
LAYER = {name: number for number, row in enumerate(LAYERS) for name in row.split()}

# What only an extra brings; a module that needs one may be impossible to import.
EXTRAS = {"transformers", "lightning", "starlette", "uvicorn"}

# The design's stable names that exist so far; us.select, us.alignment, us.TopK and us.Votes join when they do.
STABLE = [
    *("Gold", "Pool", "Hard", "METHODS", "slam", "weighted", "vanilla", "train", "Run", "Run.load", "Run.predict"),
    *("Reliability", "Reliability.fit", "Reliability.alpha", "Reliability.k", "Reliability.topk_accuracy"),
    *("debias_weights", "split", "Splits", "teach", "evaluate", "digits", "models"),
    *("UnderstudyError", "UnderstudyWarning", "errors.UnderstudyError"),
    *(f"maths.losses.{name}" for name in ("cross_entropy", "taylor", "poly", "gce", "truncated_gce")),
    *("maths.mixing.slam_mix", "maths.mixing.forward_correction"),
    *(f"maths.confidence.{name}" for name in ("margin", "topk_margin", "entropy", "grouped_entropy")),
]
SIGNATURES = {
    "Gold": "x y teacher ids chosen",
    "Pool": "x teacher ids",
    "Hard": "labels confidence",
    "slam": "lower_bound threshold k normalise temperature",
    "Reliability.fit": "probs labels lower_bound threshold",
    "debias_weights": "teacher_gold y_gold student_gold teacher_pool student_pool confidence k",
    "train": "student gold pool objective epochs batch_size lr seed test select out",
    "Run.predict": "self x",
}
DEFAULTS = {
    "slam": {"lower_bound": 0.5, "threshold": 0.9, "k": None, "normalise": False, "temperature": 1.0},
    "weighted": {"confidence": "entropy", "refresh_every": None},
    "vanilla": {"hard": False},
    "Gold": {"teacher": None, "ids": None, "chosen": False},
    "Pool": {"ids": None},
    "Reliability.fit": {"lower_bound": 0.5, "threshold": 0.9},
    "debias_weights": {"confidence": "entropy", "k": None},
    "train": {"batch_size": 128, "lr": 1e-3, "seed": 0, "test": None, "out": None},
}


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): path for path in sorted(ROOT.rglob("*.py"))}


@cache
def _imports(path: Path) -> set[str]:
    """The package's own modules a file imports, at any depth of its code."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import; write the whole name"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULES else str(node.module))
    return {name for name in found if name.split(".")[0] == "understudy"}


def _layer(module: str) -> int:
    parts = [*module.split("."), "__init__"][1:]
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    known = [LAYER[name] for name in names if name in LAYER]
    assert known, f"{module} has no layer; enter it in LAYERS where it belongs"
    return known[0]


def test_imports_point_one_way() -> None:
    wrong = [
        f"{module} imports {imported}, which is built on top of it"
        for module, path in MODULES.items()
        for imported in sorted(_imports(path))
        if _layer(imported) > _layer(module)
    ]
    assert not wrong, "\n".join(wrong)


def test_few_modules_stand_beside_the_packages() -> None:
    beside = [path.stem for path in ROOT.glob("*.py") if not path.stem.startswith("__")]
    assert len(beside) <= 5, beside


def test_no_public_name_shadows_a_module() -> None:
    """``import understudy.<anything> as m`` binds a module."""
    for name in MODULES:
        if not name.endswith("__main__"):
            try:
                module = importlib.import_module(name)
            except ModuleNotFoundError as error:
                assert str(error.name).split(".")[0] in EXTRAS, f"{name} cannot be imported: {error}"
                continue
            parent, _, last = name.rpartition(".")
            assert not parent or getattr(importlib.import_module(parent), last) is module, f"{name} is shadowed"


def test_no_circles() -> None:
    # The package's own __init__ merely gathers names; nothing below it needs it.
    graph = {name: _imports(path) & set(MODULES) - {"understudy"} for name, path in MODULES.items()}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, f"circular import: {' → '.join((*trail, module))}"
        if module not in done:
            for imported in graph[module] - {module}:
                # A package's __init__ is loaded with each of its modules; that alone is no circle.
                if not module.startswith(f"{imported}."):
                    visit(imported, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_maths_is_pure() -> None:
    """No files, no configuration, no hidden randomness."""
    for name, path in MODULES.items():
        if not name.startswith("understudy.maths"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = {alias.name for alias in node.names} if isinstance(node, ast.Import) else {node.module}
                assert not modules & {"os", "pathlib", "random", "json", "io", "tempfile"}, f"{name} imports {modules}"
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in {"open", "torch.manual_seed", "np.random.seed"}, name


def test_nothing_is_unpickled() -> None:
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                named = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not named & {"pickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"}, name
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"torch.load", "torch.save"}, f"{name} calls {called}"
                if called in {"np.load", "numpy.load"}:
                    allowed = [k for k in node.keywords if k.arg == "allow_pickle"]
                    assert all(ast.unparse(k.value) == "False" for k in allowed), name


def _resolve(name: str) -> object:
    found: object = us
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", STABLE)
def test_stable_names_resolve(name: str) -> None:
    assert _resolve(name) is not None


@pytest.mark.parametrize("name", SIGNATURES)
def test_stable_arguments_keep_their_names(name: str) -> None:
    parameters = inspect.signature(_resolve(name)).parameters  # type: ignore[arg-type]
    wanted = SIGNATURES[name].split()
    assert [parameter for parameter in parameters if parameter in wanted] == wanted


@pytest.mark.parametrize("name", DEFAULTS)
def test_stable_defaults_keep_their_values(name: str) -> None:
    parameters = inspect.signature(_resolve(name)).parameters  # type: ignore[arg-type]
    assert {key: parameters[key].default for key in DEFAULTS[name]} == DEFAULTS[name]


@pytest.mark.parametrize("name", sorted({*us.__all__, *dir(us)}))
def test_every_listed_name_exists(name: str) -> None:
    assert getattr(us, name) is not None


def test_names_are_found_where_type_checkers_find_them() -> None:
    """The stub that type checkers read, the table of homes and ``__all__`` agree."""
    body = ast.parse((ROOT / "__init__.pyi").read_text(encoding="utf-8")).body
    typed = {alias.name: node.module for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}
    del typed["Any"]
    modules = {name for name, home in typed.items() if home == "understudy"}
    assert {name: home for name, home in typed.items() if name not in modules} == us._HOME
    assert sorted(typed) == sorted(us.__all__)


def test_unknown_names_are_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute"):
        us.nonsense  # noqa: B018


def test_options_are_never_swallowed() -> None:
    """Every method shows all its options, and a misspelt one is an error that names it."""
    for name, factory in us.METHODS.items():
        kinds = {parameter.kind for parameter in inspect.signature(factory).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds, name
        with pytest.raises(TypeError, match=f"unknown option 'no_such_option' of {name}; it takes"):
            factory(no_such_option=1)
