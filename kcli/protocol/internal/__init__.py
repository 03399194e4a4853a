"""Records of the internal topics and of the metadata log; knows their fields, not their meaning."""
