id           = "rbd-data"
name         = "rbd-data"
type         = "csi"
plugin_id    = "ceph-rbd"
capacity_min = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# Items: userID and userKey.
secrets_from = "csi/ceph-rbd"

parameters {
  clusterID     = "b9127830-b0cc-4e34-aa47-9d1a2e9949a8"
  pool          = "nomad"
  imageFeatures = "layering"
}

mount_options {
  fs_type = "ext4"
}
