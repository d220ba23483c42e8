"""A permanent change of a series: detected as a candidate, judged by duets, traced to its cause.

One file per change, `results/changes/<id>.json`. A confirmed change has the figures of the
confirming comparison, and they stay. Later only `status`, `cause` and `note` may be set. A
candidate that no duet confirmed is kept too, or it would be judged again every night.
"""

from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from duetbench.core.change import Cause
from duetbench.core.comparison import INSTRUCTIONS, Attribution, PackageChange, Release
from duetbench.core.metrics import CPU
from duetbench.core.model import Artefact, Figure, Frozen, Many, Ratio, Verdict
from duetbench.core.units import Interval
from observatory.store.points import Name, When

MOST_TRIES: Final = 3  # undecided comparisons after which a candidate is not judged again


class SeriesName(Frozen):
    """One case and metric over runs on one machine."""

    machine: str
    case: str
    metric: str

    @property
    def judged(self) -> "SeriesName":
        """The series that duets judge when this one stepped: counts show where to look."""
        counted = self.metric == INSTRUCTIONS
        return self.model_copy(update={"metric": CPU}) if counted else self


class StackState(Frozen):
    """The stack on one side of a change."""

    stack: str
    digest: str = Field(description="SHA-256 of the lock file.")
    as_of: str | None = Field(default=None, description="Date for which it was resolved.")


class Step(Frozen):
    """A series is on another level from some night on."""

    series: SeriesName
    ratio: Ratio = Field(description="The level after over the level before.")
    within: tuple[Ratio, Ratio] | None = Field(default=None, description="95 % interval.")
    strength: Figure = Field(description="Height of the step over its standard error.")
    before_run: str = Field(description="The last run on the old level.")
    after_run: str = Field(description="The first run on the new level.")
    nights: tuple[int, int] = Field(description="Nights on the old and on the new level.")


class Change(Artefact):
    """A series changed when a stack changed. Ratios are after over before.

    A candidate has the series and figures of its strongest step; a judged change has those of the
    comparison.
    """

    noun: ClassVar[str] = "a change record"
    place: ClassVar[str] = "changes/{0.id}.json"

    format: Literal[2] = 2
    id: Name
    status: Literal["candidate", "dismissed", "open", "closed"] = Field(
        description="candidate: not judged by duets. dismissed: not confirmed. open, closed: "
        "confirmed; open while it makes something slower."
    )
    series: SeriesName
    others: Many[SeriesName] = Field(default=(), description="Changed in the same duets.")
    when: When = Field(description="Start of the first run after the change.")
    before_run: str | None = Field(default=None, description="The last run before the change.")
    after_run: str | None = Field(default=None, description="The first run after the change.")
    base: StackState
    head: StackState
    base_commit: str | None = Field(default=None, description="Commit of the last run before it.")
    head_commit: str | None = Field(default=None, description="Commit of the first run after it.")
    packages: Many[PackageChange] = ()
    steps: Many[Step] = Field(default=(), description="A candidate's, strongest first.")
    tries: int = Field(default=0, ge=0, description="Comparisons that did not confirm it so far.")
    ratio: float = Field(ge=1e-3, le=1e3)
    low: float = Field(ge=1e-3, le=1e3, description="95 % interval of the ratio.")
    high: float = Field(ge=1e-3, le=1e3, description="95 % interval of the ratio.")
    verdict: Verdict
    cause: Cause = Field(default=Cause(), description="The releases behind it, if known.")
    why: Attribution | None = Field(default=None, description="The functions behind it.")
    evidence: str | None = Field(default=None, description="Id of the latest comparison.")
    method: str = Field(default="", description="How it was detected and confirmed.")
    note: str = Field(default="", description="Why it was closed, or not confirmed.")

    @property
    def all_series(self) -> tuple[SeriesName, ...]:
        """Every series that moved: its own, then the others."""
        return self.series, *self.others

    @property
    def confirmed(self) -> bool:
        """Whether duets have confirmed it."""
        return self.status in {"open", "closed"}

    @property
    def final(self) -> bool:
        """Whether it is judged, and will not be judged again."""
        given_up = self.verdict is Verdict.SAME or self.tries >= MOST_TRIES
        return self.confirmed or (self.status == "dismissed" and given_up)

    @property
    def interval(self) -> Interval:
        return Interval(self.ratio, self.low, self.high)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases that caused it, the largest share first."""
        releases = (release for share in self.cause.shares for release in share.releases)
        return tuple(dict.fromkeys(releases))

    @model_validator(mode="after")
    def _the_interval_holds_the_ratio(self) -> Self:
        if not self.low <= self.ratio <= self.high:
            raise ValueError(f"{self.low} ≤ {self.ratio} ≤ {self.high} does not hold")
        return self


class Candidates(Artefact):
    """Result of a detection."""

    noun: ClassVar[str] = "candidates (observatory detect)"

    format: Literal[1] = 1
    candidates: tuple[Change, ...] = ()
