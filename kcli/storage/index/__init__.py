"""TODO-ROOM kcli.storage.index"""
