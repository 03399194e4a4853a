"""TODO-ROOM kcli.forensics.contents"""
