id           = "do-data"
name         = "do-data"
type         = "csi"
plugin_id    = "digitalocean"
capacity_min = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

mount_options {
  fs_type = "ext4"
}
