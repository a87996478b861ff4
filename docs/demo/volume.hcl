id           = "demo"
name         = "demo"
type         = "csi"
plugin_id    = "hostpath"
capacity_min = "10MiB"

# The items of this variable are the secrets of each call of the driver.
secrets_from = "demo/storage"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
