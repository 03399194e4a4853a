"""TODO-ROOM kcli.forensics.entries"""
