"""How `kcli spark-export` and `kcli spark-import` read their options, run the job and print what it did.

An export goes from `export_options`, as Typer knows them, by `export_choices` and `export_parts` to an
`export_request`, which `export_actions` carries out with one of the `export_engines`. `export_progress`
tells how far it is, for imports too; `export_view` prints its summary or its plan, `export_target_view` what
a target holds. `import_actions` and `import_view` are the way back. The work itself is `kcli.spark`.
"""
