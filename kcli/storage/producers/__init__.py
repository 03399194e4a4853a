"""TODO-ROOM kcli.storage.producers"""
