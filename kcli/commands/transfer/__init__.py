"""How `kcli spark-export` and `kcli spark-import` read their options, run the job and print what it did."""
