"""TODO-ROOM kcli.storage.dirs"""
