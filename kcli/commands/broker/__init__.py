"""`kcli broker`: starts, stops and inspects a broker process; the only commands that import the broker."""
