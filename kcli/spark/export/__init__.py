"""The export: topics become Parquet files in a target, every offset once. Opens no Spark session itself.

All state is in a directory beside the target, `_NAME.kcli` for a target `NAME`: some readers of the target
take every file below it for data. A target with `_kcli` inside, where earlier versions put it, keeps that.
Code names both `_kcli/`; a `Target` knows where that is.

    _kcli/export.json                           identity, written once
    _kcli/lock                                  one writer at a time
    _kcli/log/0000000007.plan.json              what plan 7 reads, and where each partition then stands
    _kcli/log/0000000007/split-00012.json       receipt: the result of one of its splits
    _kcli/log/0000000007.commit.json            its files; this file makes them count
    _kcli/old-logs/7/                           files of partitions that plan 7 began again
    _kcli/dead-letter/{batches,values}/         damaged data, as it was found

`export_run.run_export` is a whole run, `export_run.follow_export` repeats it, and an engine runs
`writing.task.write_split` in a process, a thread or a Spark executor.
"""
