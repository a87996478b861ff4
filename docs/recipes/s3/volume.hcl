id           = "s3-data"
name         = "s3-data"
type         = "csi"
plugin_id    = "s3"
capacity_min = "10GiB"

capability {
  access_mode     = "multi-node-multi-writer"
  attachment_mode = "file-system"
}

# Items: accessKeyID, secretAccessKey, endpoint and, for some providers, region.
secrets_from = "csi/s3"

# The mounts are served by processes in the driver's container. This is the default for FUSE.
on_mount_dead = "republish"

parameters {
  mounter = "geesefs"
  options = "--memory-limit 1000 --dir-mode 0777 --file-mode 0666"
}
