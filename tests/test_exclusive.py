"""Two measurements on one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from servebench.errors import BusyError
from servebench.exclusive import measuring


def test_a_second_measurement_is_refused_until_the_first_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would be the other's noise."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with (
        measuring(),
        pytest.raises(BusyError, match="another servebench is measuring"),
        measuring(),
    ):
        pytest.fail("two measurements at once")
    with measuring():
        pass
