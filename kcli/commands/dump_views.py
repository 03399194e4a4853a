"""The forms of a dump by name: the view of one is made here, and only its modules are imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.commands.output import OutputFormat

if TYPE_CHECKING:
    from kcli.commands.dump_complaints import Complaints
    from kcli.commands.dump_options import DumpOptions
    from kcli.commands.dump_output import DumpOutput
    from kcli.commands.dump_view import RangedView


def ranged_view(
    form: OutputFormat, options: DumpOptions, complaints: Complaints, output: DumpOutput
) -> RangedView:
    """Return the view of a dump in that form."""
    if form is OutputFormat.JSON:
        from kcli.commands.dump_json import JsonDump

        return JsonDump(output, options)
    if form is OutputFormat.TABLE:
        from kcli.commands.dump_table import TableDump

        return TableDump(output, options, complaints)
    from kcli.commands.dump_text import TextDump

    return TextDump(output, options, complaints)
