"""Operations and tasks that wait: for a key, for a time, or until a paused node goes on.

It knows no request.
"""
