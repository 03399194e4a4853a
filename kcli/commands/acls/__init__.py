"""`kcli acls`: access control entries of a cluster, and why something is allowed or denied."""
