"""Random interleavings of everything that can be asked of the exchange, against the model, on every engine.

Groups are of one command or several; some are rolled back, as by a full disk; and the process restarts at any moment.
After every group the stored rows must be the model's, and every answer must be what the model gives.
"""

import pytest

from tests.property.exchange_machine import ExchangeMachine
from tests.property.steps import take_steps
from tests.property.whole_machine import WholeMachine


class SqliteMachine(ExchangeMachine):
    """The same on the adapter's own schema and statements."""

    engine_name = "sqlite"


class WholeSqliteMachine(WholeMachine):
    """The same on the adapter's own schema and statements."""

    engine_name = "sqlite"


PLANS = {ExchangeMachine: 40, WholeMachine: 40, SqliteMachine: 10, WholeSqliteMachine: 10}
"""Per cent of the steps."""

_STEPS = 100_000


@pytest.mark.timeout(600)
@pytest.mark.parametrize("machine", PLANS)
def test_the_exchange_does_what_the_model_says(machine):
    """Whatever is asked in whatever order, rolled back or restarted in between: answers and rows are the model's."""
    steps = _STEPS * PLANS[machine] // 100
    assert take_steps(machine, steps) >= steps
