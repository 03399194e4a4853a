"""The view of each output form; only the modules of the chosen one are imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.commands.shared.output import OutputFormat

if TYPE_CHECKING:
    from kcli.commands.dump.dump_errors import DumpErrors
    from kcli.commands.dump.options import DumpOptions
    from kcli.commands.dump.view import DumpOutput, RangedView


def ranged_view(
    form: OutputFormat, options: DumpOptions, errors: DumpErrors, output: DumpOutput
) -> RangedView:
    if form is OutputFormat.JSON:
        from kcli.commands.dump.json_view import JsonDump

        return JsonDump(output, options)
    if form is OutputFormat.TABLE:
        from kcli.commands.dump.table_view import TableDump

        return TableDump(output, options, errors)
    from kcli.commands.dump.text_view import TextDump

    return TextDump(output, options, errors)
