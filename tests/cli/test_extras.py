"""Which extra brings a module, as the package itself says."""

import pytest

from duetbench import cli


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("asv", "asv"),
        ("asv.results", "asv"),
        ("asv_runner.benchmarks", "asv"),
        ("numpy", None),
        ("duetbench.nothing", None),
        ("asvs", None),
    ],
)
def test_a_module_is_brought_by_the_extra_that_names_its_package(
    module: str, extra: str | None
) -> None:
    """What all of duetbench needs is none's, and what nobody declares is a mistake of ours."""
    text = cli.lacking(ModuleNotFoundError(name=module), ["site", "-o", "a b"])
    again = "uvx --from 'duetbench[asv]' duetbench site -o 'a b'"
    assert text == (
        f"this needs {module}, which is not installed; it comes with duetbench[asv]: {again}"
        if extra
        else None
    )
