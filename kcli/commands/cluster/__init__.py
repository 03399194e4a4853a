"""TODO-ROOM kcli.commands.cluster"""
