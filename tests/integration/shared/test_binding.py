"""What SQLite's module does with a value before it binds it."""

import pytest

from shared.database.library import LIBRARY


@pytest.mark.parametrize(
    ("value", "stored", "kind"),
    [
        (None, None, "null"),
        (True, 1, "integer"),
        (False, 0, "integer"),
        (b"\x00\xff", b"\x00\xff", "blob"),
        (b"", b"", "blob"),
        (2**53, 2**53, "integer"),
        ("ü", "ü", "text"),
    ],
)
def test_values_are_bound_as_they_are(value: object, stored: object, kind: str) -> None:
    """Each arrives as what it was, of the type that it has in SQLite."""
    connection = LIBRARY.connect(":memory:")
    assert connection.execute("SELECT ?1, typeof(?1)", (value,)).fetchone() == (stored, kind)
    connection.close()


@pytest.mark.parametrize("kind", [type(None), bool, bytes])
def test_no_value_of_a_row_is_searched_for_protocols(kind: type) -> None:
    """Where a type has no adapter, two protocols are tried by raising errors: seven times what binding costs."""
    assert (kind, LIBRARY.PrepareProtocol) in LIBRARY.adapters
