"""TODO-ROOM kcli.forensics.ranges"""
