"""TODO-ROOM kcli.commands.produce"""
