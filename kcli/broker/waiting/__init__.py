"""Operations and tasks that wait for a key, for a time, or for a paused node; no request is known here."""
