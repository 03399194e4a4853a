"""TODO-ROOM kcli.storage.log"""
