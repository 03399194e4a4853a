"""How `kcli dump-log` finds, reads and prints what log files hold.

`run` goes through the `files` that the paths stand for, with `options` and `filters` for what is wanted of
them. Each kind has its reader: `segment` for logs, `indexes` (which looks into the log beside them by
`batch_lookup`), and `small_files`. A reader tells a `view` what it comes upon, and the view prints it to
`stdout`: `text_view` (by `text_batches` and `text_records` where there are millions), `json_view` (by
`json_records`), `table_view` (in `columns`), or `summary_view`, which collects a `summary` of `distinct`
keys and more, and says it as `summary_facts`. A `dumped_record` is put in words by `decoders`,
`coordinator_decoders` and `control_text`; what is wrong by `damage_text` where kcli explains it, and by
`complaints` as Kafka's tool does. A long log is read by several processes: `ranges` deals it out,
`range_records` is what each does. `repair` is `--repair`.
"""
