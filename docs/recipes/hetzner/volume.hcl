id           = "hcloud-data"
name         = "hcloud-data"
type         = "csi"
plugin_id    = "hetzner"
capacity_min = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

mount_options {
  fs_type     = "ext4"
  mount_flags = ["discard"]
}
