"""Prints what a run found, each difference as a test would be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.protocol.schema.fields import fields_of

if TYPE_CHECKING:
    from tests.differential.run import Finding, Report


def print_report(report: Report) -> None:
    """Print every kind of difference, then what was sent."""
    for finding in sorted(report.findings.values(), key=lambda each: -each.count):
        print(as_test(finding))
    print(
        f"{sum(report.requests.values())} requests in {report.worlds} worlds, "
        f"{len(report.findings)} kinds of unexplained differences"
    )
    for reason, count in report.explained.most_common():
        print(f"{count:>7}  {reason}")


def as_test(finding: Finding) -> str:
    """A difference as the body of a test."""
    request = finding.request
    where = "seen by the probe after it, " if finding.is_afterwards else ""
    when = "alone" if finding.is_alone else f"not alone, after {len(finding.history)} others"
    lines = [
        f"def test_{request.api}_v{request.version}(both) -> None:",
        f"    # {finding.count} times, {where}{when}",
        f"    request = {written(request.body, request.version)}",
        f"    apache, kcli = both(request, {request.version})",
        f"    # {finding.difference}",
        "    assert kcli == apache",
    ]
    return "\n".join(lines).replace(finding.world.prefix, "")


def written(value: Any, version: int) -> str:
    """A message as Python source, without fields that have their default."""
    parts = []
    for field in fields_of(type(value)):
        part = getattr(value, field.name)
        if version not in field.versions or (part == field.make_default()):
            continue
        if field.struct is not None:
            part = (
                f"[{', '.join(written(item, version) for item in part)}]"
                if isinstance(part, list)
                else (None if part is None else written(part, version))
            )
        else:
            part = repr(bytes(part)) if isinstance(part, memoryview) else repr(part)
        parts.append(f"{field.name}={part}")
    return f"{type(value).__name__}({', '.join(parts)})"
