"""asv's files of results, checked strictly: they come from other machines."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from duetbench.core.model import Artefact, Frozen

_LARGEST: Final = 1e18


def _finite_or_nan(value: float) -> float:
    if abs(value) > _LARGEST:
        raise ValueError(f"a figure beyond {_LARGEST:g}")
    return value


_Text = Annotated[str, Field(max_length=200)]
_Texts = dict[_Text, _Text]
_Figure = Annotated[float, AfterValidator(_finite_or_nan)]


class AsvRow(Frozen):
    """One benchmark: lists have an item for each combination of its parameters.

    A result is NaN where the benchmark does not apply, and None where it failed.
    """

    model_config = ConfigDict(allow_inf_nan=True, extra="ignore")

    result: list[_Figure | None] | None = None
    params: list[list[_Text]] | None = None
    version: _Text | None = None
    started_at: int | None = None  # ms since 1970
    stats_q_25: list[_Figure | None] | None = None
    stats_q_75: list[_Figure | None] | None = None
    stats_repeat: list[int | None] | None = None
    samples: list[list[_Figure] | None] | None = None


class AsvFile(Artefact):
    """A file as asv writes it, for its own pages, too."""

    noun: ClassVar[str] = "a file of asv's"


class AsvMachine(AsvFile):
    """A machine, in asv's words."""

    place: ClassVar[str] = "asv/{0.machine}/machine.json"

    machine: _Text
    arch: _Text = ""
    cpu: _Text = ""
    num_cpu: _Text = ""
    os: _Text = ""
    ram: _Text = ""
    version: Literal[1]


class AsvResults(AsvFile):
    """What asv measured at a commit in one environment."""

    place: ClassVar[str] = "asv/{0.params[machine]}/{0.commit_hash:.8}-{0.env_name}.json"

    commit_hash: str = Field(pattern="^[0-9a-f]{40}$")
    env_name: str = Field(pattern=r"^duetbench-[^\n]{1,200}$")
    date: int = Field(ge=946_684_800_000, lt=7_258_118_400_000)  # ms: in 2000 to 2199
    params: _Texts
    python: _Text
    requirements: _Texts
    env_vars: _Texts
    result_columns: list[str]
    results: dict[str, AsvRow]  # in the file each is a list, in the order of the columns
    durations: dict[str, float]
    version: Literal[2]

    @model_validator(mode="before")
    @classmethod
    def _name_columns(cls, raw: Any) -> Any:
        columns, rows = raw["result_columns"], raw["results"].items()
        named = {name: dict(zip(columns, row, strict=False)) for name, row in rows}
        return {**raw, "results": named}

    @model_validator(mode="after")
    def _of_a_machine(self) -> Self:
        if not {"machine", "python"} <= self.params.keys():
            raise ValueError("params: expected machine and python among them")
        return self
