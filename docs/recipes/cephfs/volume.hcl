id           = "cephfs-data"
name         = "cephfs-data"
type         = "csi"
plugin_id    = "cephfs"
capacity_min = "10GiB"

capability {
  access_mode     = "multi-node-multi-writer"
  attachment_mode = "file-system"
}

# Items: adminID and adminKey, userID and userKey.
secrets_from = "csi/cephfs"

parameters {
  clusterID = "b9127830-b0cc-4e34-aa47-9d1a2e9949a8"
  fsName    = "cephfs"
}
