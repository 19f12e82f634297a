"""Style as failing tests: each rule holds for every file, and each is shown to bite."""

import tomllib
from pathlib import Path

import pytest

from tests.architecture import rules

ROOT = Path(__file__).parents[2]
OURS = (*rules.PACKAGES, "tests", "bench", "docs")


def sources() -> dict[Path, str]:
    """Every Python file of ours, by its path from the root."""
    found = (path for folder in OURS for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in found}


SECOND_ENGINE = "adapter.store.memory"
"""The engine without a disk: product code that the simulation and the conformance suite run, and no process."""


def entry_points() -> frozenset[str]:
    """The modules that an installation, or a simulation, starts by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return frozenset(target.partition(":")[0] for target in project["scripts"].values()) | {SECOND_ENGINE}


@pytest.mark.parametrize("rule", rules.EVERYWHERE)
def test_every_file_keeps_the_rule(rule: rules.Rule) -> None:
    """Files and functions stay short, nothing is put off, nothing is switched off blindly, names mean something."""
    found = [violation for path, text in sources().items() for violation in rule(path, text)]
    assert found == []


def test_decisions_are_numbered_apart() -> None:
    """Each has a number of its own, in its name and in its heading: documents name it by that alone."""
    records = sorted((ROOT / "docs/adr").glob("*.md"))
    headings = [path.read_text(encoding="utf-8").partition(". ")[0] for path in records]
    assert headings == [f"# {int(path.name[:4])}" for path in records]
    assert headings == [f"# {number}" for number in range(1, len(records) + 1)]


@pytest.mark.parametrize("rule", rules.IN_TESTS)
def test_every_test_keeps_the_rule(rule: rules.Rule) -> None:
    """Every test states its property and can fail."""
    of_tests = {path: text for path, text in sources().items() if path.parts[0] == "tests"}
    assert [violation for path, text in of_tests.items() for violation in rule(path, text)] == []


def test_no_test_sleeps_for_luck() -> None:
    """Outside the support package a test waits for a signal, or looks for a condition, and never sleeps for luck."""
    of_tests = {
        path: text for path, text in sources().items() if path.parts[0] == "tests" and "support" not in path.parts
    }
    assert [violation for path, text in of_tests.items() for violation in rules.sleeping_tests(path, text)] == []


def test_no_module_is_dead() -> None:
    """Every module of the four packages is imported by another one of them or is an entry point."""
    of_packages = {path: text for path, text in sources().items() if path.parts[0] in rules.PACKAGES}
    assert rules.dead_modules(of_packages, entry_points()) == []


LONG_FUNCTION = "def f():\n" + "    x = 1\n" * 60
CHAIN = "def test_a():\n    one()\n\ndef one():\n    two()\n\ndef two():\n    one()\n    assert x\n"


@pytest.mark.parametrize(
    ("rule", "path", "bad", "good"),
    [
        (rules.long_files, "a.py", "x = 1\n" * 401, "x = 1\n" * 400),
        (rules.long_functions, "a.py", LONG_FUNCTION, LONG_FUNCTION.removesuffix("    x = 1\n")),
        (rules.long_functions, "a.py", "class A:\n    @d\n    async def f(self):\n" + "        x\n" * 59, "x = 1\n"),
        (rules.unfinished_work, "a.py", "x = 1  # TODO: more\n", "x = '# TODO: more'\n"),
        (rules.unfinished_work, "a.py", "# FIXME\n", "# a fix, me thinks\n"),
        (rules.blanket_ignores, "a.py", "x = 1  # type: ignore\n", "x = 1  # type: ignore[misc] - why\n"),
        (rules.blanket_ignores, "a.py", "x = 1  # noqa\n", "x = 1  # noqa: S101 - why\n"),
        (rules.blanket_ignores, "a.py", "# ruff: noqa: S101\n", "x = '# ruff: noqa'\n"),
        (rules.blanket_ignores, "a.py", "# mypy: ignore-errors\n", "# mypy is strict\n"),
        (rules.undescribed_tests, "a.py", "def test_a():\n    assert x\n", 'def test_a():\n    """Holds."""\n'),
        (rules.tests_without_assertion, "a.py", "def test_a():\n    one()\n\ndef one():\n    test_a()\n", CHAIN),
        (
            rules.tests_without_assertion,
            "a.py",
            "async def test_a():\n    x()\n",
            "def test_a():\n    pytest.raises(X)\n",
        ),
        (rules.sleeping_tests, "a.py", "time.sleep(0.1)\n", "while not x():\n    time.sleep(0.1)\n"),
        (rules.sleeping_tests, "a.py", "asyncio.sleep(1.5)\n", "asyncio.sleep(fault.moment_seconds)\n"),
        (rules.sleeping_tests, "a.py", "async def f():\n    await asyncio.sleep(2 * N)\n", "asyncio.sleep(0)\n"),
    ],
)
def test_each_rule_bites(rule: rules.Rule, path: str, bad: str, good: str) -> None:
    """A file that breaks the rule is reported, one that just keeps it is not."""
    assert len(rule(Path(path), bad)) == 1
    assert rule(Path(path), good) == []


def test_the_rule_about_names_bites() -> None:
    """A module called after nothing is reported."""
    assert len(rules.junk_names(Path("shared/utils.py"), "")) == 1
    assert rules.junk_names(Path("shared/names.py"), "") == []


def test_the_rule_about_dead_modules_bites() -> None:
    """Imports of every form keep a module alive, `-m` included; an import of itself, or by a test, does not."""
    sample = {
        Path("shared/__init__.py"): "from . import a\n",
        Path("shared/a.py"): "def f():\n    import shared.b\n",
        Path("shared/b.py"): "from .c import x\nfrom shared import d\n",
        Path("shared/c.py"): "START = ['-m', 'shared.e']\n",
        Path("shared/d.py"): "",
        Path("shared/e.py"): "",
        Path("shared/dead.py"): "import shared.dead\n",
        Path("shared/script.py"): "",
    }
    assert rules.dead_modules(sample, frozenset({"shared.script"})) == ["shared/dead.py: nothing imports it"]


def test_there_is_something_to_look_at() -> None:
    """The rules were applied to the code, not to an empty list."""
    found = {path.parts[0] for path in sources()}
    assert set(rules.PACKAGES) <= found
    assert "tests" in found
