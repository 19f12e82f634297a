"""Which SQLite is trusted with more than one connection."""

import pytest

from shared.database import verdict

UNSAFE = ["3.7.0", "3.40.1", "3.44.5", "3.46.1", "3.50.6", "3.51.0", "3.51.2", "3.52.0", "3.52.0.1"]
SAFE = ["3.44.6", "3.44.9", "3.50.7", "3.51.3", "3.52.1", "3.53.0", "3.53.4", "3.54.1", "4.0.0"]


@pytest.mark.parametrize("version", UNSAFE)
def test_versions_with_the_wal_reset_fault_are_unsafe(version):
    """The range 3.7.0 to 3.51.2 without the mended ends of 3.44 and 3.50, and the release that was withdrawn."""
    judged = verdict(version)
    assert not judged.safe
    assert str(judged).startswith("unsafe: ")


@pytest.mark.parametrize("version", SAFE)
def test_mended_versions_are_safe(version):
    """3.51.3 and later, and the releases of older branches that took the mend over."""
    assert str(verdict(version)) == "safe"


@pytest.mark.parametrize("version", ["", "3", "3.53", "3.x.1", "3.53.-1", "\N{SUPERSCRIPT THREE}.53.4"])
def test_what_cannot_be_read_is_not_trusted(version):
    """A version of another shape is unsafe, and named."""
    assert not verdict(version).safe
    assert repr(version) in verdict(version).reason
