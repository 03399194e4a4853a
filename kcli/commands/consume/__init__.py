"""TODO-ROOM kcli.commands.consume"""
