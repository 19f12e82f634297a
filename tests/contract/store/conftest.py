"""Every engine, one after the other."""

import pytest

from tests.support.engines import ENGINES


@pytest.fixture(params=ENGINES)
def engine(request):
    opened = ENGINES[request.param]()
    yield opened
    opened.close()
