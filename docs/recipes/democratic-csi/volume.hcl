id           = "democratic-data"
name         = "democratic-data"
type         = "csi"
plugin_id    = "democratic-csi"
capacity_min = "10GiB"

capability {
  access_mode     = "multi-node-multi-writer"
  attachment_mode = "file-system"
}

mount_options {
  fs_type     = "nfs"
  mount_flags = ["nfsvers=4.1", "noatime"]
}
