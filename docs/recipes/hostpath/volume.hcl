id           = "hostpath-data"
name         = "hostpath-data"
type         = "csi"
plugin_id    = "csi-hostpath"
capacity_min = "10MiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
