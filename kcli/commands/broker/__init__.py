"""TODO-ROOM kcli.commands.broker"""
