"""The options, runner, output, sessions and value formats that several commands share; knows no command."""
