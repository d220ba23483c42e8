"""What each night of a year was, and was measured with: the file beside a table's shards. Pure."""

from __future__ import annotations

from servebench.site.history import Table
from servebench.site.scaling import Year
from servebench.site.shards import FORMAT, dense
from servebench.site.story import Story


def nights_file(table: Table, year: Year, happened: Story) -> bytes:
    """The bytes of the file that says what each night of a year was measured with."""
    nights = table.nights[year.span]
    breaks: dict[tuple[int, str, str, str], list[str]] = {}
    for case, many in happened.breaks.items():
        for one in many:
            if year.start <= one.night < year.stop:
                key = (one.night - year.start, one.what, one.before, one.after)
                breaks.setdefault(key, []).append(case)
    return dense(
        {
            "format": FORMAT,
            "machine": table.machine,
            "kind": table.kind,
            "year": year.year,
            "run": [night.run for night in nights],
            "time": [night.time for night in nights],
            "commit": [night.commit for night in nights],
            "gaps": [one - year.start for one, _ in happened.gaps if year.start <= one < year.stop],
            "breaks": [
                {"night": night, "what": what, "before": before, "after": after, "cases": cases}
                for (night, what, before, after), cases in breaks.items()
            ],
            "stacks": [
                {
                    "night": bump.night - year.start,
                    "stack": bump.stack,
                    "packages": [
                        [change.package, change.base, change.head] for change in bump.packages
                    ],
                }
                for bump in happened.bumps
                if year.start <= bump.night < year.stop
            ],
        }
    )
