"""The export: topics become Parquet files in a target, every offset exactly once.

All state stands under `TARGET/_kcli/`; a name that begins with an underscore is skipped by Spark, pyarrow
and Hive.

    _kcli/export.json                           identity, written once
    _kcli/lock                                  a single writer at a time
    _kcli/log/0000000007.plan.json              what plan 7 reads and where each partition then stands
    _kcli/log/0000000007/split-00012.json       receipt: what became of one split of it
    _kcli/log/0000000007.commit.json            its files; they count from when this file is there
    _kcli/dead-letter/{batches,values}/         what was damaged, as it was found

`export_run.run_export` is the whole run, `follow.follow_export` repeats it, `task.write_split` is the one
function that an engine runs, in a process, a thread or a Spark executor.
"""
