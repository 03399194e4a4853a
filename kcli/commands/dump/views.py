"""The forms of a dump by name: the view of one is made here, and only its modules are imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.commands.output import OutputFormat

if TYPE_CHECKING:
    from kcli.commands.dump.complaints import Complaints
    from kcli.commands.dump.options import DumpOptions
    from kcli.commands.dump.output import DumpOutput
    from kcli.commands.dump.view import RangedView


def ranged_view(
    form: OutputFormat, options: DumpOptions, complaints: Complaints, output: DumpOutput
) -> RangedView:
    """Return the view of a dump in that form."""
    if form is OutputFormat.JSON:
        from kcli.commands.dump.json import JsonDump

        return JsonDump(output, options)
    if form is OutputFormat.TABLE:
        from kcli.commands.dump.table import TableDump

        return TableDump(output, options, complaints)
    from kcli.commands.dump.text import TextDump

    return TextDump(output, options, complaints)
