"""When a message ends."""

import hypothesis.strategies as st
from hypothesis import given

from adapter.core.expiry import ends_at_us
from shared.times import iso

moments = st.none() | st.integers(0, 2 * 10**15)


@given(moments, moments)
def test_the_earlier_of_the_two_rules_counts(deadline, expires_at):
    """Each alone, both in either order, or none (property)."""
    ends = [at for at in (deadline, expires_at) if at is not None]
    texts = (None if at is None else iso(at) for at in (deadline, expires_at))
    assert ends_at_us(*texts) == min(ends, default=None)
