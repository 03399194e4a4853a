"""`kcli dump-log`: readers of each kind of file, and views that print what they read; it judges only indexes.

`run` goes through the files; `segment`, `indexes` and `small_files` read them and call a `view`: `text_view`
(with `text_lines`), `json_view`, `table_view` or `summary_view`. `decoders` turn keys and values into text.
Several processes dump a long log by `ranges`, each with `range_records`. `repair` is `--repair`.
"""
