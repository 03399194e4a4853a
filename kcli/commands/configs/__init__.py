"""TODO-ROOM kcli.commands.configs"""
