"""The rules of the codebase as functions of a file's text, each giving its violations, so that they can be tried."""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

FILE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 60
PACKAGES: Final = ("shared", "adapter", "sidecar", "multiclaw")

_UNFINISHED: Final = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_BLANKET: Final = (
    (re.compile(r"type:\s*ignore(?!\[)"), "`type: ignore` without a code"),
    (re.compile(r"\bnoqa\b(?!:\s*[A-Z]+[0-9]+)", re.IGNORECASE), "`noqa` without a code"),
    (re.compile(r"(ruff|flake8):\s*noqa", re.IGNORECASE), "`noqa` for a whole file"),
    (re.compile(r"mypy:\s*(ignore-errors|disable-error-code)", re.IGNORECASE), "mypy switched off for a whole file"),
)
_JUNK_NAMES: Final = frozenset({"utils", "util", "helpers", "misc", "common"})
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Rule = Callable[[Path, str], list[str]]


def long_files(path: Path, text: str) -> list[str]:
    """Files beyond the limit: a file should hold one concept."""
    lines = text.count("\n")
    return [f"{path}: {lines} lines, and the limit is {FILE_LINES_MAX}"] if lines > FILE_LINES_MAX else []


def long_functions(path: Path, text: str) -> list[str]:
    """Functions beyond the limit, docstring and decorators included."""
    return [
        f"{path}:{function.lineno}: {function.name} has {length} lines, and the limit is {FUNCTION_LINES_MAX}"
        for function in functions(text)
        if (length := _length(function)) > FUNCTION_LINES_MAX
    ]


def unfinished_work(path: Path, text: str) -> list[str]:
    """Comments that put work off: what is not done belongs into an issue."""
    return [f"{path}:{line}: {found[0]}" for line, note in comments(text) if (found := _UNFINISHED.search(note))]


def blanket_ignores(path: Path, text: str) -> list[str]:
    """Checks switched off without naming which."""
    return [
        f"{path}:{line}: {word}" for line, note in comments(text) for pattern, word in _BLANKET if pattern.search(note)
    ]


def junk_names(path: Path, _: str) -> list[str]:
    """Modules named after nothing: every helper has a concept to be named for."""
    return [f"{path}: no module is called {path.stem!r}"] if path.stem in _JUNK_NAMES else []


def undescribed_tests(path: Path, text: str) -> list[str]:
    """Tests whose docstring does not state a property."""
    return [f"{path}:{t.lineno}: {t.name} states no property" for t in tests(text) if not ast.get_docstring(t)]


def tests_without_assertion(path: Path, text: str) -> list[str]:
    """Tests that cannot fail: neither they nor a function of their file that they call asserts anything."""
    local = {function.name: function for function in functions(text)}
    return [f"{path}:{t.lineno}: {t.name} asserts nothing" for t in tests(text) if not _asserts(t, local, frozenset())]


def sleeping_tests(path: Path, text: str) -> list[str]:
    """Sleeps of a fixed length other than zero.

    Free are a sleep between two looks at a condition, which is what a `while` is for, and one whose length was drawn
    from a seed, as the moments of faults are.
    """
    tree = ast.parse(text)
    polling = {id(node) for loop in ast.walk(tree) if isinstance(loop, ast.While) for node in ast.walk(loop)}
    return [
        f"{path}:{call.lineno}: {ast.unparse(call)}"
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and id(call) not in polling
        and _dotted(call.func) in {"time.sleep", "asyncio.sleep", "sleep"}
        and not (call.args and _is_zero_or_drawn(call.args[0]))
    ]


EVERYWHERE: Final[tuple[Rule, ...]] = (long_files, long_functions, unfinished_work, blanket_ignores, junk_names)
IN_TESTS: Final[tuple[Rule, ...]] = (undescribed_tests, tests_without_assertion)


def dead_modules(sources: dict[Path, str], entry_points: frozenset[str]) -> list[str]:
    """Modules of our packages that nothing of them imports and nobody can start. Paths are relative to the root."""
    modules = {_module(path): path for path in sources if path.parts[0] in PACKAGES}
    used = set(entry_points)
    for path, text in sources.items():
        used |= imported(text, _module(path), is_package=path.name == "__init__.py") - {_module(path)}
    return [
        f"{path}: nothing imports it"
        for name, path in sorted(modules.items())
        if name not in used and path.name not in {"__init__.py", "__main__.py"}
    ]


def imported(text: str, module: str, *, is_package: bool) -> set[str]:
    """Every module that a text may import, by absolute name, wherever the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module, is_package=is_package)
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value}  # started by name: `python -m sidecar`, `import_module("...")`
    return found


def functions(text: str) -> list[Function]:
    """Every function and method of a text."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, _FUNCTION)]


def tests(text: str) -> list[Function]:
    """The test functions of a text."""
    return [function for function in functions(text) if function.name.startswith("test_")]


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Comments with their lines; what stands in strings is none."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _length(function: Function) -> int:
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return (function.end_lineno or first) - first + 1


def _asserts(function: Function, local: dict[str, Function], seen: frozenset[str]) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call) and _call_asserts(node, local, seen | {function.name}):
            return True
    return False


def _call_asserts(call: ast.Call, local: dict[str, Function], seen: frozenset[str]) -> bool:
    name = _dotted(call.func).rpartition(".")[2]
    if name in {"raises", "warns", "fail", "run_state_machine_as_test"} or name.startswith(
        ("assert", "check", "expect")
    ):
        return True
    return name in local and name not in seen and _asserts(local[name], local, seen)


def _is_zero_or_drawn(length: ast.expr) -> bool:
    if isinstance(length, ast.Constant):
        return length.value == 0
    return any(isinstance(node, ast.Name) and not node.id.isupper() for node in ast.walk(length))


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _absolute(node: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    base = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*base, *([node.module] if node.module else [])])
