"""The export: topics become Parquet files in a target, every offset once. Opens no Spark session itself.

All state is under `TARGET/_kcli/`; Spark, pyarrow and Hive skip names that begin with an underscore.

    _kcli/export.json                           identity, written once
    _kcli/lock                                  one writer at a time
    _kcli/log/0000000007.plan.json              what plan 7 reads, and where each partition then stands
    _kcli/log/0000000007/split-00012.json       receipt: the result of one of its splits
    _kcli/log/0000000007.commit.json            its files; this file makes them count
    _kcli/dead-letter/{batches,values}/         damaged data, as it was found

`export_run.run_export` is a whole run, `export_run.follow_export` repeats it, and an engine runs
`writing.task.write_split` in a process, a thread or a Spark executor.
"""
